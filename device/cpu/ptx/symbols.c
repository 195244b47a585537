/* SPDX-License-Identifier: MIT
 *
 * Names and scopes of the parser. A label may be used before it is defined, and in an enclosing
 * scope: an undefined label of a scope that closes is handed to the scope around it.
 */
#include "device/cpu/ptx/parse.h"

#include <string.h>

static uint64_t hash_name(const char *name, size_t length)
{
	uint64_t h = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < length; i++)
		h = (h ^ (uint8_t)name[i]) * 0x100000001b3ull;
	return h ^ h >> 29;
}

struct symbol *symbol_find(struct parser *p, const char *name, size_t length)
{
	uint64_t hash = hash_name(name, length);

	for (struct symbol *s = p->buckets[hash % SYMBOL_BUCKETS]; s; s = s->next_in_bucket)
		if (s->hash == hash && s->length == length && !memcmp(s->name, name, length))
			return s;
	return NULL;
}

static void link_symbol(struct parser *p, struct symbol *s)
{
	struct symbol **bucket = &p->buckets[s->hash % SYMBOL_BUCKETS];

	s->depth = p->depth;
	s->next_in_bucket = *bucket;
	*bucket = s;
	s->next_in_scope = p->scopes[p->depth].symbols;
	p->scopes[p->depth].symbols = s;
}

static void unlink_symbol(struct parser *p, struct symbol *s)
{
	struct symbol **at = &p->buckets[s->hash % SYMBOL_BUCKETS];

	while (*at != s)
		at = &(*at)->next_in_bucket;
	*at = s->next_in_bucket;
}

struct symbol *symbol_add(struct parser *p, const char *name, size_t length, unsigned kind)
{
	struct symbol *s = parse_alloc(p, sizeof(*s));

	if (!s)
		return NULL;
	s->name = arena_string(&p->module->arena, name, length);
	if (!s->name) {
		parse_alloc(p, SIZE_MAX);
		return NULL;
	}
	s->length = length;
	s->hash = hash_name(name, length);
	s->kind = kind;
	link_symbol(p, s);
	return s;
}

void scope_push(struct parser *p)
{
	if (p->depth + 1 == PTX_MAX_NESTING) {
		parse_error(p, p->tok.line, "Blocks nested too deeply");
		return;
	}
	p->scopes[++p->depth].symbols = NULL;
}

void scope_pop(struct parser *p)
{
	struct symbol *s = p->scopes[p->depth].symbols, *next;

	for (struct symbol *i = s; i; i = i->next_in_scope)
		unlink_symbol(p, i);
	if (!p->depth)
		return;
	p->depth--;
	for (; s; s = next) {
		next = s->next_in_scope;
		if (s->kind != SYMBOL_LABEL || !p->function || p->depth < 1 ||
			s->id >= p->function->label_count || p->function->labels[s->id] != PTX_NONE)
			continue;
		struct symbol *outer = symbol_find(p, s->name, s->length);
		if (outer && outer->kind == SYMBOL_LABEL)
			p->label_alias[s->id] = outer->id;
		else
			link_symbol(p, s);
	}
}

uint32_t reg_add(struct parser *p, unsigned type, const char *name, bool row, uint32_t count)
{
	struct function *f = p->function;
	uint32_t first = f->reg_count;

	if (count > PTX_MAX_REGISTERS - f->reg_count) {
		parse_error(p, p->tok.line, "Too many registers");
		return 0;
	}
	while (f->reg_capacity < f->reg_count + count) {
		f->regs = arena_grow(&p->module->arena, f->regs, f->reg_capacity, sizeof(*f->regs),
			&f->reg_capacity);
		if (!f->regs) {
			f->reg_count = f->reg_capacity = 0;
			parse_alloc(p, SIZE_MAX);
			return 0;
		}
	}
	for (uint32_t i = 0; i < count; i++)
		f->regs[f->reg_count++] =
			(struct reg){.type = type, .number = row ? i : PTX_NONE, .name = name};
	return first;
}

uint32_t reg_find(struct parser *p, const char *name, size_t length)
{
	struct symbol *s = symbol_find(p, name, length);
	size_t stem = length;
	uint64_t index = 0, scale = 1;

	if (s)
		return s->kind == SYMBOL_REG && !s->count ? s->id : PTX_NONE;
	/* %r12 of .reg .b32 %r<20>; the stem itself may end in digits (%r1<20>). */
	while (stem > 1 && name[stem - 1] >= '0' && name[stem - 1] <= '9' && length - stem < 8) {
		stem--;
		index += scale * (uint64_t)(name[stem] - '0');
		scale *= 10;
		s = symbol_find(p, name, stem);
		if (s && s->kind == SYMBOL_REG && s->count && index < s->count &&
			(name[stem] != '0' || length - stem == 1))
			return s->id + (uint32_t)index;
	}
	return PTX_NONE;
}

static uint32_t label_new(struct parser *p, const char *name, size_t length)
{
	struct function *f = p->function;
	struct symbol *s = symbol_add(p, name, length, SYMBOL_LABEL);
	unsigned capacity = f->label_capacity, names = f->label_capacity;

	if (!s)
		return 0;
	f->labels = arena_grow(
		&p->module->arena, f->labels, f->label_count, sizeof(uint32_t), &f->label_capacity);
	f->label_names = arena_grow(
		&p->module->arena, f->label_names, f->label_count, sizeof(char *), &capacity);
	p->label_alias =
		arena_grow(&p->scratch, p->label_alias, f->label_count, sizeof(uint32_t), &names);
	if (!f->labels || !f->label_names || !p->label_alias) {
		f->label_count = f->label_capacity = 0;
		parse_alloc(p, SIZE_MAX);
		return 0;
	}
	s->id = f->label_count++;
	f->labels[s->id] = PTX_NONE;
	f->label_names[s->id] = s->name;
	p->label_alias[s->id] = s->id;
	return s->id;
}

uint32_t label_use(struct parser *p, const char *name, size_t length)
{
	struct symbol *s = symbol_find(p, name, length);

	if (s && s->kind == SYMBOL_LABEL)
		return s->id;
	return label_new(p, name, length);
}

void label_define(struct parser *p, const char *name, size_t length)
{
	struct symbol *s;
	uint32_t id;

	s = symbol_find(p, name, length);
	if (s && s->depth != p->depth)
		s = NULL;
	if (s && (s->kind != SYMBOL_LABEL || p->function->labels[s->id] != PTX_NONE)) {
		parse_error(p, p->tok.line, "Duplicate definition of '%.*s'", (int)length, name);
		return;
	}
	id = s ? s->id : label_new(p, name, length);
	if (!p->error)
		p->function->labels[id] = p->function->inst_count;
}

void labels_finish(struct parser *p)
{
	struct function *f = p->function;

	for (uint32_t i = 0; i < f->label_count && !p->error; i++) {
		uint32_t id = i, steps = 0;

		while (p->label_alias[id] != id && steps++ < PTX_MAX_NESTING)
			id = p->label_alias[id];
		f->labels[i] = f->labels[id];
		if (f->labels[i] == PTX_NONE)
			parse_error(p, f->line, "Label '%s' is not defined", f->label_names[i]);
	}
}
