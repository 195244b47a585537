/* SPDX-License-Identifier: MIT
 *
 * Sums of integers in the two loops that reroll.c looks at: constants, registers that never change, and how many rounds the first
 * loop has, each times a number. What is no such sum is a register of its own if it never changes, and else none.
 */
#include "device/cpu/ptx/reroll.h"

#include <string.h>

enum { MAX_DEPTH = 16 };

static const struct form no_form = {.none = true};

static struct form sum_of(struct reroll *r, const struct operand *o, bool behind, unsigned depth);

static int64_t wrap(int64_t v, unsigned bits)
{
	return bits == 32 ? (int32_t)v : v;
}

struct value form_wrap(struct value v, int64_t by, unsigned bits)
{
	v.offset = wrap((int64_t)((uint64_t)v.offset + (uint64_t)by), bits);
	return v;
}

static int64_t product(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a * (uint64_t)b);
}

static void add_term(struct form *f, uint32_t reg, bool wide, int64_t by)
{
	unsigned k = 0;

	while (k < f->count && (f->terms[k].reg != reg || f->terms[k].wide != wide))
		k++;
	if (k == MAX_TERMS) {
		f->none = true;
		return;
	}
	if (k == f->count) {
		f->terms[f->count].reg = reg;
		f->terms[f->count].wide = wide;
		f->terms[f->count++].by = 0;
	}
	f->terms[k].by = wrap((int64_t)((uint64_t)f->terms[k].by + (uint64_t)by), f->bits);
	if (!f->terms[k].by)
		f->terms[k] = f->terms[--f->count];
}

/* A sum without terms or width is of any width. */
void form_add(struct form *f, const struct form *g, int64_t by)
{
	if (!f->bits)
		f->bits = g->bits;
	f->none |= g->none || (f->bits && g->bits && f->bits != g->bits);
	f->constant = wrap(
		(int64_t)((uint64_t)f->constant + (uint64_t)product(g->constant, by)), f->bits);
	for (unsigned k = 0; k < g->count && !f->none; k++)
		add_term(f, g->terms[k].reg, g->terms[k].wide, product(g->terms[k].by, by));
}

bool form_equal(const struct form *f, const struct form *g)
{
	struct form difference = *f;

	form_add(&difference, g, -1);
	return !difference.none && !difference.count && !difference.constant;
}

struct form form_rest(void)
{
	struct form f = {0};

	add_term(&f, FORM_REST, false, 1);
	return f;
}

static struct form register_form(unsigned bits, uint32_t reg, bool wide)
{
	struct form f = {.bits = (uint8_t)bits};

	add_term(&f, reg, wide, 1);
	return f;
}

static struct form times(struct form f, int64_t by)
{
	struct form p = {.bits = f.bits};

	form_add(&p, &f, by);
	return p;
}

static bool is_integer(unsigned type)
{
	return strchr("usb", ptx_type_class[type]) &&
	       (ptx_type_bits[type] == 32 || ptx_type_bits[type] == 64);
}

static bool is_number(const struct operand *o)
{
	return o->kind == OPERAND_INT && !o->literal;
}

bool form_is_step(const struct work *w, const struct inst *i, uint32_t *from, int64_t *by)
{
	const struct operand *a = &i->operands[1], *b = &i->operands[2];
	unsigned bits = i->type_count == 1 ? ptx_type_bits[i->types[0]] : 0;

	if (i->type_count != 1 || i->modifier_count || i->operands[0].kind != OPERAND_REG ||
		a->kind != OPERAND_REG || a->negated || a->memory ||
		ptx_type_bits[w->regs[a->id].type] != bits ||
		ptx_type_bits[w->regs[i->operands[0].id].type] != bits)
		return false;
	*from = a->id;
	*by = 0;
	if (i->op == OP_mov)
		return bits == 32 || bits == 64;
	if ((i->op != OP_add && i->op != OP_sub) || !is_integer(i->types[0]) || !is_number(b))
		return false;
	*by = wrap(product(b->bits, i->op == OP_add ? 1 : -1), bits);
	return true;
}

/* The number of 32 bits made 64. Where the loops go from lo to hi, so small a part of the way from lo does not wrap. */
static struct form widen(struct reroll *r, const struct form *f, bool is_signed)
{
	struct form lo = sum_of(r, &r->lo, false, MAX_DEPTH), beyond = *f, w = {.bits = 64};
	bool fits = is_signed == r->is_signed || r->lo.kind == OPERAND_INT;

	if (f->none)
		return no_form;
	if (!f->count) {
		w.constant = is_signed ? f->constant : (int64_t)(uint32_t)f->constant;
		return w;
	}
	form_add(&beyond, &lo, -1);
	if (!fits || beyond.none || beyond.constant || beyond.count > 1 ||
		(beyond.count && (beyond.terms[0].reg != FORM_REST || beyond.terms[0].by != 1)))
		return no_form;
	if (r->lo.kind == OPERAND_INT)
		w.constant = r->lo.bits;
	else
		add_term(&w, r->lo.id, true, 1);
	if (beyond.count)
		add_term(&w, FORM_REST, false, 1);
	return w;
}

/* The larger of hi and lo + 1 is hi. */
static struct form larger(
	struct reroll *r, const struct inst *i, const struct form *a, const struct form *b)
{
	struct form hi = sum_of(r, &r->hi, false, MAX_DEPTH),
		    next = sum_of(r, &r->lo, false, MAX_DEPTH);
	const struct form one = {.constant = 1};

	form_add(&next, &one, 1);
	if (i->modifier_count || ptx_type_class[i->types[0]] != (r->is_signed ? 's' : 'u'))
		return no_form;
	if ((form_equal(a, &hi) && form_equal(b, &next)) ||
		(form_equal(a, &next) && form_equal(b, &hi)))
		return hi;
	return no_form;
}

static struct form product_form(struct reroll *r, const struct inst *i, bool behind, unsigned depth)
{
	const struct operand *o = i->operands;
	bool wide = inst_has(i, MOD_wide), is_signed = ptx_type_class[i->types[0]] == 's';
	struct form f = sum_of(r, &o[1], behind, depth);
	int64_t by;

	if (i->modifier_count != 1 || !is_number(&o[2]) || !(wide || inst_has(i, MOD_lo)) ||
		(wide && ptx_type_bits[i->types[0]] != 32))
		return no_form;
	by = o[2].bits;
	if (wide) {
		f = widen(r, &f, is_signed);
		by = is_signed ? (int32_t)by : (int64_t)(uint32_t)by;
	}
	f = times(f, by);
	if (i->op == OP_mad) {
		struct form c = sum_of(r, &o[3], behind, depth);

		form_add(&f, &c, 1);
	}
	return f;
}

/* Of a conversion to 64 bits. */
static struct form converted(struct reroll *r, const struct inst *i, const struct form *f)
{
	if (i->modifier_count || i->type_count != 2 || ptx_type_bits[i->types[0]] != 64 ||
		ptx_type_bits[i->types[1]] != 32 || !is_integer(i->types[0]) ||
		(ptx_type_class[i->types[1]] != 's' && ptx_type_class[i->types[1]] != 'u'))
		return no_form;
	return widen(r, f, ptx_type_class[i->types[1]] == 's');
}

static struct form made_by(struct reroll *r, const struct inst *i, bool behind, unsigned depth)
{
	const struct operand *o = i->operands;
	const struct form one = {.constant = 1};
	struct form a, b;

	if (!depth || i->guard != PTX_NONE || i->operand_count < 2 || !i->type_count ||
		!is_integer(i->types[0]))
		return no_form;
	if (i->op == OP_mul || i->op == OP_mad)
		return product_form(r, i, behind, depth - 1);
	a = sum_of(r, &o[1], behind, depth - 1);
	if (i->op == OP_cvt)
		return converted(r, i, &a);
	if (i->type_count != 1 || i->modifier_count)
		return no_form;
	switch (i->op) {
	case OP_mov:
		return a;
	case OP_neg:
		return times(a, -1);
	case OP_not:
		form_add(&a, &one, 1);
		return times(a, -1);
	case OP_shl:
		return is_number(&o[2]) && o[2].bits >= 0 && o[2].bits < 31
			       ? times(a, INT64_C(1) << o[2].bits)
			       : no_form;
	case OP_add:
	case OP_sub:
	case OP_max:
		b = sum_of(r, &o[2], behind, depth - 1);
		if (i->op == OP_max)
			return larger(r, i, &a, &b);
		form_add(&a, &b, i->op == OP_add ? 1 : -1);
		return a;
	}
	return no_form;
}

/* What the rest has made of it: its first value, and a step for each round. */
static struct form carried(struct reroll *r, uint32_t reg, unsigned depth)
{
	struct work *w = r->work;
	const struct work_block *b = &w->blocks[r->rest_body], *g = &w->blocks[r->branch];
	const struct work_block *h = &w->blocks[r->body];
	uint32_t update = reroll_last_def(w, reg, b->first, b->end),
		 begin = reroll_last_def(w, reg, g->first, b->first);
	uint32_t from, defs = 1;
	struct form f, rest = form_rest();
	int64_t by;

	for (uint32_t n = begin; n != PTX_NONE; n = reroll_last_def(w, reg, g->first, n))
		defs++;
	for (uint32_t n = h->end; (n = reroll_last_def(w, reg, h->first, n)) != PTX_NONE;)
		defs++;
	if (begin == PTX_NONE || reroll_last_def(w, reg, b->first, update) != PTX_NONE ||
		w->regs[reg].def_count != defs || !form_is_step(w, &w->insts[update], &from, &by) ||
		from != reg)
		return no_form;
	f = made_by(r, &w->insts[begin], false, depth);
	form_add(&f, &rest, by);
	return f;
}

static bool in_block(const struct work *w, uint32_t block, uint32_t n)
{
	return n >= w->blocks[block].first && n < w->blocks[block].end;
}

static struct form sum_of(struct reroll *r, const struct operand *o, bool behind, unsigned depth)
{
	const struct work *w = r->work;
	uint32_t def;
	unsigned bits;
	struct form f;

	if (is_number(o))
		return (struct form){.constant = o->bits};
	if (o->kind != OPERAND_REG || o->negated || o->memory)
		return no_form;
	bits = ptx_type_bits[w->regs[o->id].type];
	if (bits != 32 && bits != 64)
		return no_form;
	if (behind && depth && reroll_is_carried(r, o->id))
		return carried(r, o->id, depth - 1);
	if (o->id == r->rest && (w->regs[o->id].single || (r->rest == r->counter && !behind)))
		return register_form(bits, FORM_REST, false);
	if (!w->regs[o->id].single)
		return no_form;
	if ((r->lo.kind == OPERAND_REG && o->id == r->lo.id) ||
		(r->hi.kind == OPERAND_REG && o->id == r->hi.id))
		return register_form(bits, o->id, false);
	def = w->regs[o->id].def;
	if (in_block(w, r->rest_body, def) || in_block(w, r->body, def))
		return no_form; /* each round has its own */
	f = made_by(r, &w->insts[def], reroll_is_behind(r, def), depth);
	return f.none || (f.bits && f.bits != bits) ? register_form(bits, o->id, false) : f;
}

struct form form_reg(struct reroll *r, uint32_t reg, bool behind)
{
	return form_of(r, &(struct operand){.kind = OPERAND_REG, .id = reg}, behind);
}

struct form form_of(struct reroll *r, const struct operand *o, bool behind)
{
	return sum_of(r, o, behind, MAX_DEPTH);
}

struct form form_inst(struct reroll *r, const struct inst *i, bool behind)
{
	return made_by(r, i, behind, MAX_DEPTH);
}
