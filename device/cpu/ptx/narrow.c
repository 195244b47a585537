/* SPDX-License-Identifier: MIT
 *
 * Guards that compare a thread's index with a number that is the same for the block, as `if (tid.x < d)`: the threads
 * of each side are neighbours along an axis, so that the loops of its regions run over those alone, instead of over
 * all with a mask. Whether anybody takes a side is known without asking the threads.
 *
 * Only guards around which all guards are of this kind narrow loops: which threads run a region must be known exactly,
 * as what is the same for the block is computed for a region whenever its loop is entered.
 */
#include "device/cpu/ptx/gen.h"

struct comparison {              /* of the index along an axis with a number */
	unsigned axis, how;      /* how: MOD_lt, MOD_le or MOD_eq, of the threads that come first */
	bool is_signed, swapped; /* swapped: the number is on the left */
	bool negated;            /* true for the other threads */
	const struct operand *number;
};

static int index_axis(const struct work *w, const struct operand *o)
{
	if (o->kind == OPERAND_REG && w->regs[o->id].single) {
		const struct inst *def = &w->insts[w->regs[o->id].def];

		if (def->op != OP_mov || def->dest_count != 1 ||
			def->operands[0].kind != OPERAND_REG || def->operands[0].id != o->id)
			return -1;
		o = &def->operands[1];
	}
	if (o->kind != OPERAND_SPECIAL || o->id >= SPECIAL_TID + 3)
		return -1;
	return (int)(o->id - SPECIAL_TID);
}

static bool is_number(const struct work *w, const struct operand *o)
{
	if (o->kind == OPERAND_REG)
		return w->regs[o->id].single && !w->regs[o->id].divergent &&
		       ptx_type_bits[w->regs[o->id].type] == 32;
	return o->kind == OPERAND_INT && !o->literal;
}

/* lt and le stay, gt and ge are their opposites. */
static bool find_order(const struct inst *i, struct comparison *c)
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

static bool find_comparison(const struct work *w, uint32_t reg, struct comparison *c)
{
	const struct work_reg *r = &w->regs[reg];
	const struct inst *i = &w->insts[r->def];
	int axis;

	if (!r->single || i->op != OP_setp || i->dest_count != 1 || i->operand_count != 3 ||
		i->modifier_count != 1 || i->type_count != 1 ||
		(i->types[0] != TYPE_u32 && i->types[0] != TYPE_s32) ||
		i->operands[0].kind != OPERAND_REG || i->operands[0].id != reg || !find_order(i, c))
		return false;
	c->swapped = index_axis(w, &i->operands[1]) < 0;
	axis = index_axis(w, &i->operands[1 + c->swapped]);
	c->number = &i->operands[2 - c->swapped];
	c->axis = (unsigned)axis;
	c->is_signed = i->types[0] == TYPE_s32;
	if (c->swapped && c->how != MOD_eq) { /* n < t is not t <= n */
		c->how = c->how == MOD_lt ? MOD_le : MOD_lt;
		c->negated = !c->negated;
	}
	return axis >= 0 && w->block[axis] > 1 && is_number(w, c->number);
}

static bool branch_comparison(const struct work *w, uint32_t branch, struct comparison *c)
{
	const struct inst *last = block_last(w, &w->blocks[branch]);

	return last->op == OP_bra && last->guard != PTX_NONE && find_comparison(w, last->guard, c);
}

bool narrow_branch(const struct work *w, uint32_t branch)
{
	struct comparison c;

	return branch_comparison(w, branch, &c);
}

/* Whether one side of a branch runs from one index to another; the number must be at hand outside of loops. */
static bool side_comparison(
	const struct gen *g, uint32_t branch, uint32_t side, struct comparison *c)
{
	const struct inst *last = block_last(g->work, &g->work->blocks[branch]);

	if (!branch_comparison(g->work, branch, c) ||
		(c->number->kind == OPERAND_REG && !g->work->regs[c->number->id].scalar))
		return false;
	c->negated ^= (side == 0) == last->guard_negated;
	return !(c->how == MOD_eq && c->negated);
}

bool narrow_context(const struct gen *g, uint32_t context)
{
	struct comparison c;

	for (; context != PTX_NONE; context = g->plan->contexts[context].parent)
		if (!side_comparison(g, g->plan->contexts[context].branch,
			    g->plan->contexts[context].side, &c))
			return false;
	return true;
}

bool narrow_side(const struct gen *g, uint32_t branch, uint32_t side)
{
	struct comparison c;

	return side_comparison(g, branch, side, &c) &&
	       narrow_context(g, g->work->blocks[branch].context);
}

static LLVMValueRef smaller(struct gen *g, LLVMValueRef a, LLVMValueRef b)
{
	return LLVMBuildSelect(g->b, LLVMBuildICmp(g->b, LLVMIntULT, a, b, ""), a, b, "");
}

static LLVMValueRef larger(struct gen *g, LLVMValueRef a, LLVMValueRef b)
{
	return LLVMBuildSelect(g->b, LLVMBuildICmp(g->b, LLVMIntUGT, a, b, ""), a, b, "");
}

/* Intersects the range with the indices for which the comparison holds. */
static void narrow_by(struct gen *g, const struct comparison *c, struct thread_range *r)
{
	LLVMValueRef all = LLVMConstInt(g->i32, g->work->block[c->axis], false);
	LLVMValueRef zero = LLVMConstNull(g->i32);
	LLVMValueRef n = emit_operand(g, c->number, g->i32);
	/* How many indices are below the number, and how many are it: none when it is negative. */
	LLVMValueRef below = smaller(g, n, all);
	LLVMValueRef equal =
		LLVMBuildZExt(g->b, LLVMBuildICmp(g->b, LLVMIntULT, n, all, ""), g->i32, "");
	LLVMValueRef from = c->how == MOD_eq ? below : zero, to;

	if (c->is_signed && c->how != MOD_eq)
		below = LLVMBuildSelect(
			g->b, LLVMBuildICmp(g->b, LLVMIntSLT, n, zero, ""), zero, below, "");
	to = c->how == MOD_lt ? below : LLVMBuildAdd(g->b, below, equal, "");
	if (c->negated) {
		from = to;
		to = all;
	}
	r->from[c->axis] = r->from[c->axis] ? larger(g, r->from[c->axis], from) : from;
	r->to[c->axis] = r->to[c->axis] ? smaller(g, r->to[c->axis], to) : to;
}

void narrow_range(struct gen *g, uint32_t context, struct thread_range *r)
{
	struct comparison c;

	*r = (struct thread_range){0};
	for (; context != PTX_NONE; context = g->plan->contexts[context].parent)
		if (narrow_context(g, context) &&
			side_comparison(g, g->plan->contexts[context].branch,
				g->plan->contexts[context].side, &c))
			narrow_by(g, &c, r);
}

LLVMValueRef narrow_any(struct gen *g, uint32_t branch, uint32_t side)
{
	struct thread_range r;
	struct comparison c;
	LLVMValueRef any = LLVMConstInt(g->i1, 1, false);

	narrow_range(g, g->work->blocks[branch].context, &r);
	if (side_comparison(g, branch, side, &c))
		narrow_by(g, &c, &r);
	for (unsigned k = 0; k < 3; k++)
		if (r.from[k])
			any = LLVMBuildAnd(g->b, any,
				LLVMBuildICmp(g->b, LLVMIntULT, r.from[k], r.to[k], ""), "");
	return any;
}
