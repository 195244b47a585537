/* SPDX-License-Identifier: MIT
 *
 * Floating instructions. What has at most 32 bits is computed in double, rounded to odd, and rounded once more: that
 * is exact, since a double has more than twice the digits. f64 is computed under the rounding mode of the processor.
 * Approximations are computed as exactly as libm can; who compares them has to allow for their error.
 */
#include "interp_values.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

static double double_of(uint64_t v)
{
	double d;

	memcpy(&d, &v, 8);
	return d;
}

static uint64_t bits_of(double d)
{
	uint64_t v;

	memcpy(&v, &d, 8);
	return v;
}

/* ---- formats ---- */

struct format {
	unsigned width, fraction; /* bits of the exponent, and of what follows it */
	uint64_t nan;
};

static struct format format_of(unsigned type)
{
	switch (type) {
	case TYPE_f16:
		return (struct format){5, 10, 0x7fff};
	case TYPE_bf16:
		return (struct format){8, 7, 0x7fff};
	}
	return (struct format){8, 23, 0x7fffffff};
}

/* The double of a shorter format's bits. */
static double widen(uint64_t v, unsigned type)
{
	struct format f = format_of(type);
	uint64_t exponent = interp_low(v >> f.fraction, f.width), m = interp_low(v, f.fraction);
	int bias = (1 << (f.width - 1)) - 1;
	double r;

	if (type == TYPE_f64)
		return double_of(v);
	if (exponent == (1ull << f.width) - 1)
		r = m ? NAN : INFINITY;
	else
		r = ldexp((double)(exponent ? m | 1ull << f.fraction : m),
			(exponent ? (int)exponent : 1) - bias - (int)f.fraction);
	return v >> (f.width + f.fraction) & 1 ? -r : r;
}

double interp_double(unsigned type, uint64_t bits)
{
	return widen(bits, type);
}

static bool rounds_up(uint64_t kept, uint64_t rest, uint64_t half, bool negative, int mode)
{
	switch (mode) {
	case FE_TONEAREST:
		return rest > half || (rest == half && (kept & 1));
	case FE_UPWARD:
		return rest && !negative;
	case FE_DOWNWARD:
		return rest && negative;
	}
	return false;
}

/* The bits of a shorter format, of a double that is exact or rounded to odd. */
static uint64_t narrow(double d, unsigned type, int mode)
{
	struct format f = format_of(type);
	bool negative = signbit(d);
	uint64_t sign = (uint64_t)negative << (f.width + f.fraction), kept, rest, r;
	uint64_t infinity = ((1ull << f.width) - 1) << f.fraction;
	int exponent, bias = (1 << (f.width - 1)) - 1, shift = 52 - (int)f.fraction;

	if (isnan(d))
		return f.nan;
	if (isinf(d) || d == 0)
		return sign | (d == 0 ? 0 : infinity);
	uint64_t m = (uint64_t)ldexp(frexp(fabs(d), &exponent), 53); /* 2^52 <= m < 2^53 */
	exponent += bias - 1;
	if (exponent < 1) {
		shift += 1 - exponent;
		exponent = 1;
	}
	kept = shift > 60 ? 0 : m >> shift;
	rest = shift > 60 ? 1 : m & ((1ull << shift) - 1);
	kept += rounds_up(kept, rest, 1ull << (shift > 60 ? 60 : shift - 1), negative, mode);
	r = ((uint64_t)(exponent - 1) << f.fraction) + kept;
	if (r >= infinity) {
		bool away = mode == FE_TONEAREST || mode == (negative ? FE_DOWNWARD : FE_UPWARD);

		r = away ? infinity : infinity - 1;
	}
	return sign | r;
}

uint64_t interp_flushed(unsigned type, uint64_t v)
{
	struct format f = format_of(type);

	if (type == TYPE_f64 || type == TYPE_bf16 || interp_low(v >> f.fraction, f.width))
		return v;
	return v & 1ull << (f.width + f.fraction);
}

/* ---- operations that are exact but for one rounding ---- */

static double operate(unsigned op, double a, double b, double c)
{
	switch (op) {
	case OP_add:
		return a + b;
	case OP_sub:
		return a - b;
	case OP_mul:
		return a * b;
	case OP_fma:
	case OP_mad:
		return fma(a, b, c);
	case OP_div:
		return a / b;
	case OP_rcp:
		return 1 / a;
	}
	return sqrt(a);
}

static double in_mode(int mode, unsigned op, const double a[3])
{
	volatile double x = a[0], y = a[1], z = a[2], r;

	fesetround(mode);
	r = operate(op, x, y, z);
	fesetround(FE_TONEAREST);
	return r;
}

/* To odd: toward zero, and the last bit says whether anything was lost. A zero has the sign that the mode gives it. */
static double to_odd(int mode, unsigned op, const double a[3])
{
	double r;

	feclearexcept(FE_ALL_EXCEPT);
	r = in_mode(FE_TOWARDZERO, op, a);
	if (fetestexcept(FE_INEXACT))
		return double_of(bits_of(r) | 1);
	return r == 0 ? in_mode(mode, op, a) : r;
}

static int mode_of(const struct inst *i)
{
	if (inst_has(i, MOD_rz) || inst_has(i, MOD_rzi))
		return FE_TOWARDZERO;
	if (inst_has(i, MOD_rm) || inst_has(i, MOD_rmi))
		return FE_DOWNWARD;
	return inst_has(i, MOD_rp) || inst_has(i, MOD_rpi) ? FE_UPWARD : FE_TONEAREST;
}

static uint64_t rounded(unsigned op, unsigned type, int mode, const double a[3])
{
	return type == TYPE_f64 ? bits_of(in_mode(mode, op, a))
				: narrow(to_odd(mode, op, a), type, mode);
}

uint64_t interp_float_add(unsigned type, uint64_t a, uint64_t b)
{
	double values[3] = {widen(a, type), widen(b, type)};

	return rounded(OP_add, type, FE_TONEAREST, values);
}

/* ---- the others ---- */

/* -0 is less than +0; a NaN loses, unless .NaN wants it. */
static uint64_t least(const struct inst *i, unsigned type, uint64_t a, uint64_t b)
{
	struct format f = format_of(type);
	unsigned top = ptx_type_bits[type] - 1;
	uint64_t nan = type == TYPE_f64 ? 0x7fffffffffffffff : f.nan, sign = (a ^ b) & 1ull << top;
	bool xorsign = inst_has(i, MOD_xorsign), min = i->op == OP_min, a_less;
	uint64_t r;

	if (xorsign) {
		a &= ~(1ull << top);
		b &= ~(1ull << top);
	}
	double x = widen(a, type), y = widen(b, type);
	if (isnan(x) && isnan(y))
		return nan;
	if (isnan(x) || isnan(y)) {
		if (inst_has(i, MOD_nan))
			return nan;
		r = isnan(x) ? b : a;
	} else {
		a_less = x < y || (x == y && signbit(x) && !signbit(y));
		r = a_less == min ? a : b;
	}
	return xorsign ? r | sign : r;
}

static bool tested(const struct inst *i, uint64_t v, unsigned type)
{
	double d = widen(v, type);
	bool subnormal = type == TYPE_f64 ? fpclassify(d) == FP_SUBNORMAL
					  : d != 0 && interp_flushed(type, v) != v;

	if (inst_has(i, MOD_finite))
		return isfinite(d);
	if (inst_has(i, MOD_infinite))
		return isinf(d);
	if (inst_has(i, MOD_number))
		return !isnan(d);
	if (inst_has(i, MOD_notanumber))
		return isnan(d);
	if (inst_has(i, MOD_subnormal))
		return subnormal;
	return isfinite(d) && !subnormal; /* zeros are */
}

static bool approximate(const struct inst *i, double a, double *r)
{
	switch (i->op) {
	case OP_rsqrt:
		*r = 1 / sqrt(a);
		return true;
	case OP_sin:
		*r = sin(a);
		return true;
	case OP_cos:
		*r = cos(a);
		return true;
	case OP_lg2:
		*r = log2(a);
		return true;
	case OP_ex2:
		*r = exp2(a);
		return true;
	case OP_tanh:
		*r = tanh(a);
		return true;
	}
	return false;
}

static bool computed(const struct inst *i, unsigned type, const uint64_t a[], uint64_t *r)
{
	double values[3] = {widen(a[0], type), widen(a[1], type), widen(a[2], type)}, d;
	uint64_t top = 1ull << (ptx_type_bits[type] - 1);

	/* The reciprocal of such a divisor is subnormal, and taken for 0. */
	if (i->op == OP_div && inst_has(i, MOD_approx) && fabs(values[1]) > 0x1p126)
		values[1] = copysign(INFINITY, values[1]);
	switch (i->op) {
	case OP_add:
	case OP_sub:
	case OP_mul:
	case OP_fma:
	case OP_mad:
	case OP_div:
	case OP_rcp:
	case OP_sqrt:
		*r = rounded(i->op, type, mode_of(i), values);
		return true;
	case OP_neg:
		*r = a[0] ^ top;
		return true;
	case OP_abs:
		*r = a[0] & ~top;
		return true;
	case OP_min:
	case OP_max:
		*r = least(i, type, a[0], a[1]);
		return true;
	case OP_copysign:
		*r = (a[1] & ~top) | (a[0] & top);
		return true;
	}
	if (!approximate(i, values[0], &d))
		return false;
	*r = type == TYPE_f64 ? bits_of(d) : narrow(d, type, FE_TONEAREST);
	return true;
}

/* A NaN gives 0. */
static uint64_t clamped(uint64_t v, unsigned type)
{
	double d = widen(v, type);

	if (!(d > 0))
		return 0;
	if (d < 1)
		return v;
	return type == TYPE_f64 ? bits_of(1) : narrow(1, type, FE_TONEAREST);
}

/* Of a double, {rcp,rsqrt}.approx.ftz.f64 read and give the upper 32 bits; those of a subnormal number are 0. */
static uint64_t flushed_operand(uint64_t v, unsigned type)
{
	if (type != TYPE_f64)
		return interp_flushed(type, v);
	v = v >> 32 << 32;
	return v << 1 >> 53 ? v : v & 1ull << 63;
}

static bool one(const struct inst *i, unsigned type, const uint64_t a[], uint64_t *r)
{
	uint64_t in[3];
	bool ftz = inst_has(i, MOD_ftz);

	for (unsigned k = 0; k < 3; k++)
		in[k] = ftz ? flushed_operand(a[k], type) : a[k];
	if (!computed(i, type, in, r))
		return false;
	if (ftz)
		*r = flushed_operand(*r, type);
	if (inst_has(i, MOD_sat))
		*r = clamped(*r, type);
	if (inst_has(i, MOD_relu) && widen(*r, type) <= 0)
		*r = 0;
	return true;
}

bool interp_float(const struct inst *i, const uint64_t a[], uint64_t *result)
{
	unsigned type = i->types[0], part = type == TYPE_f16x2 ? TYPE_f16 : TYPE_bf16;

	if (i->op == OP_testp) {
		*result = tested(i, a[0], type);
		return true;
	}
	if (type == TYPE_u16x2 || type == TYPE_s16x2)
		return interp_integer_pair(i, a, result);
	if (type == TYPE_f32x2)
		return false;
	if (type != TYPE_f16x2 && type != TYPE_bf16x2)
		return one(i, type, a, result);
	*result = 0;
	for (unsigned k = 0; k < 2; k++) {
		uint64_t in[3], r = 0;

		for (unsigned n = 0; n < 3; n++)
			in[n] = a[n] >> 16 * k & 0xffff;
		if (!one(i, part, in, &r))
			return false;
		*result |= r << 16 * k;
	}
	return true;
}

/* ---- comparisons ---- */

static bool by_order(unsigned modifier, int order, bool *result)
{
	switch (modifier) {
	case MOD_eq:
		*result = order == 0;
		return true;
	case MOD_ne:
		*result = order != 0;
		return true;
	case MOD_lt:
	case MOD_lo:
		*result = order < 0;
		return true;
	case MOD_le:
	case MOD_ls:
		*result = order <= 0;
		return true;
	case MOD_gt:
	case MOD_hi:
		*result = order > 0;
		return true;
	case MOD_ge:
	case MOD_hs:
		*result = order >= 0;
		return true;
	}
	return false;
}

static bool compare_floats(const struct inst *i, unsigned type, const uint64_t a[2], bool *result)
{
	static const uint8_t unordered[][2] = {{MOD_equ, MOD_eq}, {MOD_neu, MOD_ne},
		{MOD_ltu, MOD_lt}, {MOD_leu, MOD_le}, {MOD_gtu, MOD_gt}, {MOD_geu, MOD_ge}};
	bool ftz = inst_has(i, MOD_ftz);
	double x = widen(ftz ? interp_flushed(type, a[0]) : a[0], type);
	double y = widen(ftz ? interp_flushed(type, a[1]) : a[1], type);
	bool nan = isnan(x) || isnan(y);
	unsigned modifier = i->modifiers[0];
	int order = (x > y) - (x < y);

	if (modifier == MOD_num || modifier == MOD_nan) {
		*result = nan == (modifier == MOD_nan);
		return true;
	}
	for (size_t k = 0; k < sizeof(unordered) / sizeof(*unordered); k++)
		if (unordered[k][0] == modifier) {
			bool known = by_order(unordered[k][1], order, result);

			*result |= nan;
			return known;
		}
	if (!by_order(modifier, order, result))
		return false;
	*result &= !nan;
	return true;
}

bool interp_compare(const struct inst *i, unsigned type, const uint64_t a[2], bool *result)
{
	unsigned bits = ptx_type_bits[type];
	int64_t x = interp_signed(a[0], bits), y = interp_signed(a[1], bits);

	if (!i->modifier_count || type == TYPE_f16x2 || type == TYPE_bf16x2)
		return false;
	if (!interp_is_integer(type))
		return compare_floats(i, type, a, result);
	return by_order(i->modifiers[0],
		interp_is_signed(type) ? (x > y) - (x < y) : (a[0] > a[1]) - (a[0] < a[1]), result);
}

/* ---- conversions ---- */

static uint64_t limited(__int128 v, unsigned type)
{
	unsigned bits = ptx_type_bits[type];
	__int128 low = interp_is_signed(type) ? -((__int128)1 << (bits - 1)) : 0;
	__int128 high = ((__int128)1 << (bits - interp_is_signed(type))) - 1;

	return interp_low((uint64_t)(v < low ? low : v > high ? high : v), bits);
}

/* An integer as a double: exact, or to odd, as it will be rounded again. */
static double odd_integer(__int128 v)
{
	volatile double r;

	feclearexcept(FE_ALL_EXCEPT);
	fesetround(FE_TOWARDZERO);
	if (v < 0) {
		volatile int64_t s = (int64_t)v;

		r = (double)s;
	} else {
		volatile uint64_t u = (uint64_t)v;

		r = (double)u;
	}
	fesetround(FE_TONEAREST);
	bool lost = (__int128)r != v;
	return lost ? double_of(bits_of(r) | 1) : r;
}

static uint64_t integer_to_float(__int128 v, unsigned type, int mode)
{
	if (type != TYPE_f64)
		return narrow(odd_integer(v), type, mode);
	volatile uint64_t u = (uint64_t)v;
	volatile int64_t s = (int64_t)v;
	volatile double r;
	fesetround(mode);
	if (v < 0)
		r = (double)s;
	else
		r = (double)u;
	fesetround(FE_TONEAREST);
	return bits_of(r);
}

static double to_integral(double d, int mode)
{
	volatile double v = d, r;

	fesetround(mode);
	r = nearbyint(v);
	fesetround(FE_TONEAREST);
	return r;
}

/* What is out of range gives the nearest that is in it; a NaN gives 0, or the top bit where 64 bits take part. */
static uint64_t float_to_integer(double d, unsigned to, unsigned from, int mode)
{
	if (isnan(d))
		return from == TYPE_f64 || ptx_type_bits[to] == 64 ? 1ull << (ptx_type_bits[to] - 1)
								   : 0;
	d = to_integral(d, mode);
	if (d >= 0x1p100 || d <= -0x1p100)
		d = copysign(0x1p100, d);
	return limited((__int128)d, to);
}

static bool rounds_to_integer(const struct inst *i)
{
	return inst_has(i, MOD_rni) || inst_has(i, MOD_rzi) || inst_has(i, MOD_rmi) ||
	       inst_has(i, MOD_rpi);
}

static uint64_t float_to_float(const struct inst *i, uint64_t v, unsigned to, unsigned from)
{
	double d = widen(v, from);

	if (rounds_to_integer(i))
		d = to_integral(d, mode_of(i));
	if (to == from && !rounds_to_integer(i))
		return v;
	return to == TYPE_f64 ? bits_of(d) : narrow(d, to, mode_of(i));
}

static uint64_t convert_one(const struct inst *i, uint64_t v, unsigned to, unsigned from)
{
	bool ftz = inst_has(i, MOD_ftz), sat = inst_has(i, MOD_sat);
	uint64_t r;

	if (interp_is_integer(from)) {
		__int128 n = interp_is_signed(from) ? interp_signed(v, ptx_type_bits[from])
						    : (__int128)v;

		if (interp_is_integer(to))
			return sat ? limited(n, to) : interp_low((uint64_t)n, ptx_type_bits[to]);
		r = integer_to_float(n, to, mode_of(i));
		return sat ? clamped(r, to) : r;
	}
	if (ftz && from == TYPE_f32)
		v = interp_flushed(from, v);
	if (interp_is_integer(to))
		return float_to_integer(widen(v, from), to, from, mode_of(i));
	r = float_to_float(i, v, to, from);
	if (ftz && to == TYPE_f32)
		r = interp_flushed(to, r);
	if (inst_has(i, MOD_relu) && widen(r, to) <= 0)
		r = 0;
	return sat ? clamped(r, to) : r;
}

bool interp_convert(const struct inst *i, const uint64_t a[], uint64_t *result)
{
	unsigned to = i->types[0], from = i->types[1];

	if (to == TYPE_f16x2 || to == TYPE_bf16x2) { /* the first operand above the second */
		unsigned part = to == TYPE_f16x2 ? TYPE_f16 : TYPE_bf16;

		*result = convert_one(i, a[0], part, from) << 16 | convert_one(i, a[1], part, from);
		return from == TYPE_f32;
	}
	*result = convert_one(i, a[0], to, from);
	return true;
}
