/* SPDX-License-Identifier: MIT
 *
 * The floating-point part of builtins.c, which includes this file and nobody else.
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

/* ---- directed rounding: to nearest, then one step when the error's sign says so ---- */

static inline float step32(float r, int up) /* the neighbour of a finite number */
{
	u32 b = bits32(r);

	if (!(b & 0x7fffffff))
		return up ? float32(1) : float32(0x80000001);
	return float32((b >> 31) != (u32)up ? b + 1 : b - 1);
}

/* `high + low` is the exact value (low much smaller, only its sign matters), r its rounding. */
enum { TO_ZERO, DOWN, UP };
static inline float direct32(double high, double low, int mode)
{
	float r = (float)high;
	double diff = high - (double)r;
	int above, below, negative = high < 0 || (high == 0 && low < 0);

	if (bits32(r) << 1 >=
		0xff000000u) { /* overflow: the largest number, where that is nearer */
		if ((bits64(high) & ~(1ull << 63)) >= 0x7ff0000000000000ull)
			return r;
		int keep =
			mode == TO_ZERO || (mode == DOWN && !negative) || (mode == UP && negative);
		return keep ? float32(0x7f7fffff | (bits32(r) & 0x80000000)) : r;
	}
	above = diff > 0 || (diff == 0 && low > 0); /* the exact value is above r */
	below = diff < 0 || (diff == 0 && low < 0);
	if (mode == TO_ZERO)
		mode = negative ? UP : DOWN;
	if (mode == DOWN && below)
		return step32(r, 0);
	if (mode == UP && above)
		return step32(r, 1);
	return r;
}
static inline double two_sum(double a, double b, double *low)
{
	double s = a + b, t = s - a;

	*low = (a - (s - t)) + (b - t);
	if (*low != *low)
		*low = 0;
	return s;
}
/* A sum that is exactly zero is -0 when rounding down, unless both were +0. */
static inline float zero_sum(float r, double a, double b, int mode)
{
	if (mode == DOWN && r == 0 && a == -b && (a != 0 || (bits64(a) | bits64(b)) >> 63))
		return float32(0x80000000);
	return r;
}
static inline float add_mode(float a, float b, int mode)
{
	double low, s = two_sum(a, b, &low);

	return zero_sum(direct32(s, low, mode), a, b, mode);
}
static inline float fma_mode(float a, float b, float c, int mode)
{
	double p = (double)a * b, low, s = two_sum(p, c, &low);

	return zero_sum(direct32(s, low, mode), p, c, mode);
}
static inline float div_mode(float a, float b, int mode)
{
	float r = a / b;
	double e = (double)a - (double)r * b; /* exact: 48 bits */
	u32 magnitude = bits32(r) & 0x7fffffff;

	if (magnitude == 0x7f800000 && b != 0 && (bits32(a) & 0x7fffffff) < 0x7f800000)
		return direct32((double)a / b, 0, mode);
	if (r != r || magnitude == 0x7f800000 || (bits32(b) & 0x7fffffff) == 0x7f800000)
		return r;
	int above = b > 0 ? e > 0 : e<0, below = b> 0 ? e < 0 : e > 0;
	int negative = (bits32(a) ^ bits32(b)) >> 31;
	if (mode == TO_ZERO)
		mode = negative ? UP : DOWN;
	if (mode == DOWN && below)
		return step32(r, 0);
	if (mode == UP && above)
		return step32(r, 1);
	return r;
}
static inline float sqrt_mode(float a, int mode)
{
	float r = __builtin_sqrtf(a);
	double e = (double)a - (double)r * r;

	if (!(e == e) || r == 0)
		return r;
	if (mode != UP && e < 0)
		return step32(r, 0);
	if (mode == UP && e > 0)
		return step32(r, 1);
	return r;
}

static inline double step64(double r, int up)
{
	u64 b = bits64(r);

	if (!(b << 1))
		return up ? float64(1) : float64(0x8000000000000001ull);
	return float64((b >> 63) != (u64)up ? b + 1 : b - 1);
}
static inline double direct64(double r, double error, int mode)
{
	if (bits64(r) << 1 >= 0xffe0000000000000ull)
		return r;
	if (mode == TO_ZERO)
		mode = r < 0 || (r == 0 && error < 0) ? UP : DOWN;
	if (mode == DOWN && error < 0)
		return step64(r, 0);
	if (mode == UP && error > 0)
		return step64(r, 1);
	return r;
}
static inline double largest64(double r, int finite, int mode)
{
	int negative = (int)(bits64(r) >> 63);
	int keep = mode == TO_ZERO || (mode == DOWN && !negative) || (mode == UP && negative);

	if (!finite || !keep || bits64(r) << 1 != 0xffe0000000000000ull)
		return r;
	return float64(0x7fefffffffffffffull | bits64(r) >> 63 << 63);
}
static inline int finite64(double a)
{
	return (bits64(a) & 0x7ff0000000000000ull) != 0x7ff0000000000000ull;
}
static inline double add64(double a, double b, int mode)
{
	double low, s = two_sum(a, b, &low);

	if (mode == DOWN && s == 0 && a == -b && (a != 0 || (bits64(a) | bits64(b)) >> 63))
		return -0.0;
	return largest64(direct64(s, low, mode), finite64(a) && finite64(b), mode);
}
/* The error of a fused multiply-add, whose sign is enough: Boldo and Muller. */
static inline double fma_error(double a, double b, double c, double r)
{
	double p = a * b, q = __builtin_fma(a, b, -p), l1, l2;
	double s = two_sum(c, q, &l1), t = two_sum(p, s, &l2);

	return ((t - r) + l2) + l1;
}
/* The same for a product below 2^-900, where what is lost may be too small for a double: all is scaled up. */
static inline double tiny_error(double a, double b, double c, double r)
{
	const double up = 0x1p600;
	double x = __builtin_fabs(a) < 1 ? a * up : a, y = __builtin_fabs(b) < 1 ? b * up : b;
	double twice = x != a && y != b ? up : 1;

	if (a == 0 || b == 0)
		return 0;
	if (__builtin_fabs(c) > 0x1p-700) /* it is the result: what is lost is the product */
		return x * y;
	c = c * up * twice;
	r = r * up * twice;
	double scaled = __builtin_fma(x, y, c);
	return scaled != r ? scaled - r : fma_error(x, y, c, scaled);
}
static inline double mul64(double a, double b, int mode)
{
	double p = a * b, error = __builtin_fma(a, b, -p);

	if (__builtin_fabs(p) < 0x1p-900)
		error = tiny_error(a, b, 0, p);
	return largest64(direct64(p, error, mode), finite64(a) && finite64(b), mode);
}
static inline double fma64(double a, double b, double c, int mode)
{
	double r = __builtin_fma(a, b, c), p = a * b, q = __builtin_fma(a, b, -p);
	double error =
		__builtin_fabs(p) < 0x1p-900 ? tiny_error(a, b, c, r) : fma_error(a, b, c, r);

	if (mode == DOWN && r == 0 && error == 0 && p == -c && q == 0 &&
		(c != 0 || (bits64(p) | bits64(c)) >> 63))
		return -0.0;
	return largest64(direct64(r, error, mode), finite64(a) && finite64(b) && finite64(c), mode);
}
static inline double div64(double a, double b, int mode)
{
	double r = a / b, e = __builtin_fma(-r, b, a);

	if (!finite64(b) || b == 0)
		return r;
	if (__builtin_fabs(a) < 0x1p-900) { /* the remainder may be too small for a double */
		double up = 0x1p600, x = __builtin_fabs(b) < 1 ? r : r * up;

		e = __builtin_fma(-x, __builtin_fabs(b) < 1 ? b * up : b, a * up);
	}
	return largest64(direct64(r, b > 0 ? e : -e, mode), finite64(a), mode);
}
static inline double sqrt64(double a, int mode)
{
	double r = __builtin_sqrt(a);

	return r == 0 ? r : direct64(r, __builtin_fma(-r, r, a), mode);
}

#define DIRECTED(name, mode)                                                                       \
	BUILTIN float ptx_add_##name##_f32(float a, float b)                                       \
	{                                                                                          \
		return add_mode(a, b, mode);                                                       \
	}                                                                                          \
	BUILTIN float ptx_sub_##name##_f32(float a, float b)                                       \
	{                                                                                          \
		return add_mode(a, -b, mode);                                                      \
	}                                                                                          \
	BUILTIN float ptx_mul_##name##_f32(float a, float b)                                       \
	{                                                                                          \
		return direct32((double)a * b, 0, mode);                                           \
	}                                                                                          \
	BUILTIN float ptx_fma_##name##_f32(float a, float b, float c)                              \
	{                                                                                          \
		return fma_mode(a, b, c, mode);                                                    \
	}                                                                                          \
	BUILTIN float ptx_mad_##name##_f32(float a, float b, float c)                              \
	{                                                                                          \
		return fma_mode(a, b, c, mode);                                                    \
	}                                                                                          \
	BUILTIN float ptx_div_##name##_f32(float a, float b)                                       \
	{                                                                                          \
		return div_mode(a, b, mode);                                                       \
	}                                                                                          \
	BUILTIN float ptx_rcp_##name##_f32(float a)                                                \
	{                                                                                          \
		return div_mode(1, a, mode);                                                       \
	}                                                                                          \
	BUILTIN float ptx_sqrt_##name##_f32(float a)                                               \
	{                                                                                          \
		return sqrt_mode(a, mode);                                                         \
	}                                                                                          \
	BUILTIN double ptx_add_##name##_f64(double a, double b)                                    \
	{                                                                                          \
		return add64(a, b, mode);                                                          \
	}                                                                                          \
	BUILTIN double ptx_sub_##name##_f64(double a, double b)                                    \
	{                                                                                          \
		return add64(a, -b, mode);                                                         \
	}                                                                                          \
	BUILTIN double ptx_mul_##name##_f64(double a, double b)                                    \
	{                                                                                          \
		return mul64(a, b, mode);                                                          \
	}                                                                                          \
	BUILTIN double ptx_fma_##name##_f64(double a, double b, double c)                          \
	{                                                                                          \
		return fma64(a, b, c, mode);                                                       \
	}                                                                                          \
	BUILTIN double ptx_mad_##name##_f64(double a, double b, double c)                          \
	{                                                                                          \
		return fma64(a, b, c, mode);                                                       \
	}                                                                                          \
	BUILTIN double ptx_div_##name##_f64(double a, double b)                                    \
	{                                                                                          \
		return div64(a, b, mode);                                                          \
	}                                                                                          \
	BUILTIN double ptx_rcp_##name##_f64(double a)                                              \
	{                                                                                          \
		return div64(1, a, mode);                                                          \
	}                                                                                          \
	BUILTIN double ptx_sqrt_##name##_f64(double a)                                             \
	{                                                                                          \
		return sqrt64(a, mode);                                                            \
	}                                                                                          \
	BUILTIN float ptx_cvt_##name##_f32_f64(double a)                                           \
	{                                                                                          \
		return direct32(a, 0, mode);                                                       \
	}                                                                                          \
	BUILTIN float ptx_cvt_##name##_f32_s32(s32 a)                                              \
	{                                                                                          \
		return direct32(a, 0, mode);                                                       \
	}                                                                                          \
	BUILTIN float ptx_cvt_##name##_f32_u32(u32 a)                                              \
	{                                                                                          \
		return direct32(a, 0, mode);                                                       \
	}                                                                                          \
	BUILTIN float ptx_cvt_##name##_f32_s64(s64 a)                                              \
	{                                                                                          \
		double h = (double)a;                                                              \
		return direct32(h, (double)(s64)((u64)a - (u64)(s64)h), mode);                     \
	}                                                                                          \
	BUILTIN float ptx_cvt_##name##_f32_u64(u64 a)                                              \
	{                                                                                          \
		u64 rest = a >> 53 ? a & 2047 : 0;                                                 \
		return direct32((double)(a - rest), (double)rest, mode);                           \
	}                                                                                          \
	BUILTIN double ptx_cvt_##name##_f64_s64(s64 a)                                             \
	{                                                                                          \
		double h = (double)(a >> 11 << 11);                                                \
		return add64(h, (double)(a & 2047), mode);                                         \
	}                                                                                          \
	BUILTIN double ptx_cvt_##name##_f64_u64(u64 a)                                             \
	{                                                                                          \
		double h = (double)(a >> 11 << 11);                                                \
		return add64(h, (double)(a & 2047), mode);                                         \
	}                                                                                          \
	BUILTIN double ptx_cvt_##name##_f64_s32(s32 a)                                             \
	{                                                                                          \
		return a;                                                                          \
	}                                                                                          \
	BUILTIN double ptx_cvt_##name##_f64_u32(u32 a)                                             \
	{                                                                                          \
		return a;                                                                          \
	}
DIRECTED(rz, TO_ZERO)
DIRECTED(rm, DOWN)
DIRECTED(rp, UP)

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

/* ---- f16 and bf16 ---- */

/* Round to odd, so that a second rounding does no harm. */
static inline float odd32(double d)
{
	float r = (float)d;
	u32 b = bits32(r);

	if ((double)r != d && d == d && !(b & 1)) {
		double back = r;
		int outward = back < 0 ? d < back : d > back;

		r = float32(back == 0 ? 1 | (u32)(bits64(d) >> 63) << 31 : outward ? b + 1 : b - 1);
	}
	return r;
}
BUILTIN f16 ptx_cvt_f16_f64(double a)
{
	return (f16)odd32(a);
}
static inline f16 fma16(f16 a, f16 b, f16 c)
{
	double low, s = two_sum((double)(float)a * (float)b, (float)c, &low);

	/* Sticky: an inexact double sum never lies exactly between two halves. */
	if (low != 0 && !(bits64(s) & 1))
		s = float64(((low > 0) == (s > 0)) ? bits64(s) + 1 : bits64(s) - 1);
	return (f16)odd32(s);
}
static inline f16 sqrt16(f16 a)
{
	return (f16)__builtin_sqrtf((float)a);
}
static inline f16 abs16(f16 a)
{
	return __builtin_bit_cast(f16, (u16)(__builtin_bit_cast(u16, a) & 0x7fff));
}
static inline f16 copy16(f16 a, f16 b)
{
	return __builtin_bit_cast(f16, (u16)((__builtin_bit_cast(u16, a) & 0x7fff) |
					       (__builtin_bit_cast(u16, b) & 0x8000)));
}
static inline f16 min16(f16 a, f16 b)
{
	return (f16)select_min((float)a, (float)b);
}
static inline f16 max16(f16 a, f16 b)
{
	return (f16)select_max((float)a, (float)b);
}
FLOAT(f16, f16, fma16, sqrt16, abs16, copy16, min16, max16)
BUILTIN f16 ptx_ex2_f16(f16 a)
{
	return (f16)ptx_ex2_f32((float)a);
}
BUILTIN f16 ptx_tanh_f16(f16 a)
{
	return (f16)ptx_tanh_f32((float)a);
}
BUILTIN f16 ptx_fma_relu_f16(f16 a, f16 b, f16 c)
{
	f16 r = fma16(a, b, c);

	return r <= 0 ? 0 : r; /* -0, too */
}

static inline float wide_bf16(u16 a)
{
	return float32((u32)a << 16);
}
BUILTIN u16 ptx_cvt_bf16_f32(float a)
{
	u32 b = bits32(a);

	if (a != a)
		return 0x7fff;
	return (u16)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}
BUILTIN u16 ptx_cvt_rz_bf16_f32(float a)
{
	return a != a ? 0x7fff : (u16)(bits32(a) >> 16);
}
BUILTIN float ptx_cvt_f32_bf16(u16 a)
{
	return wide_bf16(a);
}
static inline u16 fma_bf16(u16 a, u16 b, u16 c)
{
	double p = (double)wide_bf16(a) * wide_bf16(b), low, s = two_sum(p, wide_bf16(c), &low);

	if (low != 0 && !(bits64(s) & 1))
		s = float64(((low > 0) == (s > 0)) ? bits64(s) + 1 : bits64(s) - 1);
	return ptx_cvt_bf16_f32(odd32(s));
}
BUILTIN u16 ptx_add_bf16(u16 a, u16 b)
{
	return fma_bf16(0x3f80, a, b);
}
BUILTIN u16 ptx_sub_bf16(u16 a, u16 b)
{
	return fma_bf16(0x3f80, a, b ^ 0x8000);
}
BUILTIN u16 ptx_mul_bf16(u16 a, u16 b)
{
	return ptx_cvt_bf16_f32(wide_bf16(a) * wide_bf16(b));
}
BUILTIN u16 ptx_fma_bf16(u16 a, u16 b, u16 c)
{
	return fma_bf16(a, b, c);
}
BUILTIN u16 ptx_neg_bf16(u16 a)
{
	return a ^ 0x8000;
}
BUILTIN u16 ptx_abs_bf16(u16 a)
{
	return a & 0x7fff;
}
#define BF16_BY_F32(name, op)                                                                      \
	BUILTIN u16 ptx_##name##_bf16(u16 a, u16 b)                                                \
	{                                                                                          \
		return ptx_cvt_bf16_f32(op(wide_bf16(a), wide_bf16(b)));                           \
	}
BF16_BY_F32(min, select_min)
BF16_BY_F32(max, select_max)
BF16_BY_F32(min_nan, ptx_min_nan_f32)
BF16_BY_F32(max_nan, ptx_max_nan_f32)
BUILTIN u16 ptx_ex2_bf16(u16 a)
{
	return ptx_cvt_bf16_f32(ptx_ex2_f32(wide_bf16(a)));
}
BUILTIN u16 ptx_tanh_bf16(u16 a)
{
	return ptx_cvt_bf16_f32(ptx_tanh_f32(wide_bf16(a)));
}

/* Packed pairs: the same twice. */
static inline f16 half_of(u32 a, int k)
{
	return __builtin_bit_cast(f16, (u16)(a >> 16 * k));
}
static inline u32 pair_of(f16 low, f16 high)
{
	return __builtin_bit_cast(u16, low) | (u32) __builtin_bit_cast(u16, high) << 16;
}
#define PAIR1(op)                                                                                  \
	BUILTIN u32 ptx_##op##_f16x2(u32 a)                                                        \
	{                                                                                          \
		return pair_of(ptx_##op##_f16(half_of(a, 0)), ptx_##op##_f16(half_of(a, 1)));      \
	}                                                                                          \
	BUILTIN u32 ptx_##op##_bf16x2(u32 a)                                                       \
	{                                                                                          \
		return ptx_##op##_bf16((u16)a) | (u32)ptx_##op##_bf16((u16)(a >> 16)) << 16;       \
	}
#define PAIR2(op)                                                                                  \
	BUILTIN u32 ptx_##op##_f16x2(u32 a, u32 b)                                                 \
	{                                                                                          \
		return pair_of(ptx_##op##_f16(half_of(a, 0), half_of(b, 0)),                       \
			ptx_##op##_f16(half_of(a, 1), half_of(b, 1)));                             \
	}                                                                                          \
	BUILTIN u32 ptx_##op##_bf16x2(u32 a, u32 b)                                                \
	{                                                                                          \
		return ptx_##op##_bf16((u16)a, (u16)b) |                                           \
		       (u32)ptx_##op##_bf16((u16)(a >> 16), (u16)(b >> 16)) << 16;                 \
	}
PAIR1(neg)
PAIR1(abs)
PAIR1(ex2)
PAIR1(tanh)
PAIR2(add)
PAIR2(sub)
PAIR2(mul)
PAIR2(min)
PAIR2(max)
PAIR2(min_nan)
PAIR2(max_nan)
BUILTIN u32 ptx_fma_f16x2(u32 a, u32 b, u32 c)
{
	return pair_of(fma16(half_of(a, 0), half_of(b, 0), half_of(c, 0)),
		fma16(half_of(a, 1), half_of(b, 1), half_of(c, 1)));
}
BUILTIN u32 ptx_fma_bf16x2(u32 a, u32 b, u32 c)
{
	return fma_bf16((u16)a, (u16)b, (u16)c) |
	       (u32)fma_bf16((u16)(a >> 16), (u16)(b >> 16), (u16)(c >> 16)) << 16;
}
BUILTIN u32 ptx_sat_f16x2(u32 a)
{
	return pair_of(ptx_sat_f16(half_of(a, 0)), ptx_sat_f16(half_of(a, 1)));
}
/* cvt.rn.f16x2.f32 d, a, b: a above b */
BUILTIN u32 ptx_cvt_f16x2_f32(float a, float b)
{
	return pair_of((f16)b, (f16)a);
}
BUILTIN u32 ptx_cvt_bf16x2_f32(float a, float b)
{
	return ptx_cvt_bf16_f32(b) | (u32)ptx_cvt_bf16_f32(a) << 16;
}
BUILTIN f16 ptx_cvt_rz_f16_f32(float a)
{
	f16 r = (f16)a;
	float back = (float)r;
	u16 b = __builtin_bit_cast(u16, r);

	if (__builtin_fabsf(back) > __builtin_fabsf(a))
		b--;
	return __builtin_bit_cast(f16, b);
}
