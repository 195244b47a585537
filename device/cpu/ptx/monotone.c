/* SPDX-License-Identifier: MIT
 *
 * Guards that only the last threads of a block, or only the first, can pass, as `if (i < n)` with i = blockIdx.x *
 * blockDim.x + threadIdx.x: what they compare grows with the thread's index along each axis. Whether any thread passes,
 * and whether all do, the first and the last thread of the block say, and nobody counts.
 *
 * Only guards that all threads of the block come to: which threads take a side must be known exactly, as what is the same
 * for the block is computed for a region whenever its loop is entered.
 */
#include <string.h>

#include "device/cpu/ptx/gen.h"

enum { MAX_DEPTH = 12 };

struct growth {         /* of a value of 32 bits, as a number with a sign */
	bool grows;     /* with the thread's index, or stays; false: it is the same for the block */
	int64_t lo, hi; /* which it never leaves, and so never wraps */
};

static bool fits(const struct growth *v)
{
	return v->lo >= INT32_MIN && v->hi <= INT32_MAX;
}

static bool special_growth(const struct work *w, uint32_t id, struct growth *v)
{
	unsigned axis = id % 4;
	int64_t n = axis < 3 ? w->block[axis] : 0, threads = axis < 3 ? work_width(w, axis) : 0;

	_Static_assert(SPECIAL_TID == 0 && SPECIAL_NCTAID == 12, "four each");
	if (id > SPECIAL_NCTAID + 2 || axis == 3)
		return false;
	switch (id - axis) {
	case SPECIAL_TID:
		*v = (struct growth){threads > 1, 0, threads - 1};
		return true;
	case SPECIAL_NTID:
		*v = (struct growth){false, n, n};
		return true;
	case SPECIAL_CTAID: /* assume_ranges() */
		/* Of fused blocks only their index is computed, which is below 2^31 though its parts' limits add up to more. */
		*v = (struct growth){
			false, 0, (INT64_C(1) << 31) / n - (axis ? 1 : (int64_t)w->fused)};
		return true;
	}
	*v = (struct growth){false, 0, (INT64_C(1) << 31) / n};
	return fits(v);
}

static bool growth_of(
	const struct work *w, const struct operand *o, unsigned depth, struct growth *v);

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* A factor that shrinks what grows is none of ours. */
static bool multiply(const struct growth *a, const struct growth *b, struct growth *v)
{
	if (a->lo < 0 || b->lo < 0)
		return false;
	*v = (struct growth){a->grows || b->grows, a->lo * b->lo, a->hi * b->hi};
	return fits(v);
}

static bool add(const struct growth *a, const struct growth *b, struct growth *v)
{
	*v = (struct growth){a->grows || b->grows, a->lo + b->lo, a->hi + b->hi};
	return fits(v);
}

static bool inst_growth(
	const struct work *w, const struct inst *i, unsigned depth, struct growth *v)
{
	struct growth a, b, c;
	unsigned type = i->type_count ? i->types[0] : TYPE_NONE;

	if (i->dest_count != 1 || i->type_count != 1 || ptx_type_bits[type] != 32 ||
		!strchr("sub", ptx_type_class[type]) || inst_has(i, MOD_cc) ||
		inst_has(i, MOD_sat) || inst_has(i, MOD_hi) || inst_has(i, MOD_relu) ||
		!growth_of(w, &i->operands[1], depth, &a))
		return false;
	if (i->op == OP_mov) {
		*v = a;
		return true;
	}
	if (i->operand_count < 3 || !growth_of(w, &i->operands[2], depth, &b))
		return false;
	switch (i->op) {
	case OP_add:
		return add(&a, &b, v);
	case OP_sub:
		b = (struct growth){b.grows, -b.hi, -b.lo};
		return !b.grows && add(&a, &b, v);
	case OP_mul:
		return multiply(&a, &b, v);
	case OP_mad:
		return multiply(&a, &b, &c) && growth_of(w, &i->operands[3], depth, &a) &&
		       add(&c, &a, v);
	case OP_shl:
		if (b.lo != b.hi || b.lo < 0 || b.lo > 30)
			return false;
		b.lo = b.hi = INT64_C(1) << b.lo;
		return multiply(&a, &b, v);
	case OP_max:
	case OP_min:
		if (type != TYPE_s32 && (a.lo < 0 || b.lo < 0))
			return false;
		*v = (struct growth){a.grows || b.grows,
			i->op == OP_max ? most(a.lo, b.lo) : least(a.lo, b.lo),
			i->op == OP_max ? most(a.hi, b.hi) : least(a.hi, b.hi)};
		return true;
	}
	return false;
}

static bool growth_of(
	const struct work *w, const struct operand *o, unsigned depth, struct growth *v)
{
	const struct work_reg *r;

	if (!depth || o->negated || o->memory)
		return false;
	if (o->kind == OPERAND_INT && !o->literal) {
		*v = (struct growth){false, (int32_t)o->bits, (int32_t)o->bits};
		return true;
	}
	if (o->kind == OPERAND_SPECIAL)
		return special_growth(w, o->id, v);
	if (o->kind != OPERAND_REG)
		return false;
	r = &w->regs[o->id];
	if (ptx_type_bits[r->type] != 32)
		return false;
	if (r->single && inst_growth(w, &w->insts[r->def], depth - 1, v))
		return true;
	*v = (struct growth){false, INT32_MIN, INT32_MAX};
	return !r->divergent;
}

bool monotone_limits(const struct work *w, const struct operand *o, int64_t *lo, int64_t *hi)
{
	struct growth v;

	if (!growth_of(w, o, MAX_DEPTH, &v) || !v.grows)
		return false;
	*lo = v.lo;
	*hi = v.hi;
	return true;
}

/* +1: if a thread passes, those after it do; -1: if it does not, those after it do not; 0: neither is known. */
static int direction(const struct work *w, uint32_t reg, unsigned depth)
{
	const struct inst *i = &w->insts[w->regs[reg].def];
	struct growth a, b;
	int way;

	if (!depth || !w->regs[reg].single || i->dest_count != 1 || i->type_count != 1 ||
		i->operands[0].kind != OPERAND_REG || i->operand_count < 3)
		return 0;
	if ((i->op == OP_or || i->op == OP_and) && i->types[0] == TYPE_pred) {
		if (i->operands[1].kind != OPERAND_REG || i->operands[2].kind != OPERAND_REG ||
			i->operands[1].negated || i->operands[2].negated)
			return 0;
		way = direction(w, i->operands[1].id, depth - 1);
		return way == direction(w, i->operands[2].id, depth - 1) ? way : 0;
	}
	if (i->op != OP_setp || i->operand_count != 3 || i->modifier_count != 1 ||
		(i->types[0] != TYPE_s32 && i->types[0] != TYPE_u32) ||
		!growth_of(w, &i->operands[1], MAX_DEPTH, &a) ||
		!growth_of(w, &i->operands[2], MAX_DEPTH, &b) || a.grows == b.grows)
		return 0;
	if (i->types[0] == TYPE_u32 && (a.grows ? a.lo : b.lo) < 0)
		return 0;
	switch (i->modifiers[0]) {
	case MOD_gt:
	case MOD_ge:
		return a.grows ? 1 : -1;
	case MOD_lt:
	case MOD_le:
		return a.grows ? -1 : 1;
	}
	return 0;
}

bool monotone_branch(const struct gen *g, uint32_t branch)
{
	const struct work_block *b = &g->work->blocks[branch];
	const struct inst *last = block_last(g->work, b);
	const struct guard *split = plan_guard(g->plan, branch);

	return b->context == PTX_NONE && last->op == OP_bra && last->guard != PTX_NONE &&
	       !(split && split->passed) && g->work->regs[last->guard].pure &&
	       direction(g->work, last->guard, MAX_DEPTH) != 0;
}

LLVMValueRef monotone_value(struct gen *g, uint32_t reg, bool last)
{
	uint64_t *done = work_alloc(g->work, (g->work->reg_count / 64 + 1) * 8);
	LLVMBuilderRef b = g->b;
	LLVMValueRef tid[3], linear = g->linear, v;
	bool in_body = g->in_body;

	if (!done)
		return LLVMGetUndef(reg_type(g, reg));
	for (unsigned k = 0; k < 3; k++) {
		tid[k] = g->tid[k];
		g->tid[k] = LLVMConstNull(g->i32);
		if (last)
			g->tid[k] = LLVMBuildSub(
				g->scalar, thread_count(g, k), LLVMConstInt(g->i32, 1, false), "");
	}
	g->linear = LLVMConstInt(g->i32, last ? g->work->threads - 1 : 0, false);
	g->b = g->scalar;
	g->in_body = false;
	rematerialise(g, reg, done);
	v = reg_read(g, reg);
	for (unsigned k = 0; k < 3; k++)
		g->tid[k] = tid[k];
	g->linear = linear;
	g->b = b;
	g->in_body = in_body;
	return v;
}

LLVMValueRef monotone_any(struct gen *g, uint32_t branch, uint32_t side)
{
	const struct inst *last = block_last(g->work, &g->work->blocks[branch]);
	bool passes = (side == 0) != last->guard_negated; /* side 0 is the taken one */
	int way = direction(g->work, last->guard, MAX_DEPTH);
	LLVMValueRef v = monotone_value(g, last->guard, passes == (way > 0));

	return passes ? v : LLVMBuildNot(g->scalar, v, "");
}
