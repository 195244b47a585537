/* SPDX-License-Identifier: MIT
 *
 * Integer instructions, written from the manual's definitions: bit by bit where the manual says it so.
 */
#include "interp_values.h"

#include <string.h>

typedef unsigned __int128 wide;

static uint64_t product(const struct inst *i, const uint64_t a[], unsigned bits)
{
	wide p = interp_is_signed(i->types[0])
			 ? (wide)((__int128)interp_signed(a[0], bits) * interp_signed(a[1], bits))
			 : (wide)a[0] * a[1];

	if (inst_has(i, MOD_wide))
		return interp_low((uint64_t)p, bits * 2);
	return interp_low((uint64_t)(inst_has(i, MOD_hi) ? p >> bits : p), bits);
}

static uint64_t product24(const struct inst *i, const uint64_t a[])
{
	int64_t p = interp_is_signed(i->types[0])
			    ? interp_signed(a[0], 24) * interp_signed(a[1], 24)
			    : (int64_t)(interp_low(a[0], 24) * interp_low(a[1], 24));

	return interp_low((uint64_t)(inst_has(i, MOD_hi) ? p >> 16 : p), 32);
}

/* A sum or a difference of s32 as the nearest s32. */
static uint64_t saturated(int64_t v)
{
	return interp_low((uint64_t)(v > INT32_MAX   ? INT32_MAX
				     : v < INT32_MIN ? INT32_MIN
						     : v),
		32);
}

static bool arithmetic(const struct inst *i, const uint64_t a[], unsigned bits, uint64_t *r)
{
	bool sat = inst_has(i, MOD_sat);
	int64_t x = interp_signed(a[0], bits), y = interp_signed(a[1], bits);

	switch (i->op) {
	case OP_add:
		*r = sat ? saturated(x + y) : a[0] + a[1];
		return true;
	case OP_sub:
		*r = sat ? saturated(x - y) : a[0] - a[1];
		return true;
	case OP_mul:
		*r = product(i, a, bits);
		return true;
	case OP_mad:
		*r = product(i, a, bits);
		*r = sat ? saturated(interp_signed(*r, bits) + interp_signed(a[2], bits))
			 : *r + a[2];
		return true;
	case OP_mul24:
		*r = product24(i, a);
		return true;
	case OP_mad24:
		*r = product24(i, a);
		*r = sat ? saturated(interp_signed(*r, 32) + interp_signed(a[2], 32)) : *r + a[2];
		return true;
	case OP_neg:
		*r = 0 - a[0];
		return true;
	case OP_abs:
		*r = x < 0 ? 0 - a[0] : a[0];
		return true;
	}
	return false;
}

/* Those that ask which of two values is less. By zero the quotient and what is left are all ones. */
static bool ordered(const struct inst *i, const uint64_t a[], unsigned bits, uint64_t *r)
{
	bool is_signed = interp_is_signed(i->types[0]);
	int64_t x = interp_signed(a[0], bits), y = interp_signed(a[1], bits);
	bool less = is_signed ? x < y : a[0] < a[1];

	switch (i->op) {
	case OP_min:
		*r = less ? a[0] : a[1];
		break;
	case OP_max:
		*r = less ? a[1] : a[0];
		break;
	case OP_sad:
		*r = a[2] + (less ? a[1] - a[0] : a[0] - a[1]);
		return true;
	case OP_div:
		*r = !a[1] ? UINT64_MAX : is_signed ? (uint64_t)((__int128)x / y) : a[0] / a[1];
		return true;
	case OP_rem:
		*r = !a[1] ? UINT64_MAX : is_signed ? (uint64_t)((__int128)x % y) : a[0] % a[1];
		return true;
	default:
		return false;
	}
	if (inst_has(i, MOD_relu) && interp_signed(*r, bits) < 0)
		*r = 0;
	return true;
}

/* ---- bits ---- */

static unsigned bit(uint64_t v, unsigned k)
{
	return k < 64 ? (unsigned)(v >> k & 1) : 0;
}

/* A position or length: fields of 32 bits take a byte of it, those of 64 bits all. */
static unsigned place(uint64_t v, unsigned bits)
{
	return bits == 32 ? v & 255 : v > 255 ? 255 : (unsigned)v;
}

static uint64_t extract(const struct inst *i, const uint64_t a[], unsigned bits)
{
	unsigned position = place(a[1], bits), length = place(a[2], bits), sign = 0;
	uint64_t r = 0;

	if (interp_is_signed(i->types[0]) && length)
		sign = bit(
			a[0], position + length - 1 > bits - 1 ? bits - 1 : position + length - 1);
	for (unsigned k = 0; k < bits; k++)
		r |= (uint64_t)(k < length && position + k < bits ? bit(a[0], position + k) : sign)
		     << k;
	return r;
}

static uint64_t insert(const uint64_t a[], unsigned bits)
{
	unsigned position = place(a[2], bits), length = place(a[3], bits);
	uint64_t r = a[1];

	for (unsigned k = 0; k < length && position + k < bits; k++)
		r = (r & ~(1ull << (position + k))) | (uint64_t)bit(a[0], k) << (position + k);
	return r;
}

static uint64_t find_bit(const struct inst *i, const uint64_t a[], unsigned bits)
{
	uint64_t v = interp_is_signed(i->types[0]) && bit(a[0], bits - 1) ? ~a[0] : a[0];

	for (unsigned k = bits; k-- > 0;)
		if (bit(v, k))
			return inst_has(i, MOD_shiftamt) ? bits - 1 - k : k;
	return UINT32_MAX;
}

static uint64_t find_nth(const uint64_t a[])
{
	int n = (int)a[2], at = (int)a[1];
	unsigned left = (unsigned)(n < 0 ? -(int64_t)n : n);

	if (!n)
		return bit(a[0], (unsigned)at) ? (uint64_t)at : UINT32_MAX;
	for (; at >= 0 && at<32; at += n> 0 ? 1 : -1)
		if (bit(a[0], (unsigned)at) && !--left)
			return (uint64_t)at;
	return UINT32_MAX;
}

static uint64_t funnel(const struct inst *i, const uint64_t a[])
{
	unsigned n = (unsigned)(inst_has(i, MOD_wrap) ? a[2] & 31 : a[2] > 32 ? 32 : a[2]);
	wide both = (wide)a[1] << 32 | a[0];

	return inst_has(i, MOD_l) ? (uint64_t)(both << n >> 32) : (uint64_t)(both >> n);
}

static uint64_t mask(const struct inst *i, const uint64_t a[])
{
	uint64_t position = a[0], width = a[1], r = 0;

	if (inst_has(i, MOD_wrap)) {
		position &= 31;
		width &= 31;
	}
	for (uint64_t k = 0; k < 32; k++)
		if (k >= position && k - position < width)
			r |= 1ull << k;
	return r;
}

static uint64_t extend(const struct inst *i, const uint64_t a[])
{
	unsigned n = (unsigned)(inst_has(i, MOD_wrap) ? a[1] & 31 : a[1] > 32 ? 32 : a[1]);

	if (!n)
		return 0;
	return interp_is_signed(i->types[0]) ? (uint64_t)interp_signed(a[0], n)
					     : interp_low(a[0], n);
}

static uint64_t permute(const struct inst *i, const uint64_t a[])
{
	static const struct {
		uint8_t modifier,
			bytes[4][4]; /* by the low bits of c: the sources of bytes 0 to 3 */
	} rows[] = {
		{MOD_f4e, {{0, 1, 2, 3}, {1, 2, 3, 4}, {2, 3, 4, 5}, {3, 4, 5, 6}}},
		{MOD_b4e, {{0, 7, 6, 5}, {1, 0, 7, 6}, {2, 1, 0, 7}, {3, 2, 1, 0}}},
		{MOD_rc8, {{0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}}},
		{MOD_ecl, {{0, 1, 2, 3}, {1, 1, 2, 3}, {2, 2, 2, 3}, {3, 3, 3, 3}}},
		{MOD_ecr, {{0, 0, 0, 0}, {0, 1, 1, 1}, {0, 1, 2, 2}, {0, 1, 2, 3}}},
		{MOD_rc16, {{0, 1, 0, 1}, {2, 3, 2, 3}, {0, 1, 0, 1}, {2, 3, 2, 3}}},
	};
	uint64_t all = a[1] << 32 | a[0], r = 0;

	for (unsigned k = 0; k < 4; k++) {
		unsigned selector = a[2] >> 4 * k & 15;
		uint64_t byte;

		for (size_t n = 0; n < sizeof(rows) / sizeof(*rows); n++)
			if (inst_has(i, rows[n].modifier))
				selector = rows[n].bytes[a[2] & 3][k];
		byte = all >> 8 * (selector & 7) & 255;
		if (selector & 8)
			byte = byte & 128 ? 255 : 0;
		r |= byte << 8 * k;
	}
	return r;
}

static uint64_t dot(const struct inst *i, const uint64_t a[])
{
	unsigned first = i->op == OP_dp2a && inst_has(i, MOD_hi) ? 2 : 0;
	unsigned parts = i->op == OP_dp4a ? 4 : 2, bits = 32 / parts;
	uint64_t sum = a[2];

	for (unsigned k = 0; k < parts; k++) {
		uint64_t x = interp_low(a[0] >> bits * k, bits), y = a[1] >> 8 * (k + first) & 255;

		if (interp_is_signed(i->types[0]))
			x = (uint64_t)interp_signed(x, bits);
		if (interp_is_signed(i->types[1]))
			y = (uint64_t)interp_signed(y, 8);
		sum += x * y;
	}
	return sum;
}

/* Of parts of so many bits. */
static uint64_t apart(const struct inst *i, const uint64_t a[], unsigned bits)
{
	uint64_t each = 0, sum = a[2];

	for (unsigned k = 0; k < 32; k += bits) {
		int64_t x = (int64_t)interp_low(a[0] >> k, bits),
			y = (int64_t)interp_low(a[1] >> k, bits);
		uint64_t d = (uint64_t)(x < y ? y - x : x - y);

		each |= d << k;
		sum += d;
	}
	return inst_has(i, MOD_add) ? sum : each;
}

static uint64_t logic3(const uint64_t a[])
{
	uint64_t r = 0;

	for (unsigned k = 0; k < 32; k++)
		r |= (uint64_t)bit(a[3], bit(a[0], k) << 2 | bit(a[1], k) << 1 | bit(a[2], k)) << k;
	return r;
}

static uint64_t shift(const struct inst *i, const uint64_t a[], unsigned bits)
{
	if (i->op == OP_shl)
		return a[1] >= bits ? 0 : a[0] << a[1];
	if (interp_is_signed(i->types[0]))
		return (uint64_t)(interp_signed(a[0], bits) >> (a[1] >= bits ? bits - 1 : a[1]));
	return a[1] >= bits ? 0 : a[0] >> a[1];
}

static uint64_t reversed(uint64_t v, unsigned bits)
{
	uint64_t r = 0;

	for (unsigned k = 0; k < bits; k++)
		r |= (uint64_t)bit(v, k) << (bits - 1 - k);
	return r;
}

static uint64_t leading(uint64_t v, unsigned bits)
{
	unsigned n = 0;

	while (n < bits && !bit(v, bits - 1 - n))
		n++;
	return n;
}

static bool bitwise(const struct inst *i, const uint64_t a[], unsigned bits, uint64_t *r)
{
	switch (i->op) {
	case OP_and:
		*r = a[0] & a[1];
		return true;
	case OP_or:
		*r = a[0] | a[1];
		return true;
	case OP_xor:
		*r = a[0] ^ a[1];
		return true;
	case OP_not:
		*r = ~a[0];
		return true;
	case OP_cnot:
		*r = !a[0];
		return true;
	case OP_lop3:
		*r = logic3(a);
		return true;
	case OP_shl:
	case OP_shr:
		*r = shift(i, a, bits);
		return true;
	case OP_popc:
		*r = 0;
		for (unsigned k = 0; k < bits; k++)
			*r += bit(a[0], k);
		return true;
	case OP_clz:
		*r = leading(a[0], bits);
		return true;
	case OP_brev:
		*r = reversed(a[0], bits);
		return true;
	}
	return false;
}

static bool fields(const struct inst *i, const uint64_t a[], unsigned bits, uint64_t *r)
{
	switch (i->op) {
	case OP_shf:
		*r = funnel(i, a);
		return true;
	case OP_bfe:
		*r = extract(i, a, bits);
		return true;
	case OP_bfi:
		*r = insert(a, bits);
		return true;
	case OP_bmsk:
		*r = mask(i, a);
		return true;
	case OP_szext:
		*r = extend(i, a);
		return true;
	case OP_bfind:
		*r = find_bit(i, a, bits);
		return true;
	case OP_fns:
		*r = find_nth(a);
		return true;
	case OP_prmt:
		*r = permute(i, a);
		return true;
	case OP_dp4a:
	case OP_dp2a:
		*r = dot(i, a);
		return true;
	case OP_vabsdiff2:
		*r = apart(i, a, 16);
		return true;
	case OP_vabsdiff4:
		*r = apart(i, a, 8);
		return true;
	}
	return false;
}

bool interp_integer(const struct inst *i, const uint64_t a[], uint64_t *result)
{
	unsigned bits = ptx_type_bits[i->types[0]];

	return arithmetic(i, a, bits, result) || ordered(i, a, bits, result) ||
	       bitwise(i, a, bits, result) || fields(i, a, bits, result);
}

bool interp_integer_pair(const struct inst *i, const uint64_t a[], uint64_t *result)
{
	struct inst half = *i;

	half.types[0] = i->types[0] == TYPE_s16x2 ? TYPE_s16 : TYPE_u16;
	*result = 0;
	for (unsigned k = 0; k < 2; k++) {
		uint64_t in[3], r = 0;

		for (unsigned n = 0; n < 3; n++)
			in[n] = a[n] >> 16 * k & 0xffff;
		if (!interp_integer(&half, in, &r))
			return false;
		*result |= (r & 0xffff) << 16 * k;
	}
	return true;
}
