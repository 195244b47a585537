/* SPDX-License-Identifier: MIT
 *
 * Contexts of a structured plan (region.h): the branches that are taken for the whole block because of what lies behind
 * them, and what is on a side of those that diverge.
 */
#include <errno.h>

#include "device/cpu/ptx/former.h"

bool plan_within(const struct plan *plan, uint32_t context, uint32_t branch)
{
	while (context != PTX_NONE && plan->contexts[context].branch != branch)
		context = plan->contexts[context].parent;
	return context != PTX_NONE;
}

struct clobber {
	struct former *former;
	const struct work_block *branch;
	uint32_t side;
};

/* A uniform register written on one side and live into another would be overwritten before the
 * other side runs. */
static void check_clobber(void *data, struct operand *o)
{
	struct clobber *c = data;
	struct work *w = c->former->work;
	struct work_reg *r = &w->regs[o->id];

	if (r->single || r->divergent || r->global == PTX_NONE)
		return;
	for (uint32_t s = 0; s < c->branch->succ_count; s++)
		if (s != c->side && bits_get(w->blocks[c->branch->succ[s]].live_in, r->global))
			force_divergent(c->former, o->id);
}

static void enter_side(struct former *f, uint32_t branch, uint32_t side, uint64_t *seen)
{
	struct work *w = f->work;
	struct plan *p = f->plan;
	const struct work_block *b = &w->blocks[branch];

	struct context *contexts = arena_grow(
		&w->arena, p->contexts, p->context_count, sizeof(*contexts), &p->context_capacity);
	if (!contexts) {
		w->error = -ENOMEM;
		return;
	}
	p->contexts = contexts;
	p->contexts[p->context_count] = (struct context){branch, side, b->context};
	former_clear(f, f->other);
	uint32_t count = cfg_influence(w, branch, b->succ[side], f->side, f->other);
	struct clobber c = {f, b, side};
	for (uint32_t k = 0; k < count; k++) {
		struct work_block *x = &w->blocks[f->side[k]];

		/* Both sides come to it, or the branch again, or it is on a side of another branch already, which this one is not. */
		if (bits_get(seen, f->side[k]) || f->side[k] == branch ||
			x->context != b->context) {
			p->conflict = true;
			return;
		}
		bits_set(seen, f->side[k]);
		x->context = p->context_count;
		for (uint32_t n = x->first; n < x->end; n++)
			inst_defs(&w->insts[n], check_clobber, &c);
	}
	p->context_count++;
}

static void enter_sides(struct former *f, uint32_t branch)
{
	struct work *w = f->work;
	struct plan *p = f->plan;
	const struct work_block *b = &w->blocks[branch];
	uint64_t *seen = work_alloc(w, f->words * 8);

	if (!seen || !add_guard(f, branch)) {
		w->error = -ENOMEM;
		return;
	}
	if (block_last(w, b)->op == OP_brx) {
		p->conflict = true;
		return;
	}
	for (uint32_t s = 0; s < b->succ_count && !w->error && !p->conflict; s++)
		if (b->succ[s] != b->ipdom)
			enter_side(f, branch, s, seen);
}

void find_splits(struct former *f)
{
	struct work *w = f->work;

	for (uint32_t b = 0; b < w->block_count; b++)
		w->blocks[b].context = PTX_NONE;
	for (uint32_t k = 0; k < w->rpo_count && !w->error && !f->plan->conflict; k++) {
		struct work_block *b = &w->blocks[w->rpo[k]];
		bool split = false;

		if (b->succ_count < 2)
			continue;
		former_clear(f, f->members);
		uint32_t count = cfg_influence(w, w->rpo[k], PTX_NONE, f->list, f->members);
		for (uint32_t n = 0; n < count && !split; n++)
			split = bits_get(f->plan->wanted, f->list[n]);
		if (!split)
			continue;
		bits_set(f->plan->split, w->rpo[k]);
		for (uint32_t s = 0; s < b->succ_count; s++)
			bits_set(f->plan->entries, b->succ[s]);
		if (b->ipdom < w->block_count)
			bits_set(f->plan->entries, b->ipdom);
		if (branch_diverges(w, b))
			enter_sides(f, w->rpo[k]);
	}
}
