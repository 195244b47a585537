/* SPDX-License-Identifier: MIT
 *
 * Floating point with directed rounding: to nearest, then one step when the error's sign says so. A part of builtins.c,
 * which includes this file and nobody else.
 */

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
	double r = __builtin_sqrt(a), e = __builtin_fma(-r, r, a);

	if (a < 0x1p-900) /* the remainder may be too small for a double */
		e = __builtin_fma(-(r * 0x1p300), r * 0x1p300, a * 0x1p600);
	return r == 0 ? r : direct64(r, e, mode);
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
