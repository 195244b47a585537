/* SPDX-License-Identifier: MIT
 *
 * Barriers with numbers. A structured plan (region.h) knows one barrier at a time, to which all threads come that run its
 * region. These say when that is not enough: when threads wait at one barrier while others wait at another, arrive without
 * waiting, or come to one barrier by different instructions.
 */
#include <string.h>

#include "device/cpu/ptx/region.h"

static const struct inst *block_barrier(const struct work *w, uint32_t block)
{
	const struct inst *i = &w->insts[w->blocks[block].first];

	return (i->op == OP_bar || i->op == OP_barrier) && !inst_has(i, MOD_warp) ? i : NULL;
}

static bool same_number(const struct inst *a, const struct inst *b)
{
	const struct operand *o = &a->operands[a->dest_count], *p = &b->operands[b->dest_count];

	if (inst_has(a, MOD_cluster) || inst_has(b, MOD_cluster))
		return inst_has(a, MOD_cluster) == inst_has(b, MOD_cluster);
	return o->kind != OPERAND_INT || p->kind != OPERAND_INT || o->bits == p->bits;
}

bool barriers_differ(const struct work *w, bool *arrives)
{
	const struct inst *first = NULL;
	bool several = false, cluster = false;

	*arrives = false;
	for (uint32_t k = 0; k < w->rpo_count; k++) {
		const struct inst *i = block_barrier(w, w->rpo[k]);
		/* A reduction has a result, and what is reduced. */
		unsigned values = i && i->dest_count ? 2 : 0;

		if (!i)
			continue;
		if (inst_has(i, MOD_cluster)) {
			cluster = true;
			continue;
		}
		*arrives |= inst_has(i, MOD_arrive);
		first = first ? first : i;
		several |= i->operand_count > 1 + values || !same_number(first, i) ||
			   i->operands[i->dest_count].kind != OPERAND_INT;
	}
	return several || *arrives || (cluster && first);
}

/* The blocks that threads may come to which do not take that side of the branch. */
static void find_others(
	const struct work *w, const struct context *c, uint32_t *list, uint64_t *set)
{
	const struct work_block *branch = &w->blocks[c->branch];
	uint32_t count = 0;

	memset(set, 0, (w->block_count / 64 + 1) * 8);
	for (uint32_t s = 0; s < branch->succ_count; s++)
		if (s != c->side && !bits_get(set, branch->succ[s])) {
			bits_set(set, branch->succ[s]);
			list[count++] = branch->succ[s];
		}
	for (uint32_t k = 0; k < count; k++)
		for (uint32_t s = 0; s < w->blocks[list[k]].succ_count; s++) {
			uint32_t t = w->blocks[list[k]].succ[s];

			if (!bits_get(set, t)) {
				bits_set(set, t);
				list[count++] = t;
			}
		}
}

/* Whether the barrier names a number of threads that may not be that of those who come. */
static bool counts(const struct work *w, uint32_t block)
{
	const struct inst *i = block_barrier(w, block);
	unsigned at = i->dest_count + 1u;

	if (inst_has(i, MOD_cluster) || i->operand_count <= at + (i->dest_count ? 1 : 0))
		return false;
	return w->blocks[block].context != PTX_NONE || i->operands[at].kind != OPERAND_INT ||
	       (i->operands[at].bits + 31) / 32 != (w->threads + 31) / 32;
}

bool barriers_meet(struct work *w, const struct plan *p)
{
	uint32_t *list = work_alloc(w, (w->block_count + 1) * sizeof(*list));
	uint64_t *others = work_alloc(w, (w->block_count / 64 + 1) * 8);

	for (uint32_t k = 0; k < w->rpo_count && !w->error; k++) {
		const struct inst *i = block_barrier(w, w->rpo[k]), *j;

		if (!i)
			continue;
		if (counts(w, w->rpo[k]))
			return true;
		for (uint32_t c = w->blocks[w->rpo[k]].context; c != PTX_NONE;
			c = p->contexts[c].parent) {
			find_others(w, &p->contexts[c], list, others);
			for (uint32_t n = 0; n < w->rpo_count; n++) {
				j = bits_get(others, w->rpo[n]) ? block_barrier(w, w->rpo[n])
								: NULL;
				if (j && same_number(i, j))
					return true;
			}
		}
	}
	return false;
}
