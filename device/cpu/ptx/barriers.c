/* SPDX-License-Identifier: MIT
 *
 * Barriers with numbers. A structured plan (region.h) knows one barrier at a time, to which all threads come that run its
 * region. These say when that is not enough: when threads wait at one barrier while others wait at another, arrive without
 * waiting, or come to one barrier by different instructions.
 */
#include <errno.h>

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

/* Whether two contexts are on different sides of a branch. */
static bool apart(const struct plan *p, uint32_t a, uint32_t b)
{
	for (; a != PTX_NONE; a = p->contexts[a].parent)
		for (uint32_t c = b; c != PTX_NONE; c = p->contexts[c].parent)
			if (p->contexts[a].branch == p->contexts[c].branch)
				return p->contexts[a].side != p->contexts[c].side;
	return false;
}

bool barriers_meet(const struct work *w, const struct plan *p)
{
	for (uint32_t k = 0; k < w->rpo_count; k++)
		for (uint32_t n = 0; n < k; n++) {
			uint32_t a = w->blocks[w->rpo[k]].context;
			uint32_t b = w->blocks[w->rpo[n]].context;
			const struct inst *i = block_barrier(w, w->rpo[k]), *j;

			if (!i || a == PTX_NONE)
				break;
			j = block_barrier(w, w->rpo[n]);
			if (j && same_number(i, j) && apart(p, a, b))
				return true;
		}
	return false;
}
