/* SPDX-License-Identifier: MIT
 *
 * Registers that are a number of the block plus, or less, the thread's index along one axis, as i = blockIdx.x * blockDim.x +
 * threadIdx.x, or step - threadIdx.x. They count modulo 2^32.
 */
#include <string.h>

#include "device/cpu/ptx/work.h"

enum { MAX_DEPTH = 12 };

struct terms {
	int index; /* how often the thread's index is in it */
	unsigned axis;
};

static bool operand_terms(
	const struct work *w, const struct operand *o, unsigned depth, struct terms *t);

static bool add(const struct terms *a, const struct terms *b, int sign, struct terms *t)
{
	if (a->index && b->index && a->axis != b->axis)
		return false;
	t->axis = a->index ? a->axis : b->axis;
	t->index = a->index + sign * b->index;
	return t->index >= -1 && t->index <= 1;
}

static bool is_integer(unsigned type)
{
	return strchr("usb", ptx_type_class[type]) && ptx_type_bits[type] >= 32 &&
	       ptx_type_bits[type] <= 64;
}

static bool inst_terms(const struct work *w, const struct inst *i, unsigned depth, struct terms *t)
{
	struct terms a, b, none = {0};

	for (unsigned k = 0; k < i->type_count; k++)
		if (!is_integer(i->types[k]))
			return false;
	if (i->dest_count != 1 || !i->type_count || inst_has(i, MOD_cc) || inst_has(i, MOD_sat) ||
		!operand_terms(w, &i->operands[1], depth, &a))
		return false;
	if (i->op == OP_mov || i->op == OP_cvt) {
		*t = a;
		return true;
	}
	if (i->op == OP_neg)
		return add(&none, &a, -1, t);
	if (i->operand_count < 3 || i->modifier_count > (i->op == OP_mad || i->op == OP_mul) ||
		!operand_terms(w, &i->operands[2], depth, &b))
		return false;
	switch (i->op) {
	case OP_add:
		return add(&a, &b, 1, t);
	case OP_sub:
		return add(&a, &b, -1, t);
	case OP_mul:
	case OP_mad:
		if (!inst_has(i, MOD_lo) || a.index || b.index)
			return false;
		if (i->op == OP_mad)
			return operand_terms(w, &i->operands[3], depth, t);
		*t = none;
		return true;
	}
	return false;
}

static bool operand_terms(
	const struct work *w, const struct operand *o, unsigned depth, struct terms *t)
{
	*t = (struct terms){0};
	if (!depth || o->negated || o->memory)
		return false;
	if (o->kind == OPERAND_INT)
		return !o->literal;
	if (o->kind == OPERAND_SPECIAL && o->id < SPECIAL_NCTAID + 4) {
		if (o->id < SPECIAL_TID + 3 && work_width(w, o->id - SPECIAL_TID) > 1)
			*t = (struct terms){1, o->id - SPECIAL_TID};
		return true;
	}
	if (o->kind != OPERAND_REG)
		return false;
	if (!w->regs[o->id].divergent)
		return true;
	return w->regs[o->id].single && inst_terms(w, &w->insts[w->regs[o->id].def], depth - 1, t);
}

bool index_sum(const struct work *w, uint32_t reg, struct index_sum *s)
{
	struct operand o = {.kind = OPERAND_REG, .id = reg};
	struct terms t;

	if (ptx_type_bits[w->regs[reg].type] != 32 || !w->regs[reg].divergent ||
		!operand_terms(w, &o, MAX_DEPTH, &t) || !t.index)
		return false;
	*s = (struct index_sum){t.axis, t.index < 0};
	return true;
}
