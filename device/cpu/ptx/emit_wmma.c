/* SPDX-License-Identifier: MIT
 *
 * wmma: matrices that a warp loads, multiplies and stores without knowing which lane has what. Here a matrix lies row by row
 * in the lanes of its first register, then in those of the next one (builtins_wmma.h).
 */
#include "device/cpu/ptx/emit_matrix.h"

#define ANY(type) (1u << MATRIX_##type)
#define HALVES (ANY(F16) | ANY(BF16))
#define BYTES (ANY(S8) | ANY(U8))
#define NIBBLES (ANY(S4) | ANY(U4))

static const struct wmma_shape {
	uint8_t modifier, m, n, k;
	uint32_t types; /* of A and B */
} shapes[] = {
	{MOD_m16n16k16, 16, 16, 16, HALVES | BYTES},
	{MOD_m32n8k16, 32, 8, 16, HALVES | BYTES},
	{MOD_m8n32k16, 8, 32, 16, HALVES | BYTES},
	{MOD_m16n16k8, 16, 16, 8, ANY(TF32)},
	{MOD_m8n8k4, 8, 8, 4, ANY(F64)},
	{MOD_m8n8k32, 8, 8, 32, NIBBLES},
	{MOD_m8n8k128, 8, 8, 128, ANY(B1)},
};

static const struct wmma_shape *find_shape(const struct inst *i)
{
	for (size_t k = 0; k < sizeof(shapes) / sizeof(*shapes); k++)
		if (inst_has(i, shapes[k].modifier))
			return &shapes[k];
	return NULL;
}

static unsigned bits_of(unsigned type)
{
	switch (type) {
	case MATRIX_F64:
		return 64;
	case MATRIX_F16:
	case MATRIX_BF16:
		return 16;
	case MATRIX_S8:
	case MATRIX_U8:
		return 8;
	case MATRIX_S4:
	case MATRIX_U4:
		return 4;
	case MATRIX_B1:
		return 1;
	}
	return 32;
}

/* Registers of a lane. A and B of halves have each element twice. */
static unsigned registers(unsigned type, unsigned elements, bool factor)
{
	unsigned bits = bits_of(type);

	if (factor && type == MATRIX_F16)
		return 8;
	return bits == 64 ? elements / 32 : elements * bits / 1024;
}

/* ---- loading and storing ---- */

struct piece {
	unsigned rows, columns, type;
	bool factor;
};

static bool find_piece(const struct inst *i, const struct wmma_shape *s, struct piece *p)
{
	bool a = inst_has(i, MOD_a), b = inst_has(i, MOD_b);

	*p = (struct piece){.rows = b ? s->k : s->m, .columns = a ? s->k : s->n, .factor = a || b};
	if (i->type_count == 1)
		p->type = matrix_type(i->types[0]);
	for (unsigned k = 0; k < i->modifier_count && !i->type_count; k++)
		p->type = p->type ? p->type : matrix_only_type(i->modifiers[k]);
	if (a + b + inst_has(i, MOD_c) + inst_has(i, MOD_d) != 1 ||
		inst_has(i, MOD_d) != inst_has(i, MOD_store) || !p->type)
		return false;
	if (p->factor)
		return s->types >> p->type & 1;
	for (unsigned type = 1; type < 32; type++)
		if (s->types >> type & 1 && matrix_sums(type) >> p->type & 1)
			return true;
	return false;
}

static bool find_transfer(const struct inst *i, const struct wmma_shape *s, struct warp_call *c)
{
	bool store = inst_has(i, MOD_store), turned = inst_has(i, MOD_col);
	const struct operand *values = &i->operands[store], *address = &i->operands[!store];
	struct piece p;

	if (!find_piece(i, s, &p) || turned == inst_has(i, MOD_row) || i->operand_count > 3 ||
		!address->memory || values->memory)
		return false;
	unsigned bits = bits_of(p.type), count = registers(p.type, p.rows * p.columns, p.factor);
	if (matrix_operands(values) != count)
		return false;
	c->builtin = store ? "ptx_wmma_store" : "ptx_wmma_load";
	c->addresses = true;
	c->count = 7;
	c->numbers[6] = 1; /* elements of what is moved at once */
	if (bits < 8) {    /* words, along the depth: A by rows, B by columns */
		if (turned != inst_has(i, MOD_b))
			return false;
		p.rows = inst_has(i, MOD_b) ? s->n : s->m;
		p.columns = s->k * bits / 32;
		turned = false;
		c->numbers[6] = 32 / bits;
		bits = 32;
	}
	c->numbers[0] = p.rows;
	c->numbers[1] = p.columns;
	c->numbers[2] = bits;
	c->numbers[3] = count;
	c->numbers[4] = turned;
	c->numbers[5] = i->operand_count == 3; /* the stride is said */
	return true;
}

LLVMValueRef wmma_check(struct gen *g, const struct inst *i, const struct warp_call *c,
	LLVMValueRef arguments[2], LLVMValueRef thread)
{
	uint32_t rows = (uint32_t)c->numbers[c->numbers[4] ? 1 : 0];
	uint32_t columns = (uint32_t)c->numbers[c->numbers[4] ? 0 : 1];
	uint32_t bytes = (uint32_t)c->numbers[2] / 8, registers = (uint32_t)c->numbers[3];
	bool store = inst_has(i, MOD_store);
	uint64_t array = (g->work->threads + 31ull) / 32 * 32 * c->element;
	LLVMValueRef leading = gen_int(g, columns), address;
	/* The manual wants each row to be aligned as a lane's part is large; hardware needs no more than 16 bytes. */
	struct ptx_access access = {
		.align = (uint8_t)(registers * c->element < 16 ? registers * c->element : 16),
		.kind = store ? PTX_WRITES : PTX_READS};

	if (c->numbers[5]) {
		leading = LLVMBuildLoad2(g->b, g->i32,
			gen_gep(g, g->b, arguments[1], gen_int(g, store ? registers * array : 0)),
			"");
		leading = LLVMBuildUDiv(
			g->b, leading, LLVMConstInt(g->i32, c->numbers[6], false), "");
		leading = LLVMBuildZExt(g->b, leading, g->i64, "");
	}
	address = LLVMBuildLoad2(g->b, g->i64, arguments[0], "");
	return checked_rows(g, access, inst_space(i), address,
		LLVMConstInt(g->i32, columns * bytes, false), rows,
		LLVMBuildMul(g->b, leading, gen_int(g, bytes), ""), thread);
}

/* ---- multiplying ---- */

static bool find_types(const struct inst *i, unsigned types[4])
{
	if (matrix_types(i, types))
		return true;
	if (i->type_count != 2)
		return false;
	for (unsigned k = 0; k < i->modifier_count; k++)
		if (matrix_only_type(i->modifiers[k]))
			return false;
	types[0] = matrix_type(i->types[0]);
	types[1] = types[2] = MATRIX_F16;
	types[3] = matrix_type(i->types[1]);
	return true;
}

static bool find_product(const struct inst *i, const struct wmma_shape *s, struct warp_call *c)
{
	unsigned types[4] = {0}, operation;

	if (i->operand_count != 4 || !find_types(i, types) || types[1] != types[2] ||
		!(s->types >> types[1] & 1) || !(matrix_sums(types[1]) >> types[0] & 1) ||
		!(matrix_sums(types[1]) >> types[3] & 1) ||
		!matrix_operation(i, types[1], &operation))
		return false;
	unsigned elements[4] = {(unsigned)s->m * s->n, (unsigned)s->m * s->k, (unsigned)s->k * s->n,
		(unsigned)s->m * s->n};
	for (unsigned k = 0; k < 4; k++)
		if (matrix_operands(&i->operands[k]) !=
			registers(types[k], elements[k], k == 1 || k == 2))
			return false;
	c->builtin = "ptx_wmma";
	c->count = 7;
	c->numbers[0] = s->m;
	c->numbers[1] = s->n;
	c->numbers[2] = s->k;
	c->numbers[3] = types[1];
	c->numbers[4] = types[3];
	c->numbers[5] = types[0];
	c->numbers[6] = operation;
	return true;
}

bool wmma_call(const struct inst *i, struct warp_call *c)
{
	const struct wmma_shape *s = find_shape(i);

	if (!s || !inst_has(i, MOD_sync))
		return false;
	return inst_has(i, MOD_mma) ? find_product(i, s, c) : find_transfer(i, s, c);
}
