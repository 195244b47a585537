/* SPDX-License-Identifier: MIT
 *
 * Floating point to nearest, and approximations. A part of builtins.c, which includes this file and nobody else.
 */

/* ---- floating point, to nearest ---- */

BUILTIN float ptx_flush_f32(float a)
{
	return (bits32(a) & 0x7f800000) ? a : float32(bits32(a) & 0x80000000);
}
BUILTIN f16 ptx_flush_f16(f16 a)
{
	u16 b = __builtin_bit_cast(u16, a);

	return b & 0x7c00 ? a : __builtin_bit_cast(f16, (u16)(b & 0x8000));
}
BUILTIN u32 ptx_flush_f16x2(u32 a)
{
	u32 keep = (a & 0x7c00 ? 0xffffu : 0x8000u) | (a & 0x7c000000 ? 0xffff0000u : 0x80000000u);

	return a & keep;
}
/* A NaN gives 0. */
BUILTIN float ptx_sat_f32(float a)
{
	a = a > 0 ? a : 0;
	return a < 1 ? a : 1;
}
BUILTIN double ptx_sat_f64(double a)
{
	a = a > 0 ? a : 0;
	return a < 1 ? a : 1;
}
BUILTIN f16 ptx_sat_f16(f16 a)
{
	return (f16)ptx_sat_f32((float)a);
}

static inline float select_min(float a, float b)
{
	float r = a < b ? a : b;

	r = a == b ? float32(bits32(a) | bits32(b)) : r;
	return b != b ? a : a != a ? b : r;
}
static inline float select_max(float a, float b)
{
	float r = a > b ? a : b;

	r = a == b ? float32(bits32(a) & bits32(b)) : r;
	return b != b ? a : a != a ? b : r;
}
static inline double select_min64(double a, double b)
{
	double r = a < b ? a : b;

	r = a == b ? float64(bits64(a) | bits64(b)) : r;
	return b != b ? a : a != a ? b : r;
}
static inline double select_max64(double a, double b)
{
	double r = a > b ? a : b;

	r = a == b ? float64(bits64(a) & bits64(b)) : r;
	return b != b ? a : a != a ? b : r;
}

#define FLOAT(T, C, fma_, sqrt_, abs_, copy_, min_, max_)                                          \
	BUILTIN C ptx_add_##T(C a, C b)                                                            \
	{                                                                                          \
		return a + b;                                                                      \
	}                                                                                          \
	BUILTIN C ptx_sub_##T(C a, C b)                                                            \
	{                                                                                          \
		return a - b;                                                                      \
	}                                                                                          \
	BUILTIN C ptx_mul_##T(C a, C b)                                                            \
	{                                                                                          \
		return a * b;                                                                      \
	}                                                                                          \
	BUILTIN C ptx_fma_##T(C a, C b, C c)                                                       \
	{                                                                                          \
		return fma_(a, b, c);                                                              \
	}                                                                                          \
	BUILTIN C ptx_mad_##T(C a, C b, C c)                                                       \
	{                                                                                          \
		return fma_(a, b, c);                                                              \
	}                                                                                          \
	BUILTIN C ptx_div_##T(C a, C b)                                                            \
	{                                                                                          \
		return a / b;                                                                      \
	}                                                                                          \
	BUILTIN C ptx_rcp_##T(C a)                                                                 \
	{                                                                                          \
		return 1 / a;                                                                      \
	}                                                                                          \
	BUILTIN C ptx_sqrt_##T(C a)                                                                \
	{                                                                                          \
		return sqrt_(a);                                                                   \
	}                                                                                          \
	BUILTIN C ptx_rsqrt_##T(C a)                                                               \
	{                                                                                          \
		return 1 / sqrt_(a);                                                               \
	}                                                                                          \
	BUILTIN C ptx_neg_##T(C a)                                                                 \
	{                                                                                          \
		return -a;                                                                         \
	}                                                                                          \
	BUILTIN C ptx_abs_##T(C a)                                                                 \
	{                                                                                          \
		return abs_(a);                                                                    \
	}                                                                                          \
	BUILTIN C ptx_min_##T(C a, C b)                                                            \
	{                                                                                          \
		return min_(a, b);                                                                 \
	}                                                                                          \
	BUILTIN C ptx_max_##T(C a, C b)                                                            \
	{                                                                                          \
		return max_(a, b);                                                                 \
	}                                                                                          \
	BUILTIN C ptx_min_nan_##T(C a, C b)                                                        \
	{                                                                                          \
		return a != a ? a : b != b ? b : min_(a, b);                                       \
	}                                                                                          \
	BUILTIN C ptx_max_nan_##T(C a, C b)                                                        \
	{                                                                                          \
		return a != a ? a : b != b ? b : max_(a, b);                                       \
	}                                                                                          \
	/* copysign.T d, a, b: b with the sign of a */                                             \
	BUILTIN C ptx_copysign_##T(C a, C b)                                                       \
	{                                                                                          \
		return copy_(b, a);                                                                \
	}
FLOAT(f32, float, __builtin_fmaf, __builtin_sqrtf, __builtin_fabsf, __builtin_copysignf, select_min,
	select_max)
FLOAT(f64, double, __builtin_fma, __builtin_sqrt, __builtin_fabs, __builtin_copysign, select_min64,
	select_max64)

/* The reciprocal of a divisor above 2^126 is subnormal, and div.approx takes it for 0. */
BUILTIN float ptx_div_approx_f32(float a, float b)
{
	return a / (__builtin_fabsf(b) > 0x1p126f ? __builtin_copysignf(__builtin_inff(), b) : b);
}

/* Of a double, {rcp,rsqrt}.approx.ftz.f64 read and give the upper 32 bits; those of a subnormal number are 0. */
static inline double upper64(double a)
{
	u64 b = bits64(a) >> 32 << 32;

	return float64(b & 0x7ff0000000000000ull ? b : b & 0x8000000000000000ull);
}
BUILTIN double ptx_rcp_ftz_f64(double a)
{
	return upper64(1 / upper64(a));
}
BUILTIN double ptx_rsqrt_ftz_f64(double a)
{
	return upper64(1 / __builtin_sqrt(upper64(a)));
}

BUILTIN float ptx_min_xorsign_abs_f32(float a, float b)
{
	return __builtin_copysignf(
		select_min(__builtin_fabsf(a), __builtin_fabsf(b)), float32(bits32(a) ^ bits32(b)));
}
BUILTIN float ptx_max_xorsign_abs_f32(float a, float b)
{
	return __builtin_copysignf(
		select_max(__builtin_fabsf(a), __builtin_fabsf(b)), float32(bits32(a) ^ bits32(b)));
}

#define TESTP(T, C, U, bits, exponent, top)                                                        \
	BUILTIN _Bool ptx_testp_finite_##T(C a)                                                    \
	{                                                                                          \
		return (bits(a) & exponent) != exponent;                                           \
	}                                                                                          \
	BUILTIN _Bool ptx_testp_infinite_##T(C a)                                                  \
	{                                                                                          \
		return (bits(a) & ~top) == exponent;                                               \
	}                                                                                          \
	BUILTIN _Bool ptx_testp_number_##T(C a)                                                    \
	{                                                                                          \
		return a == a;                                                                     \
	}                                                                                          \
	BUILTIN _Bool ptx_testp_notanumber_##T(C a)                                                \
	{                                                                                          \
		return a != a;                                                                     \
	}                                                                                          \
	BUILTIN _Bool ptx_testp_normal_##T(C a)                                                    \
	{                                                                                          \
		return (bits(a) & exponent) != exponent &&                                         \
		       ((bits(a) & exponent) || !(bits(a) & ~top)); /* zeros are */                \
	}                                                                                          \
	BUILTIN _Bool ptx_testp_subnormal_##T(C a)                                                 \
	{                                                                                          \
		return !(bits(a) & exponent) && (bits(a) & ~top);                                  \
	}
TESTP(f32, float, u32, bits32, 0x7f800000u, 0x80000000u)
TESTP(f64, double, u64, bits64, 0x7ff0000000000000ull, 0x8000000000000000ull)

#define SELECT(T, C)                                                                               \
	BUILTIN C ptx_slct_##T##_s32(C a, C b, s32 c)                                              \
	{                                                                                          \
		return c >= 0 ? a : b;                                                             \
	}                                                                                          \
	BUILTIN C ptx_slct_##T##_f32(C a, C b, float c)                                            \
	{                                                                                          \
		return c >= 0 ? a : b;                                                             \
	}
SELECT(b16, u16)
SELECT(u16, u16)
SELECT(s16, u16)
SELECT(b32, u32)
SELECT(u32, u32)
SELECT(s32, u32)
SELECT(b64, u64)
SELECT(u64, u64)
SELECT(s64, u64)
SELECT(f32, float)
SELECT(f64, double)

/* ---- approximations ---- */

/* 2^x: x = n + f with |f| <= 1/2; error below 2 ulp. */
BUILTIN float ptx_ex2_f32(float x)
{
	float y = x < -151 ? -151 : x;

	y = y > 129 ? 129 : y;
	float n = __builtin_roundevenf(y), f = y - n;
	float p = 1.535336188319500e-4f;
	p = __builtin_fmaf(p, f, 1.339887440266574e-3f);
	p = __builtin_fmaf(p, f, 9.618437357674640e-3f);
	p = __builtin_fmaf(p, f, 5.550332471162809e-2f);
	p = __builtin_fmaf(p, f, 2.402264791363012e-1f);
	p = __builtin_fmaf(p, f, 6.931472028550421e-1f);
	p = __builtin_fmaf(p, f, 1.0f);
	s32 k = (s32)n, half = k >> 1;
	p = p * float32((u32)(half + 127) << 23) * float32((u32)(k - half + 127) << 23);
	return x != x ? x : p;
}

/* log2: mantissa in [sqrt(1/2), sqrt(2)), atanh series. */
BUILTIN float ptx_lg2_f32(float x)
{
	u32 tiny = bits32(x) < 0x00800000;
	float scaled = tiny ? x * 8388608.0f : x;
	u32 b = bits32(scaled) - 0x3f3504f3;
	float e = (float)((s32)b >> 23) - (tiny ? 23.0f : 0.0f);
	float m = float32((b & 0x7fffff) + 0x3f3504f3);
	float s = (m - 1) / (m + 1), z = s * s;
	float p = 0.3205986261f;
	p = __builtin_fmaf(p, z, 0.4121985831f);
	p = __builtin_fmaf(p, z, 0.5770780164f);
	p = __builtin_fmaf(p, z, 0.9617966939f);
	p = p * z * s;
	float r = e + __builtin_fmaf(s, 2.8853900818f, p);
	r = x == 0 ? -__builtin_inff() : r;
	r = bits32(x) > 0x80000000 ? __builtin_nanf("") : r;
	return bits32(x) - 0x7f800000 < 0x800000 ? x : r;
}

static inline float sine(float x, s32 quarter)
{
	float q = __builtin_roundevenf(x * 0.636619772f);
	double wide = (double)x - (double)q * 1.5707963267948966;
	/* Far out the remainder is not known: what comes is then at least a sine of something. */
	float near = (float)wide, below = near < 0.8f ? near : 0.8f;
	float r = below > -0.8f ? below : -0.8f, z = r * r;
	s32 n = (s32)(q < -1e9f || q > 1e9f || q != q ? 0 : q) + quarter;
	float s = -1.9515295891e-4f;
	s = __builtin_fmaf(s, z, 8.3321608736e-3f);
	s = __builtin_fmaf(s, z, -1.6666654611e-1f);
	s = __builtin_fmaf(s * z, r, r);
	float c = 2.443315711809948e-5f;
	c = __builtin_fmaf(c, z, -1.388731625493765e-3f);
	c = __builtin_fmaf(c, z, 4.166664568298827e-2f);
	c = __builtin_fmaf(c, z, -0.5f);
	c = __builtin_fmaf(c, z, 1.0f);
	float v = n & 1 ? c : s;
	v = n & 2 ? -v : v;
	return x - x != 0 ? __builtin_nanf("") : v;
}
BUILTIN float ptx_sin_f32(float x)
{
	return sine(x, 0);
}
BUILTIN float ptx_cos_f32(float x)
{
	return sine(x, 1);
}
BUILTIN float ptx_tanh_f32(float x)
{
	float a = __builtin_fabsf(x), e = ptx_ex2_f32(a * 2.885390082f);
	float small = x * __builtin_fmaf(x * x, -0.3333333f, 1.0f);
	float big = __builtin_copysignf(1 - 2 / (e + 1), x);

	return a < 0.02f ? small : x != x ? x : big;
}
