/* SPDX-License-Identifier: MIT
 *
 * Declarations of variables, with initial values, and of registers.
 */
#include "device/cpu/ptx/parse.h"

#include <string.h>

#include "proto/texture.h"

enum { MAX_VARIABLE_BYTES = 1 << 30, RESERVED_BYTES = 288 };

static uint64_t parse_size(struct parser *p)
{
	uint64_t value = p->tok.bits;

	if (p->tok.kind != TOKEN_INT)
		parse_error(p, p->tok.line, "Parsing error near '%.*s': integer expected",
			(int)p->tok.length, p->tok.text);
	parse_next(p);
	return value;
}

static unsigned type_of_token(const struct parser *p)
{
	int type;

	if (p->tok.kind != TOKEN_DOTTED)
		return TYPE_NONE;
	type = ptx_type_lookup(p->tok.text, p->tok.length);
	return type < 0 ? TYPE_NONE : (unsigned)type;
}

/* ---- initial values ---- */

struct init {
	struct variable *var;
	uint64_t at;       /* bytes */
	unsigned capacity; /* of var->bytes, which grows with what is said: the rest is zeros */
	unsigned element;
	unsigned depth;
};

static void put_number(struct parser *p, struct init *in, uint64_t bits, unsigned literal)
{
	float f;
	double d;

	if (literal == 8 && in->element == 4 && ptx_type_class[in->var->type] == 'f') {
		memcpy(&d, &bits, 8);
		f = (float)d;
		bits = 0;
		memcpy(&bits, &f, 4);
	}
	if (in->at + in->element > in->var->size) {
		parse_error(p, p->tok.line, "Too many initial values for '%s'", in->var->name);
		return;
	}
	while (in->capacity < in->at + in->element) {
		in->var->bytes = arena_grow(
			&p->module->arena, in->var->bytes, in->capacity, 1, &in->capacity);
		if (!in->var->bytes) {
			parse_alloc(p, SIZE_MAX);
			return;
		}
	}
	memcpy(in->var->bytes + in->at, &bits, in->element < 8 ? in->element : 8);
	in->at += in->element;
	in->var->set_bytes = in->at;
}

static void put_address(struct parser *p, struct init *in, bool generic, unsigned shift)
{
	struct symbol *s = symbol_find(p, p->tok.text, p->tok.length);
	struct initializer *a = arena_alloc(&p->module->arena, sizeof(*a));

	if (!s || (s->kind != SYMBOL_VARIABLE && s->kind != SYMBOL_FUNCTION)) {
		parse_error(
			p, p->tok.line, "Unknown symbol '%.*s'", (int)p->tok.length, p->tok.text);
		return;
	}
	if (!a) {
		parse_alloc(p, SIZE_MAX);
		return;
	}
	parse_next(p);
	*a = (struct initializer){.next = in->var->addresses,
		.offset = in->at,
		.size = in->element < 8 ? in->element : 8,
		.generic = generic,
		.shift = shift};
	if (s->kind == SYMBOL_VARIABLE)
		a->var = s->var;
	else
		a->function = s->function;
	in->var->addresses = a;
	put_number(p, in, 0, 0);
}

static void parse_addend(struct parser *p, struct init *in)
{
	bool minus = parse_is(p, '-');

	if (p->error || !in->var->addresses || !(minus || parse_is(p, '+')))
		return;
	parse_next(p);
	uint64_t value = parse_size(p);
	in->var->addresses->addend = (int64_t)(minus ? -value : value);
}

static void parse_initial_value(struct parser *p, struct init *in)
{
	bool minus = false;

	if (p->tok.kind == TOKEN_WORD && token_is(&p->tok, "generic")) {
		parse_next(p);
		parse_expect(p, '(');
		put_address(p, in, true, 0);
		parse_expect(p, ')');
		parse_addend(p, in);
		return;
	}
	if (p->tok.kind == TOKEN_WORD) {
		put_address(p, in, false, 0);
		parse_addend(p, in);
		return;
	}
	if (p->tok.kind == TOKEN_INT && (p->lexer.at < p->lexer.end && *p->lexer.at == '(')) {
		unsigned shift = 0; /* 0xFF00(symbol): a byte of an address */

		if (!p->tok.bits)
			parse_error(p, p->tok.line, "Parsing error near '0': mask expected");
		while (shift < 56 && !(p->tok.bits >> shift & 0xff))
			shift += 8;
		parse_next(p);
		parse_next(p);
		bool generic = token_is(&p->tok, "generic");
		if (generic) {
			parse_next(p);
			parse_expect(p, '(');
		}
		put_address(p, in, generic, shift);
		if (generic)
			parse_expect(p, ')');
		parse_addend(p, in);
		parse_expect(p, ')');
		return;
	}
	while (parse_is(p, '-') || parse_is(p, '+')) {
		minus ^= parse_is(p, '-');
		parse_next(p);
	}
	if (p->tok.kind != TOKEN_INT && p->tok.kind != TOKEN_FLOAT) {
		parse_error(p, p->tok.line, "Parsing error near '%.*s': initial value expected",
			(int)p->tok.length, p->tok.text);
		return;
	}
	uint64_t bits = p->tok.bits;
	if (minus)
		bits = p->tok.kind == TOKEN_FLOAT ? bits ^ 1ull << (p->tok.literal * 8 - 1) : -bits;
	put_number(p, in, bits, p->tok.kind == TOKEN_FLOAT ? p->tok.literal : 0);
	parse_next(p);
}

/* Rows of several dimensions must be complete. */
static void parse_initial_list(struct parser *p, struct init *in)
{
	if (++in->depth > PTX_MAX_NESTING) {
		parse_error(p, p->tok.line, "Initial values nested too deeply");
		return;
	}
	parse_expect(p, '{');
	while (!p->error && !parse_is(p, '}')) {
		if (parse_is(p, '{')) {
			parse_initial_list(p, in);
		} else {
			parse_initial_value(p, in);
		}
		if (!parse_accept(p, ','))
			break;
	}
	parse_expect(p, '}');
	in->depth--;
}

static void parse_initial(struct parser *p, struct variable *v, unsigned element)
{
	struct init in = {.var = v, .element = element};
	struct token tok = p->tok;
	struct lexer lexer = p->lexer;

	if (v->unsized) { /* count first: `name[] = {…}` */
		uint64_t count = 1;

		for (; tok.kind != TOKEN_END && !(tok.kind == TOKEN_MARK && *tok.text == ';');
			lex_next(&lexer, &tok))
			count += tok.kind == TOKEN_MARK && *tok.text == ',';
		v->size = count * element;
		v->unsized = false;
	}
	v->bytes = NULL;
	v->set_bytes = 0;
	if (v->size > MAX_VARIABLE_BYTES) {
		parse_alloc(p, SIZE_MAX);
		return;
	}
	if (parse_is(p, '{'))
		parse_initial_list(p, &in);
	else
		parse_initial_value(p, &in);
}

/* ---- declarations ---- */

static void parse_dimensions(struct parser *p, struct variable *v)
{
	while (!p->error && parse_accept(p, '[')) {
		if (parse_accept(p, ']')) {
			v->unsized = true;
			continue;
		}
		uint64_t n = parse_size(p);

		if (n > MAX_VARIABLE_BYTES || v->size * n > MAX_VARIABLE_BYTES)
			parse_error(p, p->tok.line, "Variable '%s' is too large", v->name);
		v->size *= n;
		parse_expect(p, ']');
	}
}

static void make_reference(struct variable *v, unsigned *vector)
{
	v->reference = true;
	v->type = TYPE_b8;
	*vector = sizeof(struct texture);
}

/* Attributes up to the name: .align n, .ptr .space, .v4, the type. */
static void parse_attributes(struct parser *p, struct variable *v, unsigned *vector)
{
	while (!p->error && p->tok.kind == TOKEN_DOTTED) {
		unsigned type = type_of_token(p);

		if (parse_is_dotted(p, "align")) {
			parse_next(p);
			uint64_t align = parse_size(p);

			if (!align || align & (align - 1) || align > 1 << 20)
				parse_error(p, p->tok.line, "Alignment must be a power of two");
			else if (align > v->align)
				v->align = (uint32_t)align;
			continue;
		} else if (parse_is_dotted(p, "ptr")) {
			/* Says what the pointer points to; `.align` after it is about that. */
			parse_next(p);
			while (p->tok.kind == TOKEN_DOTTED) {
				bool align = parse_is_dotted(p, "align");

				parse_next(p);
				if (align)
					parse_size(p);
			}
			return;
		} else if (parse_is_dotted(p, "attribute")) {
			parse_next(p);
			parse_expect(p, '(');
			while (!p->error && p->tok.kind != TOKEN_END && !parse_is(p, ')')) {
				v->managed |= parse_is_dotted(p, "managed");
				parse_next(p);
			}
			parse_expect(p, ')');
			continue;
		} else if (parse_is_dotted(p, "v2")) {
			*vector = 2;
		} else if (parse_is_dotted(p, "v4")) {
			*vector = 4;
		} else if (type && ptx_type_bits[type] >= 8) {
			v->type = (uint8_t)type;
		} else if ((parse_is_dotted(p, "texref") || parse_is_dotted(p, "surfref")) &&
			   v->space == SPACE_GLOBAL) {
			make_reference(v, vector);
		} else if (parse_is_dotted(p, "texref") || parse_is_dotted(p, "samplerref") ||
			   parse_is_dotted(p, "surfref")) {
			parse_unsupported(
				p, p->tok.line, "Type '.%.*s'", (int)p->tok.length, p->tok.text);
		} else {
			parse_error(p, p->tok.line, "Parsing error near '.%.*s'",
				(int)p->tok.length, p->tok.text);
		}
		parse_next(p);
	}
}

static void link_variable(struct parser *p, struct variable *v)
{
	struct variable **list = p->function ? &p->function->vars : &p->module->vars;

	v->owner = p->function;
	v->next = *list;
	*list = v;
}

/* After the state space. In a list (parameters) the caller handles separators and scope. */
static struct variable *parse_one(
	struct parser *p, const struct variable *proto, unsigned vector, bool in_list)
{
	struct variable *v = arena_alloc(&p->module->arena, sizeof(*v));

	if (!v) {
		parse_alloc(p, SIZE_MAX);
		return NULL;
	}
	*v = *proto;
	v->size = ptx_type_bits[v->type] / 8u * vector;
	if (v->align < v->size)
		v->align = v->reference ? TEXTURE_ALIGN : (uint32_t)v->size;
	if (proto->align)
		v->align = proto->align;
	if (p->tok.kind != TOKEN_WORD) {
		parse_error(p, p->tok.line, "Parsing error near '%.*s': name expected",
			(int)p->tok.length, p->tok.text);
		return NULL;
	}
	struct token name = p->tok;
	unsigned element = ptx_type_bits[v->type] / 8u;
	v->name = arena_string(&p->module->arena, name.text, name.length);
	if (!v->name)
		parse_alloc(p, SIZE_MAX);
	parse_next(p);
	parse_dimensions(p, v);
	struct symbol *s = symbol_find(p, name.text, name.length);
	if (!in_list && s && s->depth == p->depth && s->kind == SYMBOL_VARIABLE &&
		(s->var->is_extern || v->is_extern)) {
		if (s->var->is_extern && !v->is_extern) { /* declared, now defined */
			s->var->size = v->size;
			s->var->align = v->align;
			s->var->is_extern = false;
			s->var->unsized = v->unsized;
		}
		v = s->var;
	} else if (s && s->depth == p->depth && !p->error) {
		parse_error(p, name.line, "Duplicate definition of '%.*s'", (int)name.length,
			name.text);
	} else if (!p->error) {
		s = symbol_add(p, name.text, name.length, SYMBOL_VARIABLE);
		if (s)
			s->var = v;
		link_variable(p, v);
	}
	if (!p->error && proto->is_extern && parse_is(p, '=')) /* its size may be another yet */
		parse_error(
			p, name.line, "Initial value of '%s', which is declared extern", v->name);
	if (!p->error && parse_accept(p, '='))
		parse_initial(p, v, element);
	return v;
}

struct variable *parse_variable(struct parser *p, unsigned space, bool is_extern, bool in_list)
{
	struct variable proto = {.space = (uint8_t)space, .is_extern = is_extern}, *v;
	unsigned vector = 1;

	parse_attributes(p, &proto, &vector);
	if (p->in_textures && proto.type)
		make_reference(&proto, &vector);
	p->in_textures = false;
	if (!p->error && !proto.type)
		parse_error(p, p->tok.line, "Parsing error near '%.*s': type expected",
			(int)p->tok.length, p->tok.text);
	do {
		v = p->error ? NULL : parse_one(p, &proto, vector, in_list);
	} while (!p->error && !in_list && parse_accept(p, ','));
	if (!in_list)
		parse_expect(p, ';');
	return v;
}

/* Shared memory of the block that cooperative groups have for tiles of several warps, at %reserved_smem_offset_1. A kernel that
 * names the register has it beside its own. */
void parse_reserved(struct parser *p)
{
	static const char name[] = "%reserved_smem_offset_1";
	struct variable *v = arena_alloc(&p->module->arena, sizeof(*v));
	struct symbol *s = symbol_add(p, name, sizeof(name) - 1, SYMBOL_VARIABLE);

	if (!v)
		parse_alloc(p, SIZE_MAX);
	if (!v || !s)
		return;
	*v = (struct variable){.name = s->name,
		.space = SPACE_SHARED,
		.type = TYPE_b8,
		.align = 16,
		.size = RESERVED_BYTES};
	s->var = v;
}

void parse_reg_declaration(struct parser *p)
{
	unsigned type = type_of_token(p);

	if (parse_is_dotted(p, "v2") || parse_is_dotted(p, "v4"))
		parse_unsupported(p, p->tok.line, "Vector register");
	if (!type)
		parse_error(p, p->tok.line, "Parsing error near '%.*s': type expected",
			(int)p->tok.length, p->tok.text);
	parse_next(p);
	do {
		struct token name = p->tok;
		uint64_t count = 0;

		if (p->tok.kind != TOKEN_WORD) {
			parse_error(p, p->tok.line, "Parsing error near '%.*s': register expected",
				(int)p->tok.length, p->tok.text);
			return;
		}
		parse_next(p);
		if (parse_accept(p, '<')) {
			count = parse_size(p);
			parse_expect(p, '>');
			if (!count || count > PTX_MAX_REGISTERS)
				parse_error(p, name.line, "Bad number of registers");
		}
		struct symbol *s = p->error ? NULL : symbol_find(p, name.text, name.length);
		if (s && s->depth == p->depth)
			parse_error(p, name.line, "Duplicate definition of '%.*s'",
				(int)name.length, name.text);
		s = p->error ? NULL : symbol_add(p, name.text, name.length, SYMBOL_REG);
		if (!s)
			return;
		s->count = (uint32_t)count;
		s->id = reg_add(p, type, s->name, count, count ? (uint32_t)count : 1);
	} while (parse_accept(p, ','));
	parse_expect(p, ';');
}
