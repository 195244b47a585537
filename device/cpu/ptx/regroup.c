/* SPDX-License-Identifier: MIT
 *
 * Accesses that LLVM must not move over each other. Of what each thread accesses at a few elements from its neighbour's, as members
 * of structures that lie side by side, it makes one access for several members: loads where the first of them stands, stores where
 * the last does. In a loop that it is told to be parallel it takes what stands between for independent, too, though that is the same
 * thread's. A region in which that may be wrong is not called parallel: then LLVM looks for itself.
 */
#include <stdlib.h>

#include "device/cpu/ptx/work.h"

enum { MOST_ACCESSES = 1000 }; /* that are compared with each other */

struct access {
	bool store, groups;
	unsigned space, bytes; /* of an element */
	uint32_t base;         /* register of its address, or PTX_NONE */
	int64_t step;          /* from one thread to the next; 0: unknown */
};

static bool may_meet(const struct access *a, const struct access *b)
{
	return a->space == b->space || a->space == SPACE_GENERIC || b->space == SPACE_GENERIC;
}

static bool may_be_one(const struct access *a, const struct access *b)
{
	return a->groups && b->groups && a->store == b->store && a->bytes == b->bytes &&
	       may_meet(a, b) && (!a->step || !b->step || a->step == b->step);
}

/* Whether one like `a` must stay on its side of b. Members of one structure are apart. */
static bool must_stay(const struct access *a, const struct access *b)
{
	return (a->store || b->store) && may_meet(a, b) &&
	       !(may_be_one(a, b) && a->base == b->base && a->base != PTX_NONE);
}

static bool any_moves(const struct access *list, uint32_t count)
{
	for (uint32_t k = 0; k < count; k++) {
		bool stays = false;

		for (uint32_t n = k + 1; n < count && list[k].groups; n++) {
			if (stays && may_be_one(&list[k], &list[n]))
				return true;
			stays |= must_stay(&list[k], &list[n]);
		}
	}
	return false;
}

static bool read_access(struct work *w, const struct inst *i, struct access *a)
{
	const struct operand *address = &i->operands[i->op == OP_st ? 0 : 1];
	unsigned space = inst_space(i);

	if ((!inst_is_load(i) && i->op != OP_st) || !i->type_count || space == SPACE_PARAM ||
		space == SPACE_CONST || inst_has(i, MOD_nc)) /* nobody writes it */
		return false;
	*a = (struct access){.store = i->op == OP_st,
		.space = space,
		.bytes = ptx_type_bits[i->types[0]] / 8u,
		.base = address->kind == OPERAND_REG ? address->id : PTX_NONE};
	a->groups = scatter_step(w, i, &a->step);
	return true;
}

static int by_number(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

bool regrouped(struct work *w, const uint32_t *blocks, uint32_t count)
{
	uint32_t *order = work_alloc(w, (count + 1) * sizeof(*order)), accesses = 0;
	struct access *list = work_alloc(w, MOST_ACCESSES * sizeof(*list));

	if (!order || !list)
		return true;
	for (uint32_t k = 0; k < count; k++)
		order[k] = blocks[k];
	qsort(order, count, sizeof(*order), by_number);
	for (uint32_t k = 0; k < count; k++)
		for (uint32_t n = w->blocks[order[k]].first; n < w->blocks[order[k]].end; n++) {
			if (accesses == MOST_ACCESSES)
				return true;
			accesses += read_access(w, &w->insts[n], &list[accesses]);
		}
	return any_moves(list, accesses);
}
