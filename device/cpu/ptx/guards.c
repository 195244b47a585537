/* SPDX-License-Identifier: MIT
 *
 * Guards of a structured plan (region.h): which divergent branches are worth a region of their own, which branches may be
 * passed, and the registers that say who takes a side.
 */
#include "device/cpu/ptx/former.h"

struct guard *plan_guard(const struct plan *plan, uint32_t branch)
{
	for (uint32_t k = 0; k < plan->guard_count; k++)
		if (plan->guards[k].branch == branch)
			return &plan->guards[k];
	return NULL;
}

/* ---- wishes ---- */

static bool touches_memory(const struct inst *i)
{
	return inst_is_load(i) || i->op == OP_st;
}

static bool block_has(
	const struct work *w, const struct work_block *b, bool (*what)(const struct inst *i))
{
	for (uint32_t n = b->first; n < b->end; n++)
		if (what(&w->insts[n]))
			return true;
	return false;
}

/* A divergent `if` without else around something worth it: one that has effects. One that only loads and computes is
 * better left in its region, where LLVM makes masked loads and selections of it. Returns the block inside. */
static uint32_t guarded_part(struct former *f, uint32_t branch)
{
	const struct work *w = f->work;
	const struct work_block *b = &w->blocks[branch];
	const struct inst *last = block_last(w, b);
	uint32_t inside = PTX_NONE;
	bool effects = false;

	if (b->succ_count != 2 || last->op != OP_bra || !branch_diverges(w, b))
		return PTX_NONE;
	for (unsigned s = 0; s < 2; s++)
		if (b->succ[s] == b->ipdom ||
			(w->blocks[b->succ[s]].exits &&
				w->blocks[b->succ[s]].end - w->blocks[b->succ[s]].first == 1))
			inside = b->succ[1 - s];
	if (inside == PTX_NONE || inside == b->ipdom || w->blocks[inside].pred_count != 1)
		return PTX_NONE;
	if (last->rounds == ROUNDS_TOGETHER)
		return inside;
	if (!block_has(w, &w->blocks[inside], touches_memory))
		return PTX_NONE;
	former_clear(f, f->members);
	uint32_t count = cfg_influence(w, branch, inside, f->list, f->members);
	for (uint32_t k = 0; k < count && !effects; k++)
		effects = block_has(w, &w->blocks[f->list[k]], writes_memory);
	return effects ? inside : PTX_NONE;
}

/* Those whose condition can be computed anew: as a region of its own, what they guard runs unmasked when all threads
 * pass. */
static void wish_pure_guards(struct former *f)
{
	struct work *w = f->work;
	uint32_t b = 0;

	for (uint32_t steps = 0; b < w->block_count && steps < w->block_count; steps++) {
		const struct work_block *x = &w->blocks[b];
		const struct inst *last = block_last(w, x);
		uint32_t inside = PTX_NONE;

		if (last->op == OP_bra && last->guard != PTX_NONE && w->regs[last->guard].pure)
			inside = guarded_part(f, b);

		for (uint32_t l = 0; l < w->loop_count; l++)
			if (bits_get(w->loops[l].members, b))
				return;
		if (inside != PTX_NONE)
			bits_set(f->plan->wanted, inside);
		b = inside != PTX_NONE ? inside : x->succ_count == 1 ? x->succ[0] : x->ipdom;
	}
}

static bool has_barrier(const struct work *w, const struct loop *l)
{
	for (uint32_t k = 0; k < l->count; k++)
		if (w->blocks[l->blocks[k]].border && !w->blocks[l->blocks[k]].collective)
			return true;
	return false;
}

/* In loops that barriers take apart anyhow: those that narrow.c makes bounds of. */
static void wish_ranges(struct former *f)
{
	struct work *w = f->work;

	for (uint32_t k = 0; k < w->rpo_count; k++) {
		uint32_t b = w->rpo[k], inside;
		bool apart = narrow_branch(w, b);
		bool round = apart && block_last(w, &w->blocks[b])->rounds == ROUNDS_TOGETHER;

		for (uint32_t l = 0; apart && l < w->loop_count; l++)
			apart = !bits_get(w->loops[l].members, b) || has_barrier(w, &w->loops[l]) ||
				round;
		inside = apart ? guarded_part(f, b) : PTX_NONE;
		if (inside != PTX_NONE)
			bits_set(f->plan->wanted, inside);
	}
}

void wish_guards(struct former *f)
{
	wish_pure_guards(f);
	wish_ranges(f);
}

/* ---- guards of split branches ---- */

struct guard *add_guard(struct former *f, uint32_t branch)
{
	struct plan *p = f->plan;
	struct guard *guards = arena_grow(
		&f->work->arena, p->guards, p->guard_count, sizeof(*guards), &p->guard_capacity);

	if (!guards)
		return NULL;
	p->guards = guards;
	p->guards[p->guard_count] = (struct guard){branch, PTX_NONE, false};
	return &p->guards[p->guard_count++];
}

static void pass(struct plan *p, uint32_t from, uint32_t to)
{
	const struct work_block *blocks = p->work->blocks;

	for (uint32_t c = blocks[to].context; c != PTX_NONE; c = p->contexts[c].parent) {
		uint32_t branch = p->contexts[c].branch;

		if (from != branch && !plan_within(p, blocks[from].context, branch))
			plan_guard(p, branch)->passed = true;
	}
}

/* As where `if (uniform) { if (divergent) return; }` is left out: what follows is on a side of the inner branch. */
void find_passed(struct former *f)
{
	struct work *w = f->work;

	for (uint32_t k = 0; k < w->rpo_count; k++)
		for (uint32_t s = 0; s < w->blocks[w->rpo[k]].succ_count; s++)
			pass(f->plan, w->rpo[k], w->blocks[w->rpo[k]].succ[s]);
}

/* A guard is a register of its own, live throughout the sides of its branch. */
void make_guard_registers(struct former *f)
{
	struct work *w = f->work;

	for (uint32_t k = 0; k < f->plan->guard_count && !w->error; k++) {
		struct guard *g = &f->plan->guards[k];
		uint32_t index = w->global_count;

		if (index / 64 >= w->live_words) {
			f->plan->conflict = true;
			return;
		}
		g->reg = work_reg(w, TYPE_pred);
		if (w->error)
			return;
		w->global_count++;
		w->globals[index] = g->reg;
		w->regs[g->reg] = (struct work_reg){.type = TYPE_pred,
			.single = true,
			.divergent = true,
			.def_count = 1,
			.global = index,
			.slot = PTX_NONE,
			.def = w->blocks[g->branch].end - 1};
		former_clear(f, f->members);
		uint32_t count = cfg_influence(w, g->branch, PTX_NONE, f->list, f->members);
		for (uint32_t n = 0; n < count; n++)
			bits_set(w->blocks[f->list[n]].live_in, index);
	}
}
