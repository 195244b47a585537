/* SPDX-License-Identifier: MIT
 *
 * Conversions to small floating numbers by every way of rounding, to and from those of 8 bits, and of integers that are packed:
 * the part of builtins.c for emit_cvt.c.
 */

/* The next number below or above, of numbers of 16 bits with a sign. */
static inline u16 step_down(u16 b)
{
	return b == 0 ? 0x8001 : b & 0x8000 ? b + 1 : b - 1;
}
static inline u16 step_up(u16 b)
{
	return b == 0x8000 ? 1 : b & 0x8000 ? b - 1 : b + 1;
}

/* `nearest`, which is nearest to d and has the value `back`, rounded as said instead. A comparison with no number is false. */
static inline u16 toward_zero(u16 nearest, double back, double d)
{
	return __builtin_fabs(back) > __builtin_fabs(d) ? nearest - 1 : nearest;
}
static inline u16 downward(u16 nearest, double back, double d)
{
	return back > d ? step_down(nearest) : nearest;
}
static inline u16 upward(u16 nearest, double back, double d)
{
	return back < d ? step_up(nearest) : nearest;
}

/* By the type of the result: the nearest, what it is worth, and its bits as that type. */
typedef f16 to_f16;
typedef u16 to_bf16;
static inline u16 nearest_f16(double d)
{
	return __builtin_bit_cast(u16, ptx_cvt_f16_f64(d));
}
static inline double back_f16(u16 b)
{
	return (double)__builtin_bit_cast(f16, b);
}
static inline f16 as_f16(u32 bits)
{
	return __builtin_bit_cast(f16, (u16)bits);
}
static inline u16 nearest_bf16(double d)
{
	return ptx_cvt_bf16_f32(odd32(d));
}
static inline double back_bf16(u16 b)
{
	return (double)wide_bf16(b);
}
static inline u16 as_bf16(u32 bits)
{
	return (u16)bits;
}

/* By the type of the operand: it as f64. Of whole numbers of 64 bits, what is lost is seen in the last bit. */
typedef int8_t from_s8;
typedef uint8_t from_u8;
typedef int16_t from_s16;
typedef u16 from_u16;
typedef s32 from_s32;
typedef u32 from_u32;
typedef s64 from_s64;
typedef u64 from_u64;
typedef f16 from_f16;
typedef float from_f32;
typedef double from_f64;
#define EXACT(from)                                                                                \
	static inline double odd_##from(from_##from a)                                             \
	{                                                                                          \
		return (double)a;                                                                  \
	}
EXACT(s8)
EXACT(u8)
EXACT(s16)
EXACT(u16)
EXACT(s32)
EXACT(u32)
EXACT(f16)
EXACT(f32)
EXACT(f64)
static inline double odd_u64(u64 a)
{
	return a >> 53 ? (double)(a >> 11 | ((a & 0x7ff) != 0)) * 2048 : (double)a;
}
static inline double odd_s64(s64 a)
{
	return a < 0 ? -odd_u64(-(u64)a) : odd_u64((u64)a);
}

#define ROUNDED(to, from)                                                                          \
	BUILTIN to_##to ptx_cvt_rz_##to##_##from(from_##from a)                                    \
	{                                                                                          \
		double d = odd_##from(a);                                                          \
		u16 n = nearest_##to(d);                                                           \
		return as_##to(toward_zero(n, back_##to(n), d));                                   \
	}                                                                                          \
	BUILTIN to_##to ptx_cvt_rm_##to##_##from(from_##from a)                                    \
	{                                                                                          \
		double d = odd_##from(a);                                                          \
		u16 n = nearest_##to(d);                                                           \
		return as_##to(downward(n, back_##to(n), d));                                      \
	}                                                                                          \
	BUILTIN to_##to ptx_cvt_rp_##to##_##from(from_##from a)                                    \
	{                                                                                          \
		double d = odd_##from(a);                                                          \
		u16 n = nearest_##to(d);                                                           \
		return as_##to(upward(n, back_##to(n), d));                                        \
	}
#define NEAREST(from)                                                                              \
	BUILTIN u16 ptx_cvt_bf16_##from(from_##from a)                                             \
	{                                                                                          \
		return nearest_bf16(odd_##from(a));                                                \
	}
ROUNDED(f16, s8)
ROUNDED(bf16, s8)
NEAREST(s8)
ROUNDED(f16, u8)
ROUNDED(bf16, u8)
NEAREST(u8)
ROUNDED(f16, s16)
ROUNDED(bf16, s16)
NEAREST(s16)
ROUNDED(f16, u16)
ROUNDED(bf16, u16)
NEAREST(u16)
ROUNDED(f16, s32)
ROUNDED(bf16, s32)
NEAREST(s32)
ROUNDED(f16, u32)
ROUNDED(bf16, u32)
NEAREST(u32)
ROUNDED(f16, s64)
ROUNDED(bf16, s64)
NEAREST(s64)
ROUNDED(f16, u64)
ROUNDED(bf16, u64)
NEAREST(u64)
ROUNDED(f16, f64)
ROUNDED(bf16, f64)
NEAREST(f64)
ROUNDED(bf16, f16)
NEAREST(f16)
BUILTIN f16 ptx_cvt_rm_f16_f32(float a)
{
	u16 n = nearest_f16(a);

	return as_f16(downward(n, back_f16(n), a));
}
BUILTIN f16 ptx_cvt_rp_f16_f32(float a)
{
	u16 n = nearest_f16(a);

	return as_f16(upward(n, back_f16(n), a));
}

/* ---- .relu ---- */

static inline u16 relu_bf16(u16 a)
{
	return wide_bf16(a) <= 0 ? 0 : a;
}
static inline f16 relu_f16(f16 a)
{
	return a <= 0 ? 0 : a;
}
BUILTIN u16 ptx_cvt_relu_bf16_f32(float a)
{
	return relu_bf16(ptx_cvt_bf16_f32(a));
}
BUILTIN u16 ptx_cvt_rz_relu_bf16_f32(float a)
{
	return relu_bf16(ptx_cvt_rz_bf16_f32(a));
}
BUILTIN f16 ptx_cvt_relu_f16_f32(float a)
{
	return relu_f16((f16)a);
}
BUILTIN f16 ptx_cvt_rz_relu_f16_f32(float a)
{
	return relu_f16(ptx_cvt_rz_f16_f32(a));
}
#define NARROW_PAIR(name)                                                                          \
	BUILTIN u32 ptx_cvt_##name##f16x2_f32(float a, float b)                                    \
	{                                                                                          \
		return pair_of(ptx_cvt_##name##f16_f32(b), ptx_cvt_##name##f16_f32(a));            \
	}                                                                                          \
	BUILTIN u32 ptx_cvt_##name##bf16x2_f32(float a, float b)                                   \
	{                                                                                          \
		return ptx_cvt_##name##bf16_f32(b) | (u32)ptx_cvt_##name##bf16_f32(a) << 16;       \
	}
NARROW_PAIR(rz_)
NARROW_PAIR(relu_)
NARROW_PAIR(rz_relu_)
BUILTIN u16 ptx_fma_relu_bf16(u16 a, u16 b, u16 c)
{
	return relu_bf16(fma_bf16(a, b, c));
}
BUILTIN u32 ptx_fma_relu_bf16x2(u32 a, u32 b, u32 c)
{
	return ptx_fma_relu_bf16((u16)a, (u16)b, (u16)c) |
	       (u32)ptx_fma_relu_bf16((u16)(a >> 16), (u16)(b >> 16), (u16)(c >> 16)) << 16;
}
BUILTIN u32 ptx_fma_relu_f16x2(u32 a, u32 b, u32 c)
{
	return pair_of(ptx_fma_relu_f16(half_of(a, 0), half_of(b, 0), half_of(c, 0)),
		ptx_fma_relu_f16(half_of(a, 1), half_of(b, 1), half_of(c, 1)));
}

/* ---- tf32: f32 with ten bits behind the point ---- */

static inline u32 tf32_of(float a, u32 half, u32 odd)
{
	u32 b = bits32(a);

	return a != a ? 0x7fffffff : (b + half + (b >> 13 & odd)) & 0xffffe000;
}
static inline u32 tf32_finite(u32 b)
{
	return (b & 0x7fffffff) == 0x7f800000 ? b - 0x2000 : b;
}
static inline u32 tf32_relu(u32 b)
{
	return float32(b) <= 0 ? 0 : b;
}
#define TF32(rounding, half, odd)                                                                  \
	BUILTIN u32 ptx_cvt_##rounding##tf32_f32(float a)                                          \
	{                                                                                          \
		return tf32_of(a, half, odd);                                                      \
	}                                                                                          \
	BUILTIN u32 ptx_cvt_##rounding##satfinite_tf32_f32(float a)                                \
	{                                                                                          \
		return tf32_finite(tf32_of(a, half, odd));                                         \
	}
TF32(rna_, 0x1000, 0)
TF32(, 0xfff, 1)
TF32(rz_, 0, 0)
BUILTIN u32 ptx_cvt_relu_tf32_f32(float a)
{
	return tf32_relu(tf32_of(a, 0xfff, 1));
}
BUILTIN u32 ptx_cvt_rz_relu_tf32_f32(float a)
{
	return tf32_relu(tf32_of(a, 0, 0));
}

/* ---- 8 bits: e4m3 and e5m2 ---- */

/* The nearest, and no more than `most`. bias: of the exponent; mantissa: its bits. */
static inline u32 to_eight(float a, u32 mantissa, s32 bias, u32 most)
{
	u32 b = bits32(a) & 0x7fffffff, sign = bits32(a) >> 24 & 0x80, code;
	s32 e = (s32)(b >> 23) - 127;

	if (a != a)
		return 0x7f;
	if (b >= 0x7f800000)
		return sign | most;
	if (e < 1 - bias)
		e = 1 - bias;
	/* In units of the last place, which the sum rounds. */
	double units = (double)float32(b) * float64((u64)(1023 - e + (s32)mantissa) << 52);
	code = (u32)(units + 0x1p52 - 0x1p52) + ((u32)(e + bias - 1) << mantissa);
	return sign | (code < most ? code : most);
}
static inline u32 to_e4m3(float a)
{
	return to_eight(a, 3, 7, 0x7e);
}
static inline u32 to_e5m2(float a)
{
	return to_eight(a, 2, 15, 0x7b);
}
static inline float relu_f32(float a)
{
	return a <= 0 ? 0 : a;
}
static inline f16 from_e5m2(u32 a)
{
	return (a & 0x7f) > 0x7c ? as_f16(0x7fff) : as_f16(a << 8);
}
static inline f16 from_e4m3(u32 a)
{
	f16 r = as_f16((a & 0x80) << 8 | (a & 0x7f) << 7);

	return (a & 0x7f) == 0x7f ? as_f16(0x7fff) : r * 256;
}
#define EIGHT(type)                                                                                \
	BUILTIN u16 ptx_cvt_satfinite_##type##x2_f32(float a, float b)                             \
	{                                                                                          \
		return (u16)(to_##type(a) << 8 | to_##type(b));                                    \
	}                                                                                          \
	BUILTIN u16 ptx_cvt_satfinite_relu_##type##x2_f32(float a, float b)                        \
	{                                                                                          \
		return (u16)(to_##type(relu_f32(a)) << 8 | to_##type(relu_f32(b)));                \
	}                                                                                          \
	BUILTIN u16 ptx_cvt_satfinite_##type##x2_f16x2(u32 a)                                      \
	{                                                                                          \
		return (u16)(to_##type(half_of(a, 1)) << 8 | to_##type(half_of(a, 0)));            \
	}                                                                                          \
	BUILTIN u16 ptx_cvt_satfinite_relu_##type##x2_f16x2(u32 a)                                 \
	{                                                                                          \
		return (u16)(to_##type(relu_f32(half_of(a, 1))) << 8 |                             \
			     to_##type(relu_f32(half_of(a, 0))));                                  \
	}                                                                                          \
	BUILTIN u32 ptx_cvt_##type##x2_f16x2(u16 a)                                                \
	{                                                                                          \
		return pair_of(from_##type(a & 255), from_##type(a >> 8));                         \
	}                                                                                          \
	BUILTIN u32 ptx_cvt_relu_##type##x2_f16x2(u16 a)                                           \
	{                                                                                          \
		return pair_of(relu_f16(from_##type(a & 255)), relu_f16(from_##type(a >> 8)));     \
	}
EIGHT(e4m3)
EIGHT(e5m2)

/* ---- packed integers ---- */

static inline s32 between(s32 a, s32 low, s32 high)
{
	return a < low ? low : a > high ? high : a;
}
BUILTIN u32 ptx_cvt_pack_sat_s16_s32(s32 a, s32 b)
{
	return (u32)between(a, -32768, 32767) << 16 | (u16)between(b, -32768, 32767);
}
BUILTIN u32 ptx_cvt_pack_sat_u16_s32(s32 a, s32 b)
{
	return (u32)between(a, 0, 65535) << 16 | (u32)between(b, 0, 65535);
}
/* Above them what is left of c. */
BUILTIN u32 ptx_cvt_pack_sat_s8_s32_b32(s32 a, s32 b, u32 c)
{
	return c << 16 | (u32)(u8)between(a, -128, 127) << 8 | (u8)between(b, -128, 127);
}
BUILTIN u32 ptx_cvt_pack_sat_u8_s32_b32(s32 a, s32 b, u32 c)
{
	return c << 16 | (u32)between(a, 0, 255) << 8 | (u32)between(b, 0, 255);
}

#define PAIR16(op, name, type, T, expression)                                                      \
	static inline u16 op##_##name##16(T a, T b)                                                \
	{                                                                                          \
		return (u16)(expression);                                                          \
	}                                                                                          \
	BUILTIN u32 ptx_##op##_##type##16x2(u32 a, u32 b)                                          \
	{                                                                                          \
		return op##_##name##16((T)a, (T)b) |                                               \
		       (u32)op##_##name##16((T)(a >> 16), (T)(b >> 16)) << 16;                     \
	}
PAIR16(add, u, u, u16, a + b)
PAIR16(add, s, s, int16_t, a + b)
PAIR16(sub, u, u, u16, a - b)
PAIR16(sub, s, s, int16_t, a - b)
PAIR16(min, u, u, u16, a < b ? a : b)
PAIR16(min, s, s, int16_t, a < b ? a : b)
PAIR16(max, u, u, u16, a > b ? a : b)
PAIR16(max, s, s, int16_t, a > b ? a : b)
PAIR16(min_relu, s, s, int16_t, a < 0 || b < 0 ? 0 : a < b ? a : b)
PAIR16(max_relu, s, s, int16_t, a < 0 && b < 0 ? 0 : a > b ? a : b)

/* ---- the sign of the one times that of the other, and the less or greater size ---- */

BUILTIN float ptx_min_nan_xorsign_abs_f32(float a, float b)
{
	return a != a || b != b ? float32(0x7fffffff) : ptx_min_xorsign_abs_f32(a, b);
}
BUILTIN float ptx_max_nan_xorsign_abs_f32(float a, float b)
{
	return a != a || b != b ? float32(0x7fffffff) : ptx_max_xorsign_abs_f32(a, b);
}
#define XORSIGN(name)                                                                              \
	BUILTIN f16 ptx_##name##_xorsign_abs_f16(f16 a, f16 b)                                     \
	{                                                                                          \
		return (f16)ptx_##name##_xorsign_abs_f32(a, b);                                    \
	}                                                                                          \
	BUILTIN u16 ptx_##name##_xorsign_abs_bf16(u16 a, u16 b)                                    \
	{                                                                                          \
		return ptx_cvt_bf16_f32(ptx_##name##_xorsign_abs_f32(wide_bf16(a), wide_bf16(b))); \
	}                                                                                          \
	PAIR2(name##_xorsign_abs)
XORSIGN(min)
XORSIGN(max)
XORSIGN(min_nan)
XORSIGN(max_nan)
