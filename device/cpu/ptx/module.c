/* SPDX-License-Identifier: MIT
 *
 * A parsed module: offsets of its variables, initial values, kernels and their resources.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "device/cpu/ptx/log.h"
#include "proto/texture.h"

unsigned inst_space(const struct inst *i)
{
	for (unsigned k = 0; k < i->modifier_count; k++)
		switch (i->modifiers[k]) {
		case MOD_global:
			return SPACE_GLOBAL;
		case MOD_shared:
			return SPACE_SHARED;
		case MOD_local:
			return SPACE_LOCAL;
		case MOD_const:
			return SPACE_CONST;
		case MOD_param:
			return SPACE_PARAM;
		}
	return SPACE_GENERIC;
}

static uint64_t align_up(uint64_t value, uint64_t align)
{
	return align > 1 ? (value + align - 1) & ~(align - 1) : value;
}

static void place_globals(struct ptx_module *m)
{
	/* .const first: its window is one piece, as cudaGetSymbolAddress callers expect. */
	m->globals_align = 64;
	for (unsigned pass = 0; pass < 2; pass++) {
		for (struct variable *v = m->vars; v; v = v->next) {
			if (v->space != (pass ? SPACE_GLOBAL : SPACE_CONST))
				continue;
			if (v->align > m->globals_align)
				m->globals_align = v->align;
			v->offset = align_up(m->globals_bytes, v->align);
			m->globals_bytes = v->offset + v->size;
		}
		if (!pass)
			m->const_bytes = (uint32_t)m->globals_bytes;
	}
}

/* ---- what a kernel reaches ---- */

#define LOCAL_BYTES_MAX (512u << 10) /* of a thread, as in CUDA */

struct reach {
	struct ptx_module *module;
	struct function *entry;
	uint32_t mark;
	uint64_t shared_bytes, local_bytes;
	unsigned capacity, depth;
	int error;
	const struct function *refused; /* the first that is reached; NULL: none */
};

static void reach_function(struct reach *r, struct function *f);

static void reach_variable(struct reach *r, struct variable *v)
{
	if (v->visited == r->mark || (v->space != SPACE_SHARED && v->space != SPACE_LOCAL))
		return;
	v->visited = r->mark;
	if (v->space == SPACE_LOCAL) {
		r->local_bytes = align_up(r->local_bytes, v->align) + v->size;
		return;
	}
	struct function *e = r->entry;
	e->shared = arena_grow(
		&r->module->arena, e->shared, e->shared_count, sizeof(*e->shared), &r->capacity);
	if (!e->shared) {
		e->shared_count = r->capacity = 0;
		r->error = -ENOMEM;
		return;
	}
	e->shared[e->shared_count++].var = v;
	if (v->is_extern || v->unsized)
		return; /* dynamic: after the static ones, below */
	e->shared[e->shared_count - 1].offset = (uint32_t)align_up(r->shared_bytes, v->align);
	r->shared_bytes = align_up(r->shared_bytes, v->align) + v->size;
}

static void reach_operand(struct reach *r, const struct operand *o)
{
	if (o->kind == OPERAND_SYMBOL)
		reach_variable(r, o->var);
	else if (o->kind == OPERAND_FUNCTION &&
		 !o->function->is_entry) /* a kernel may launch others */
		reach_function(r, o->function);
	else if (o->kind == OPERAND_VECTOR)
		for (unsigned k = 0; k < o->count; k++)
			reach_operand(r, &o->elements[k]);
}

static void reach_function(struct reach *r, struct function *f)
{
	if (f->visited == r->mark || r->error || r->depth == 2000)
		return;
	f->visited = r->mark;
	if (f->refused && !r->refused)
		r->refused = f;
	r->depth++;
	for (uint32_t i = 0; i < f->inst_count; i++)
		for (unsigned k = 0; k < f->insts[i].operand_count; k++)
			reach_operand(r, &f->insts[i].operands[k]);
	r->depth--;
}

static int describe_kernel(struct ptx_module *m, struct function *f, uint32_t mark)
{
	struct reach r = {.module = m, .entry = f, .mark = mark};
	struct ptx_kernel *k = &f->kernel;
	struct ptx_param *params = arena_alloc(&m->arena, (f->param_count + 1) * sizeof(*params));
	uint64_t at = 0;

	if (!params)
		return -ENOMEM;
	for (uint32_t i = 0; i < f->param_count; i++) {
		struct variable *v = f->params[i];

		v->offset = at = align_up(at, v->align);
		params[i] = (struct ptx_param){(uint32_t)at, (uint32_t)v->size, v->align};
		at += v->size;
		if (at > 1 << 20)
			return -EINVAL;
	}
	reach_function(&r, f);
	if (r.error)
		return r.error;
	if (r.shared_bytes > UINT32_MAX / 2 || r.local_bytes > LOCAL_BYTES_MAX)
		return -EINVAL;
	for (uint32_t i = 0; i < f->shared_count; i++)
		if (f->shared[i].var->is_extern || f->shared[i].var->unsized)
			f->shared[i].offset = (uint32_t)align_up(r.shared_bytes, 16);
	uint32_t registers = f->reg_count / 4 + 10;
	*k = (struct ptx_kernel){.name = f->name,
		.params = params,
		.param_count = f->param_count,
		.param_bytes = (uint32_t)at,
		.shared_bytes = (uint32_t)r.shared_bytes,
		.local_bytes = (uint32_t)r.local_bytes,
		.const_bytes = m->const_bytes,
		.registers = registers > 64 ? 64 : registers,
		.max_threads = f->max_threads && f->max_threads < 1024 ? f->max_threads : 1024,
		.ptx_version = m->version,
		.target = m->target};
	memcpy(k->required_block, f->required, sizeof(f->required));
	memcpy(k->cluster, f->cluster, sizeof(f->cluster));
	if (r.refused) {
		k->refused = r.refused->refused;
		k->refused_line = r.refused->refused_line;
	}
	return 0;
}

/* ---- functions whose calls may come to one that calls itself ---- */

/* A walk, depth first, over the functions: of each that is on the way, how many of its instructions were looked at. A function
 * that is on the way already closes a circle. Of NULL, which stands for any call by address, the functions whose address
 * is taken are what it calls. */
struct walk {
	struct ptx_module *module;
	struct step {
		struct function *function;
		uint32_t next;
		struct function *next_taken; /* of NULL */
		bool circle;
	} * steps;
	uint32_t depth;
	uint8_t *seen;   /* by index, the last is NULL's: 1: on the way; 2: done */
	bool by_address; /* NULL's calls come to a circle */
};

static uint8_t *walk_seen(struct walk *w, const struct function *f)
{
	return &w->seen[f ? f->index : w->module->function_count];
}

static void walk_enter(struct walk *w, struct function *f)
{
	*walk_seen(w, f) = 1;
	w->steps[w->depth++] =
		(struct step){.function = f, .next_taken = f ? NULL : w->module->functions};
}

/* The next function that this one calls; false: no more. */
static bool walk_callee(struct step *s, struct function **callee)
{
	for (; !s->function && s->next_taken; s->next_taken = s->next_taken->next)
		if (s->next_taken->taken && s->next_taken->has_body && !s->next_taken->is_entry) {
			*callee = s->next_taken;
			s->next_taken = s->next_taken->next;
			return true;
		}
	while (s->function && s->next < s->function->inst_count) {
		const struct inst *i = &s->function->insts[s->next++];

		if (i->op != OP_call || i->operand_count <= i->call_results)
			continue;
		const struct operand *o = &i->operands[i->call_results];
		*callee = o->kind == OPERAND_FUNCTION ? o->function : NULL;
		if (!*callee || (*callee)->has_body)
			return true;
	}
	return false;
}

static void walk_from(struct walk *w, struct function *f)
{
	struct function *callee;

	walk_enter(w, f);
	while (w->depth) {
		struct step *s = &w->steps[w->depth - 1];

		if (walk_callee(s, &callee)) {
			if (!*walk_seen(w, callee))
				walk_enter(w, callee);
			else
				s->circle |= *walk_seen(w, callee) == 1 ||
					     (callee ? callee->recursive : w->by_address);
			continue;
		}
		*walk_seen(w, s->function) = 2;
		if (s->function)
			s->function->recursive = s->circle;
		else
			w->by_address = s->circle;
		w->depth--;
		if (w->depth)
			w->steps[w->depth - 1].circle |= s->circle;
	}
}

static void find_taken(struct ptx_module *m)
{
	for (struct variable *v = m->vars; v; v = v->next)
		for (struct initializer *a = v->addresses; a; a = a->next)
			if (a->function)
				a->function->taken = true;
	for (struct function *f = m->functions; f; f = f->next)
		for (uint32_t i = 0; i < f->inst_count; i++) {
			const struct inst *inst = &f->insts[i];

			for (unsigned k = 0; k < inst->operand_count; k++)
				if (inst->operands[k].kind == OPERAND_FUNCTION &&
					(inst->op != OP_call || k != inst->call_results))
					inst->operands[k].function->taken = true;
		}
}

static int find_recursive(struct ptx_module *m)
{
	struct walk w = {.module = m};

	find_taken(m);
	w.steps = malloc((m->function_count + 2) * sizeof(*w.steps));
	w.seen = calloc(m->function_count + 2, 1);
	for (struct function *f = m->functions; f && w.steps && w.seen; f = f->next)
		if (f->has_body && !*walk_seen(&w, f))
			walk_from(&w, f);
	int error = w.steps && w.seen ? 0 : -ENOMEM;
	free(w.steps);
	free(w.seen);
	return error;
}

int module_layout(struct ptx_module *m, struct ptx_log *log)
{
	size_t count = 0;
	int error = 0;

	place_globals(m);
	if (find_recursive(m))
		return -ENOMEM;
	for (struct function *f = m->functions; f; f = f->next)
		count += f->is_entry && f->has_body;
	m->entries = arena_alloc(&m->arena, (count + 1) * sizeof(*m->entries));
	if (!m->entries)
		return -ENOMEM;
	for (struct function *f = m->functions; f && !error; f = f->next) {
		if (!f->is_entry || !f->has_body)
			continue;
		m->entries[m->entry_count++] = f;
		error = describe_kernel(m, f, (uint32_t)m->entry_count);
		if (error == -EINVAL)
			ptx_log_error(log, f->line, "Entry '%s' needs too much memory", f->name);
	}
	return error;
}

void ptx_module_destroy(struct ptx_module *module)
{
	if (!module)
		return;
	arena_finish(&module->arena);
	free(module);
}

/* ---- variables ---- */

void ptx_globals_layout(const struct ptx_module *module, size_t *bytes, size_t *align)
{
	*bytes = module->globals_bytes;
	*align = module->globals_align;
}

static void write_addresses(const struct variable *v, char *block)
{
	for (const struct initializer *a = v->addresses; a; a = a->next) {
		uint64_t value = a->function ? a->function->index + 1 : 0;

		if (a->var && (a->var->space == SPACE_GLOBAL || a->generic))
			value = (uint64_t)(uintptr_t)block + a->var->offset;
		else if (a->var)
			value = a->var->offset;
		value = (value + (uint64_t)a->addend) >> a->shift;
		memcpy(block + v->offset + a->offset, &value, a->size);
	}
}

void ptx_globals_init(const struct ptx_module *module, void *block)
{
	for (const struct variable *v = module->vars; v; v = v->next) {
		if (v->space != SPACE_GLOBAL && v->space != SPACE_CONST)
			continue;
		if (v->bytes)
			memcpy((char *)block + v->offset, v->bytes, v->set_bytes);
		write_addresses(v, block);
		if (v->reference)
			*(struct texture *)((char *)block + v->offset) =
				(struct texture){.magic = TEXTURE_MAGIC, .kind = TEXTURE_UNBOUND};
	}
}

void ptx_globals_visit(const struct ptx_module *module,
	void (*visit)(void *owner, uint64_t offset, uint64_t size), void *owner)
{
	for (const struct variable *v = module->vars; v; v = v->next)
		if ((v->space == SPACE_GLOBAL || v->space == SPACE_CONST) && v->size)
			visit(owner, v->offset, v->size);
}

bool ptx_globals_managed(const struct ptx_module *module)
{
	for (const struct variable *v = module->vars; v; v = v->next)
		if (v->managed)
			return true;
	return false;
}

static const struct variable *find_variable(const struct ptx_module *module, const char *name)
{
	for (const struct variable *v = module->vars; v; v = v->next)
		if ((v->space == SPACE_GLOBAL || v->space == SPACE_CONST) && !strcmp(v->name, name))
			return v;
	return NULL;
}

bool ptx_global_is_managed(const struct ptx_module *module, const char *name)
{
	const struct variable *v = find_variable(module, name);

	return v && v->managed;
}

int ptx_global_find(
	const struct ptx_module *module, const char *name, uint64_t *offset, uint64_t *size)
{
	const struct variable *v = find_variable(module, name);

	if (!v)
		return -ENOENT;
	*offset = v->offset;
	*size = v->size;
	return 0;
}

/* ---- where a line comes from ---- */

/* The location that holds for a line: the last one before it. */
static const struct location *location_of(const struct ptx_module *module, uint32_t ptx_line)
{
	uint32_t low = 0, high = module->location_count;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (module->locations[middle].ptx_line <= ptx_line)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? &module->locations[low - 1] : NULL;
}

const char *ptx_source_line(const struct ptx_module *module, uint32_t ptx_line, uint32_t *line)
{
	const struct location *location = location_of(module, ptx_line);
	const struct source_file *file = location && location->line ? module->files : NULL;

	while (file && file->number != location->file)
		file = file->next;
	if (file)
		*line = location->line;
	return file ? file->name : NULL;
}

/* ---- kernels ---- */

size_t ptx_kernel_count(const struct ptx_module *module)
{
	return module->entry_count;
}

const struct ptx_kernel *ptx_kernel_at(const struct ptx_module *module, size_t index)
{
	return index < module->entry_count ? &module->entries[index]->kernel : NULL;
}

const struct ptx_kernel *ptx_kernel_at_address(const struct ptx_module *module, uint64_t address)
{
	for (size_t i = 0; i < module->entry_count; i++)
		if (module->entries[i]->index + 1 == address)
			return &module->entries[i]->kernel;
	return NULL;
}

const struct ptx_kernel *ptx_kernel_find(const struct ptx_module *module, const char *name)
{
	for (size_t i = 0; i < module->entry_count; i++)
		if (!strcmp(module->entries[i]->name, name))
			return &module->entries[i]->kernel;
	return NULL;
}
