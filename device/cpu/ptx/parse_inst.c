/* SPDX-License-Identifier: MIT
 *
 * Instructions: guard, opcode with modifiers, operands. The operand count and the modifiers are
 * checked against the opcode's row; types are checked by the code generator.
 */
#include "device/cpu/ptx/parse.h"

#include <string.h>

static const struct special_name {
	const char *name;
	uint32_t id;
	bool vector;
} special_names[] = {
	{"%tid", SPECIAL_TID, true},
	{"%ntid", SPECIAL_NTID, true},
	{"%ctaid", SPECIAL_CTAID, true},
	{"%nctaid", SPECIAL_NCTAID, true},
	{"%clusterid", SPECIAL_CLUSTERID, true},
	{"%nclusterid", SPECIAL_NCLUSTERID, true},
	{"%cluster_ctaid", SPECIAL_CLUSTER_CTAID, true},
	{"%cluster_nctaid", SPECIAL_CLUSTER_NCTAID, true},
	{"%cluster_ctarank", SPECIAL_CLUSTER_CTARANK, false},
	{"%cluster_nctarank", SPECIAL_CLUSTER_NCTARANK, false},
	{"%is_explicit_cluster", SPECIAL_CLUSTER_EXPLICIT, false},
	{"%laneid", SPECIAL_LANEID, false},
	{"%warpid", SPECIAL_WARPID, false},
	{"%nwarpid", SPECIAL_NWARPID, false},
	{"%smid", SPECIAL_SMID, false},
	{"%nsmid", SPECIAL_NSMID, false},
	{"%gridid", SPECIAL_GRIDID, false},
	{"%clock", SPECIAL_CLOCK, false},
	{"%clock_hi", SPECIAL_CLOCK_HI, false},
	{"%clock64", SPECIAL_CLOCK64, false},
	{"%globaltimer", SPECIAL_GLOBALTIMER, false},
	{"%globaltimer_lo", SPECIAL_GLOBALTIMER, false},
	{"%globaltimer_hi", SPECIAL_GLOBALTIMER_HI, false},
	{"%lanemask_eq", SPECIAL_LANEMASK_EQ, false},
	{"%lanemask_le", SPECIAL_LANEMASK_LE, false},
	{"%lanemask_lt", SPECIAL_LANEMASK_LT, false},
	{"%lanemask_ge", SPECIAL_LANEMASK_GE, false},
	{"%lanemask_gt", SPECIAL_LANEMASK_GT, false},
	{"%dynamic_smem_size", SPECIAL_DYNAMIC_SMEM, false},
	{"%total_smem_size", SPECIAL_TOTAL_SMEM, false},
	{"%aggr_smem_size", SPECIAL_TOTAL_SMEM, false},
	{"%current_graph_exec", SPECIAL_GRAPH, false},
	{"%envreg1", SPECIAL_ENVREG1, false},
	{"%envreg2", SPECIAL_ENVREG2, false},
	{"WARP_SZ", SPECIAL_WARP_SZ, false},
};

static bool parse_special(struct parser *p, struct operand *o)
{
	for (size_t i = 0; i < sizeof(special_names) / sizeof(*special_names); i++) {
		const struct special_name *s = &special_names[i];

		if (!token_is(&p->tok, s->name))
			continue;
		o->kind = OPERAND_SPECIAL;
		o->id = s->id;
		parse_next(p);
		if (s->vector) {
			const char *axes = "xyzw", *axis = NULL;

			if (p->tok.kind == TOKEN_DOTTED && p->tok.length == 1)
				axis = strchr(axes, p->tok.text[0]);
			if (!axis || !*axis)
				parse_unsupported(p, p->tok.line, "Vector use of '%s'", s->name);
			else
				o->id += (uint32_t)(axis - axes);
			parse_next(p);
		}
		return true;
	}
	return false;
}

static void parse_symbol_operand(struct parser *p, struct operand *o, bool label)
{
	struct symbol *s = symbol_find(p, p->tok.text, p->tok.length);

	if (s && s->kind == SYMBOL_VARIABLE) {
		o->kind = OPERAND_SYMBOL;
		o->var = s->var;
	} else if (s && s->kind == SYMBOL_FUNCTION) {
		o->kind = OPERAND_FUNCTION;
		o->function = s->function;
	} else if (label && p->tok.text[0] != '%') {
		o->kind = OPERAND_LABEL;
		o->id = label_use(p, p->tok.text, p->tok.length);
	} else {
		parse_error(
			p, p->tok.line, "Unknown symbol '%.*s'", (int)p->tok.length, p->tok.text);
	}
	parse_next(p);
}

static void parse_literal(struct parser *p, struct operand *o, bool minus)
{
	o->kind = OPERAND_INT;
	o->literal = p->tok.kind == TOKEN_FLOAT ? p->tok.literal : 0;
	uint64_t bits = p->tok.bits;
	if (minus)
		bits = o->literal ? bits ^ 1ull << (o->literal * 8 - 1) : -bits;
	o->bits = (int64_t)bits;
	if (p->tok.kind != TOKEN_INT && p->tok.kind != TOKEN_FLOAT)
		parse_error(p, p->tok.line, "Parsing error near '%.*s'", (int)p->tok.length,
			p->tok.text);
	parse_next(p);
}

static void parse_operand(struct parser *p, struct operand *o, bool label);

/* [base], [base+4], [base+-4], [symbol], [1024] */
static void parse_address(struct parser *p, struct operand *o)
{
	parse_expect(p, '[');
	if (parse_is(p, '['))
		parse_error(p, p->tok.line, "Parsing error near '['");
	parse_operand(p, o, false);
	if (o->kind == OPERAND_VECTOR || o->kind == OPERAND_NONE)
		parse_unsupported(p, p->tok.line, "Texture or tensor operand");
	while (!p->error && (parse_is(p, '+') || parse_is(p, '-'))) {
		bool minus = false;

		while (parse_is(p, '+') || parse_is(p, '-')) {
			minus ^= parse_is(p, '-');
			parse_next(p);
		}
		uint64_t offset = p->tok.bits;

		if (p->tok.kind != TOKEN_INT)
			parse_error(p, p->tok.line, "Parsing error near '%.*s': offset expected",
				(int)p->tok.length, p->tok.text);
		o->bits = (int64_t)((uint64_t)o->bits + (minus ? -offset : offset));
		parse_next(p);
	}
	parse_expect(p, ']');
	o->memory = true;
}

static void parse_vector(struct parser *p, struct operand *o)
{
	struct operand elements[PTX_MAX_VECTOR] = {0};
	uint16_t count = 0;

	parse_expect(p, '{');
	do {
		if (count == PTX_MAX_VECTOR || parse_is(p, '{') || parse_is(p, '[')) {
			parse_error(p, p->tok.line, "Bad vector operand");
			return;
		}
		parse_operand(p, &elements[count++], false);
		if (elements[count - 1].kind == OPERAND_VECTOR)
			parse_error(p, p->tok.line, "Bad vector operand");
	} while (!p->error && parse_accept(p, ','));
	parse_expect(p, '}');
	o->kind = OPERAND_VECTOR;
	o->count = count;
	o->elements = arena_alloc(&p->module->arena, count * sizeof(*o));
	if (!o->elements) {
		parse_alloc(p, SIZE_MAX);
		return;
	}
	memcpy(o->elements, elements, count * sizeof(*o));
}

/* a|b: a pair of results, kept as a vector of two. */
static void parse_pair(struct parser *p, struct operand *o)
{
	struct operand *pair;

	if (!parse_accept(p, '|'))
		return;
	if (p->in_pair) {
		parse_error(p, p->tok.line, "Bad pair of results");
		return;
	}
	pair = parse_alloc(p, 0) ? arena_alloc(&p->module->arena, 2 * sizeof(*pair)) : NULL;
	if (!pair) {
		parse_alloc(p, SIZE_MAX);
		return;
	}
	pair[0] = *o;
	if (parse_is(p, '{') || parse_is(p, '[')) {
		parse_error(p, p->tok.line, "Bad pair of results");
		return;
	}
	p->in_pair = true;
	parse_operand(p, &pair[1], false);
	p->in_pair = false;
	*o = (struct operand){.kind = OPERAND_VECTOR, .count = 2};
	o->elements = pair;
}

static void parse_operand(struct parser *p, struct operand *o, bool label)
{
	bool minus = false;
	uint32_t reg;

	if (parse_is(p, '[')) {
		parse_address(p, o);
		return;
	}
	if (parse_is(p, '{')) {
		parse_vector(p, o);
		return;
	}
	if (parse_accept(p, '!'))
		o->negated = true;
	while (parse_is(p, '-') || parse_is(p, '+')) {
		minus ^= parse_is(p, '-');
		parse_next(p);
	}
	if (p->tok.kind != TOKEN_WORD) {
		parse_literal(p, o, minus);
		return;
	}
	if (token_is(&p->tok, "_")) {
		parse_next(p);
		parse_pair(p, o);
		return;
	}
	reg = reg_find(p, p->tok.text, p->tok.length);
	if (minus)
		parse_error(p, p->tok.line, "Parsing error near '-'");
	if (reg != PTX_NONE) {
		o->kind = OPERAND_REG;
		o->id = reg;
		parse_next(p);
		parse_pair(p, o);
	} else if (!parse_special(p, o)) {
		parse_symbol_operand(p, o, label);
		if (o->kind == OPERAND_SYMBOL && !p->error &&
			(parse_is(p, '+') || parse_is(p, '-'))) {
			struct operand addend = {0};
			bool negative = parse_is(p, '-');

			parse_next(p);
			parse_literal(p, &addend, negative);
			o->bits = addend.bits;
		}
	}
}

/* ---- textures and surfaces ---- */

static bool is_texture(unsigned op)
{
	return op == OP_tex || op == OP_tld4 || op == OP_txq || op == OP_suld || op == OP_sust ||
	       op == OP_suq;
}

/* [handle], [handle, {x, y}], [handle, x]: as operands of their own. */
static unsigned parse_texture(struct parser *p, struct operand *operands, unsigned count)
{
	parse_expect(p, '[');
	parse_operand(p, &operands[count++], false);
	if (!p->error && parse_accept(p, ',') && count < PTX_MAX_OPERANDS)
		parse_operand(p, &operands[count++], false);
	if (!p->error && parse_is(p, ','))
		parse_unsupported(p, p->tok.line, "Sampler apart from its texture");
	parse_expect(p, ']');
	return count;
}

/* Which operand of a copy names a tensor: [map, {x, y}]. It becomes two. */
static bool names_tensor(const struct inst *i, unsigned k)
{
	return i->op == OP_cp && inst_has(i, MOD_tensor) && k == inst_has(i, MOD_mbarrier);
}

/* ---- calls ---- */

struct operand_list {
	struct operand *items;
	unsigned count, capacity;
};

static struct operand *list_add(struct parser *p, struct operand_list *list)
{
	struct operand *items = arena_grow(
		&p->module->arena, list->items, list->count, sizeof(*items), &list->capacity);

	if (!items) {
		parse_alloc(p, SIZE_MAX);
		return NULL;
	}
	list->items = items;
	return &list->items[list->count++];
}

static void parse_list(struct parser *p, struct operand_list *list)
{
	parse_expect(p, '(');
	while (!p->error && !parse_is(p, ')')) {
		struct operand *o = list_add(p, list);

		if (o)
			parse_operand(p, o, false);
		if (!parse_accept(p, ','))
			break;
	}
	parse_expect(p, ')');
}

static void parse_targets(struct parser *p, struct inst *i)
{
	struct symbol *s = symbol_find(p, p->tok.text, p->tok.length);

	if (s && s->kind == SYMBOL_TARGETS) {
		i->targets = s->targets;
		i->target_count = s->target_count;
	} else if (s && s->kind == SYMBOL_FUNCTION) {
		i->targets = NULL; /* a prototype */
	} else {
		parse_error(p, p->tok.line, "Unknown list of targets '%.*s'", (int)p->tok.length,
			p->tok.text);
	}
	parse_next(p);
}

/* call (results), callee, (arguments), prototype */
static void parse_call(struct parser *p, struct inst *i)
{
	struct operand_list list = {0};
	struct operand *callee;

	if (parse_is(p, '(')) {
		parse_list(p, &list);
		parse_expect(p, ',');
	}
	i->call_results = (uint16_t)list.count;
	callee = list_add(p, &list);
	if (callee)
		parse_operand(p, callee, false);
	if (!p->error && parse_accept(p, ',')) {
		if (parse_is(p, '(')) {
			parse_list(p, &list);
			if (!p->error && parse_accept(p, ','))
				parse_targets(p, i);
		} else {
			parse_targets(p, i);
		}
	}
	if (list.count > 250) {
		parse_error(p, i->line, "Too many arguments");
		return;
	}
	i->operands = list.items;
	i->operand_count = (uint8_t)list.count;
}

/* ---- the instruction ---- */

/* A number behind a letter, of at most three digits; 0: there is none. */
static uint16_t shape_number(const char **at, const char *end, char letter)
{
	uint16_t n = 0;

	if (*at == end || **at != letter)
		return 0;
	for (++*at; *at < end && **at >= '0' && **at <= '9' && n < 100; ++*at)
		n = (uint16_t)(n * 10 + (**at - '0'));
	return n;
}

/* m64nNkK, of which there are more than modifiers can be. */
static bool parse_shape(const struct token *t, struct inst *i)
{
	const char *at = t->text, *end = t->text + t->length;

	if (i->op != OP_wgmma || i->columns || shape_number(&at, end, 'm') != 64)
		return false;
	i->columns = shape_number(&at, end, 'n');
	i->depth = shape_number(&at, end, 'k');
	return i->columns && i->depth && at == end;
}

/* A type of which only conversions know, where it would mean the other direction: numbers of 8 bits are made with .satfinite and
 * read without it, tf32 is only made. */
static bool is_misplaced(const struct inst *i, int modifier)
{
	bool small = modifier == MOD_e4m3x2 || modifier == MOD_e5m2x2, made = !i->type_count;

	if (i->op != OP_cvt || (!small && modifier != MOD_tf32))
		return false;
	return made != (!small || inst_has(i, MOD_satfinite));
}

/* Of the modes of tensors only the plain ones are known, which say no more: .tile::gather4 and .im2col::w are others. */
static bool is_other_mode(const struct parser *p, int modifier)
{
	const char *end = p->tok.text + p->tok.length;

	return (modifier == MOD_tile || modifier == MOD_im2col) && end < p->lexer.end &&
	       *end == ':';
}

static void parse_modifiers(struct parser *p, struct inst *i, const struct token *name)
{
	while (!p->error && p->tok.kind == TOKEN_DOTTED) {
		int type = ptx_type_lookup(p->tok.text, p->tok.length);
		int modifier = ptx_modifier_lookup(p->tok.text, p->tok.length);

		if (type > 0) {
			if (i->type_count == 4)
				parse_error(p, p->tok.line, "Too many types");
			else
				i->types[i->type_count++] = (uint8_t)type;
		} else if (modifier > 0 && ptx_opcode_allows(i->op, (unsigned)modifier) &&
			   !is_misplaced(i, modifier) && !is_other_mode(p, modifier)) {
			if (i->modifier_count == PTX_MAX_MODIFIERS)
				parse_error(p, p->tok.line, "Too many modifiers");
			else
				i->modifiers[i->modifier_count++] = (uint8_t)modifier;
			if (i->op == OP_isspacep && p->tok.cluster &&
				i->modifier_count < PTX_MAX_MODIFIERS)
				i->modifiers[i->modifier_count++] = MOD_cluster;
		} else if (ptx_opcodes[i->op].modifiers && !parse_shape(&p->tok, i)) {
			parse_unsupported(p, p->tok.line, "Instruction '%.*s.%.*s'",
				(int)name->length, name->text, (int)p->tok.length, p->tok.text);
		}
		parse_next(p);
	}
}

/* Only wgmma has long vectors. It reads its accumulators and writes them: they are its last operand, too. */
static unsigned finish_vectors(
	struct parser *p, const struct inst *i, struct operand *operands, unsigned count)
{
	for (unsigned k = 0; k < count && i->op != OP_wgmma; k++)
		if (operands[k].kind == OPERAND_VECTOR && operands[k].count > PTX_MAX_PLAIN_VECTOR)
			parse_error(p, i->line, "Bad vector operand");
	if (i->op == OP_wgmma && inst_has(i, MOD_mma_async) && count)
		operands[count++] = operands[0];
	return count;
}

static void parse_operands(struct parser *p, struct inst *i)
{
	struct operand operands[PTX_MAX_OPERANDS] = {0};
	const struct opcode *row = &ptx_opcodes[i->op];
	unsigned count = 0;
	bool label = i->op == OP_bra;

	if (!parse_is(p, ';')) {
		do {
			if (count == PTX_MAX_OPERANDS) {
				parse_error(p, i->line, "Too many operands");
				return;
			}
			if (i->op == OP_brx && count == 1) {
				count++;
				parse_targets(p, i);
				break;
			}
			if ((is_texture(i->op) || names_tensor(i, count)) && parse_is(p, '['))
				count = parse_texture(p, operands, count);
			else
				parse_operand(p, &operands[count++], label);
		} while (!p->error && parse_accept(p, ','));
	}
	if (!p->error && (count < row->min_operands || count > row->max_operands)) {
		parse_error(p, i->line, "Arguments mismatch for instruction '%s'", row->name);
		return;
	}
	count = finish_vectors(p, i, operands, count);
	i->operand_count = (uint8_t)count;
	i->dest_count = row->dests;
	if (i->op == OP_wgmma)
		i->dest_count = inst_has(i, MOD_mma_async);
	if ((i->op == OP_bar || i->op == OP_barrier) && inst_has(i, MOD_red))
		i->dest_count = 1;
	if (i->op == OP_wmma && inst_has(i, MOD_store))
		i->dest_count = 0;
	if (i->op == OP_mbarrier)
		i->dest_count = inst_has(i, MOD_arrive) || inst_has(i, MOD_arrive_drop) ||
				inst_has(i, MOD_test_wait) || inst_has(i, MOD_try_wait) ||
				inst_has(i, MOD_pending_count);
	i->operands = arena_alloc(&p->module->arena, (count + 1) * sizeof(*operands));
	if (!i->operands) {
		parse_alloc(p, SIZE_MAX);
		return;
	}
	memcpy(i->operands, operands, count * sizeof(*operands));
	for (unsigned k = 0; k < i->dest_count && !p->error; k++) {
		const struct operand *o = &operands[k];
		unsigned n = o->kind == OPERAND_VECTOR ? o->count : 1;

		for (unsigned e = 0; e < n; e++) {
			const struct operand *d = o->kind == OPERAND_VECTOR ? &o->elements[e] : o;

			if ((d->kind != OPERAND_REG && d->kind != OPERAND_NONE) || d->memory)
				parse_error(p, i->line, "Arguments mismatch for instruction '%s'",
					row->name);
		}
	}
}

static struct inst *inst_add(struct parser *p)
{
	struct function *f = p->function;

	f->insts = arena_grow(
		&p->module->arena, f->insts, f->inst_count, sizeof(*f->insts), &f->inst_capacity);
	if (!f->insts) {
		f->inst_count = f->inst_capacity = 0;
		parse_alloc(p, SIZE_MAX);
		return NULL;
	}
	return &f->insts[f->inst_count];
}

static void parse_guard(struct parser *p, struct inst *i)
{
	i->guard = PTX_NONE;
	if (!parse_accept(p, '@'))
		return;
	i->guard_negated = parse_accept(p, '!');
	i->guard = reg_find(p, p->tok.text, p->tok.kind == TOKEN_WORD ? p->tok.length : 0);
	if (i->guard == PTX_NONE || p->function->regs[i->guard].type != TYPE_pred)
		parse_error(p, p->tok.line, "Predicate expected near '%.*s'", (int)p->tok.length,
			p->tok.text);
	parse_next(p);
}

void parse_instruction(struct parser *p)
{
	struct inst *i = inst_add(p);
	struct token name;
	int op;

	if (!i)
		return;
	*i = (struct inst){.line = p->tok.line};
	parse_guard(p, i);
	name = p->tok;
	if (name.kind != TOKEN_WORD) {
		parse_error(p, name.line, "Parsing error near '%.*s': syntax error",
			(int)name.length, name.text);
		return;
	}
	op = ptx_opcode_lookup(name.text, name.length);
	parse_next(p);
	if (op < 0) {
		if (p->tok.kind == TOKEN_DOTTED || (name.text[0] >= 'a' && name.text[0] <= 'z'))
			parse_unsupported(p, name.line, "Instruction '%.*s%s%.*s'",
				(int)name.length, name.text, p->tok.kind == TOKEN_DOTTED ? "." : "",
				p->tok.kind == TOKEN_DOTTED ? (int)p->tok.length : 0, p->tok.text);
		else
			parse_error(p, name.line, "Parsing error near '%.*s': syntax error",
				(int)name.length, name.text);
		return;
	}
	i->op = (uint16_t)op;
	parse_modifiers(p, i, &name);
	if (p->error)
		return;
	if ((i->op == OP_st || i->op == OP_red) && inst_has(i, MOD_async)) {
		/* By that they are told apart from then on. */
		if ((i->op == OP_red) != inst_has(i, MOD_relaxed))
			parse_unsupported(p, name.line, "Instruction '%s.async' so ordered",
				ptx_opcodes[i->op].name);
		i->op = OP_async;
	}
	if (i->op == OP_call)
		parse_call(p, i);
	else
		parse_operands(p, i);
	parse_expect(p, ';');
	if (!p->error)
		p->function->inst_count++;
}
