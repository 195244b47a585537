/* SPDX-License-Identifier: MIT
 *
 * Collectives that meet. On sm_70 and later a collective waits until all lanes of its mask that have not left wait at one of its
 * kind with the same mask, wherever that is. Hence the sides of a branch may exchange values, each by an instruction of its own.
 * Compiled code knows a collective by its place (region.h): those of one kind that lie on different sides of a divergent branch
 * become one.
 *
 *     a: vote x, p, m; …          a: v = p; n = m; k = 0; bra c     c: vote y, v, n; brx k, {a', b'}
 *     b: vote z, q, l; …          b: v = q; n = l; k = 1; bra c     a': x = y; …     b': z = y; …
 *
 * Not so if their masks are numbers that differ. Barriers of a warp meet in the same way.
 */
#include "device/cpu/ptx/work.h"

#include <string.h>

struct place { /* a collective */
	uint32_t inst, block;
	uint32_t group;  /* the first place of those that meet */
	uint32_t number; /* among them */
	uint32_t back;   /* label behind it */
	uint32_t at;     /* where that is */
};

struct group { /* registers, and what its places become: its label, and where that is */
	uint32_t values[PTX_MAX_OPERANDS], result, predicate, which, label, at;
	uint32_t count; /* of places */
};

struct meet {
	struct work *work;
	struct place *places;
	struct group *groups; /* by their first places */
	uint32_t count;
	bool found;
	uint32_t *list;
	uint64_t *sides[2];
};

/* ---- who meets ---- */

/* Its mask is its last operand. */
static bool may_meet(const struct inst *i)
{
	switch (i->op) {
	case OP_bar:
		return inst_has(i, MOD_warp) && i->operand_count == 1;
	case OP_shfl:
	case OP_vote:
	case OP_match:
	case OP_redux:
	case OP_elect:
		return inst_has(i, MOD_sync);
	}
	return false;
}

static bool mask_is_known(const struct work *w, const struct inst *i, uint32_t *mask)
{
	const struct operand *o = &i->operands[i->operand_count - 1];

	if (o->kind == OPERAND_REG && w->regs[o->id].single &&
		w->insts[w->regs[o->id].def].op == OP_mov)
		o = &w->insts[w->regs[o->id].def].operands[1];
	*mask = (uint32_t)o->bits;
	return o->kind == OPERAND_INT;
}

static bool same_kind(const struct work *w, const struct inst *a, const struct inst *b)
{
	uint32_t m, n;

	if (a->op != b->op || a->operand_count != b->operand_count ||
		memcmp(a->modifiers, b->modifiers, sizeof(a->modifiers)) ||
		memcmp(a->types, b->types, sizeof(a->types)))
		return false;
	return !mask_is_known(w, a, &m) || !mask_is_known(w, b, &n) || m == n;
}

static void find_places(struct meet *m)
{
	struct work *w = m->work;

	for (uint32_t k = 0; k < w->rpo_count; k++) {
		uint32_t first = w->blocks[w->rpo[k]].first;

		if (!may_meet(&w->insts[first]))
			continue;
		m->places[m->count] = (struct place){first, w->rpo[k], m->count, 0, 0, 0};
		m->count++;
	}
}

static void join(struct meet *m, uint32_t a, uint32_t b)
{
	uint32_t x = m->places[a].group, y = m->places[b].group;

	for (uint32_t k = 0; k < m->count; k++)
		if (m->places[k].group == x || m->places[k].group == y)
			m->places[k].group = x < y ? x : y;
	m->found = true;
}

static bool only_on(const struct meet *m, unsigned side, uint32_t place)
{
	uint32_t block = m->places[place].block;

	return bits_get(m->sides[side], block) && !bits_get(m->sides[1 - side], block);
}

static void join_sides(struct meet *m, uint32_t branch, uint32_t left, uint32_t right)
{
	struct work *w = m->work;
	size_t bytes = (w->block_count / 64 + 1) * 8;

	memset(m->sides[0], 0, bytes);
	memset(m->sides[1], 0, bytes);
	cfg_influence(w, branch, left, m->list, m->sides[0]);
	cfg_influence(w, branch, right, m->list, m->sides[1]);
	for (uint32_t a = 0; a < m->count; a++)
		for (uint32_t b = 0; b < m->count && only_on(m, 0, a); b++)
			if (m->places[a].group != m->places[b].group && only_on(m, 1, b) &&
				same_kind(w, &w->insts[m->places[a].inst],
					&w->insts[m->places[b].inst]))
				join(m, a, b);
}

static void find_meetings(struct meet *m)
{
	struct work *w = m->work;

	for (uint32_t k = 0; k < w->rpo_count; k++) {
		const struct work_block *b = &w->blocks[w->rpo[k]];

		if (!branch_diverges(w, b))
			continue;
		for (uint32_t s = 1; s < b->succ_count; s++)
			for (uint32_t t = 0; t < s; t++)
				join_sides(m, w->rpo[k], b->succ[t], b->succ[s]);
	}
}

/* ---- writing the new list ---- */

static struct operand reg(uint32_t id)
{
	return (struct operand){.kind = OPERAND_REG, .id = id};
}

static void move(struct work *w, uint32_t line, uint32_t to, struct operand from)
{
	struct inst *i = work_inst(w, OP_mov, line, 2);

	if (!i)
		return;
	i->types[i->type_count++] = w->regs[to].type;
	i->operands[0] = reg(to);
	i->operands[1] = from;
}

/* Whether other threads read the operand: it is the result of an instruction of its own then (inline.c). */
static bool is_exchanged(const struct work *w, const struct inst *i, unsigned k)
{
	return i->operands[k].kind == OPERAND_REG && w->regs[i->operands[k].id].exchanged;
}

static void make_registers(struct work *w, struct group *g, const struct inst *i)
{
	bool predicate = i->op == OP_vote && !inst_has(i, MOD_ballot);

	g->label = work_label(w);
	g->which = work_reg(w, TYPE_b32);
	g->result = work_reg(w, predicate ? TYPE_pred : TYPE_b32);
	g->predicate = work_reg(w, TYPE_pred);
	for (unsigned k = i->dest_count; k < i->operand_count; k++) {
		bool exchanged = is_exchanged(w, i, k);

		g->values[k] = work_reg(w, exchanged ? w->regs[i->operands[k].id].type
					   : i->op == OP_vote && k == 1 ? TYPE_pred
									: TYPE_b32);
		if (!w->error)
			w->regs[g->values[k]].exchanged = exchanged;
	}
}

/* What the places of a group exchange goes through one register. */
static void make_groups(struct meet *m)
{
	struct work *w = m->work;

	for (uint32_t k = 0; k < m->count; k++)
		m->places[k].number = m->groups[m->places[k].group].count++;
	for (uint32_t k = 0; k < m->count && !w->error; k++) {
		struct group *g = &m->groups[m->places[k].group];
		struct inst *i = &w->insts[m->places[k].inst];

		if (g->count == 1)
			continue;
		m->places[k].back = work_label(w);
		if (!m->places[k].number)
			make_registers(w, g, i);
		for (unsigned o = i->dest_count; o < i->operand_count && !w->error; o++)
			if (is_exchanged(w, i, o))
				w->insts[w->regs[i->operands[o].id].def].operands[0].id =
					g->values[o];
	}
}

/* In the place of a collective. */
static void write_place(struct meet *m, struct place *p, const struct inst *i)
{
	struct work *w = m->work;
	const struct group *g = &m->groups[p->group];
	const struct operand *d = &i->operands[0], *second = NULL;

	for (unsigned k = i->dest_count; k < i->operand_count; k++)
		if (!is_exchanged(w, i, k))
			move(w, i->line, g->values[k], i->operands[k]);
	move(w, i->line, g->which, (struct operand){.kind = OPERAND_INT, .bits = p->number});
	struct inst *jump = work_inst(w, OP_bra, i->line, 1);
	if (w->error)
		return;
	jump->operands[0] = (struct operand){.kind = OPERAND_LABEL, .id = g->label};
	p->at = w->inst_count;
	if (i->dest_count && d->kind == OPERAND_VECTOR) {
		second = &d->elements[1];
		d = &d->elements[0];
	}
	if (i->dest_count && d->kind == OPERAND_REG)
		move(w, i->line, d->id, reg(g->result));
	if (second && second->kind == OPERAND_REG)
		move(w, i->line, second->id, reg(g->predicate));
}

/* The collective of a group, and the way back to where a thread came from. */
static void write_group(struct meet *m, uint32_t group, const struct inst *like)
{
	struct work *w = m->work;
	struct group *g = &m->groups[group];
	bool pair = like->op == OP_shfl || like->op == OP_elect ||
		    (like->op == OP_match && inst_has(like, MOD_all));

	g->at = w->inst_count;
	struct inst *i = work_inst(w, like->op, like->line, like->operand_count);
	if (!i)
		return;
	struct operand *operands = i->operands;
	*i = *like;
	i->operands = operands;
	for (unsigned k = i->dest_count; k < i->operand_count; k++)
		operands[k] = reg(g->values[k]);
	if (pair) {
		struct operand *d = operands;

		*d = (struct operand){.kind = OPERAND_VECTOR, .count = 2};
		d->elements = work_alloc(w, 2 * sizeof(*d));
		if (w->error)
			return;
		d->elements[0] = reg(g->result);
		d->elements[1] = reg(g->predicate);
	} else if (i->dest_count) {
		operands[0] = reg(g->result);
	}
	i = work_inst(w, OP_brx, like->line, 2);
	if (!i)
		return;
	i->operands[0] = reg(g->which);
	i->targets = work_alloc(w, g->count * sizeof(*i->targets));
	for (uint32_t k = 0; k < m->count && !w->error; k++)
		if (m->places[k].group == group)
			i->targets[i->target_count++] =
				(struct operand){.kind = OPERAND_LABEL, .id = m->places[k].back};
}

static void place_labels(struct meet *m)
{
	for (uint32_t k = 0; k < m->count; k++) {
		const struct place *p = &m->places[k];
		const struct group *g = &m->groups[p->group];

		if (g->count == 1)
			continue;
		m->work->labels[p->back] = p->at;
		m->work->labels[g->label] = g->at;
	}
}

static void rewrite(struct meet *m)
{
	struct work *w = m->work;
	struct inst *old = w->insts;
	uint32_t count = w->inst_count;
	uint32_t *moved = work_alloc(w, (count + 1) * sizeof(*moved));
	struct place **at = work_alloc(w, (count + 1) * sizeof(struct place *));

	for (uint32_t k = 0; k < m->count && !w->error; k++)
		if (m->groups[m->places[k].group].count > 1)
			at[m->places[k].inst] = &m->places[k];
	w->insts = NULL;
	w->inst_count = w->inst_capacity = 0;
	for (uint32_t n = 0; n < count && !w->error; n++) {
		moved[n] = w->inst_count;
		if (at[n]) {
			write_place(m, at[n], &old[n]);
			continue;
		}
		struct inst *copy = work_inst(w, old[n].op, old[n].line, 0);
		if (copy)
			*copy = old[n];
	}
	if (w->error)
		return;
	moved[count] = w->inst_count;
	for (uint32_t k = 0; k < m->count && !w->error; k++)
		if (m->places[k].group == k && m->groups[k].count > 1)
			write_group(m, k, &old[m->places[k].inst]);
	work_move_labels(w, moved);
	place_labels(m);
}

bool meet_rewrite(struct work *w)
{
	struct meet m = {.work = w};
	size_t bytes = (w->block_count / 64 + 1) * 8;

	m.places = work_alloc(w, (w->rpo_count + 1) * sizeof(*m.places));
	m.groups = work_alloc(w, (w->rpo_count + 1) * sizeof(*m.groups));
	m.list = work_alloc(w, (w->block_count + 1) * sizeof(*m.list));
	m.sides[0] = work_alloc(w, bytes);
	m.sides[1] = work_alloc(w, bytes);
	if (w->error)
		return false;
	find_places(&m);
	if (m.count > 1)
		find_meetings(&m);
	if (!m.found)
		return false;
	make_groups(&m);
	rewrite(&m);
	return true;
}
