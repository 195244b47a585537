/* SPDX-License-Identifier: MIT
 *
 * Guards that say between which indices along each axis the threads of a side are, as `if (tid.x < d)`, or as
 * `if (x < 1 || y < 1 || x >= n - 1 || y >= n - 1) return` of places x and y in a grid: the loops of that side's regions run over
 * those threads alone, instead of over all with a mask. Whether anybody takes the side is known without asking the threads.
 *
 * Such a guard is made of bounds, all of which hold on the side: comparisons of an index, tid along an axis plus what is
 * the same for the block, with a number of the block, and conditions of the block itself. An index must not wrap, which
 * monotone.c knows.
 *
 * Only guards around which all guards are of this kind narrow loops: which threads run a region must be known exactly,
 * as what is the same for the block is computed for a region whenever its loop is entered.
 */
#include "device/cpu/ptx/gen.h"

enum { MAX_BOUNDS = 12, MAX_DEPTH = 8 };

struct bound {        /* of the index along an axis by a number, or a condition of the block */
	int axis;     /* -1: a condition: a comparison, or, without `index`, what `number` says */
	unsigned how; /* MOD_lt, MOD_le or MOD_eq, of the threads that come first */
	bool is_signed, negated; /* negated: true for the other threads */
	const struct operand *index, *number;
};

struct bounds {
	const struct work *work;
	struct bound list[MAX_BOUNDS];
	unsigned count;
};

/* ---- what is an index, and what is a number ---- */

static bool is_number(const struct work *w, const struct operand *o)
{
	if (o->kind == OPERAND_REG)
		return w->regs[o->id].single && !w->regs[o->id].divergent &&
		       ptx_type_bits[w->regs[o->id].type] == 32;
	return o->kind == OPERAND_INT && !o->literal;
}

static bool same_for_block(const struct work *w, const struct operand *o)
{
	return o->kind != OPERAND_VECTOR && !o->memory && !operand_diverges(w, o);
}

/* The axis of an index, or -1. */
static int index_axis(const struct work *w, const struct operand *o, unsigned depth)
{
	const struct inst *i;

	if (o->kind == OPERAND_SPECIAL && o->id < SPECIAL_TID + 3)
		return work_width(w, o->id - SPECIAL_TID) > 1 ? (int)(o->id - SPECIAL_TID) : -1;
	if (!depth || o->kind != OPERAND_REG || o->negated || !w->regs[o->id].single)
		return -1;
	i = &w->insts[w->regs[o->id].def];
	if (i->dest_count != 1 || i->operands[0].kind != OPERAND_REG)
		return -1;
	switch (i->op) {
	case OP_mov:
		return index_axis(w, &i->operands[1], depth - 1);
	case OP_add:
		if (same_for_block(w, &i->operands[1]))
			return index_axis(w, &i->operands[2], depth - 1);
		return same_for_block(w, &i->operands[2])
			       ? index_axis(w, &i->operands[1], depth - 1)
			       : -1;
	case OP_sub:
		return same_for_block(w, &i->operands[2])
			       ? index_axis(w, &i->operands[1], depth - 1)
			       : -1;
	case OP_mad:
		return same_for_block(w, &i->operands[1]) && same_for_block(w, &i->operands[2])
			       ? index_axis(w, &i->operands[3], depth - 1)
			       : -1;
	}
	return -1;
}

/* tid itself, or a copy. */
static bool is_plain(const struct work *w, const struct operand *o)
{
	for (unsigned k = 0; k < MAX_DEPTH && o->kind == OPERAND_REG && w->regs[o->id].single &&
			     w->insts[w->regs[o->id].def].op == OP_mov;
		k++)
		o = &w->insts[w->regs[o->id].def].operands[1];
	return o->kind == OPERAND_SPECIAL;
}

/* Whether the operand is an index that can be computed for a single thread, and never is what it is not as a number. */
static bool is_index(const struct work *w, const struct operand *o, bool is_signed)
{
	int64_t lo, hi;

	if (index_axis(w, o, MAX_DEPTH) < 0)
		return false;
	return is_plain(w, o) ||
	       (w->regs[o->id].pure && monotone_limits(w, o, &lo, &hi) && (is_signed || lo >= 0));
}

/* ---- what bounds a guard is made of ---- */

static bool add_bound(struct bounds *b, struct bound bound)
{
	if (b->count == MAX_BOUNDS)
		return false;
	b->list[b->count++] = bound;
	return true;
}

/* lt and le stay, gt and ge are their opposites. */
static bool find_order(const struct inst *i, struct bound *c)
{
	static const struct {
		uint16_t modifier, how;
		bool negated;
	} orders[] = {{MOD_lt, MOD_lt, false}, {MOD_le, MOD_le, false}, {MOD_gt, MOD_le, true},
		{MOD_ge, MOD_lt, true}, {MOD_eq, MOD_eq, false}, {MOD_ne, MOD_eq, true}};

	for (size_t k = 0; k < sizeof(orders) / sizeof(*orders); k++)
		if (i->modifiers[0] == orders[k].modifier) {
			c->how = orders[k].how;
			c->negated = orders[k].negated;
			return true;
		}
	return false;
}

/* All but one thread: where that is the first that there may be, those behind it. */
static bool all_but_first(const struct work *w, struct bound *c)
{
	int64_t lo, hi;

	if (!monotone_limits(w, c->index, &lo, &hi) || c->number->kind != OPERAND_INT ||
		(int32_t)c->number->bits != lo || lo < 0)
		return false;
	c->how = MOD_le;
	return true;
}

static bool add_comparison(struct bounds *b, struct bound c, unsigned depth);

/* max(a, b) < n says a < n and b < n; likewise of min and the other order. */
static bool add_both(struct bounds *b, const struct bound *c, unsigned depth)
{
	const struct work *w = b->work;
	const struct operand *o = c->index;
	const struct inst *i;
	struct bound each = *c;

	if (!depth || o->kind != OPERAND_REG || !w->regs[o->id].single || c->how == MOD_eq)
		return false;
	i = &w->insts[w->regs[o->id].def];
	if (i->op != (c->negated ? OP_min : OP_max) || i->operand_count != 3 || i->modifier_count ||
		i->types[0] != (c->is_signed ? TYPE_s32 : TYPE_u32))
		return false;
	each.index = &i->operands[1];
	if (!add_comparison(b, each, depth - 1))
		return false;
	each.index = &i->operands[2];
	return add_comparison(b, each, depth - 1);
}

/* c->axis is still to be found. */
static bool add_comparison(struct bounds *b, struct bound c, unsigned depth)
{
	c.axis = -1;
	if (is_number(b->work, c.index))
		return add_bound(b, c);
	if (!is_index(b->work, c.index, c.is_signed))
		return add_both(b, &c, depth);
	c.axis = index_axis(b->work, c.index, MAX_DEPTH);
	if (c.how == MOD_eq && c.negated && !all_but_first(b->work, &c))
		return false;
	return add_bound(b, c);
}

/* The bounds that a comparison is, where it holds or where it does not. */
static bool add_setp(struct bounds *b, const struct inst *i, bool holds, unsigned depth)
{
	const struct work *w = b->work;
	struct bound c = {.index = &i->operands[1], .number = &i->operands[2]};

	if (i->operand_count != 3 || i->modifier_count != 1 || i->type_count != 1 ||
		(i->types[0] != TYPE_u32 && i->types[0] != TYPE_s32) || !find_order(i, &c))
		return false;
	c.is_signed = i->types[0] == TYPE_s32;
	c.negated ^= !holds;
	if (!is_number(w, c.number)) {
		const struct operand *o = c.index;

		c.index = c.number;
		c.number = o;
		if (c.how != MOD_eq) { /* n < t is not t <= n */
			c.how = c.how == MOD_lt ? MOD_le : MOD_lt;
			c.negated = !c.negated;
		}
	}
	return is_number(w, c.number) && add_comparison(b, c, depth);
}

static bool add_predicate(struct bounds *b, const struct operand *o, bool holds, unsigned depth)
{
	const struct work *w = b->work;
	const struct inst *i;

	if (!depth || o->kind != OPERAND_REG || !w->regs[o->id].single)
		return false;
	holds ^= o->negated;
	if (!w->regs[o->id].divergent)
		return add_bound(b, (struct bound){.axis = -1, .number = o, .negated = !holds});
	i = &w->insts[w->regs[o->id].def];
	if (i->dest_count != 1 || i->operands[0].kind != OPERAND_REG)
		return false;
	switch (i->op) {
	case OP_setp:
		return add_setp(b, i, holds, depth - 1);
	case OP_not:
		return add_predicate(b, &i->operands[1], !holds, depth - 1);
	case OP_and:
	case OP_or:
		return holds == (i->op == OP_and) &&
		       add_predicate(b, &i->operands[1], holds, depth - 1) &&
		       add_predicate(b, &i->operands[2], holds, depth - 1);
	}
	return false;
}

bool narrow_branch(const struct work *w, uint32_t branch)
{
	const struct inst *last = block_last(w, &w->blocks[branch]);
	struct operand guard = {.kind = OPERAND_REG, .id = last->guard};

	if (last->op != OP_bra || last->guard == PTX_NONE)
		return false;
	for (unsigned holds = 0; holds < 2; holds++) {
		struct bounds b = {.work = w};

		if (add_predicate(&b, &guard, holds, MAX_DEPTH) && b.count == 1 &&
			b.list[0].axis >= 0 && is_plain(w, b.list[0].index))
			return true;
	}
	return false;
}

/* Outside of loops. */
static bool at_hand(const struct work *w, const struct operand *o)
{
	return o->kind != OPERAND_REG || w->regs[o->id].scalar;
}

/* Whether bounds say which threads take the side; what they compare with must be at hand outside of loops. */
static bool find_bounds(const struct gen *g, uint32_t branch, uint32_t side, struct bounds *b)
{
	const struct work *w = g->work;
	const struct inst *last = block_last(w, &w->blocks[branch]);
	struct operand guard = {.kind = OPERAND_REG, .id = last->guard};
	const struct guard *split = plan_guard(g->plan, branch);

	*b = (struct bounds){.work = w};
	if ((split && split->passed) || last->op != OP_bra || last->guard == PTX_NONE ||
		!w->regs[last->guard].divergent ||
		!add_predicate(b, &guard, (side == 0) != last->guard_negated, MAX_DEPTH))
		return false;
	for (unsigned k = 0; k < b->count; k++)
		if (!at_hand(w, b->list[k].number) ||
			(b->list[k].axis < 0 && b->list[k].index && !at_hand(w, b->list[k].index)))
			return false;
	return true;
}

bool narrow_context(const struct gen *g, uint32_t context)
{
	struct bounds b;

	for (; context != PTX_NONE; context = g->plan->contexts[context].parent)
		if (!find_bounds(g, g->plan->contexts[context].branch,
			    g->plan->contexts[context].side, &b))
			return false;
	return true;
}

bool narrow_side(const struct gen *g, uint32_t branch, uint32_t side)
{
	struct bounds b;

	return find_bounds(g, branch, side, &b) &&
	       narrow_context(g, g->work->blocks[branch].context);
}

/* ---- code ---- */

static LLVMValueRef pick(struct gen *g, LLVMIntPredicate p, LLVMValueRef a, LLVMValueRef b)
{
	return LLVMBuildSelect(g->b, LLVMBuildICmp(g->b, p, a, b, ""), a, b, "");
}

static LLVMValueRef smaller(struct gen *g, LLVMValueRef a, LLVMValueRef b)
{
	return pick(g, LLVMIntULT, a, b);
}

static LLVMValueRef larger(struct gen *g, LLVMValueRef a, LLVMValueRef b)
{
	return pick(g, LLVMIntUGT, a, b);
}

/* The number less the index of the first thread, of 64 bits: tid is compared with that. */
static LLVMValueRef distance(struct gen *g, const struct bound *c)
{
	LLVMValueRef n = emit_operand(g, c->number, g->i32), first;

	n = c->is_signed ? LLVMBuildSExt(g->b, n, g->i64, "") : LLVMBuildZExt(g->b, n, g->i64, "");
	if (is_plain(g->work, c->index))
		return n;
	first = LLVMBuildSExt(g->b, monotone_value(g, c->index->id, false), g->i64, "");
	return LLVMBuildNSWSub(g->b, n, first, "");
}

/* Intersects the range with the indices for which the comparison holds. */
static void narrow_by(struct gen *g, const struct bound *c, struct thread_range *r)
{
	LLVMValueRef all = thread_count(g, (unsigned)c->axis), zero = gen_int(g, 0);
	LLVMValueRef wide_all = LLVMBuildZExt(g->b, all, g->i64, ""), n = distance(g, c);
	/* How many indices are below the number, and how many are it: none when it is negative. */
	LLVMValueRef below = pick(g, LLVMIntSLT, pick(g, LLVMIntSGT, n, zero), wide_all);
	LLVMValueRef equal =
		LLVMBuildZExt(g->b, LLVMBuildICmp(g->b, LLVMIntULT, n, wide_all, ""), g->i32, "");
	LLVMValueRef from = LLVMConstNull(g->i32), to;

	below = LLVMBuildTrunc(g->b, below, g->i32, "");
	if (c->how == MOD_eq)
		from = below;
	to = c->how == MOD_lt ? below : LLVMBuildAdd(g->b, below, equal, "");
	if (c->negated) {
		from = to;
		to = all;
	}
	r->from[c->axis] = r->from[c->axis] ? larger(g, r->from[c->axis], from) : from;
	r->to[c->axis] = r->to[c->axis] ? smaller(g, r->to[c->axis], to) : to;
}

static void narrow_by_all(struct gen *g, const struct bounds *b, struct thread_range *r)
{
	for (unsigned k = 0; k < b->count; k++)
		if (b->list[k].axis >= 0)
			narrow_by(g, &b->list[k], r);
}

void narrow_range(struct gen *g, uint32_t context, struct thread_range *r)
{
	struct bounds b;

	*r = (struct thread_range){0};
	for (; context != PTX_NONE; context = g->plan->contexts[context].parent)
		if (narrow_context(g, context) && find_bounds(g, g->plan->contexts[context].branch,
							  g->plan->contexts[context].side, &b))
			narrow_by_all(g, &b, r);
}

/* A condition of the block. */
static LLVMValueRef condition(struct gen *g, const struct bound *c)
{
	LLVMIntPredicate p = c->how == MOD_eq   ? LLVMIntEQ
			     : c->how == MOD_lt ? (c->is_signed ? LLVMIntSLT : LLVMIntULT)
						: (c->is_signed ? LLVMIntSLE : LLVMIntULE);
	LLVMValueRef v;

	if (c->index)
		v = LLVMBuildICmp(g->b, p, emit_operand(g, c->index, g->i32),
			emit_operand(g, c->number, g->i32), "");
	else
		v = reg_read(g, c->number->id);
	return c->negated ? LLVMBuildNot(g->b, v, "") : v;
}

LLVMValueRef narrow_any(struct gen *g, uint32_t branch, uint32_t side)
{
	struct thread_range r;
	struct bounds b;
	LLVMValueRef any = LLVMConstInt(g->i1, 1, false);

	narrow_range(g, g->work->blocks[branch].context, &r);
	if (find_bounds(g, branch, side, &b))
		narrow_by_all(g, &b, &r);
	for (unsigned k = 0; k < b.count; k++)
		if (b.list[k].axis < 0)
			any = LLVMBuildAnd(g->b, any, condition(g, &b.list[k]), "");
	for (unsigned k = 0; k < 3; k++)
		if (r.from[k])
			any = LLVMBuildAnd(g->b, any,
				LLVMBuildICmp(g->b, LLVMIntULT, r.from[k], r.to[k], ""), "");
	return any;
}
