/* SPDX-License-Identifier: MIT
 *
 * Loops in which the threads of a block go through an array side by side:
 *
 *     for (i = start + tid.x; i < n; i += step) …
 *
 * One thread after the other would go through it in strides of `step`, far apart. Instead all threads do a round before
 * any does the next, so that a round's accesses are neighbours. The loop is written once more before itself, as
 *
 *     for (u = start; u < n; u += step)
 *         if (tid.x < n - u) { i = u + tid.x; … }
 *
 * of which narrow.c makes loops over as many threads as there is something left for. The loop as it was is behind it, for
 * numbers so large that sums may wrap.
 *
 * Threads that leave early change nothing for the others, as PTX gives no order between threads in such a loop.
 */
#include "device/cpu/ptx/work.h"

#include <string.h>

enum {
	MAX_INSTS = 400, /* of a loop */
	MAX_DEPTH = 12,  /* of how the first index is made */
	MAX_MOVED = 16,  /* what goes on by a step a round, besides the index */
	LIMIT_BITS = 30, /* numbers below 2^30, or 2^62: three may be added */
};

struct stride {
	struct work *work;
	const struct loop *loop;
	uint32_t first, end, last; /* instructions; last: the branch back */
	uint32_t latch;
	uint32_t index, init; /* register, and the instruction that gives it its first value */
	uint32_t update, move, test;
	const struct operand *step, *limit;
	bool asked;     /* a branch around the loop keeps out those without a first round */
	uint32_t entry; /* that branch if the new loop can do without it, or PTX_NONE */
	uint32_t moved[MAX_MOVED], moved_count;
	uint32_t begins
		[MAX_MOVED]; /* what makes their first values, if it can do so again, or PTX_NONE */
	/* While it is written: */
	struct inst *old;
	uint32_t *renamed, *labels; /* by register; by instruction of the loop */
	uint32_t sum;               /* of 32 bits that was made 64, PTX_NONE: none */
};

/* ---- finding one ---- */

static bool live_in(const struct work *w, uint32_t reg, uint32_t block)
{
	uint32_t global = w->regs[reg].global;

	return global != PTX_NONE && block < w->block_count &&
	       bits_get(w->blocks[block].live_in, global);
}

/* After the loop. */
static bool live_out(const struct stride *s, uint32_t reg)
{
	return live_in(s->work, reg, s->latch + 1);
}

static bool is_plain(const struct inst *i, unsigned op, unsigned bits)
{
	return i->op == op && i->type_count == 1 && !i->modifier_count &&
	       (ptx_type_class[i->types[0]] == 's' || ptx_type_class[i->types[0]] == 'u' ||
		       ptx_type_class[i->types[0]] == 'b') &&
	       ptx_type_bits[i->types[0]] == bits;
}

/* The same for all threads, and in all rounds. */
static bool is_constant(const struct stride *s, const struct operand *o)
{
	if (o->kind == OPERAND_INT)
		return !o->literal;
	return o->kind == OPERAND_REG && !o->negated && !s->work->regs[o->id].divergent &&
	       !defs_between(s->work, o->id, s->first, s->end);
}

/* A number, or a register that always holds what it held where the first index was made. */
static bool is_leaf(const struct work *w, const struct operand *o)
{
	if (o->kind == OPERAND_INT)
		return !o->literal;
	return o->kind == OPERAND_REG && !o->negated && !w->regs[o->id].divergent &&
	       w->regs[o->id].single;
}

static bool is_offset(const struct work *w, const struct operand *o, unsigned depth);

/* Whether the instruction makes tid.x plus something that is the same for all threads. */
static bool makes_offset(const struct work *w, const struct inst *i, unsigned depth)
{
	const struct operand *o = i->operands;

	if (depth > MAX_DEPTH || i->guard != PTX_NONE || i->operand_count < 2)
		return false;
	if (is_plain(i, OP_mov, 32) || is_plain(i, OP_mov, 64))
		return is_offset(w, &o[1], depth);
	if (is_plain(i, OP_add, 32) || is_plain(i, OP_add, 64))
		return (is_offset(w, &o[1], depth) && is_leaf(w, &o[2])) ||
		       (is_leaf(w, &o[1]) && is_offset(w, &o[2], depth));
	if (i->op == OP_mad && i->modifier_count == 1 && i->modifiers[0] == MOD_lo &&
		i->type_count == 1)
		return is_leaf(w, &o[1]) && is_leaf(w, &o[2]) && is_offset(w, &o[3], depth);
	return i->op == OP_cvt && !i->modifier_count && i->type_count == 2 &&
	       ptx_type_bits[i->types[0]] == 64 && ptx_type_bits[i->types[1]] == 32 &&
	       ptx_type_class[i->types[1]] != 'f' && ptx_type_class[i->types[0]] != 'f' &&
	       is_offset(w, &o[1], depth);
}

static bool is_offset(const struct work *w, const struct operand *o, unsigned depth)
{
	if (o->kind == OPERAND_SPECIAL)
		return o->id == SPECIAL_TID;
	return o->kind == OPERAND_REG && !o->negated && w->regs[o->id].single &&
	       makes_offset(w, &w->insts[w->regs[o->id].def], depth + 1);
}

/* One way in, one way out at the end, nothing in it that threads wait at, and one stretch of the text. */
static bool find_shape(struct stride *s)
{
	struct work *w = s->work;
	const struct work_block *header = &w->blocks[s->loop->header];
	uint32_t size = 0;

	s->latch = PTX_NONE;
	for (uint32_t k = 0; k < header->pred_count; k++)
		if (bits_get(s->loop->members, header->pred[k])) {
			if (s->latch != PTX_NONE)
				return false;
			s->latch = header->pred[k];
		}
	if (s->latch == PTX_NONE || s->latch < s->loop->header)
		return false;
	s->first = header->first;
	s->end = w->blocks[s->latch].end;
	s->last = s->end - 1;
	for (uint32_t k = 0; k < s->loop->count; k++) {
		const struct work_block *b = &w->blocks[s->loop->blocks[k]];

		size += b->end - b->first;
		if (b->border || b->exits || b->first < s->first || b->end > s->end)
			return false;
		for (uint32_t t = 0; t < b->succ_count; t++)
			if ((!bits_get(s->loop->members, b->succ[t]) &&
				    s->loop->blocks[k] != s->latch) ||
				(b->succ[t] != s->loop->header &&
					w->blocks[b->succ[t]].order <= b->order))
				return false;
		for (uint32_t n = b->first; n < b->end; n++)
			if (w->insts[n].op == OP_brx || w->insts[n].op == OP_call ||
				w->insts[n].op == OP_exchange)
				return false;
	}
	const struct inst *back = &w->insts[s->last];
	return size == s->end - s->first && size <= MAX_INSTS && back->op == OP_bra &&
	       back->guard != PTX_NONE && back->rounds == ROUNDS_NONE &&
	       w->blocks[s->latch].succ_count == 2 && s->latch + 1 < w->block_count &&
	       w->blocks[s->latch].succ[1] == s->latch + 1;
}

/* Finds `test` and `limit`; in *tested what it compares with the limit. */
static bool find_test(struct stride *s, uint32_t *tested)
{
	struct work *w = s->work;
	const struct inst *back = &w->insts[s->last], *t;
	const struct work_reg *p = &w->regs[back->guard];
	uint32_t begin = w->blocks[s->latch].first;

	if (!p->single || p->def < begin || p->def >= s->last || live_out(s, back->guard) ||
		uses_between(w, back->guard, s->first, s->end) != 1)
		return false;
	s->test = p->def;
	t = &w->insts[s->test];
	if (t->op != OP_setp || t->dest_count != 1 || t->operand_count != 3 ||
		t->modifier_count != 1 || t->type_count != 1 ||
		t->modifiers[0] != (back->guard_negated ? MOD_ge : MOD_lt) ||
		(ptx_type_class[t->types[0]] != 's' && ptx_type_class[t->types[0]] != 'u') ||
		ptx_type_bits[t->types[0]] < 32 || t->operands[1].kind != OPERAND_REG ||
		t->operands[1].negated)
		return false;
	s->limit = &t->operands[2];
	*tested = t->operands[1].id;
	return is_constant(s, s->limit);
}

/* Far enough that what a round of the block touches is not what its next one does. */
static bool is_wide(const struct stride *s)
{
	return s->step->kind == OPERAND_REG ||
	       (s->step->bits >= work_width(s->work, 0) && s->step->bits < INT32_MAX);
}

/* `i += step` or `x = i + step; i = x`, and then the test, all in the last block. */
static bool find_update(struct stride *s, uint32_t tested)
{
	struct work *w = s->work;
	uint32_t begin = w->blocks[s->latch].first, add = PTX_NONE;
	unsigned bits = ptx_type_bits[w->regs[tested].type];

	s->move = PTX_NONE;
	for (uint32_t n = begin; n < s->last; n++)
		if (defs_between(w, tested, n, n + 1)) {
			if (add != PTX_NONE)
				return false;
			add = n;
		}
	if (add == PTX_NONE || add > s->test || !is_plain(&w->insts[add], OP_add, bits) ||
		w->insts[add].operands[1].kind != OPERAND_REG || w->insts[add].operands[1].negated)
		return false;
	s->update = add;
	s->index = w->insts[add].operands[1].id;
	s->step = &w->insts[add].operands[2];
	if (tested == s->index)
		return uses_between(w, tested, add + 1, s->end) == 1;
	for (uint32_t n = add + 1; n < s->last; n++)
		if (is_plain(&w->insts[n], OP_mov, bits) &&
			w->insts[n].operands[0].id == s->index &&
			w->insts[n].operands[1].kind == OPERAND_REG &&
			w->insts[n].operands[1].id == tested)
			s->move = n;
	return s->move != PTX_NONE && w->regs[tested].single && !live_out(s, tested) &&
	       uses_between(w, tested, s->first, s->end) == 2 &&
	       !uses_between(w, s->index, s->move + 1, s->end);
}

/* The index has a value from before the loop and one from each round. */
static bool find_init(struct stride *s)
{
	struct work *w = s->work;

	if (w->regs[s->index].def_count != 2 || live_in(w, s->index, 0) || live_out(s, s->index) ||
		defs_between(w, s->index, s->first, s->end) != 1 ||
		ptx_type_bits[w->insts[s->test].types[0]] != ptx_type_bits[w->regs[s->index].type])
		return false;
	for (uint32_t k = 0; k < w->rpo_count; k++) {
		const struct work_block *b = &w->blocks[w->rpo[k]];

		for (uint32_t n = b->first; n < b->end; n++)
			if ((n < s->first || n >= s->end) && defs_between(w, s->index, n, n + 1)) {
				s->init = n;
				return w->insts[n].dest_count == 1 &&
				       makes_offset(w, &w->insts[n], 0);
			}
	}
	return false;
}

/* Whether the instruction makes of the first index, or of what never changes, the same again. */
static bool is_repeatable(const struct stride *s, const struct inst *i)
{
	const struct work *w = s->work;

	if (!(ptx_opcodes[i->op].flags & OPF_PURE) || (ptx_opcodes[i->op].flags & OPF_COLLECTIVE) ||
		inst_has(i, MOD_cc) || i->dest_count != 1 || i->guard != PTX_NONE)
		return false;
	for (unsigned k = 1; k < i->operand_count; k++) {
		const struct operand *o = &i->operands[k];

		if (o->kind == OPERAND_REG ? o->id != s->index && !w->regs[o->id].single
					   : o->kind != OPERAND_INT)
			return false;
	}
	return true;
}

static uint32_t find_begin(struct stride *s, uint32_t v)
{
	struct work *w = s->work;

	if (w->regs[v].def_count != 2 || live_in(w, v, 0))
		return PTX_NONE;
	for (uint32_t k = 0; k < w->rpo_count; k++) {
		const struct work_block *b = &w->blocks[w->rpo[k]];

		for (uint32_t n = b->first; n < b->end; n++)
			if ((n < s->first || n >= s->end) && defs_between(w, v, n, n + 1))
				return is_repeatable(s, &w->insts[n]) ? n : PTX_NONE;
	}
	return PTX_NONE;
}

/* The others that go on by the same step in all threads do so in every round, as nobody asks them after the loop. */
static void find_moved(struct stride *s)
{
	struct work *w = s->work;

	s->moved_count = 0;
	for (uint32_t n = w->blocks[s->latch].first; n < s->last; n++) {
		const struct inst *i = &w->insts[n];
		const struct operand *o = i->operands;

		if (n == s->update || s->moved_count == MAX_MOVED ||
			(!is_plain(i, OP_add, 32) && !is_plain(i, OP_add, 64)) ||
			o[1].kind != OPERAND_REG || o[0].id != o[1].id || o[1].negated ||
			!is_constant(s, &o[2]) || live_out(s, o[0].id) ||
			defs_between(w, o[0].id, s->first, s->end) != 1 ||
			uses_between(w, o[0].id, n + 1, s->end))
			continue;
		s->begins[s->moved_count] = find_begin(s, o[0].id);
		s->moved[s->moved_count++] = n;
	}
}

static bool same_operand(const struct operand *a, const struct operand *b)
{
	return a->kind == b->kind && (a->kind == OPERAND_REG ? a->id == b->id : a->bits == b->bits);
}

static bool is_first_index(const struct stride *s, const struct operand *o)
{
	const struct operand *from = &s->work->insts[s->init].operands[1];

	return o->kind == OPERAND_REG &&
	       (o->id == s->index || (s->work->insts[s->init].op == OP_mov &&
					     from->kind == OPERAND_REG && from->id == o->id));
}

/* Whether the branch keeps from the loop whom its test would send out of it. */
static bool asks_first(const struct stride *s, const struct inst *branch)
{
	const struct work *w = s->work;
	const struct inst *t;

	if (branch->op != OP_bra || branch->guard == PTX_NONE || !w->regs[branch->guard].single)
		return false;
	t = &w->insts[w->regs[branch->guard].def];
	return t->op == OP_setp && t->dest_count == 1 && t->operand_count == 3 &&
	       t->modifier_count == 1 && t->type_count == 1 &&
	       t->types[0] == w->insts[s->test].types[0] &&
	       t->modifiers[0] == (branch->guard_negated ? MOD_lt : MOD_ge) &&
	       is_first_index(s, &t->operands[1]) && is_leaf(w, s->limit) &&
	       same_operand(&t->operands[2], s->limit);
}

static bool is_removable(struct stride *s, uint32_t first)
{
	struct work *w = s->work;

	for (uint32_t n = first; n < s->first; n++) {
		struct inst *i = &w->insts[n];

		if (!(ptx_opcodes[i->op].flags & OPF_PURE) &&
			!(i->op == OP_ld && inst_space(i) == SPACE_PARAM))
			return false;
		if (i->dest_count != 1 || i->operands[0].kind != OPERAND_REG ||
			live_out(s, i->operands[0].id))
			return false;
	}
	return true;
}

/* The branch around the loop, perhaps with something behind it. If that has no effect, the new loop asks instead. */
static void find_entry(struct stride *s)
{
	struct work *w = s->work;
	const struct work_block *b = &w->blocks[s->loop->header];
	uint32_t at = s->first;

	s->entry = PTX_NONE;
	s->asked = false;
	if (b->pred_count != 2)
		return;
	uint32_t before = b->pred[b->pred[0] == s->latch];
	if (w->blocks[before].succ_count == 1 && w->blocks[before].end == at) {
		if (w->blocks[before].pred_count != 1)
			return;
		at = w->blocks[before].first;
		before = w->blocks[before].pred[0];
	}
	if (w->blocks[before].end != at || w->blocks[before].succ_count != 2 ||
		!asks_first(s, &w->insts[at - 1]))
		return;
	s->asked = w->blocks[before].succ[0] != w->blocks[before].succ[1];
	if (w->labels[w->insts[at - 1].operands[0].id] == s->end && is_removable(s, at))
		s->entry = at - 1;
}

static bool find_stride(struct stride *s)
{
	uint32_t tested;

	if (!find_shape(s) || !branch_diverges(s->work, &s->work->blocks[s->latch]) ||
		!find_test(s, &tested) || !find_update(s, tested) || !is_constant(s, s->step) ||
		!is_wide(s) || !find_init(s))
		return false;
	find_moved(s);
	find_entry(s);
	return true;
}

/* ---- writing it ---- */

static unsigned type_of(const struct stride *s)
{
	return ptx_type_bits[s->work->regs[s->index].type] == 64 ? TYPE_u64 : TYPE_u32;
}

static struct operand reg(uint32_t id)
{
	return (struct operand){.kind = OPERAND_REG, .id = id};
}

static struct operand number(int64_t bits)
{
	return (struct operand){.kind = OPERAND_INT, .bits = bits};
}

static struct inst *put(struct stride *s, unsigned op, unsigned type, uint32_t to, struct operand a,
	struct operand b)
{
	unsigned count = b.kind == OPERAND_NONE ? 2 : 3;
	struct inst *i = work_inst(s->work, op, s->work->entry->line, count);

	if (!i)
		return NULL;
	i->types[i->type_count++] = (uint8_t)type;
	i->operands[0] = reg(to);
	i->operands[1] = a;
	if (count == 3)
		i->operands[2] = b;
	return i;
}

/* The result of an operation in a register of its own. */
static struct operand make(
	struct stride *s, unsigned op, unsigned type, struct operand a, struct operand b)
{
	uint32_t to = work_reg(s->work, type);

	put(s, op, type, to, a, b);
	return reg(to);
}

static uint32_t compare(
	struct stride *s, unsigned how, unsigned type, struct operand a, struct operand b)
{
	uint32_t to = work_reg(s->work, TYPE_pred);
	struct inst *i = put(s, OP_setp, type, to, a, b);

	if (i)
		i->modifiers[i->modifier_count++] = (uint8_t)how;
	return to;
}

static struct inst *branch(struct stride *s, uint32_t guard, bool negated, uint32_t label)
{
	struct inst *i = work_inst(s->work, OP_bra, s->work->entry->line, 1);

	if (!i)
		return NULL;
	i->guard = guard;
	i->guard_negated = negated;
	i->operands[0] = (struct operand){.kind = OPERAND_LABEL, .id = label};
	return i;
}

static void place(struct work *w, uint32_t label)
{
	if (!w->error)
		w->labels[label] = w->inst_count;
}

static struct operand start_of(struct stride *s, const struct operand *o);

/* What the instruction makes for a thread whose tid.x is 0. */
static struct operand start_made(struct stride *s, const struct inst *old)
{
	const struct operand *o = old->operands;
	unsigned last = old->operand_count - 1u; /* which operand depends on the thread */
	uint32_t to = work_reg(s->work, old->types[0]);

	if (old->op == OP_add && is_leaf(s->work, &o[2]))
		last = 1;
	struct operand start = start_of(s, &o[last]);
	struct inst *i = work_inst(s->work, old->op, old->line, old->operand_count);
	if (!i)
		return start;
	struct operand *operands = i->operands;
	*i = *old;
	i->operands = operands;
	memcpy(operands, o, old->operand_count * sizeof(*o));
	operands[0] = reg(to);
	operands[last] = start;
	if (i->op == OP_cvt)
		s->sum = to;
	return reg(to);
}

static struct operand start_of(struct stride *s, const struct operand *o)
{
	if (o->kind == OPERAND_SPECIAL)
		return number(0);
	return start_made(s, &s->old[s->work->regs[o->id].def]);
}

/* Jumps to `slow` unless all numbers are so small that no sum wraps. */
static void check_numbers(struct stride *s, struct operand start, uint32_t slow)
{
	unsigned type = type_of(s);
	unsigned limit = LIMIT_BITS + (type == TYPE_u64 ? 32 : 0);
	struct operand all =
		make(s, OP_or, type == TYPE_u64 ? TYPE_b64 : TYPE_b32, start, *s->limit);

	all = make(s, OP_or, type == TYPE_u64 ? TYPE_b64 : TYPE_b32, all, *s->step);
	all = make(s, OP_or, type == TYPE_u64 ? TYPE_b64 : TYPE_b32, all,
		make(s, OP_sub, type, *s->step, number(1)));
	if (s->sum != PTX_NONE)
		all = make(s, OP_or, TYPE_b64, all,
			make(s, OP_shl, TYPE_b64, reg(s->sum), number(32)));
	branch(s, compare(s, MOD_lt, type, all, number(INT64_C(1) << limit)), true, slow);
}

/* i = u + tid.x, for the threads that have something left, of which the others go to `next`. */
static void put_index(struct stride *s, uint32_t u, uint32_t next)
{
	unsigned type = type_of(s);
	struct operand none = {0}, tid = {.kind = OPERAND_SPECIAL, .id = SPECIAL_TID};
	struct operand left = make(s, OP_sub, type, *s->limit, reg(u));

	tid = make(s, OP_mov, TYPE_u32, tid, none);
	if (type == TYPE_u64) {
		left = make(s, OP_min, TYPE_u64, left, number(INT64_C(1) << LIMIT_BITS));
		left = make(s, OP_cvt, TYPE_u32, left, none);
		s->work->insts[s->work->inst_count - 1].types[1] = TYPE_u64;
		s->work->insts[s->work->inst_count - 1].type_count = 2;
	}
	struct inst *i = branch(s, compare(s, MOD_ge, TYPE_u32, tid, left), false, next);
	if (i)
		i->rounds = ROUNDS_TOGETHER;
	if (type == TYPE_u64) {
		tid = make(s, OP_cvt, TYPE_u64, tid, none);
		s->work->insts[s->work->inst_count - 1].types[1] = TYPE_u32;
		s->work->insts[s->work->inst_count - 1].type_count = 2;
	}
	s->renamed[s->index] = work_reg(s->work, type);
	put(s, OP_add, type, s->renamed[s->index], reg(u), tid);
}

/* The instruction once more, for another register, with the first index in a register of its own. */
static void put_again(struct stride *s, const struct inst *from, uint32_t to, uint32_t index)
{
	struct inst *i = work_inst(s->work, from->op, from->line, from->operand_count);

	if (!i)
		return;
	struct operand *operands = i->operands;
	*i = *from;
	i->operands = operands;
	memcpy(operands, from->operands, from->operand_count * sizeof(*operands));
	operands[0].id = to;
	for (unsigned k = 1; k < from->operand_count; k++)
		if (operands[k].kind == OPERAND_REG && operands[k].id == s->index)
			operands[k].id = index;
}

static void note_own(void *data, struct operand *o)
{
	struct stride *s = data;

	if (s->renamed[o->id] == PTX_NONE && !live_out(s, o->id) &&
		!live_in(s->work, o->id, s->loop->header))
		s->renamed[o->id] = work_reg(s->work, s->work->regs[o->id].type);
}

static void rename_reg(void *data, struct operand *o)
{
	struct stride *s = data;

	if (s->renamed[o->id] != PTX_NONE)
		o->id = s->renamed[o->id];
}

static bool is_moved(const struct stride *s, uint32_t n)
{
	for (uint32_t k = 0; k < s->moved_count; k++)
		if (s->moved[k] == n)
			return true;
	return false;
}

/* What goes on by a step is a register of the new loop's own, so that rewrite.c makes a base and a delta of it. */
static void put_begins(struct stride *s)
{
	struct work *w = s->work;
	uint32_t index = PTX_NONE;

	for (uint32_t k = 0; k < s->moved_count; k++) {
		const struct inst *from = s->begins[k] != PTX_NONE ? &s->old[s->begins[k]] : NULL;
		bool first = index == PTX_NONE;

		if (!from)
			continue;
		if (first)
			index = work_reg(w, w->regs[s->index].type);
		if (first)
			put_again(s, &s->old[s->init], index, PTX_NONE);
		uint32_t v = from->operands[0].id;
		s->renamed[v] = work_reg(w, w->regs[v].type);
		put_again(s, from, s->renamed[v], index);
	}
}

/* A copy of an instruction of the loop, with registers of its own for what stays within a round. */
static void copy_inst(struct stride *s, const struct inst *from)
{
	struct work *w = s->work;
	struct inst *i = work_inst(w, from->op, from->line, from->operand_count);

	if (!i)
		return;
	struct operand *operands = i->operands;
	*i = *from;
	i->operands = operands;
	for (unsigned k = 0; k < from->operand_count; k++) {
		struct operand *o = &operands[k];

		*o = from->operands[k];
		if (o->kind == OPERAND_VECTOR) {
			o->elements = work_alloc(w, o->count * sizeof(*o->elements));
			if (!o->elements)
				return;
			memcpy(o->elements, from->operands[k].elements,
				o->count * sizeof(*o->elements));
		}
		if (o->kind == OPERAND_LABEL) {
			uint32_t *label = &s->labels[w->labels[o->id] - s->first];

			if (*label == PTX_NONE)
				*label = work_label(w);
			o->id = *label;
		}
	}
	inst_uses(i, rename_reg, s);
	inst_defs(i, rename_reg, s);
}

static void copy_body(struct stride *s)
{
	struct work *w = s->work;
	uint32_t *at = work_alloc(w, (s->end - s->first) * sizeof(*at));

	for (uint32_t n = s->first; n < s->end && !w->error; n++) {
		at[n - s->first] = w->inst_count;
		if (n != s->update && n != s->move && n != s->test && n != s->last &&
			!is_moved(s, n))
			copy_inst(s, &s->old[n]);
	}
	for (uint32_t n = 0; n < s->end - s->first && !w->error; n++)
		if (s->labels[n] != PTX_NONE)
			w->labels[s->labels[n]] = at[n];
}

static void put_rounds(struct stride *s, uint32_t slow, uint32_t end)
{
	struct work *w = s->work;
	uint32_t u = work_reg(w, type_of(s)), head = work_label(w), next = work_label(w);
	struct operand start = start_made(s, &s->old[s->init]), none = {0};

	check_numbers(s, start, slow);
	if (!s->asked) { /* then all threads must have a first round */
		struct operand last =
			make(s, OP_add, type_of(s), start, number(work_width(w, 0) - 1));

		branch(s, compare(s, MOD_ge, type_of(s), last, *s->limit), false, slow);
	}
	put_begins(s);
	put(s, OP_mov, type_of(s), u, start, none);
	place(w, head);
	branch(s, compare(s, MOD_ge, type_of(s), reg(u), *s->limit), false, end);
	put_index(s, u, next);
	copy_body(s);
	place(w, next);
	for (uint32_t k = 0; k < s->moved_count; k++)
		copy_inst(s, &s->old[s->moved[k]]);
	put(s, OP_add, type_of(s), u, reg(u), *s->step);
	branch(s, PTX_NONE, false, head);
}

static void put_inst(struct stride *s, uint32_t n)
{
	struct inst *i = work_inst(s->work, s->old[n].op, s->old[n].line, 0);

	if (i)
		*i = s->old[n];
}

static void write_loop(struct stride *s)
{
	struct work *w = s->work;
	uint32_t count = w->inst_count, label_count = w->label_count;
	uint32_t *moved = work_alloc(w, (count + 1) * sizeof(*moved));
	uint32_t slow = work_label(w), end = work_label(w), again = work_label(w);

	s->old = w->insts;
	w->insts = NULL;
	w->inst_count = w->inst_capacity = 0;
	for (uint32_t n = 0; n < count && !w->error; n++) {
		moved[n] = w->inst_count;
		if (n == s->first) {
			put_rounds(s, slow, end);
			place(w, slow);
			/* Or nothing in a block of its own: no region begins with the header of a loop inside it. */
			if (s->entry != PTX_NONE)
				put_inst(s, s->entry);
			else
				make(s, OP_mov, TYPE_u32, number(0), (struct operand){0});
			place(w, again);
		}
		if (n == s->end)
			place(w, end);
		if (n != s->entry)
			put_inst(s, n);
		if (n == s->last && !w->error) {
			w->insts[w->inst_count - 1].rounds = ROUNDS_APART;
			w->insts[w->inst_count - 1].operands[0].id = again;
		}
	}
	moved[count] = w->inst_count;
	for (uint32_t l = 0; l < label_count && !w->error; l++)
		if (w->labels[l] != PTX_NONE)
			w->labels[l] = moved[w->labels[l]];
}

bool stride_rewrite(struct work *w)
{
	struct stride s = {.work = w, .sum = PTX_NONE};
	uint32_t regs = w->reg_count;

	for (uint32_t l = 0; l < w->loop_count && w->block[0] > 1; l++) {
		s.loop = &w->loops[l];
		if (!find_stride(&s))
			continue;
		s.renamed = work_alloc(w, (regs + 1) * sizeof(*s.renamed));
		s.labels = work_alloc(w, (s.end - s.first) * sizeof(*s.labels));
		if (w->error)
			return false;
		memset(s.renamed, 0xff, (regs + 1) * sizeof(*s.renamed));
		memset(s.labels, 0xff, (s.end - s.first) * sizeof(*s.labels));
		s.renamed[s.index] = 0; /* until put_index() */
		for (uint32_t n = s.first; n < s.end && !w->error; n++)
			inst_defs(&w->insts[n], note_own, &s);
		write_loop(&s);
		return !w->error;
	}
	return false;
}
