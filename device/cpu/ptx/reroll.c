/* SPDX-License-Identifier: MIT
 *
 * Loops that a compiler unrolled, where each thread has its own number of rounds. Of
 *
 *     for (i = lo; i < hi; i++) sum += *p++;
 *
 * compilers make two loops, of which each ends where no processor foresees it:
 *
 *     n = hi - lo; for (rest = n & 3; rest; rest--) sum += *p++;       the rest
 *     if (n >= 4) do { sum += q[0]; … sum += q[3]; q += 4; } while (…);   the rounds
 *
 * If it can be shown that a round is four of the rest, that q begins where p is then, and that there are (n - rest) / 4 of them,
 * the rest goes on for all n, and the rounds are never entered. What is shown, each in a function of its own:
 *
 *   find_bounds()    that lo < hi where the loops begin, as a branch before says: so no index on the way to hi wraps
 *   find_twins()     that what the rounds begin with is what the rest leaves, each pointer but for a constant
 *   is_multiple()    that a round does with them what four rounds of the rest do, by numbering all values that both compute
 *   has_same_end()   that the rounds end when n are done
 *   leaves_same()    that what is read behind the loops is the same
 *
 * A sum of integers is a `form`: a constant and registers times numbers (form.c).
 */
#include "device/cpu/ptx/reroll.h"

#include <string.h>

enum { MAX_NUMBER = 1 << 30, MAX_BRANCHES = 8 };

/* ---- the text of the loops ---- */

uint32_t reroll_last_def(struct work *w, uint32_t reg, uint32_t first, uint32_t end)
{
	while (end-- > first)
		if (defs_between(w, reg, end, end + 1))
			return end;
	return PTX_NONE;
}

static bool live_in(const struct work *w, uint32_t block, uint32_t reg)
{
	uint32_t global = w->regs[reg].global;

	return global != PTX_NONE && bits_get(w->blocks[block].live_in, global);
}

static bool is_whole(const struct inst *i, unsigned op)
{
	return i->op == op && i->type_count == 1 && ptx_type_bits[i->types[0]] == 32 &&
	       strchr("usb", ptx_type_class[i->types[0]]);
}

static bool is_number(const struct operand *o, int32_t value)
{
	return o->kind == OPERAND_INT && !o->literal && (int32_t)o->bits == value;
}

static bool is_reg(const struct operand *o, uint32_t reg)
{
	return o->kind == OPERAND_REG && o->id == reg && !o->negated && !o->memory;
}

/* Compares two numbers, and does nothing else. */
static bool is_comparison(const struct inst *i)
{
	return is_whole(i, OP_setp) && i->dest_count == 1 && i->operand_count == 3 &&
	       i->modifier_count == 1 && i->operands[0].kind == OPERAND_REG &&
	       !i->operands[1].negated && !i->operands[2].negated;
}

/* Whether the comparison, true or not as said, says that the register is not 0. */
static bool says_not_zero(const struct inst *t, uint32_t reg, bool holds)
{
	return is_comparison(t) && t->modifiers[0] == (holds ? MOD_ne : MOD_eq) &&
	       is_reg(&t->operands[1], reg) && is_number(&t->operands[2], 0);
}

static bool is_clock(const struct operand *o)
{
	return o->kind == OPERAND_SPECIAL && o->id >= SPECIAL_CLOCK &&
	       o->id <= SPECIAL_GLOBALTIMER_HI;
}

/* A load of which nobody may expect when it is done. */
static bool is_plain_load(const struct inst *i)
{
	return inst_is_load(i) && i->operand_count == 2 && !inst_has(i, MOD_volatile) &&
	       !inst_has(i, MOD_relaxed) && !inst_has(i, MOD_acquire) && !inst_has(i, MOD_mmio);
}

/* Whether the instruction only makes one register of what it reads. */
static bool is_function(const struct inst *i)
{
	unsigned flags = ptx_opcodes[i->op].flags;

	if (i->dest_count != 1 || i->operands[0].kind != OPERAND_REG || i->guard != PTX_NONE ||
		i->operand_count > MAX_INPUTS + 1)
		return false;
	for (unsigned k = 1; k < i->operand_count; k++)
		if (is_clock(&i->operands[k]) || i->operands[k].kind == OPERAND_VECTOR)
			return false;
	if (inst_is_load(i))
		return is_plain_load(i);
	return flags & OPF_PURE && i->op != OP_exchange &&
	       !(flags & (OPF_BORDER | OPF_COLLECTIVE)) && !inst_writes_carry(i) &&
	       !inst_reads_carry(i);
}

static bool all_functions(const struct work *w, uint32_t first, uint32_t end)
{
	for (uint32_t n = first; n < end; n++)
		if (!is_function(&w->insts[n]))
			return false;
	return end - first <= MAX_INSTS;
}

/* ---- the rest ---- */

/* A loop of one block, and before it a branch around it, perhaps with something behind that. */
static bool find_rest_shape(struct reroll *r)
{
	const struct work *w = r->work;
	const struct work_block *b = &w->blocks[r->rest_body], *p;
	const struct inst *back = block_last(w, b), *around;
	uint32_t before;

	r->between = r->rest_body + 1;
	if (back->op != OP_bra || back->guard == PTX_NONE || b->succ_count != 2 ||
		b->pred_count != 2 || b->succ[0] != r->rest_body || b->succ[1] != r->between ||
		!branch_diverges(w, b))
		return false;
	before = r->branch = b->pred[b->pred[0] == r->rest_body];
	p = &w->blocks[before];
	if (before + 1 != r->rest_body)
		return false;
	if (p->succ_count == 1) {
		r->branch = before - 1;
		if (p->pred_count != 1 || p->pred[0] != r->branch ||
			block_last(w, p)->op == OP_bra || !all_functions(w, p->first, p->end))
			return false;
	}
	p = &w->blocks[r->branch];
	around = block_last(w, p);
	return around->op == OP_bra && around->guard != PTX_NONE && p->succ_count == 2 &&
	       p->succ[0] == r->between && p->succ[1] == r->branch + 1 &&
	       all_functions(w, b->first, b->end - 1);
}

/* A counter that goes down to 0, of which nothing else knows. */
static bool find_counter(struct reroll *r)
{
	struct work *w = r->work;
	const struct work_block *b = &w->blocks[r->rest_body];
	const struct inst *back = block_last(w, b), *u, *t;

	r->rest_test = reroll_last_def(w, back->guard, b->first, b->end - 1);
	if (r->rest_test == PTX_NONE || !w->regs[back->guard].single ||
		uses_between(w, back->guard, 0, w->inst_count) != 1)
		return false;
	t = &w->insts[r->rest_test];
	if (t->operand_count < 2 || t->operands[1].kind != OPERAND_REG)
		return false;
	r->counter = t->operands[1].id;
	r->rest_update = reroll_last_def(w, r->counter, b->first, r->rest_test);
	if (!says_not_zero(t, r->counter, !back->guard_negated) || r->rest_update == PTX_NONE ||
		w->regs[r->counter].def_count != 2 || live_in(w, r->between, r->counter) ||
		reroll_last_def(w, r->counter, r->rest_test, b->end) != PTX_NONE ||
		uses_between(w, r->counter, b->first, b->end) != 2)
		return false;
	u = &w->insts[r->rest_update];
	return is_whole(u, OP_add) && !u->modifier_count && is_reg(&u->operands[1], r->counter) &&
	       is_number(&u->operands[2], -1);
}

/* What the counter begins with: the lowest bits of n, which the branch around the loop asks for. */
static bool find_rest(struct reroll *r)
{
	struct work *w = r->work;
	const struct work_block *g = &w->blocks[r->branch];
	const struct inst *around = block_last(w, g), *mask;
	uint32_t first = w->blocks[r->rest_body].first, end = w->blocks[r->rest_body].end, n;
	uint32_t test = reroll_last_def(w, around->guard, g->first, g->end - 1);

	r->move = reroll_last_def(w, r->counter, g->first, first);
	r->rest = r->counter;
	if (r->move != PTX_NONE && is_whole(&w->insts[r->move], OP_mov)) {
		const struct operand *from = &w->insts[r->move].operands[1];

		if (from->kind != OPERAND_REG || from->negated || !w->regs[from->id].single)
			return false;
		r->rest = from->id;
	} else {
		r->move = PTX_NONE;
	}
	n = reroll_last_def(w, r->rest, g->first, g->end);
	if (n == PTX_NONE || test == PTX_NONE || test < n ||
		!says_not_zero(&w->insts[test], r->rest, around->guard_negated) ||
		(r->rest != r->counter && reroll_last_def(w, r->rest, first, end) != PTX_NONE))
		return false;
	/* It will have another first value, which nothing else may see. */
	if (uses_between(w, r->counter, r->move == PTX_NONE ? g->end : r->move + 1, first))
		return false;
	mask = &w->insts[n];
	if (!is_whole(mask, OP_and) || mask->operands[1].kind != OPERAND_REG ||
		!w->regs[mask->operands[1].id].single || mask->operands[1].negated ||
		(!is_number(&mask->operands[2], 1) && !is_number(&mask->operands[2], 3)))
		return false;
	r->n = mask->operands[1].id;
	r->times = (int32_t)mask->operands[2].bits + 1;
	return reroll_last_def(w, r->rest, n + 1, first) == PTX_NONE;
}

/* ---- the rounds ---- */

/* The branch around them, perhaps something behind it, and a loop of one block, perhaps with the jump back in another. */
static bool find_rounds(struct reroll *r)
{
	const struct work *w = r->work;
	const struct work_block *j = &w->blocks[r->between], *h;
	const struct inst *around = block_last(w, j), *back;
	uint32_t before;

	if (around->op != OP_bra || around->guard == PTX_NONE || around->guard_negated ||
		j->pred_count != 2 || j->succ_count != 2 || j->succ[1] != r->between + 1 ||
		!all_functions(w, j->first, j->end - 1))
		return false;
	r->join = j->succ[0];
	r->body = r->between + 1;
	before = r->between;
	h = &w->blocks[r->body];
	if (h->succ_count == 1 && h->pred_count == 1 && h->succ[0] == r->body + 1) {
		if (block_last(w, h)->op == OP_bra || !all_functions(w, h->first, h->end))
			return false;
		before = r->body++;
		h = &w->blocks[r->body];
	}
	back = block_last(w, h);
	if (h->pred_count != 2 || h->succ_count != 2 || back->op != OP_bra ||
		back->guard == PTX_NONE || !all_functions(w, h->first, h->end - 1) ||
		h->pred[h->pred[0] != before] != before)
		return false;
	if (h->succ[0] == r->body && h->succ[1] == r->join) {
		r->goes_on = !back->guard_negated;
		return true;
	}
	const struct work_block *jump = &w->blocks[r->body + 1];
	r->goes_on = back->guard_negated;
	return h->succ[0] == r->join && h->succ[1] == r->body + 1 && jump->pred_count == 1 &&
	       jump->end - jump->first == 1 && jump->succ_count == 1 && jump->succ[0] == r->body;
}

/* ---- bounds ---- */

/* The smaller and the larger of the two that the comparison is of; a number that is not larger is made one less. */
static bool is_order(const struct inst *t, bool holds, struct operand *lo, struct operand *hi)
{
	unsigned how = t->modifiers[0];
	const struct operand *a = &t->operands[1], *b = &t->operands[2];
	bool less = how == (holds ? MOD_lt : MOD_ge), more = how == (holds ? MOD_gt : MOD_le);

	*lo = less ? *a : *b;
	*hi = less ? *b : *a;
	if (how == (holds ? MOD_ge : MOD_lt) && b->kind == OPERAND_INT && b->bits > 0 &&
		b->bits < MAX_NUMBER) {
		lo->bits--;
		return true;
	}
	return less || more;
}

static bool is_bound(const struct work *w, const struct operand *o)
{
	return o->kind == OPERAND_INT ? !o->literal && o->bits >= 0 && o->bits < MAX_NUMBER
				      : o->kind == OPERAND_REG && w->regs[o->id].single;
}

/* A branch that all threads of the loops have passed, which says that lo < hi, of which n is the difference. */
static bool find_bounds(struct reroll *r)
{
	struct work *w = r->work;
	uint32_t b = r->branch;

	/* Threads come to the first block by no branch. */
	for (unsigned steps = 0; steps < MAX_BRANCHES && b && w->blocks[b].pred_count == 1;
		steps++) {
		uint32_t p = w->blocks[b].pred[0], t;
		const struct work_block *x = &w->blocks[p];
		const struct inst *last = block_last(w, x);
		bool taken = x->succ[0] == b;

		b = p;
		if (x->succ_count != 2 || last->op != OP_bra)
			continue;
		t = reroll_last_def(w, last->guard, x->first, x->end - 1);
		if (t == PTX_NONE || !is_comparison(&w->insts[t]) ||
			ptx_type_class[w->insts[t].types[0]] == 'b' ||
			!is_order(&w->insts[t], taken != last->guard_negated, &r->lo, &r->hi) ||
			!is_bound(w, &r->lo) || !is_bound(w, &r->hi))
			continue;
		r->is_signed = ptx_type_class[w->insts[t].types[0]] == 's';
		struct form n = form_reg(r, r->n, false), lo = form_of(r, &r->lo, false),
			    hi = form_of(r, &r->hi, false);
		form_add(&hi, &lo, -1);
		if (form_equal(&n, &hi))
			return true;
	}
	return false;
}

/* ---- what they begin with ---- */

bool reroll_is_carried(const struct reroll *r, uint32_t reg)
{
	const struct work_block *b = &r->work->blocks[r->rest_body];

	return reg != r->counter && live_in(r->work, r->rest_body, reg) &&
	       defs_between(r->work, reg, b->first, b->end);
}

static bool same_operand(const struct operand *a, const struct operand *b)
{
	if (a->kind != b->kind || a->memory != b->memory || a->negated != b->negated ||
		a->literal != b->literal || a->bits != b->bits || a->kind == OPERAND_VECTOR)
		return false;
	return a->kind == OPERAND_SYMBOL ? a->var == b->var
					 : a->kind == OPERAND_INT || a->id == b->id;
}

static bool same_operation(const struct inst *a, const struct inst *b)
{
	return a->op == b->op && a->operand_count == b->operand_count &&
	       a->modifier_count == b->modifier_count && a->type_count == b->type_count &&
	       !memcmp(a->modifiers, b->modifiers, a->modifier_count) &&
	       !memcmp(a->types, b->types, a->type_count);
}

/* Whether both make the same of numbers that do not change. */
static bool same_constant(const struct work *w, const struct inst *a, const struct inst *b)
{
	if (!same_operation(a, b) || inst_is_load(a))
		return false;
	for (unsigned k = 1; k < a->operand_count; k++)
		if (!same_operand(&a->operands[k], &b->operands[k]) ||
			(a->operands[k].kind == OPERAND_REG && !w->regs[a->operands[k].id].single))
			return false;
	return true;
}

/* Threads with nothing left over did not come past what is between the branch and the rest. Now they do: it must do nothing
 * that they see. */
static bool may_begin(struct reroll *r)
{
	struct work *w = r->work;
	const struct work_block *g = &w->blocks[r->branch];

	for (uint32_t n = g->end; n < w->blocks[r->rest_body].first; n++) {
		const struct inst *i = &w->insts[n];
		uint32_t reg = i->operands[0].id, before;

		if (inst_is_load(i) ? inst_space(i) != SPACE_PARAM
				    : !(ptx_opcodes[i->op].flags & OPF_CHEAP))
			return false;
		if (!live_in(w, r->between, reg))
			continue;
		before = reroll_last_def(w, reg, g->first, g->end);
		if (before == PTX_NONE || !same_constant(w, &w->insts[before], i) ||
			defs_between(w, reg, g->end, w->blocks[r->rest_body].first) != 1)
			return false;
	}
	return true;
}

bool reroll_is_behind(const struct reroll *r, uint32_t n)
{
	const struct work *w = r->work;

	return n >= w->blocks[r->between].first && n < w->blocks[r->body].first;
}

/* What gives a register that the rounds alone carry its first value: the only definition outside them, or PTX_NONE. */
static uint32_t begin_of(struct reroll *r, uint32_t reg)
{
	struct work *w = r->work;
	const struct work_block *h = &w->blocks[r->body], *a = &w->blocks[r->rest_body];

	if (w->regs[reg].def_count != 1 + defs_between(w, reg, h->first, h->end) ||
		defs_between(w, reg, a->first, a->end))
		return PTX_NONE;
	return reroll_last_def(w, reg, w->blocks[r->branch].first, h->first);
}

/* What a register is where the rounds begin. */
static struct form entry_form(struct reroll *r, uint32_t reg)
{
	uint32_t n;

	if (reroll_is_carried(r, reg))
		return form_reg(r, reg, true);
	n = begin_of(r, reg);
	if (n == PTX_NONE)
		return (struct form){.none = true};
	return form_inst(r, &r->work->insts[n], reroll_is_behind(r, n));
}

static bool find_twin(struct reroll *r, uint32_t reg)
{
	struct work *w = r->work;
	const struct work_block *a = &w->blocks[r->rest_body];
	struct form begin = entry_form(r, reg);

	for (uint32_t n = a->first; n < a->end && !begin.none; n++) {
		uint32_t other = w->insts[n].dest_count ? w->insts[n].operands[0].id : reg;
		struct form at = {.none = true}, difference = begin;

		if (reroll_is_carried(r, other) &&
			ptx_type_bits[w->regs[other].type] == ptx_type_bits[w->regs[reg].type])
			at = form_reg(r, other, true);
		form_add(&difference, &at, -1);
		if (difference.none || difference.count)
			continue;
		r->twins[reg] = (struct value){other + 1, difference.constant};
		return true;
	}
	return false;
}

/* Between the loops nothing changes that both read. */
static bool keeps_numbers(struct reroll *r)
{
	struct work *w = r->work;

	for (uint32_t n = w->blocks[r->between].first; n < w->blocks[r->body].first; n++) {
		const struct inst *i = &w->insts[n];
		uint32_t reg = i->dest_count ? i->operands[0].id : PTX_NONE;

		if (reg != PTX_NONE && !w->regs[reg].single && begin_of(r, reg) != n)
			return false;
	}
	return true;
}

/* The comparison that ends the rounds, or NULL. */
static const struct inst *end_of_rounds(struct reroll *r)
{
	struct work *w = r->work;
	const struct work_block *h = &w->blocks[r->body];
	uint32_t n = reroll_last_def(w, block_last(w, h)->guard, h->first, h->end - 1);

	return n != PTX_NONE && is_comparison(&w->insts[n]) ? &w->insts[n] : NULL;
}

/* Whether it is what ends the rounds alone (has_same_end()): it is read where it steps, and where it is compared. */
static bool counts_rounds(struct reroll *r, uint32_t reg)
{
	const struct work_block *h = &r->work->blocks[r->body];
	const struct inst *t = end_of_rounds(r);

	return t && is_reg(&t->operands[1], reg) &&
	       uses_between(r->work, reg, h->first, h->end) == 2;
}

/* The registers that the rounds carry, and from which of the rest's each goes on. */
static bool find_twins(struct reroll *r)
{
	struct work *w = r->work;
	const struct work_block *j = &w->blocks[r->between], *h = &w->blocks[r->body];

	for (uint32_t reg = 0; reg < w->reg_count; reg++) {
		bool defined = live_in(w, r->body, reg) && defs_between(w, reg, h->first, h->end);
		bool carried = reroll_is_carried(r, reg);

		if (carried && defs_between(w, reg, j->first, h->first))
			return false;
		if (carried && live_in(w, r->body, reg) && !defined)
			return false;
		if (!defined || carried)
			continue;
		if (!find_twin(r, reg) && !counts_rounds(r, reg))
			return false;
	}
	return true;
}

/* ---- what they do ---- */

static uint32_t leaf(struct reroll *r, uint32_t reg)
{
	for (uint32_t n = 1; n < r->node_count; n++)
		if (!r->nodes[n].inst && r->nodes[n].reg == reg)
			return n;
	if (r->node_count == MAX_NODES)
		return 0;
	r->nodes[r->node_count] = (struct node){.reg = reg};
	return r->node_count++;
}

static struct value read_value(struct reroll *r, struct value *now, uint32_t reg, bool rounds)
{
	if (now[reg].node)
		return now[reg];
	struct value twin = r->twins[reg];
	if (rounds && twin.node)
		now[reg] = (struct value){leaf(r, twin.node - 1), twin.offset};
	else
		now[reg] = (struct value){leaf(r, reg), 0};
	return now[reg];
}

static struct value operation(struct reroll *r, const struct node *node)
{
	for (uint32_t n = 1; n < r->node_count; n++) {
		const struct node *other = &r->nodes[n];
		bool same = other->inst && same_operation(other->inst, node->inst);

		for (unsigned k = 0; same && k + 1u < node->inst->operand_count; k++)
			same = same_operand(&other->in[k], &node->in[k]) &&
			       other->values[k].node == node->values[k].node &&
			       other->values[k].offset == node->values[k].offset;
		if (same)
			return (struct value){n, 0};
	}
	if (r->node_count == MAX_NODES)
		return (struct value){0};
	r->nodes[r->node_count] = *node;
	return (struct value){r->node_count++, 0};
}

static void do_inst(struct reroll *r, struct value *now, const struct inst *i, bool rounds)
{
	uint32_t to = i->operands[0].id;
	struct node node = {.inst = i};
	int64_t by;
	uint32_t from;

	if (form_is_step(r->work, i, &from, &by)) {
		now[to] =
			form_wrap(read_value(r, now, from, rounds), by, ptx_type_bits[i->types[0]]);
		return;
	}
	for (unsigned k = 1; k < i->operand_count; k++) {
		const struct operand *o = &i->operands[k];

		node.in[k - 1] = *o;
		if (o->kind != OPERAND_REG)
			continue;
		/* An offset of 32 bits may wrap where one of 64 does not. */
		bool moves = o->memory && ptx_type_bits[r->work->regs[o->id].type] == 64;
		node.values[k - 1] = read_value(r, now, o->id, rounds);
		if (moves)
			node.values[k - 1] = form_wrap(node.values[k - 1], o->bits, 64);
		node.in[k - 1].id = 0;
		if (moves)
			node.in[k - 1].bits = 0;
	}
	now[to] = operation(r, &node);
}

static void do_block(struct reroll *r, struct value *now, uint32_t block, bool rounds)
{
	const struct work_block *b = &r->work->blocks[block];

	for (uint32_t n = b->first; n < b->end - 1; n++)
		if (n != r->rest_update && n != r->rest_test)
			do_inst(r, now, &r->work->insts[n], rounds);
}

/* Whether a round does what `times` of the rest do: to each register that either carries, or that is read behind. */
static bool is_multiple(struct reroll *r)
{
	struct work *w = r->work;
	const struct work_block *h = &w->blocks[r->body];

	for (int k = 0; k < r->times; k++)
		do_block(r, r->rest_values, r->rest_body, false);
	do_block(r, r->values, r->body, true);
	if (r->node_count == MAX_NODES)
		return false;
	for (uint32_t reg = 0; reg < w->reg_count; reg++) {
		struct value twin = r->twins[reg], a, b = r->values[reg];
		bool own = live_in(w, r->body, reg) && defs_between(w, reg, h->first, h->end);

		if (own && twin.node) {
			a = read_value(r, r->rest_values, twin.node - 1, false);
			a = form_wrap(a, twin.offset, ptx_type_bits[w->regs[reg].type]);
		} else if (own && reroll_is_carried(r, reg)) {
			a = r->rest_values[reg];
		} else {
			continue; /* the counter of the rounds */
		}
		if (!a.node || a.node != b.node || a.offset != b.offset)
			return false;
	}
	return true;
}

static bool leaves_same(struct reroll *r)
{
	struct work *w = r->work;
	uint32_t first = w->blocks[r->branch].end, end = w->blocks[r->body].end;

	for (uint32_t n = first; n < end; n++) {
		uint32_t reg = w->insts[n].dest_count ? w->insts[n].operands[0].id : PTX_NONE;
		bool in_rest =
			n >= w->blocks[r->rest_body].first && n < w->blocks[r->between].first;
		bool in_rounds = n >= w->blocks[r->body].first;

		if (reg == PTX_NONE || !live_in(w, r->join, reg) ||
			n < w->blocks[r->rest_body].first)
			continue; /* may_begin() has looked at what is before the rest */
		if ((!in_rest && !in_rounds) || r->twins[reg].node || !r->values[reg].node ||
			r->values[reg].node != r->rest_values[reg].node ||
			r->values[reg].offset != r->rest_values[reg].offset)
			return false;
	}
	return true;
}

/* ---- when they end ---- */

/* n in all, less the rest. */
static struct form rounds_form(struct reroll *r)
{
	struct form n = form_reg(r, r->n, false), rest = form_rest();

	form_add(&n, &rest, -1);
	return n;
}

/* Whether the branch around the rounds is taken where n is less than a round; n is at least 1. */
static bool asks_for_round(struct reroll *r)
{
	struct work *w = r->work;
	const struct inst *around = block_last(w, &w->blocks[r->between]), *t;
	struct form a, n = form_reg(r, r->n, false), x = {0}, one = {.constant = 1};
	uint32_t def;

	if (!w->regs[around->guard].single)
		return false;
	def = w->regs[around->guard].def;
	t = &w->insts[def];
	if (!is_comparison(t) || t->operands[2].kind != OPERAND_INT || t->operands[2].literal ||
		ptx_type_class[t->types[0]] != 'u')
		return false;
	int32_t number = (int32_t)t->operands[2].bits;
	a = form_of(r, &t->operands[1], reroll_is_behind(r, def));
	if (t->modifiers[0] == MOD_gt) { /* -n > -4 */
		form_add(&x, &n, -1);
		return form_equal(&a, &x) && number == -r->times;
	}
	form_add(&n, &one, number - r->times); /* n < 4, n - 1 < 3 */
	return t->modifiers[0] == MOD_lt && form_equal(&a, &n) &&
	       (number == r->times || number == r->times - 1);
}

static bool has_same_end(struct reroll *r)
{
	struct work *w = r->work;
	const struct work_block *h = &w->blocks[r->body];
	const struct inst *t = end_of_rounds(r), *u;
	uint32_t reg, update, from;
	struct form begin, end, left = rounds_form(r), distance, index;
	int64_t step;

	if (!t || t->operands[1].kind != OPERAND_REG)
		return false;
	reg = t->operands[1].id;
	update = reroll_last_def(w, reg, h->first, (uint32_t)(t - w->insts));
	if (update == PTX_NONE || defs_between(w, reg, h->first, h->end) != 1 ||
		(t->operands[2].kind == OPERAND_REG && !w->regs[t->operands[2].id].single))
		return false;
	u = &w->insts[update];
	if (!form_is_step(w, u, &from, &step) || from != reg ||
		(step != r->times && step != -r->times))
		return false;
	begin = entry_form(r, reg);
	end = form_of(r, &t->operands[2], true);
	distance = end;
	form_add(&distance, &begin, -1);
	index = form_of(r, &r->lo, false);
	struct form rest = form_rest(), hi = form_of(r, &r->hi, false), turned = {0};
	form_add(&index, &rest, 1);
	form_add(&turned, &distance, step > 0 ? 1 : -1);
	if (!form_equal(&turned, &left))
		return false;
	if (t->modifiers[0] == (r->goes_on ? MOD_ne : MOD_eq))
		return true;
	return t->modifiers[0] == (r->goes_on ? MOD_lt : MOD_ge) && step > 0 &&
	       ptx_type_class[t->types[0]] == (r->is_signed ? 's' : 'u') &&
	       form_equal(&begin, &index) && form_equal(&end, &hi);
}

/* ---- the pass ---- */

static bool make_room(struct reroll *r)
{
	struct work *w = r->work;
	size_t bytes = (w->reg_count + 1) * sizeof(struct value);

	r->twins = work_alloc(w, bytes);
	r->values = work_alloc(w, bytes);
	r->rest_values = work_alloc(w, bytes);
	r->nodes = work_alloc(w, MAX_NODES * sizeof(*r->nodes));
	r->node_count = 1;
	return !w->error;
}

static bool can_reroll(struct reroll *r)
{
	return find_rest_shape(r) && find_counter(r) && find_rest(r) && find_rounds(r) &&
	       find_bounds(r) && may_begin(r) && make_room(r) && keeps_numbers(r) &&
	       find_twins(r) && is_multiple(r) && leaves_same(r) && asks_for_round(r) &&
	       has_same_end(r);
}

/* The branch around the rest becomes what gives the counter all rounds; that around the others is always taken. */
static void reroll(struct reroll *r)
{
	struct work *w = r->work;
	struct inst *i = block_last(w, &w->blocks[r->branch]);
	struct operand *o = work_alloc(w, 2 * sizeof(*o));

	if (!o)
		return;
	o[0] = (struct operand){.kind = OPERAND_REG, .id = r->counter};
	o[1] = (struct operand){.kind = OPERAND_REG, .id = r->n};
	*i = (struct inst){.op = OP_mov,
		.line = i->line,
		.guard = PTX_NONE,
		.type_count = 1,
		.types = {TYPE_b32},
		.operands = o,
		.operand_count = 2,
		.dest_count = 1};
	if (r->move != PTX_NONE)
		w->insts[r->move].operands[1].id = r->n;
	block_last(w, &w->blocks[r->between])->guard = PTX_NONE;
}

bool reroll_rewrite(struct work *w)
{
	for (uint32_t l = 0; l < w->loop_count; l++) {
		struct reroll r = {.work = w, .rest_body = w->loops[l].header};

		if (w->loops[l].count != 1 || !can_reroll(&r) || w->error)
			continue;
		reroll(&r);
		return !w->error;
	}
	return false;
}
