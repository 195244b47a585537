/* SPDX-License-Identifier: MIT
 *
 * Uniformity: which registers hold the same value in all threads that are active where they are
 * read. A register diverges when it is computed from something that does, when its definitions on
 * the two sides of a divergent branch meet, or when it leaves a loop that threads leave at
 * different times.
 */
#include "device/cpu/ptx/work.h"

#include <string.h>

struct uniform {
	struct work *work;
	bool changed, divergent; /* of the instruction at hand */
	uint32_t *list, *label;
	uint64_t *members, *done, *joins;
};

static bool special_diverges(const struct work *w, uint32_t id)
{
	if (id < SPECIAL_TID + 3)
		return work_width(w, id - SPECIAL_TID) > 1;
	switch (id) {
	case SPECIAL_LANEID:
	case SPECIAL_WARPID:
	case SPECIAL_CLOCK:
	case SPECIAL_CLOCK_HI:
	case SPECIAL_CLOCK64:
	case SPECIAL_GLOBALTIMER:
	case SPECIAL_GLOBALTIMER_HI:
	case SPECIAL_LANEMASK_EQ:
	case SPECIAL_LANEMASK_LE:
	case SPECIAL_LANEMASK_LT:
	case SPECIAL_LANEMASK_GE:
	case SPECIAL_LANEMASK_GT:
		return true;
	}
	return false;
}

/* A variable in the thread's own memory: a local one, or a parameter of a call whose address is taken (params.c). */
static bool is_own(const struct work *w, const struct variable *v)
{
	for (uint32_t k = 0; v->space == SPACE_PARAM && k < w->local_count; k++)
		if (w->locals[k].var == v)
			return true;
	return v->space == SPACE_LOCAL;
}

bool operand_diverges(const struct work *w, const struct operand *o)
{
	if (o->kind == OPERAND_REG)
		return w->regs[o->id].divergent;
	if (o->kind == OPERAND_SPECIAL)
		return special_diverges(w, o->id);
	if (o->kind == OPERAND_SYMBOL)
		return is_own(w, o->var);
	for (unsigned k = 0; o->kind == OPERAND_VECTOR && k < o->count; k++)
		if (operand_diverges(w, &o->elements[k]))
			return true;
	return false;
}

/* A load by the same address gives every thread the same value, unless it says that others may
 * be writing, or the memory is the thread's own. */
static bool load_diverges(const struct work *w, const struct inst *i)
{
	unsigned space = inst_space(i);

	if (w->checked && space != SPACE_PARAM) /* each thread's load is seen */
		return true;

	return inst_has(i, MOD_volatile) || inst_has(i, MOD_relaxed) || inst_has(i, MOD_acquire) ||
	       inst_has(i, MOD_mmio) || space == SPACE_LOCAL;
}

static bool inst_diverges(const struct work *w, const struct inst *i)
{
	unsigned flags = ptx_opcodes[i->op].flags;

	if (i->op == OP_exchange || !((flags & OPF_PURE) || inst_is_load(i)))
		return true;
	if (inst_is_load(i) && load_diverges(w, i))
		return true;
	if (i->op == OP_cvta && inst_space(i) == SPACE_LOCAL)
		return true;
	if (inst_writes_carry(i) || inst_reads_carry(i))
		return true;
	for (unsigned k = i->dest_count; k < i->operand_count; k++)
		if (operand_diverges(w, &i->operands[k]))
			return true;
	return false;
}

static void mark(void *data, struct operand *o)
{
	struct uniform *u = data;
	struct work_reg *r = &u->work->regs[o->id];

	if (!r->divergent)
		u->changed = true;
	r->divergent = true;
}

bool branch_diverges(const struct work *w, const struct work_block *b)
{
	const struct inst *last = block_last(w, b);

	if (b->succ_count < 2)
		return false;
	if (last->op == OP_brx)
		return operand_diverges(w, &last->operands[0]);
	return w->regs[last->guard].divergent;
}

/* ---- joins of a divergent branch ---- */

static uint32_t label_from(const struct uniform *u, uint32_t pred, uint32_t branch, uint32_t to)
{
	if (pred == branch)
		return to;
	return bits_get(u->members, pred) ? u->label[pred] : PTX_NONE;
}

static void find_join(struct uniform *u, uint32_t branch, uint32_t b)
{
	const struct work_block *x = &u->work->blocks[b];
	uint32_t label = PTX_NONE;

	for (uint32_t p = 0; p < x->pred_count; p++) {
		uint32_t from = label_from(u, x->pred[p], branch, b);

		if (from == PTX_NONE || from == label)
			continue;
		if (label != PTX_NONE && !bits_get(u->joins, b)) {
			bits_set(u->joins, b);
			label = b;
			break;
		}
		label = from;
	}
	if (bits_get(u->joins, b))
		label = b;
	if (label != u->label[b]) {
		u->label[b] = label;
		u->changed = true;
	}
}

struct join_visit {
	struct uniform *u;
	const uint32_t *blocks;
	uint32_t count;
};

static void mark_if_joined(void *data, struct operand *o)
{
	struct join_visit *v = data;
	struct work *w = v->u->work;
	struct work_reg *r = &w->regs[o->id];

	if (r->divergent || r->single || r->global == PTX_NONE)
		return;
	for (uint32_t k = 0; k < v->count; k++)
		if (bits_get(w->blocks[v->blocks[k]].live_in, r->global)) {
			mark(v->u, o);
			return;
		}
}

static void visit_defs(
	struct work *w, const uint32_t *blocks, uint32_t count, reg_visitor visit, void *data)
{
	for (uint32_t k = 0; k < count; k++)
		for (uint32_t n = w->blocks[blocks[k]].first; n < w->blocks[blocks[k]].end; n++)
			inst_defs(&w->insts[n], visit, data);
}

static void mark_joined(struct uniform *u, uint32_t branch, uint32_t count)
{
	struct work *w = u->work;
	const struct work_block *b = &w->blocks[branch];
	uint32_t *joins = u->label + w->block_count + 1, join_count = 0;
	bool outer = u->changed, stable = false;

	/* The influenced blocks in reverse postorder, until labels settle. */
	for (uint32_t k = 0; k <= w->block_count; k++)
		u->label[k] = PTX_NONE;
	while (!stable) {
		u->changed = false;
		for (uint32_t k = 0; k < w->rpo_count; k++)
			if (bits_get(u->members, w->rpo[k]) && w->rpo[k] != branch)
				find_join(u, branch, w->rpo[k]);
		stable = !u->changed;
	}
	u->changed = outer;
	for (uint32_t k = 0; k < count; k++)
		if (bits_get(u->joins, u->list[k]))
			joins[join_count++] = u->list[k];
	if (b->ipdom < w->block_count)
		joins[join_count++] = b->ipdom;
	struct join_visit v = {.u = u, .blocks = joins, .count = join_count};
	visit_defs(w, u->list, count, mark_if_joined, &v);
}

/* ---- loops that threads leave at different times ---- */

static void mark_if_leaving(void *data, struct operand *o)
{
	struct join_visit *v = data;
	struct work *w = v->u->work;
	struct work_reg *r = &w->regs[o->id];

	if (r->divergent || r->global == PTX_NONE)
		return;
	for (uint32_t k = 0; k < v->count; k++)
		if (bits_get(w->blocks[v->blocks[k]].live_in, r->global)) {
			mark(v->u, o);
			return;
		}
}

static void mark_leaving(struct uniform *u, uint32_t branch)
{
	struct work *w = u->work;
	uint32_t *exits = u->label + w->block_count + 1;

	for (uint32_t l = 0; l < w->loop_count; l++) {
		const struct loop *loop = &w->loops[l];
		uint32_t count = 0;

		if (!bits_get(loop->members, branch) || !bits_get(u->members, loop->header))
			continue;
		memset(u->joins, 0, (w->block_count / 64 + 1) * 8);
		for (uint32_t k = 0; k < loop->count; k++) {
			const struct work_block *b = &w->blocks[loop->blocks[k]];

			for (uint32_t s = 0; s < b->succ_count; s++)
				if (!bits_get(loop->members, b->succ[s]) &&
					!bits_get(u->joins, b->succ[s])) {
					bits_set(u->joins, b->succ[s]);
					exits[count++] = b->succ[s];
				}
		}
		struct join_visit v = {.u = u, .blocks = exits, .count = count};
		visit_defs(w, loop->blocks, loop->count, mark_if_leaving, &v);
	}
}

static void diverge_at(struct uniform *u, uint32_t branch)
{
	size_t words = u->work->block_count / 64 + 1;

	memset(u->members, 0, words * 8);
	memset(u->joins, 0, words * 8);
	uint32_t count = cfg_influence(u->work, branch, PTX_NONE, u->list, u->members);
	mark_joined(u, branch, count);
	mark_leaving(u, branch);
}

int uniform_analyse(struct work *w)
{
	size_t words = w->block_count / 64 + 1;
	struct uniform u = {.work = w};

	u.list = work_alloc(w, (w->block_count + 1) * sizeof(*u.list));
	u.label = work_alloc(w, 2 * (w->block_count + 2) * sizeof(*u.label));
	u.members = work_alloc(w, words * 8);
	u.done = work_alloc(w, words * 8);
	u.joins = work_alloc(w, words * 8);
	if (w->error)
		return w->error;
	do {
		u.changed = false;
		for (uint32_t k = 0; k < w->rpo_count; k++) {
			const struct work_block *b = &w->blocks[w->rpo[k]];

			for (uint32_t n = b->first; n < b->end; n++)
				if (inst_diverges(w, &w->insts[n]))
					inst_defs(&w->insts[n], mark, &u);
			if (branch_diverges(w, b) && !bits_get(u.done, w->rpo[k])) {
				bits_set(u.done, w->rpo[k]);
				diverge_at(&u, w->rpo[k]);
			}
		}
	} while (u.changed);
	return 0;
}
