/* SPDX-License-Identifier: MIT
 *
 * f16 and bf16, and pairs of them. A part of builtins.c, which includes this file and nobody else.
 */

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
