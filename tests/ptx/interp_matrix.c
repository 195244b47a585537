/* SPDX-License-Identifier: MIT
 *
 * Matrix instructions of the interpreter: a warp's registers as matrices, by the fragment layouts of the PTX manual.
 */
#include <math.h>
#include <string.h>

#include "interp_thread.h"
#include "interp_values.h"

enum { MOST_ROWS = 16, MOST_DEPTH = 256, COLUMNS = 8 };

struct shape {
	unsigned rows, depth;
};

struct product {
	struct shape shape;
	unsigned a, b, c, d; /* types: enum ptx_type, or enum ptx_modifier + TYPE_COUNT */
	double left[MOST_ROWS][MOST_DEPTH], right[MOST_DEPTH][COLUMNS];
	double sum[MOST_ROWS][COLUMNS];
};

bool interp_is_matrix(const struct inst *i)
{
	return i->op == OP_mma || i->op == OP_ldmatrix || i->op == OP_stmatrix ||
	       i->op == OP_movmatrix;
}

/* ---- elements ---- */

static unsigned bits_of(unsigned type)
{
	switch (type) {
	case TYPE_COUNT + MOD_tf32:
		return 32;
	case TYPE_COUNT + MOD_e4m3:
	case TYPE_COUNT + MOD_e5m2:
		return 8;
	case TYPE_COUNT + MOD_s4:
	case TYPE_COUNT + MOD_u4:
		return 4;
	case TYPE_COUNT + MOD_b1:
		return 1;
	}
	return ptx_type_bits[type];
}

/* A floating number of so many bits of exponent and mantissa. */
static double small_float(uint64_t v, unsigned exponent, unsigned mantissa)
{
	int bias = (1 << (exponent - 1)) - 1, e = (int)(v >> mantissa & ((1u << exponent) - 1));
	double m = (double)(v & ((1u << mantissa) - 1)), r;

	r = e ? ldexp(m + (1 << mantissa), e - bias - (int)mantissa)
	      : ldexp(m, 1 - bias - (int)mantissa);
	return v >> (exponent + mantissa) & 1 ? -r : r;
}

static double element(unsigned type, uint64_t v)
{
	switch (type) {
	case TYPE_COUNT + MOD_tf32:
		return interp_double(TYPE_f32, v & ~0x1fffull);
	case TYPE_COUNT + MOD_e4m3:
		return (v & 0x7f) == 0x7f ? (double)NAN : small_float(v, 4, 3);
	case TYPE_COUNT + MOD_e5m2:
		return (v & 0x7c) == 0x7c ? (v & 3             ? (double)NAN
						    : v & 0x80 ? -(double)INFINITY
							       : (double)INFINITY)
					  : small_float(v, 5, 2);
	case TYPE_COUNT + MOD_s4:
		return (double)interp_signed(v, 4);
	case TYPE_COUNT + MOD_u4:
	case TYPE_COUNT + MOD_b1:
		return (double)v;
	}
	if (!interp_is_integer(type))
		return interp_double(type, v);
	return interp_is_signed(type) ? (double)interp_signed(v, ptx_type_bits[type]) : (double)v;
}

/* Element n of a lane's fragment, whose registers have 32 bits, or 64 for f64. */
static double fragment(struct thread *t, const struct operand *o, unsigned type, unsigned n)
{
	unsigned bits = bits_of(type), per = bits == 64 ? 1 : 32 / bits;
	const struct operand *r = o->kind == OPERAND_VECTOR ? &o->elements[n / per] : o;
	uint64_t v = thread_read(t, r, bits == 64 ? TYPE_b64 : TYPE_b32);

	return element(type, interp_low(v >> n % per * bits, bits));
}

/* ---- mma ---- */

/* Where element n of a lane's part of A is. Of B it is the same with rows and columns exchanged, and 8 columns. */
static void place(
	unsigned lane, unsigned type, unsigned rows, unsigned n, unsigned *row, unsigned *column)
{
	unsigned bits = bits_of(type), per = bits == 64 ? 1 : 32 / bits, part = n / per;

	*row = lane / 4 + (rows == 16 && part % 2 ? 8 : 0);
	*column = lane % 4 * per + n % per + part / (rows / 8) * 4 * per;
}

static void read_factors(struct thread *warp, const struct inst *i, struct product *p)
{
	unsigned row, column, rows = p->shape.rows, depth = p->shape.depth;

	for (unsigned lane = 0; lane < 32; lane++) {
		for (unsigned n = 0; n < rows * depth / 32; n++) {
			place(lane, p->a, rows, n, &row, &column);
			p->left[row][column] = fragment(&warp[lane], &i->operands[1], p->a, n);
		}
		for (unsigned n = 0; n < COLUMNS * depth / 32; n++) {
			place(lane, p->b, COLUMNS, n, &column, &row);
			p->right[row][column] = fragment(&warp[lane], &i->operands[2], p->b, n);
		}
		for (unsigned n = 0; n < rows * COLUMNS / 32; n++)
			p->sum[lane / 4 + n / 2 * 8][lane % 4 * 2 + n % 2] =
				fragment(&warp[lane], &i->operands[3], p->c, n);
	}
}

static void multiply(const struct inst *i, struct product *p)
{
	for (unsigned r = 0; r < p->shape.rows; r++)
		for (unsigned c = 0; c < COLUMNS; c++)
			for (unsigned k = 0; k < p->shape.depth; k++) {
				double x = p->left[r][k], y = p->right[k][c];

				if (inst_has(i, MOD_xor))
					p->sum[r][c] += x != y;
				else if (p->d == TYPE_f64)
					p->sum[r][c] = fma(x, y, p->sum[r][c]);
				else
					p->sum[r][c] += x * y;
			}
}

static uint64_t rounded(const struct inst *i, unsigned type, double v)
{
	uint64_t bits = 0;
	_Float16 h = (_Float16)v;
	float f = (float)v;

	switch (type) {
	case TYPE_f16:
		memcpy(&bits, &h, 2);
		return bits;
	case TYPE_f32:
		memcpy(&bits, &f, 4);
		return bits;
	case TYPE_f64:
		memcpy(&bits, &v, 8);
		return bits;
	}
	if (inst_has(i, MOD_satfinite))
		v = fmin(fmax(v, INT32_MIN), INT32_MAX);
	return (uint32_t)(int64_t)v;
}

static void write_product(struct thread *warp, const struct inst *i, const struct product *p)
{
	const struct operand *d = &i->operands[0];

	for (unsigned lane = 0; lane < 32; lane++)
		for (unsigned r = 0; r < p->shape.rows / 8; r++) {
			uint64_t v[2];

			for (unsigned n = 0; n < 2; n++)
				v[n] = rounded(i, p->d, p->sum[lane / 4 + r * 8][lane % 4 * 2 + n]);
			if (p->d == TYPE_f16) {
				thread_write(
					&warp[lane], &d->elements[r], TYPE_b32, v[0] | v[1] << 16);
				continue;
			}
			for (unsigned n = 0; n < 2; n++)
				thread_write(&warp[lane], &d->elements[r * 2 + n], p->d, v[n]);
		}
}

static const struct {
	unsigned modifier;
	struct shape shape;
} shapes[] = {
	{MOD_m8n8k4, {8, 4}},
	{MOD_m8n8k16, {8, 16}},
	{MOD_m8n8k32, {8, 32}},
	{MOD_m8n8k128, {8, 128}},
	{MOD_m16n8k4, {16, 4}},
	{MOD_m16n8k8, {16, 8}},
	{MOD_m16n8k16, {16, 16}},
	{MOD_m16n8k32, {16, 32}},
	{MOD_m16n8k64, {16, 64}},
	{MOD_m16n8k128, {16, 128}},
	{MOD_m16n8k256, {16, 256}},
};

/* Of an instruction that the parser took: types of A and B that only matrices have are modifiers. */
static struct product product_of(const struct inst *i)
{
	struct product p = {.d = i->types[0], .a = i->types[1], .b = i->types[2], .c = i->types[3]};
	unsigned found = 0;

	for (size_t k = 0; k < sizeof(shapes) / sizeof(*shapes); k++)
		if (inst_has(i, shapes[k].modifier))
			p.shape = shapes[k].shape;
	if (i->type_count == 4)
		return p;
	p.c = i->types[1];
	for (unsigned k = 0; k < i->modifier_count; k++)
		switch (i->modifiers[k]) {
		case MOD_tf32:
		case MOD_e4m3:
		case MOD_e5m2:
		case MOD_s4:
		case MOD_u4:
		case MOD_b1:
			*(found++ ? &p.b : &p.a) = TYPE_COUNT + i->modifiers[k];
		}
	return p;
}

/* ---- tiles of 8 by 8 elements of 16 bits ---- */

static unsigned tiles_of(const struct inst *i)
{
	return inst_has(i, MOD_x4) ? 4 : inst_has(i, MOD_x2) ? 2 : 1;
}

/* Lane 4r + c / 2 holds row r, columns c and c + 1; transposed, column r, rows c and c + 1. */
static void load_tile(struct thread *warp, const struct inst *i, unsigned tile)
{
	const struct operand *d = &i->operands[0];
	uint16_t rows[8][8];

	for (unsigned r = 0; r < 8; r++) {
		const uint8_t *p = thread_address(&warp[tile * 8 + r], i, &i->operands[1], 16);

		if (!p)
			return;
		memcpy(rows[r], p, 16);
	}
	for (unsigned lane = 0; lane < 32; lane++) {
		unsigned r = lane / 4, c = lane % 4 * 2;
		bool turned = inst_has(i, MOD_trans);
		uint32_t low = turned ? rows[c][r] : rows[r][c];
		uint32_t high = turned ? rows[c + 1][r] : rows[r][c + 1];

		thread_write(&warp[lane], d->kind == OPERAND_VECTOR ? &d->elements[tile] : d,
			TYPE_b32, low | high << 16);
	}
}

static void store_tile(struct thread *warp, const struct inst *i, unsigned tile)
{
	const struct operand *s = &i->operands[1];

	for (unsigned lane = 0; lane < 32; lane++) {
		uint32_t v = (uint32_t)thread_read(
			&warp[lane], s->kind == OPERAND_VECTOR ? &s->elements[tile] : s, TYPE_b32);

		for (unsigned n = 0; n < 2; n++) {
			unsigned r = lane / 4, c = lane % 4 * 2 + n;
			bool turned = inst_has(i, MOD_trans);
			uint16_t e = (uint16_t)(v >> n * 16);
			uint8_t *p = thread_address(
				&warp[tile * 8 + (turned ? c : r)], i, &i->operands[0], 16);

			if (!p)
				return;
			memcpy(p + (turned ? r : c) * 2, &e, 2);
		}
	}
}

static void turn(struct thread *warp, const struct inst *i)
{
	uint16_t m[8][8];

	for (unsigned lane = 0; lane < 32; lane++) {
		uint32_t v = (uint32_t)thread_read(&warp[lane], &i->operands[1], TYPE_b32);

		m[lane / 4][lane % 4 * 2] = (uint16_t)v;
		m[lane / 4][lane % 4 * 2 + 1] = (uint16_t)(v >> 16);
	}
	for (unsigned lane = 0; lane < 32; lane++)
		thread_write(&warp[lane], &i->operands[0], TYPE_b32,
			m[lane % 4 * 2][lane / 4] | (uint32_t)m[lane % 4 * 2 + 1][lane / 4] << 16);
}

void interp_matrix(struct thread *warp, uint32_t lanes)
{
	const struct inst *i = warp->at;

	if (lanes != UINT32_MAX) {
		thread_fails(warp, INTERP_WRONG, "a matrix of lanes %#x", lanes);
	} else if (i->op == OP_mma) {
		struct product p = product_of(i);

		read_factors(warp, i, &p);
		multiply(i, &p);
		write_product(warp, i, &p);
	} else if (i->op == OP_movmatrix) {
		turn(warp, i);
	} else {
		for (unsigned k = 0; k < tiles_of(i); k++)
			(i->op == OP_ldmatrix ? load_tile : store_tile)(warp, i, k);
	}
}
