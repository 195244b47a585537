/* SPDX-License-Identifier: MIT
 *
 * What the next block will touch. A block of several short rows goes through memory in strides of an array's rows, which
 * processors do not foresee: of 16 x 16 floats each row is a line of the cache somewhere else, and the block waits for most of
 * them. So a block begins by asking for the lines at which the block behind it along x has its own addresses.
 *
 * Asked for is what all threads touch whatever their guards, in device memory, at addresses that follow from the
 * parameters and a thread's place alone. That the address is right is not needed: a prefetch does not fault.
 *
 * What is loaded is asked into the second cache: where an array's rows are 4 KiB apart, those of a block share so few lines of
 * the first one that they would push each other out, and what this block uses. There is no such way to ask for a line to store to.
 */
#include "device/cpu/ptx/gen.h"

enum {
	LINE_BYTES = 64,
	MOST_LINES = 2,     /* of a row: longer ones processors go through by themselves */
	MOST_ADDRESSES = 6, /* of a block, each row of which is asked for */
	MOST_COST = 48,     /* instructions that make an address */
};

/* Of what llvm.prefetch calls locality. */
enum { SECOND_CACHE = 2, FIRST_CACHE };

struct access {
	uint32_t reg, bytes;
	int64_t offset;
	bool stores;
};

struct finder {
	const struct work *work;
	struct access list[MOST_ADDRESSES];
	unsigned count;
};

/* Whether it loads one of the kernel's. */
static bool is_parameter(const struct work *w, const struct inst *i)
{
	for (uint32_t k = 0; k < w->entry->param_count; k++)
		if (i->operand_count == 2 && inst_space(i) == SPACE_PARAM &&
			i->operands[1].kind == OPERAND_SYMBOL &&
			i->operands[1].var == w->entry->params[k])
			return true;
	return false;
}

/* What computing the operand from nothing but parameters and special registers costs; more than MOST_COST: it cannot be. */
static unsigned cost_of(const struct work *w, const struct operand *o, unsigned left)
{
	const struct inst *i;
	unsigned cost = 1;

	if (o->kind == OPERAND_INT || o->kind == OPERAND_SPECIAL)
		return o->kind == OPERAND_SPECIAL && o->id > SPECIAL_NCTAID + 2 ? MOST_COST + 1 : 0;
	if (!left || o->kind != OPERAND_REG || !w->regs[o->id].single)
		return MOST_COST + 1;
	i = &w->insts[w->regs[o->id].def];
	if (i->op == OP_ld)
		return is_parameter(w, i) ? 1 : MOST_COST + 1;
	if (!(ptx_opcodes[i->op].flags & OPF_CHEAP) || i->dest_count != 1 || inst_has(i, MOD_cc) ||
		i->op == OP_mapa || i->op == OP_getctarank ||
		(i->op == OP_cvta && inst_space(i) == SPACE_LOCAL))
		return MOST_COST + 1;
	for (unsigned k = 1; k < i->operand_count && cost <= MOST_COST; k++)
		cost += cost_of(w, &i->operands[k], left - 1);
	return cost;
}

static void consider(struct finder *f, const struct inst *i)
{
	const struct work *w = f->work;
	bool stores = i->op == OP_st;
	const struct operand *a = &i->operands[stores ? 0 : 1];

	if ((!stores && !inst_is_load(i)) || inst_space(i) != SPACE_GLOBAL || i->type_count != 1 ||
		a->kind != OPERAND_REG || !w->regs[a->id].divergent || f->count == MOST_ADDRESSES ||
		w->block[0] * (ptx_type_bits[i->types[0]] / 8u) > MOST_LINES * LINE_BYTES ||
		cost_of(w, a, MOST_COST) > MOST_COST)
		return;
	for (unsigned k = 0; k < f->count; k++)
		if (f->list[k].reg == a->id)
			return;
	f->list[f->count++] =
		(struct access){a->id, ptx_type_bits[i->types[0]] / 8u, a->bits, stores};
}

/* The accesses in the blocks that all threads come to. */
static void find_accesses(struct finder *f)
{
	const struct work *w = f->work;
	uint32_t b = 0;

	for (uint32_t steps = 0; b < w->block_count && steps < w->block_count; steps++) {
		const struct work_block *x = &w->blocks[b];

		for (uint32_t n = x->first; n < x->end; n++)
			consider(f, &w->insts[n]);
		b = x->exits ? w->block_count : x->succ_count == 1 ? x->succ[0] : x->ipdom;
	}
}

static void ask_for(struct gen *g, const struct access *a, uint64_t *done)
{
	unsigned id = LLVMLookupIntrinsicID("llvm.prefetch", 13);
	LLVMValueRef f = LLVMGetIntrinsicDeclaration(g->module, id, &g->ptr, 1);
	LLVMValueRef address;

	rematerialise(g, a->reg, done);
	address = emit_coerce(g, reg_read(g, a->reg), g->i64);
	for (uint32_t at = 0; at < g->work->block[0] * a->bytes; at += LINE_BYTES) {
		LLVMValueRef p =
			LLVMBuildAdd(g->b, address, gen_int(g, (uint64_t)a->offset + at), "");
		LLVMValueRef arguments[4] = {gen_gep(g, g->b, g->mem, p),
			LLVMConstInt(g->i32, a->stores, false),
			LLVMConstInt(g->i32, a->stores ? FIRST_CACHE : SECOND_CACHE, false),
			LLVMConstInt(g->i32, 1, false)};

		LLVMBuildCall2(g->b, LLVMGlobalGetValueType(f), f, arguments, 4, "");
	}
}

/* A loop over the rows of the next block. */
static void ask_for_rows(struct gen *g, const struct finder *f)
{
	uint32_t rows = g->work->block[1] * g->work->block[2];
	LLVMValueRef zero = LLVMConstNull(g->i32), one = LLVMConstInt(g->i32, 1, false);
	LLVMValueRef ctaid = g->ctaid[0], width = LLVMConstInt(g->i32, g->work->block[1], false);
	LLVMBasicBlockRef before = LLVMGetInsertBlock(g->b), loop = gen_block(g, "ahead"),
			  behind = gen_block(g, "begin");
	uint64_t *done = work_alloc(g->work, (g->work->reg_count / 64 + 1) * 8);

	if (!done)
		return;
	LLVMBuildBr(g->b, loop);
	LLVMPositionBuilderAtEnd(g->b, loop);
	LLVMValueRef row = LLVMBuildPhi(g->b, g->i32, "row");
	g->tid[0] = g->linear = zero;
	g->tid[1] = LLVMBuildURem(g->b, row, width, "");
	g->tid[2] = LLVMBuildUDiv(g->b, row, width, "");
	g->ctaid[0] = LLVMBuildAdd(g->b, ctaid, one, "");
	for (unsigned k = 0; k < f->count; k++)
		ask_for(g, &f->list[k], done);
	g->ctaid[0] = ctaid;
	LLVMValueRef next = LLVMBuildNUWAdd(g->b, row, one, "");
	LLVMValueRef more =
		LLVMBuildICmp(g->b, LLVMIntNE, next, LLVMConstInt(g->i32, rows, false), "");
	LLVMAddIncoming(row, (LLVMValueRef[]){zero, next}, (LLVMBasicBlockRef[]){before, loop}, 2);
	LLVMBuildCondBr(g->b, more, loop, behind);
	LLVMPositionBuilderAtEnd(g->b, behind);
}

void prefetch_next(struct gen *g)
{
	struct work *w = g->work;
	struct finder f = {.work = w};
	bool *scalar;

	if (w->fused > 1 || w->block[1] * w->block[2] < 2)
		return;
	find_accesses(&f);
	scalar = work_alloc(w, (w->reg_count + 1) * sizeof(*scalar));
	if (!f.count || w->error)
		return;
	/* Nothing has been computed yet. */
	for (uint32_t r = 0; r < w->reg_count; r++) {
		scalar[r] = w->regs[r].scalar;
		w->regs[r].scalar = false;
	}
	g->b = g->scalar;
	ask_for_rows(g, &f);
	for (uint32_t r = 0; r < w->reg_count; r++)
		w->regs[r].scalar = scalar[r];
}
