/* SPDX-License-Identifier: MIT
 *
 * wgmma.mma_async: products of four warps, whose factors lie in shared memory, or A in registers. What asks for one waits until
 * all four warps do; then each computes its 16 rows at once. So there is nothing to wait for afterwards: fence, commit_group
 * and wait_group become nothing (inline.c).
 *
 * Operands: D, A, B, whether D is added to; then numbers, which say whether A and B are negated, and how they lie; at last D
 * as a source, which the parser puts there.
 */
#include "device/cpu/ptx/emit_matrix.h"

enum { SUM, LEFT, RIGHT, ADDS, NUMBERS };

struct factors { /* types of A that have it */
	uint32_t types;
	uint16_t depth, scales,
		turns; /* turns: how many numbers say how a matrix of shared memory lies */
};

static const struct factors kinds[] = {
	{1u << MATRIX_F16 | 1u << MATRIX_BF16, 16, 2, 1},
	{1u << MATRIX_TF32, 8, 2, 0},
	{1u << MATRIX_E4M3 | 1u << MATRIX_E5M2, 32, 2, 0},
	{1u << MATRIX_S8 | 1u << MATRIX_U8, 32, 0, 0},
	{1u << MATRIX_B1, 256, 0, 0},
};

unsigned wgmma_descriptors(const struct inst *i)
{
	return i->operands[LEFT].kind == OPERAND_VECTOR ? 1 : 2;
}

bool wgmma_is_descriptor(const struct inst *i, unsigned k)
{
	return i->op == OP_wgmma && (k == RIGHT || (k == LEFT && wgmma_descriptors(i) == 2));
}

bool wgmma_is_number(const struct inst *i, unsigned k)
{
	return i->op == OP_wgmma && k >= NUMBERS && k + 1 < i->operand_count;
}

static bool find_types(const struct inst *i, unsigned types[3])
{
	unsigned count = 0;

	for (unsigned k = 0; k < i->type_count && count < 3; k++)
		types[count++] = matrix_type(i->types[k]);
	for (unsigned k = 0; k < i->modifier_count; k++) {
		unsigned type = matrix_only_type(i->modifiers[k]);

		if (type && count == 3)
			return false;
		if (type)
			types[count++] = type;
	}
	return count == 3 && i->type_count != 2;
}

static bool find_flags(const struct inst *i, const struct factors *f, uint64_t *flags)
{
	unsigned matrices = wgmma_descriptors(i), turns = f->turns * matrices;

	*flags = inst_has(i, MOD_satfinite) ? WGMMA_SATURATES : 0;
	if (i->operand_count != NUMBERS + f->scales + turns + 1u)
		return false;
	for (unsigned k = 0; k < f->scales + turns; k++) {
		const struct operand *o = &i->operands[NUMBERS + k];
		bool turn = k >= f->scales, set = o->bits == (turn ? 1 : -1);

		if (o->kind != OPERAND_INT || o->memory || (!set && o->bits != !turn))
			return false;
		if (!turn && set)
			*flags ^= WGMMA_NEGATED;
		else if (set)
			*flags |= k + 1 == f->scales + turns ? WGMMA_B_TURNED : WGMMA_A_TURNED;
	}
	return true;
}

/* Integers have fewer shapes. */
static bool has_columns(const struct inst *i, const struct factors *f)
{
	unsigned n = i->columns;

	return n >= 8 && n <= 256 && !(n % 8) && (f->scales || n <= 24 || !(n % 16));
}

static bool has_operands(const struct inst *i, unsigned type)
{
	unsigned sums = i->columns / (type == MATRIX_F16 ? 4u : 2u);

	return i->operand_count > NUMBERS && matrix_operands(&i->operands[SUM]) == sums &&
	       (wgmma_descriptors(i) == 2 || matrix_operands(&i->operands[LEFT]) == 4) &&
	       i->operands[RIGHT].kind != OPERAND_VECTOR && !i->operands[LEFT].memory &&
	       !i->operands[RIGHT].memory && !i->operands[ADDS].memory;
}

bool wgmma_call(const struct inst *i, struct warp_call *c)
{
	const struct factors *f = NULL;
	unsigned types[3] = {0}, operation;

	if (!inst_has(i, MOD_sync) || !inst_has(i, MOD_aligned) || !find_types(i, types))
		return false;
	for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++)
		if (kinds[k].types >> types[1] & 1 && kinds[k].types >> types[2] & 1)
			f = &kinds[k];
	if (!f || i->depth != f->depth || !has_columns(i, f) || !has_operands(i, types[0]) ||
		!(matrix_sums(types[1]) >> types[0] & 1) ||
		((types[1] == MATRIX_F16 || types[1] == MATRIX_BF16) && types[1] != types[2]) ||
		!matrix_operation(i, types[1], &operation) || operation == MATRIX_XOR ||
		!find_flags(i, f, &c->numbers[5]))
		return false;
	c->builtin = "ptx_wgmma";
	c->addresses = c->shared = true;
	c->count = 6;
	c->numbers[0] = wgmma_descriptors(i);
	c->numbers[1] = i->columns;
	c->numbers[2] = types[1];
	c->numbers[3] = types[2];
	c->numbers[4] = types[0];
	return true;
}

LLVMValueRef wgmma_descriptor(struct gen *g, const struct inst *i, unsigned k)
{
	LLVMValueRef v = emit_operand(g, &i->operands[k], g->i64), low, bits = gen_int(g, 0x3fff);

	if (!g->shared_part)
		return v;
	/* Its address is within the window of the cluster, of which it has 18 bits. */
	low = LLVMBuildSub(g->b, v, LLVMBuildLShr(g->b, g->shared_part, gen_int(g, 4), ""), "");
	return LLVMBuildOr(g->b, LLVMBuildAnd(g->b, low, bits, ""),
		LLVMBuildAnd(g->b, v, LLVMBuildNot(g->b, bits, ""), ""), "");
}

LLVMValueRef wgmma_shared(struct gen *g)
{
	LLVMValueRef p = emit_address(
		g, &(struct operand){.kind = OPERAND_INT, .memory = true}, SPACE_SHARED);

	return emit_coerce(g, g->shared_part ? gen_gep(g, g->b, p, g->shared_part) : p, g->ptr);
}

void wgmma_check(
	struct gen *g, uint32_t line, LLVMValueRef descriptors, LLVMValueRef stride, uint64_t count)
{
	LLVMBasicBlockRef refuses = gen_block(g, "refuses"), fine = gen_block(g, "fine");
	LLVMValueRef a[] = {descriptors, stride, gen_int(g, count)};
	LLVMValueRef v = emit_builtin(g, "ptx_wgmma_refuses", a, 3);
	LLVMValueRef b[] = {g->launch, LLVMConstInt(g->i32, line, false)};

	v = LLVMBuildICmp(g->b, LLVMIntNE, v, LLVMConstNull(g->i32), "");
	LLVMBuildCondBr(g->b, v, refuses, fine);
	LLVMPositionBuilderAtEnd(g->b, refuses);
	call_runtime(g, offsetof(struct ptx_runtime, unsupported), g->none, b, 2);
	LLVMBuildUnreachable(g->b);
	LLVMPositionBuilderAtEnd(g->b, fine);
}
