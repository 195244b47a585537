/* SPDX-License-Identifier: MIT
 *
 * Loops that wait for other threads. Threads of a block run one after another between region
 * borders (region.h); a thread that looks at memory until another thread of its block has written
 * it must let that thread run in between, as hardware does. Therefore the header of a loop whose end
 * depends on memory that others may be writing is marked: `spins`.
 *
 * The end depends on a load or an atomic when that decides, through registers or through branches
 * within the loop, whether a thread leaves. Not counted are atomics that end the loop by themselves
 * sooner or later: a counter that every round advances, and a compare-and-swap that expects what the
 * loop has read, or that every round tries at another address. Nor is a loop that all threads of the block go round together, from one barrier to
 * the next, and the barrier of a cooperative grid, where blocks wait for blocks.
 *
 * spin_awaits_blocks() asks the same of blocks, for those who let blocks leave before they begin: whether a loop may wait for
 * what another block writes. There every doubt counts as waiting: a value that may have come through shared or local memory,
 * loops from barrier to barrier, which are as good as fences, and loops with two ways in.
 */
#include "device/cpu/ptx/work.h"

#include <string.h>

enum { MAX_STEPS = 50000000 }; /* beyond, a loop is taken to wait */

struct search {
	struct work *work;
	const struct loop *loop;
	uint64_t *needed, *decides, *members, *slice; /* registers, blocks, blocks, registers */
	uint32_t *list;
	uint64_t steps;
	bool fenced, barrier; /* of the loop: orders memory; goes from barrier to barrier */
	bool changed, waits;
	bool blocks;  /* the question is whether blocks wait for blocks */
	bool outside; /* and the loop reads what another may be writing */
};

struct slice {
	uint64_t *set;
	bool found, changed;
};

static void note_member(void *data, struct operand *o)
{
	struct slice *s = data;

	s->found |= bits_get(s->set, o->id);
}

static void add_member(void *data, struct operand *o)
{
	struct slice *s = data;

	s->changed |= !bits_get(s->set, o->id);
	bits_set(s->set, o->id);
}

static bool defines(struct inst *i, uint64_t *set)
{
	struct slice s = {.set = set};

	inst_defs(i, note_member, &s);
	return s.found;
}

static bool is_atomic(const struct inst *i)
{
	return i->op == OP_atom || i->op == OP_red || i->op == OP_mbarrier || i->op == OP_async;
}

/* Fills s->slice: the registers within the loop that the value of `reg` is made of. Returns whether one of them
 * is read from memory there. */
static bool loop_slice(struct search *s, uint32_t reg)
{
	struct work *w = s->work;
	struct slice slice = {.set = s->slice, .changed = true};
	bool reads = false;

	memset(s->slice, 0, (w->reg_count / 64 + 1) * 8);
	bits_set(s->slice, reg);
	while (slice.changed) {
		slice.changed = false;
		for (uint32_t k = 0; k < s->loop->count; k++) {
			const struct work_block *b = &w->blocks[s->loop->blocks[k]];

			s->steps += b->end - b->first;
			for (uint32_t n = b->first; n < b->end; n++) {
				struct inst *i = &w->insts[n];

				if (!defines(i, s->slice))
					continue;
				reads |= inst_is_load(i) || is_atomic(i);
				inst_uses(i, add_member, &slice);
			}
		}
	}
	return reads;
}

/* The barrier of a cooperative grid is found through %envreg1 and 2. */
static bool is_grid_barrier(struct search *s, uint32_t reg)
{
	struct work *w = s->work;
	struct slice slice = {.set = s->slice, .changed = true};

	memset(s->slice, 0, (w->reg_count / 64 + 1) * 8);
	bits_set(s->slice, reg);
	while (slice.changed) {
		slice.changed = false;
		s->steps += w->inst_count;
		for (uint32_t n = 0; n < w->inst_count; n++) {
			struct inst *i = &w->insts[n];

			if (!defines(i, s->slice) || is_atomic(i))
				continue;
			for (unsigned k = i->dest_count; k < i->operand_count; k++)
				if (i->operands[k].kind == OPERAND_SPECIAL &&
					(i->operands[k].id == SPECIAL_ENVREG1 ||
						i->operands[k].id == SPECIAL_ENVREG2))
					return true;
			inst_uses(i, add_member, &slice);
		}
	}
	return false;
}

bool in_every_round(const struct work *w, const struct loop *l, uint32_t block)
{
	const struct work_block *header = &w->blocks[l->header];

	for (uint32_t p = 0; p < header->pred_count; p++) {
		uint32_t latch = header->pred[p];

		if (!bits_get(l->members, latch))
			continue;
		while (w->blocks[latch].order > w->blocks[block].order)
			latch = w->blocks[latch].idom;
		if (latch != block)
			return false;
	}
	return true;
}

/* Whether every round goes on to another address: a search, as of a place in a table. */
static bool advances(struct search *s, const struct operand *address)
{
	struct work *w = s->work;

	if (address->kind != OPERAND_REG)
		return false;
	for (uint32_t k = 0; k < s->loop->count; k++) {
		const struct work_block *b = &w->blocks[s->loop->blocks[k]];

		for (uint32_t n = b->first; n < b->end && s->steps < MAX_STEPS; n++) {
			const struct operand *o = w->insts[n].operands;

			if (w->insts[n].op != OP_add || o[0].kind != OPERAND_REG ||
				o[1].kind != OPERAND_REG || o[2].kind != OPERAND_INT ||
				!in_every_round(w, s->loop, s->loop->blocks[k]))
				continue;
			loop_slice(s, o[1].id);
			bool steps = bits_get(s->slice, o[0].id);
			loop_slice(s, address->id);
			if (steps && bits_get(s->slice, o[0].id))
				return true;
		}
	}
	return false;
}

static bool atomic_waits(struct search *s, const struct inst *i)
{
	const struct operand *value = &i->operands[2];

	if (i->op != OP_atom || i->operand_count < 3)
		return false;
	if (s->blocks && inst_space(i) == SPACE_SHARED)
		return false;
	if (inst_has(i, MOD_cas))
		return !(value->kind == OPERAND_REG && loop_slice(s, value->id)) &&
		       !advances(s, &i->operands[1]);
	return !(inst_has(i, MOD_add) && value->kind == OPERAND_INT && value->bits);
}

/* Whether it reads from memory what another thread may be writing just then. */
static bool is_strong_load(const struct inst *i)
{
	return inst_is_load(i) &&
	       (inst_has(i, MOD_volatile) || inst_has(i, MOD_relaxed) || inst_has(i, MOD_acquire) ||
		       inst_has(i, MOD_mmio) || inst_has(i, MOD_cv));
}

/* Loads past the first cache, of surfaces, and by copies into shared memory are how some programs look at what other blocks
 * write. */
static bool is_load_from_blocks(const struct inst *i)
{
	if (i->op == OP_suld || i->op == OP_cp)
		return true;
	return inst_space(i) != SPACE_SHARED && inst_space(i) != SPACE_LOCAL &&
	       (is_strong_load(i) || (inst_is_load(i) && inst_has(i, MOD_cg)));
}

static bool load_waits(const struct search *s, const struct inst *i)
{
	unsigned space = inst_space(i);

	if (s->blocks && i->op == OP_suld)
		return true;
	if (i->op == OP_mbarrier)
		return !s->blocks && (inst_has(i, MOD_test_wait) || inst_has(i, MOD_try_wait));
	if (!inst_is_load(i) || inst_has(i, MOD_nc) || space == SPACE_PARAM || space == SPACE_CONST)
		return false;
	if (s->blocks && (space == SPACE_SHARED || space == SPACE_LOCAL))
		return s->outside;
	if (s->blocks && (s->outside || is_load_from_blocks(i)))
		return true;
	return space != SPACE_LOCAL && (is_strong_load(i) || s->fenced);
}

static void need(void *data, struct operand *o)
{
	struct search *s = data;

	s->changed |= !bits_get(s->needed, o->id);
	bits_set(s->needed, o->id);
}

static void decide(struct search *s, uint32_t block)
{
	struct work *w = s->work;

	if (bits_get(s->decides, block))
		return;
	bits_set(s->decides, block);
	s->changed = true;
	inst_uses(block_last(w, &w->blocks[block]), need, s);
}

static bool leaves(const struct search *s, const struct work_block *b)
{
	for (uint32_t k = 0; k < b->succ_count; k++)
		if (!bits_get(s->loop->members, b->succ[k]))
			return true;
	return false;
}

/* Whether the branch at a block's end decides over something that is needed. */
static bool matters(struct search *s, uint32_t block)
{
	struct work *w = s->work;

	memset(s->members, 0, (w->block_count / 64 + 1) * 8);
	uint32_t count = cfg_influence(w, block, PTX_NONE, s->list, s->members);
	s->steps += count;
	for (uint32_t k = 0; k < count; k++) {
		const struct work_block *b = &w->blocks[s->list[k]];

		if (!bits_get(s->loop->members, s->list[k]))
			continue;
		if (bits_get(s->decides, s->list[k]))
			return true;
		s->steps += b->end - b->first;
		for (uint32_t n = b->first; n < b->end; n++)
			if (defines(&w->insts[n], s->needed))
				return true;
	}
	return false;
}

static void search_block(struct search *s, uint32_t block)
{
	struct work *w = s->work;
	const struct work_block *b = &w->blocks[block];

	if (b->succ_count > 1 && !bits_get(s->decides, block) &&
		(leaves(s, b) || matters(s, block)))
		decide(s, block);
	s->steps += b->end - b->first;
	for (uint32_t n = b->first; n < b->end; n++) {
		struct inst *i = &w->insts[n];

		if (!defines(i, s->needed))
			continue;
		if ((load_waits(s, i) || atomic_waits(s, i)) &&
			!(!s->blocks && i->operands[1].kind == OPERAND_REG &&
				is_grid_barrier(s, i->operands[1].id)))
			s->waits = true;
		inst_uses(i, need, s);
	}
}

/* ---- what is in a loop ---- */

static bool is_block_barrier(const struct inst *i)
{
	return (i->op == OP_bar || i->op == OP_barrier) && !inst_has(i, MOD_warp) &&
	       !inst_has(i, MOD_arrive);
}

/* Returns whether the loop has anything that could be waited for. */
static bool look_at(struct search *s)
{
	struct work *w = s->work;
	bool reads = false, strong = false;

	s->fenced = s->barrier = s->outside = false;
	for (uint32_t k = 0; k < s->loop->count; k++) {
		const struct work_block *b = &w->blocks[s->loop->blocks[k]];

		if (is_block_barrier(&w->insts[b->first])) {
			s->barrier |= in_every_round(w, s->loop, s->loop->blocks[k]);
			s->fenced |= s->blocks;
		}
		for (uint32_t n = b->first; n < b->end; n++) {
			const struct inst *i = &w->insts[n];

			reads |= inst_is_load(i);
			strong |= load_waits(s, i) || i->op == OP_atom;
			s->outside |= is_load_from_blocks(i) || (s->blocks && atomic_waits(s, i));
			s->fenced |= i->op == OP_membar || i->op == OP_fence ||
				     (i->op == OP_bar && inst_has(i, MOD_warp));
		}
	}
	if (s->blocks)
		return reads || strong;
	return !s->barrier && (strong || (reads && s->fenced));
}

static bool loop_waits(struct search *s)
{
	struct work *w = s->work;

	if (!look_at(s))
		return false;
	memset(s->needed, 0, (w->reg_count / 64 + 1) * 8);
	memset(s->decides, 0, (w->block_count / 64 + 1) * 8);
	s->waits = false;
	do {
		s->changed = false;
		for (uint32_t k = 0; k < s->loop->count && !s->waits; k++)
			search_block(s, s->loop->blocks[k]);
		s->waits |= s->steps > MAX_STEPS;
	} while (s->changed && !s->waits);
	return s->waits;
}

/* The loop of one way back to a header. */
static void loop_of_latch(struct work *w, struct loop *l, uint32_t header, uint32_t latch)
{
	*l = (struct loop){.header = header, .count = 1};
	l->blocks = work_alloc(w, (w->block_count + 1) * sizeof(*l->blocks));
	l->members = work_alloc(w, (w->block_count / 64 + 1) * 8);
	if (w->error)
		return;
	l->blocks[0] = header;
	bits_set(l->members, header);
	if (latch != header) {
		bits_set(l->members, latch);
		l->blocks[l->count++] = latch;
	}
	for (uint32_t n = 1; n < l->count; n++) {
		const struct work_block *b = &w->blocks[l->blocks[n]];

		for (uint32_t p = 0; p < b->pred_count; p++)
			if (!bits_get(l->members, b->pred[p])) {
				bits_set(l->members, b->pred[p]);
				l->blocks[l->count++] = b->pred[p];
			}
	}
}

/* Loops that begin at one instruction, one in the other, are one to cfg.c: the inner one may wait where all together do not. */
static bool inner_waits(struct search *s)
{
	struct work *w = s->work;
	const struct loop *all = s->loop;
	const struct work_block *header = &w->blocks[all->header];
	uint32_t latches = 0;
	bool waits = false;

	for (uint32_t p = 0; p < header->pred_count; p++)
		latches += bits_get(all->members, header->pred[p]);
	for (uint32_t p = 0; p < header->pred_count && latches > 1 && !waits; p++) {
		struct loop inner;

		if (!bits_get(all->members, header->pred[p]))
			continue;
		loop_of_latch(w, &inner, all->header, header->pred[p]);
		s->loop = &inner;
		waits = !w->error && loop_waits(s);
	}
	s->loop = all;
	return waits;
}

static void begin_search(struct search *s)
{
	struct work *w = s->work;
	size_t blocks = (w->block_count / 64 + 1) * 8, regs = (w->reg_count / 64 + 1) * 8;

	s->needed = work_alloc(w, regs);
	s->slice = work_alloc(w, regs);
	s->decides = work_alloc(w, blocks);
	s->members = work_alloc(w, blocks);
	s->list = work_alloc(w, (w->block_count + 1) * sizeof(*s->list));
}

int spin_find(struct work *w)
{
	struct search s = {.work = w};

	if (!w->loop_count)
		return 0;
	begin_search(&s);
	for (uint32_t l = 0; l < w->loop_count && !w->error; l++) {
		s.loop = &w->loops[l];
		if (w->threads > 1 && (loop_waits(&s) || inner_waits(&s))) {
			w->blocks[s.loop->header].spins = true;
			w->any_spin = true;
		}
	}
	return w->error;
}

bool spin_awaits_blocks(struct work *w)
{
	struct search s = {.work = w, .blocks = true};
	bool waits = !cfg_is_reducible(w);

	begin_search(&s);
	for (uint32_t l = 0; l < w->loop_count && !w->error && !waits; l++) {
		s.loop = &w->loops[l];
		waits = loop_waits(&s) || inner_waits(&s);
	}
	return waits;
}
