/* SPDX-License-Identifier: MIT
 *
 * Region forming: see region.h for the shape. First the blocks that must begin a region, then the
 * branches that must be taken for the whole block because of them and their sides (contexts.c, guards.c), then regions as
 * what is reachable from an entry without passing another. What does not fit the structured shape
 * is tried again with fewer wishes, and in the end scheduled.
 */
#include "device/cpu/ptx/former.h"

enum { MAX_PURE_COST = 24 };

/* ---- wishes ---- */

static bool loop_is_shared(const struct work *w, const struct loop *l)
{
	bool inner = false;

	for (uint32_t k = 0; k < l->count; k++) {
		const struct work_block *b = &w->blocks[l->blocks[k]];
		bool leaves = b->exits;

		for (uint32_t s = 0; s < b->succ_count; s++) {
			leaves |= !bits_get(l->members, b->succ[s]);
			inner |= b->succ[s] != l->header && w->blocks[b->succ[s]].order <= b->order;
		}
		if (leaves && (b->exits || branch_diverges(w, b)))
			return false;
	}
	return !inner;
}

bool writes_memory(const struct inst *i)
{
	return i->op == OP_st || i->op == OP_cp || i->op == OP_atom || i->op == OP_red ||
	       i->op == OP_mbarrier || i->op == OP_async || i->op == OP_call || i->op == OP_sust;
}

static void wish(struct former *f, bool loops)
{
	struct work *w = f->work;

	for (uint32_t k = 0; k < w->rpo_count; k++)
		if (w->blocks[w->rpo[k]].border || w->blocks[w->rpo[k]].spins)
			bits_set(f->plan->wanted, w->rpo[k]);
	for (uint32_t l = 0; loops && l < w->loop_count; l++)
		if (loop_is_shared(w, &w->loops[l]) &&
			!scattered(w, w->loops[l].blocks, w->loops[l].count, false))
			bits_set(f->plan->wanted, w->loops[l].header);
	if (loops)
		wish_guards(f);
}

/* ---- regions ---- */

/* Blocks reachable from an entry without passing another; a block reached from two entries becomes
 * an entry. Returns false when that happened. */
static bool grow_regions(struct former *f)
{
	struct work *w = f->work;
	bool stable = true;

	for (uint32_t b = 0; b < w->block_count; b++)
		w->blocks[b].region = PTX_NONE;
	f->plan->region_count = 0;
	for (uint32_t k = 0; k < w->rpo_count; k++) {
		uint32_t count = 0, id = f->plan->region_count;

		if (!bits_get(f->plan->entries, w->rpo[k]))
			continue;
		f->plan->region_count++;
		f->list[count++] = w->rpo[k];
		w->blocks[w->rpo[k]].region = id;
		for (uint32_t n = 0; n < count; n++) {
			const struct work_block *b = &w->blocks[f->list[n]];

			for (uint32_t s = 0; s < b->succ_count; s++) {
				struct work_block *t = &w->blocks[b->succ[s]];

				if (bits_get(f->plan->entries, b->succ[s]) || t->region == id)
					continue;
				if (t->region != PTX_NONE) {
					bits_set(f->plan->entries, b->succ[s]);
					stable = false;
				} else {
					t->region = id;
					f->list[count++] = b->succ[s];
				}
			}
		}
	}
	return stable;
}

static enum gate find_gate(const struct work *w, const struct work_block *b)
{
	const struct inst *i = &w->insts[b->first];

	if (inst_has(i, MOD_arrive))
		return GATE_NONE;
	if (i->op == OP_bar || i->op == OP_barrier)
		return inst_has(i, MOD_warp) ? GATE_WARP : GATE_BLOCK;
	if (i->op == OP_wgmma) /* a barrier of its four warps */
		return GATE_BLOCK;
	if (b->collective)
		return inst_has(i, MOD_sync) ? GATE_MASK : GATE_HERE;
	return b->spins ? GATE_SPIN : GATE_NONE;
}

static void fill_regions(struct former *f)
{
	struct work *w = f->work;
	struct plan *p = f->plan;

	p->regions = work_alloc(w, (p->region_count + 1) * sizeof(*p->regions));
	for (uint32_t r = 0; r < p->region_count && !w->error; r++)
		p->regions[r] = (struct region){.entry = PTX_NONE, .branch = PTX_NONE};
	for (uint32_t k = 0; k < w->rpo_count && !w->error; k++)
		p->regions[w->blocks[w->rpo[k]].region].block_count++;
	for (uint32_t r = 0; r < p->region_count && !w->error; r++) {
		struct region *g = &p->regions[r];

		g->blocks = work_alloc(w, g->block_count * sizeof(uint32_t));
		g->spine = work_alloc(w, g->block_count * sizeof(uint32_t));
		g->live_out = work_alloc(w, w->live_words * 8);
		g->written = work_alloc(w, w->live_words * 8);
		g->block_count = 0;
	}
	for (uint32_t k = 0; k < w->rpo_count && !w->error; k++) {
		uint32_t b = w->rpo[k];
		struct region *g = &p->regions[w->blocks[b].region];

		if (bits_get(p->entries, b)) {
			g->entry = b;
			g->border = w->blocks[b].border;
			g->collective = w->blocks[b].collective;
			g->gate = find_gate(w, &w->blocks[b]);
		}
		g->blocks[g->block_count++] = b;
	}
}

static void find_spine(struct former *f, struct region *g)
{
	struct work *w = f->work;
	uint32_t id = w->blocks[g->entry].region, b = g->entry;

	for (;;) {
		const struct work_block *x = &w->blocks[b];
		uint32_t next = x->succ_count == 1 ? x->succ[0] : x->ipdom;

		g->spine[g->spine_count++] = b;
		if (bits_get(f->plan->split, b) || x->succ_count == 0 || x->exits ||
			next >= w->block_count || bits_get(f->plan->entries, next) ||
			w->blocks[next].region != id || g->spine_count == g->block_count)
			return;
		b = next;
	}
}

static void note_leaving(struct former *f, struct region *g, uint32_t to, bool *found)
{
	if (*found && g->next != to)
		f->plan->conflict = true;
	*found = true;
	g->next = to;
}

/* How a region ends: by one split branch, or always towards the same block. */
static void find_leaving(struct former *f, struct region *g)
{
	struct work *w = f->work;
	bool found = false;

	for (uint32_t k = 0; k < g->block_count; k++) {
		const struct work_block *x = &w->blocks[g->blocks[k]];

		if (x->context != w->blocks[g->entry].context)
			f->plan->conflict = true;
		if (bits_get(f->plan->split, g->blocks[k])) {
			if (g->branch != PTX_NONE)
				f->plan->conflict = true;
			g->branch = g->blocks[k];
			continue;
		}
		if (x->exits)
			note_leaving(f, g, w->block_count, &found);
		for (uint32_t s = 0; s < x->succ_count; s++)
			if (bits_get(f->plan->entries, x->succ[s]))
				note_leaving(f, g, x->succ[s], &found);
	}
	if (found && g->branch != PTX_NONE)
		f->plan->conflict = true;
	g->dead_end = !found && g->branch == PTX_NONE;
}

struct writes {
	struct work *work;
	uint64_t *set;
};

static void note_written(void *data, struct operand *o)
{
	struct writes *v = data;
	uint32_t g = v->work->regs[o->id].global;

	if (g != PTX_NONE)
		bits_set(v->set, g);
}

static void find_live_out(struct former *f, struct region *g)
{
	struct work *w = f->work;
	struct writes v = {w, g->written};

	for (uint32_t k = 0; k < g->block_count; k++) {
		const struct work_block *x = &w->blocks[g->blocks[k]];

		for (uint32_t n = x->first; n < x->end; n++)
			inst_defs(&w->insts[n], note_written, &v);
		for (uint32_t s = 0; s < x->succ_count; s++)
			if (bits_get(f->plan->entries, x->succ[s]))
				for (uint32_t i = 0; i < w->live_words; i++)
					g->live_out[i] |= w->blocks[x->succ[s]].live_in[i];
	}
	if (g->branch != PTX_NONE) {
		struct guard *guard = plan_guard(f->plan, g->branch);

		if (guard && guard->reg != PTX_NONE)
			bits_set(g->written, w->regs[guard->reg].global);
	}
}

/* ---- scalars ---- */

void force_divergent(struct former *f, uint32_t reg)
{
	if (f->work->regs[reg].divergent)
		return;
	f->work->regs[reg].divergent = true;
	f->plan->retry = true;
}

static bool operands_scalar(const struct work *w, const struct inst *i)
{
	for (unsigned k = i->dest_count; k < i->operand_count; k++) {
		const struct operand *o = &i->operands[k];

		if (o->kind == OPERAND_REG && !w->regs[o->id].scalar)
			return false;
		for (unsigned e = 0; o->kind == OPERAND_VECTOR && e < o->count; e++)
			if (o->elements[e].kind == OPERAND_REG &&
				!w->regs[o->elements[e].id].scalar)
				return false;
	}
	return true;
}

static bool load_is_constant(const struct inst *i)
{
	unsigned space = inst_space(i);

	return space == SPACE_PARAM || space == SPACE_CONST || inst_has(i, MOD_nc);
}

static void unscalar(void *data, struct operand *o)
{
	bool *changed = ((void **)data)[1];
	struct work *w = ((void **)data)[0];

	*changed |= w->regs[o->id].scalar;
	w->regs[o->id].scalar = false;
}

static void note_mixed(void *data, struct operand *o)
{
	bool *mixed = ((void **)data)[1];
	const struct work *w = ((void **)data)[0];

	*mixed |= !w->regs[o->id].scalar;
}

static void demote_block(struct former *f, uint32_t block, bool spine, bool *stored, bool *changed)
{
	struct work *w = f->work;
	void *data[2] = {w, changed};

	for (uint32_t n = w->blocks[block].first; n < w->blocks[block].end; n++) {
		struct inst *i = &w->insts[n];
		bool load = inst_is_load(i);
		bool mixed = false;
		void *check[2] = {w, &mixed};
		inst_defs(i, note_mixed, check);
		bool able = !mixed && ((ptx_opcodes[i->op].flags & OPF_PURE) || load);

		if (!spine || !able || (load && *stored && !load_is_constant(i)) ||
			!operands_scalar(w, i))
			inst_defs(i, unscalar, data);
		*stored |= writes_memory(i);
	}
}

static void demote_region(struct former *f, const struct region *g, bool *changed)
{
	struct work *w = f->work;
	uint32_t at = 0;
	bool stored = false;

	/* Spine blocks in order; whatever lies between two of them runs between them. */
	former_clear(f, f->members);
	for (uint32_t k = 0; k < g->spine_count; k++)
		bits_set(f->members, g->spine[k]);
	for (; at < g->spine_count; at++) {
		uint32_t b = g->spine[at];

		demote_block(f, b, true, &stored, changed);
		if (w->blocks[b].succ_count < 2 || bits_get(f->plan->split, b))
			continue;
		former_clear(f, f->other);
		uint32_t count = cfg_influence(w, b, PTX_NONE, f->list, f->other);
		for (uint32_t k = 0; k < count; k++)
			demote_block(f, f->list[k], false, &stored, changed);
	}
	for (uint32_t k = 0; k < g->block_count; k++)
		if (!bits_get(f->members, g->blocks[k]))
			demote_block(f, g->blocks[k], false, &stored, changed);
}

static void find_scalars(struct former *f)
{
	struct work *w = f->work;
	bool changed = true;

	for (uint32_t r = 0; r < w->reg_count; r++)
		w->regs[r].scalar =
			!f->plan->scheduled && !w->regs[r].divergent && w->regs[r].def_count > 0;
	while (changed) {
		changed = false;
		for (uint32_t r = 0; r < f->plan->region_count; r++)
			demote_region(f, &f->plan->regions[r], &changed);
	}
	/* A branch for the whole block needs a scalar condition. */
	for (uint32_t k = 0; k < w->rpo_count && !f->plan->scheduled; k++) {
		const struct work_block *b = &w->blocks[w->rpo[k]];
		const struct inst *last = block_last(w, b);

		if (!bits_get(f->plan->split, w->rpo[k]) || branch_diverges(w, b))
			continue;
		uint32_t reg = last->op == OP_brx && last->operands[0].kind == OPERAND_REG
				       ? last->operands[0].id
				       : last->guard;
		if (reg != PTX_NONE && !w->regs[reg].scalar)
			force_divergent(f, reg);
	}
}

/* ---- registers that may be computed again ---- */

static bool constant_operand(const struct operand *o)
{
	return o->kind == OPERAND_INT || o->kind == OPERAND_FUNCTION || o->kind == OPERAND_SYMBOL ||
	       (o->kind == OPERAND_SPECIAL &&
		       (o->id < SPECIAL_CLOCK || o->id > SPECIAL_GLOBALTIMER_HI));
}

/* What computing the instruction's result anew costs, 0 when that is impossible. */
static unsigned pure_cost(const struct work *w, const struct inst *i)
{
	unsigned cost = 1;

	bool load = i->op == OP_ld && inst_space(i) == SPACE_PARAM;

	if (!load && !(ptx_opcodes[i->op].flags & OPF_CHEAP))
		return 0;
	if (i->operands[0].kind != OPERAND_REG || inst_has(i, MOD_cc))
		return 0;
	for (unsigned k = i->dest_count; k < i->operand_count; k++) {
		const struct operand *o = &i->operands[k];

		if (o->kind == OPERAND_REG) {
			const struct work_reg *r = &w->regs[o->id];

			if (!r->single || !(r->pure || r->scalar))
				return 0;
			cost += r->scalar ? 0 : r->cost;
		} else if (!constant_operand(o)) {
			return 0;
		}
	}
	return cost <= MAX_PURE_COST ? cost : 0;
}

static void find_pure(struct former *f)
{
	struct work *w = f->work;
	bool changed = true;

	for (uint32_t r = 0; r < w->reg_count; r++)
		w->regs[r].pure = false;
	while (changed) {
		changed = false;
		for (uint32_t k = 0; k < w->rpo_count; k++)
			for (uint32_t n = w->blocks[w->rpo[k]].first; n < w->blocks[w->rpo[k]].end;
				n++) {
				struct inst *i = &w->insts[n];

				if (i->dest_count != 1 || i->operands[0].kind != OPERAND_REG)
					continue;
				struct work_reg *r = &w->regs[i->operands[0].id];
				if (r->pure || !r->single || !(r->cost = pure_cost(w, i)))
					continue;
				r->pure = changed = true;
			}
	}
	for (uint32_t k = 0; k < f->plan->guard_count; k++) {
		const struct guard *g = &f->plan->guards[k];
		const struct work_reg *p = &w->regs[block_last(w, &w->blocks[g->branch])->guard];

		if (g->reg != PTX_NONE)
			w->regs[g->reg].pure = p->single && p->pure;
	}
}

/* ---- attempts ---- */

static void reset_plan(struct former *f, bool scheduled)
{
	struct plan *p = f->plan;

	p->scheduled = scheduled;
	p->conflict = p->retry = false;
	p->context_count = p->guard_count = 0;
	former_clear(f, p->split);
	former_clear(f, p->entries);
	former_clear(f, p->wanted);
}

static void attempt(struct former *f, bool loops, bool scheduled)
{
	struct work *w = f->work;
	struct plan *p = f->plan;

	reset_plan(f, scheduled);
	wish(f, loops);
	for (size_t k = 0; k < f->words; k++)
		p->entries[k] |= p->wanted[k];
	bits_set(p->entries, 0);
	for (uint32_t k = 0; k < w->rpo_count; k++)
		if (w->blocks[w->rpo[k]].collective)
			bits_set(p->entries, w->blocks[w->rpo[k]].succ[0]);
	if (!scheduled)
		find_splits(f);
	else
		for (uint32_t b = 0; b < w->block_count; b++)
			w->blocks[b].context = PTX_NONE;
	if (p->conflict || w->error || p->retry)
		return;
	find_passed(f);
	while (!grow_regions(f))
		;
	fill_regions(f);
	if (w->error)
		return;
	for (uint32_t r = 0; r < p->region_count; r++) {
		find_spine(f, &p->regions[r]);
		if (!scheduled)
			find_leaving(f, &p->regions[r]);
	}
	if (!p->conflict)
		find_scalars(f);
}

int plan_build(struct work *w, struct plan *p)
{
	struct former f = {.work = w, .plan = p, .words = w->block_count / 64 + 1};
	bool arrives, loops = !w->any_spin, gates = w->any_spin;

	*p = (struct plan){.work = w};
	p->named = barriers_differ(w, &arrives);
	gates |= arrives;
	f.list = work_alloc(w, (w->block_count + 1) * sizeof(*f.list));
	f.side = work_alloc(w, (w->block_count + 1) * sizeof(*f.side));
	f.members = work_alloc(w, f.words * 8);
	f.other = work_alloc(w, f.words * 8);
	p->split = work_alloc(w, f.words * 8);
	p->entries = work_alloc(w, f.words * 8);
	p->wanted = work_alloc(w, f.words * 8);
	for (uint32_t r = 0; r < w->reg_count; r++)
		w->regs[r].scalar = false;
	find_pure(&f);
	for (unsigned tries = 0; !w->error; tries++) {
		attempt(&f, loops, gates || tries > 30);
		if (w->error)
			break;
		if (!p->conflict && !p->retry) {
			if (p->scheduled || !barriers_meet(w, p))
				break;
			tries = 30;
			continue;
		}
		if (p->retry)
			uniform_analyse(w);
		else if (loops)
			loops = false;
		else
			tries = 30;
	}
	if (w->error)
		return w->error;
	make_guard_registers(&f);
	find_pure(&f);
	for (uint32_t r = 0; r < p->region_count; r++)
		find_live_out(&f, &p->regions[r]);
	return w->error;
}
