/* SPDX-License-Identifier: MIT */
#include "cases.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interp.h"
#include "interp_values.h"

enum { HEAD_LINES = 16 };

/* ---- operands ---- */

static unsigned slot_bits(unsigned type)
{
	return ptx_type_bits[type] < 16 ? 32 : ptx_type_bits[type];
}

static void find_types(struct case_shape *s, const char *instruction)
{
	for (const char *p = strchr(instruction, '.'); p && s->type_count < 4;
		p = strchr(p + 1, '.')) {
		int type = ptx_type_lookup(p + 1, strcspn(p + 1, "."));

		if (type > 0)
			s->types[s->type_count++] = (unsigned)type;
	}
}

/* D1:b32: writes the register's name, and notes what it is. Returns what follows. */
static const char *read_slot(struct case_shape *s, const char *p, FILE *f)
{
	static const char *const ins = "ABCEQ";
	struct case_slot slot = {.name = {p[0], isdigit((unsigned char)p[1]) ? p[1] : 0},
		.type = s->types[0],
		.set = 't'};
	const char *in = strchr(ins, p[0]);

	p += strlen(slot.name);
	if (slot.name[0] == 'P' || slot.name[0] == 'Q')
		slot.type = TYPE_pred;
	if (*p == ':') {
		size_t n = 1 + strspn(p + 1, "abcdefghijklmnopqrstuvwxyz0123456789");

		if (p[1] == '1' || p[1] == '2')
			slot.type = s->types[p[1] - '1'];
		else if (p[1] == 'm')
			slot = (struct case_slot){.name = {slot.name[0]},
				.type = (unsigned)ptx_type_lookup(p + 2, n - 2),
				.set = 'm'};
		else if (n == 2 || !strncmp(p, ":lane", n) || !strncmp(p, ":count", n) ||
			 !strncmp(p, ":bytes", n))
			slot = (struct case_slot){
				.name = {slot.name[0]}, .type = TYPE_b32, .set = p[1]};
		else
			slot.type = (unsigned)ptx_type_lookup(p + 1, n - 1);
		p += n;
	} else if (in && s->ins >> (in - ins) & 1) {
		slot = s->in[in - ins];
	}
	if (in && !slot.name[1]) {
		s->in[in - ins] = slot;
		s->ins |= 1u << (in - ins);
	} else {
		unsigned k = (slot.name[0] == 'P' ? CASE_OUT_P : 0) +
			     (slot.name[1] ? (unsigned)slot.name[1] - '0' : 0);

		s->out[k] = slot;
		s->outs |= 1u << k;
	}
	fprintf(f, "v%s", slot.name);
	return p;
}

/* [G+4], [S], …: where it is for this thread and form. */
static const char *read_memory(struct case_shape *s, const char *p, unsigned number, FILE *f)
{
	char place = p[1];
	unsigned long offset = p[2] == '+' ? strtoul(p + 3, NULL, 10) : 0;

	s->global |= place == 'G' || place == 'X';
	s->shared |= place == 'S' || place == 'Y';
	s->local |= place == 'L';
	if (place == 'S' || place == 'Y')
		fprintf(f, "[%%%c+%lu]", place == 'S' ? 's' : 'y', offset);
	else if (place == 'L' || place == 'K')
		fprintf(f, "[%s+%lu]", place == 'L' ? "lo" : "co", offset);
	else
		fprintf(f, "[%%mem+%lu]", number * CASE_MEMORY * CASE_THREADS + offset);
	return strchr(p, ']') + 1;
}

static void write_operands(struct case_shape *s, const char *p, unsigned number, FILE *f)
{
	while (*p && strcmp(p, "-") != 0) {
		if (*p == '[')
			p = read_memory(s, p, number, f);
		else if (*p == 'G' && !isalnum((unsigned char)p[1]) && p++)
			fprintf(f, "%%mem");
		else if (strchr("DABCEPQ", *p) && (p[1] == ':' || !isalpha((unsigned char)p[1])))
			p = read_slot(s, p, f);
		else if (isdigit((unsigned char)*p))
			for (; isalnum((unsigned char)*p); p++)
				fputc(*p, f);
		else
			fputc(*p++, f);
	}
}

/* ---- the kernel ---- */

static void write_sources(const struct case_shape *s, unsigned number, FILE *f)
{
	for (unsigned k = 0; k < CASE_IN; k++) {
		const struct case_slot *slot = &s->in[k];
		unsigned bits = slot->type == TYPE_pred ? 32 : slot_bits(slot->type);

		if (!(s->ins >> k & 1))
			continue;
		if (slot->type == TYPE_pred) {
			fprintf(f,
				".reg .pred vQ; .reg .b32 q; ld.global.b32 q, [%%in+%u]; setp.lt.s32 vQ, q, 0; ",
				(number * CASE_IN + k) * 8 * CASE_THREADS);
			continue;
		}
		fprintf(f, ".reg .b%u v%s; ld.global.b%u v%s, [%%in+%u]; ", bits, slot->name, bits,
			slot->name, (number * CASE_IN + k) * 8 * CASE_THREADS);
	}
}

/* Shared and local memory begin as the thread's global memory does. */
static void write_memory(const struct case_shape *s, unsigned number, bool before, FILE *f)
{
	const char *space = s->shared ? "shared" : "local", *place = s->shared ? "%s" : "lo";

	for (unsigned k = 0; (s->shared || s->local) && k < 32; k += 8)
		if (before)
			fprintf(f, "ld.global.b64 %%t, [%%mem+%u]; st.%s.b64 [%s+%u], %%t; ",
				number * CASE_MEMORY * CASE_THREADS + k, space, place, k);
		else
			fprintf(f, "ld.%s.b64 %%t, [%s+%u]; st.global.b64 [%%out+%u], %%t; ", space,
				place, k,
				(number * CASE_OUT + CASE_OUT_MEMORY + k / 8) * 8 * CASE_THREADS);
}

static void write_results(const struct case_shape *s, unsigned number, FILE *f)
{
	for (unsigned k = 0; k < CASE_OUT_MEMORY; k++) {
		unsigned at = (number * CASE_OUT + k) * 8 * CASE_THREADS;

		if (!(s->outs >> k & 1))
			continue;
		if (s->out[k].type == TYPE_pred)
			fprintf(f, "selp.u32 %%c, 1, 2, v%s; st.global.b32 [%%out+%u], %%c; ",
				s->out[k].name, at);
		else
			fprintf(f, "st.global.b%u [%%out+%u], v%s; ", slot_bits(s->out[k].type), at,
				s->out[k].name);
	}
	if (s->carry_out)
		fprintf(f, "addc.u32 %%c, 0, 0; st.global.b32 [%%out+%u], %%c; ",
			(number * CASE_OUT + CASE_OUT_CARRY) * 8 * CASE_THREADS);
}

static void write_form(struct cases *b, unsigned n, FILE *f)
{
	struct isa_form *form = b->forms[n];
	struct case_shape *s = &b->shapes[n];
	char *operands;
	size_t size;
	FILE *o = open_memstream(&operands, &size);

	if (!o)
		abort();
	*s = (struct case_shape){0};
	find_types(s, form->instruction);
	write_operands(s, form->operands, n, o);
	fclose(o);
	size_t length = strcspn(form->instruction, ".");
	s->carry_in = length == 4 && form->instruction[3] == 'c';
	s->carry_out = strstr(form->instruction, ".cc");
	fprintf(f, "{ ");
	write_sources(s, n, f);
	write_memory(s, n, true, f);
	for (unsigned k = 0; k < CASE_OUT_MEMORY; k++)
		if (s->outs >> k & 1 && s->out[k].type == TYPE_pred)
			fprintf(f, ".reg .pred v%s; ", s->out[k].name);
		else if (s->outs >> k & 1)
			fprintf(f, ".reg .b%u v%s; ", slot_bits(s->out[k].type), s->out[k].name);
	if (s->carry_in)
		fprintf(f, "and.b32 %%c, %%tid_, 1; add.cc.u32 %%c, %%c, -1; ");
	fprintf(f, "%s %s; ", form->instruction, operands);
	if (!strncmp(form->instruction, "cp.async.c", 10))
		fprintf(f, "cp.async.wait_all; ");
	write_results(s, n, f);
	write_memory(s, n, false, f);
	fprintf(f, "}\n");
	free(operands);
}

/* Form n is on line HEAD_LINES + n + 1. */
static char *cases_text(struct cases *b)
{
	char *text;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		abort();
	fprintf(f,
		".version 8.7\n.target sm_90\n.address_size 64\n"
		".const .align 64 .b64 co[8] = {0x8081828384858687, 0x7ff0000000000000, 0xffc000007f800001, 0x123456789abcdef0,\n"
		"0xfedcba9876543210, 1, 0xffffffffffffffff, 0x3ff0000000000000};\n"
		".visible .entry k(.param .u64 in, .param .u64 out, .param .u64 mem) {\n"
		".reg .b64 %%in, %%out, %%mem, %%t, %%y; .reg .b32 %%tid_, %%c, %%s;\n"
		".shared .align 64 .b8 sh[%u]; .local .align 64 .b8 lo[64];\n"
		"ld.param.u64 %%in, [in]; ld.param.u64 %%out, [out]; ld.param.u64 %%mem, [mem];\n"
		"mov.u32 %%tid_, %%tid.x; mul.wide.u32 %%t, %%tid_, 8;\n"
		"add.u64 %%in, %%in, %%t; add.u64 %%out, %%out, %%t;\n"
		"mul.wide.u32 %%t, %%tid_, %u; add.u64 %%mem, %%mem, %%t;\n"
		"mov.u32 %%s, sh; mad.lo.u32 %%s, %%tid_, 32, %%s;\n"
		"cvt.u64.u32 %%y, %%s; cvta.shared.u64 %%y, %%y;\n\n\n",
		CASE_THREADS * 32, CASE_MEMORY);
	for (unsigned n = 0; n < b->count; n++)
		write_form(b, n, f);
	fprintf(f, "ret;\n}\n");
	fclose(f);
	return text;
}

/* ---- values ---- */

static uint64_t hashed(uint64_t h)
{
	h *= 0x9e3779b97f4a7c15ull;
	h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9ull;
	return h ^ h >> 32;
}

#define PICK(list, n) ((list)[(n) % (sizeof(list) / sizeof(*(list)))])

static uint64_t of_type(unsigned type, unsigned n, uint64_t h)
{
	static const uint64_t integers[] = {0, 1, UINT64_MAX, 0x8000000080008080,
		0x7fffffff7fff7f7f, 0x8000000000000000, 0x7fffffffffffffff, 0x80000000, 0x7fffffff,
		0x8000, 0x7fff, 0x80, 31, 33, 2};
	static const uint32_t singles[] = {0, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000,
		0xff800000, 0x7fc00000, 0x7f7fffff, 0xff7fffff, 0x00800000, 1, 0x807fffff,
		0x3dcccccd, 0x4b800001, 0x40200000, 0xc0600000};
	static const uint64_t doubles[] = {0, 0x8000000000000000, 0x3ff0000000000000,
		0xbff0000000000000, 0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000,
		0x7fefffffffffffff, 0x0010000000000000, 1, 0x800fffffffffffff, 0x3fb999999999999a,
		0x41dfffffffe00000, 0x43e0000000000000, 0xc004000000000000, 0x380fffffffffffff};
	static const uint16_t halves[] = {0, 0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 0x7e00, 0x7bff,
		0xfbff, 0x0400, 1, 0x83ff, 0x2e66, 0x4100, 0xc300, 0x3800};
	static const uint16_t briefs[] = {0, 0x8000, 0x3f80, 0xbf80, 0x7f80, 0xff80, 0x7fc0, 0x7f7f,
		0xff7f, 0x0080, 1, 0x807f, 0x3dcd, 0x4b80, 0x4020, 0xc060};

	switch (type) {
	case TYPE_f32:
		return PICK(singles, n);
	case TYPE_f64:
		return PICK(doubles, n);
	case TYPE_f16:
		return PICK(halves, n);
	case TYPE_bf16:
		return PICK(briefs, n);
	case TYPE_f16x2:
		return PICK(halves, n) | (uint64_t)PICK(halves, h) << 16;
	case TYPE_bf16x2:
		return PICK(briefs, n) | (uint64_t)PICK(briefs, h) << 16;
	case TYPE_f32x2:
		return PICK(singles, n) | (uint64_t)PICK(singles, h) << 32;
	}
	return PICK(integers, n);
}

/* Whole numbers so small that a matrix of them is exact in any order; of b8 four numbers of both formats of 8 bits. */
static uint64_t small(unsigned type, uint64_t h)
{
	int n = (int)(h % 17) - 8, m = (int)(h >> 32) % 17 - 8;
	_Float16 half[2] = {(_Float16)n, (_Float16)m};
	float f[2] = {(float)n, (float)m};
	double d = n;
	uint32_t bits[2];
	uint64_t v = 0;

	memcpy(bits, f, 8);
	memcpy(&v, type == TYPE_f64 ? (void *)&d : f, type == TYPE_f64 ? 8 : 4);
	if (type == TYPE_f16x2)
		memcpy(&v, half, 4);
	else if (type == TYPE_bf16x2)
		v = bits[0] >> 16 | (bits[1] & 0xffff0000);
	else if (type == TYPE_b8)
		v = (h & 0x83838383) | 0x3c3c3c3c;
	return v;
}

/* Numbers that are neither too large nor too small, so that sums and products of them are not. */
static uint64_t ordinary(unsigned type, uint64_t h)
{
	float f = (float)(int32_t)h * 1.37e-5f;
	double d = (double)(int64_t)h * 1.37e-12;
	uint64_t v = 0;

	switch (type) {
	case TYPE_f32:
		memcpy(&v, &f, 4);
		return v;
	case TYPE_f64:
		memcpy(&v, &d, 8);
		return v;
	}
	return h;
}

/* The first threads have all pairs of edges in A and B, the last ones chance. */
static uint64_t value(const struct case_slot *slot, unsigned k, unsigned thread)
{
	uint64_t h = hashed(thread * 8 + k + 1);
	unsigned n = k == 0 ? thread % 15 : k == 1 ? thread / 15 : thread * 7 + thread / 11 + k;

	switch (slot->set) {
	case 's':
		return thread % 16 == 15 ? h : (n * 9 + k) % 72;
	case 'l':
		return h % 32;
	case 'b':
		return h % 17;
	case 'm':
		return small(slot->type, h);
	case 'c':
		return (uint64_t)((int64_t)(h % 69) - 34);
	}
	if (slot->type == TYPE_pred)
		return h;
	if (thread < 225 && thread % 15 == 14 && k == 0)
		n = 15;
	return thread < 225 ? of_type(slot->type, n, h) : ordinary(slot->type, h);
}

static void fill(struct cases *b)
{
	for (unsigned n = 0; n < b->count; n++)
		for (unsigned t = 0; t < CASE_THREADS; t++) {
			struct case_slot word = {.type = b->shapes[n].types[0], .set = 't'};

			for (unsigned k = 0; k < CASE_IN; k++)
				b->in[(n * CASE_IN + k) * CASE_THREADS + t] =
					value(&b->shapes[n].in[k], k, t);
			for (unsigned k = 0; k < CASE_MEMORY / 8; k++) {
				uint64_t v = value(&word, 1 + k, t * 3 + k);

				for (unsigned side = 0; side < 2; side++)
					memcpy(b->memory[side] +
							(n * CASE_THREADS + t) * CASE_MEMORY +
							k * 8,
						&v, 8);
			}
		}
	for (unsigned side = 0; side < 2; side++)
		memset(b->out[side], 0, sizeof(uint64_t) * CASE_BATCH * CASE_OUT * CASE_THREADS);
}

/* ---- interpreting ---- */

static void drop(struct cases *c, unsigned n)
{
	memmove(c->forms + n, c->forms + n + 1, (--c->count - n) * sizeof(*c->forms));
}

int cases_drop_line(struct cases *c, uint32_t line, enum isa_verdict verdict)
{
	unsigned n = line - HEAD_LINES - 1;

	if (line <= HEAD_LINES || n >= c->count)
		return -1;
	c->forms[n]->verdict = verdict;
	drop(c, n);
	return 0;
}

/* A message that is of no form is of the kernel around them, or of the interpreter. */
static void must_drop(struct cases *c, uint32_t line, enum isa_verdict verdict, const char *why)
{
	if (!cases_drop_line(c, line, verdict))
		return;
	fprintf(stderr, "what is wrong, line %u? %s\n", line, why);
	abort();
}

static bool parsed(struct cases *c, int (*refuses)(struct cases *c, struct ptx_log *log))
{
	struct ptx_log log = {c->log, sizeof(c->log), 0};
	const char *line;

	c->log[0] = 0;
	free(c->text);
	c->text = cases_text(c);
	if (!ptx_parse(c->text, strlen(c->text), &log, &c->module)) {
		const struct ptx_kernel *k = ptx_kernel_find(c->module, "k");

		if (!k->refused && !(refuses && refuses(c, &log)))
			return true;
		if (k->refused)
			snprintf(
				c->log, sizeof(c->log), "line %u: %s", k->refused_line, k->refused);
		ptx_module_destroy(c->module);
	}
	line = strstr(c->log, "line ");
	must_drop(c, line ? (uint32_t)strtoul(line + 5, NULL, 10) : 0, ISA_UNSUPPORTED, c->log);
	return false;
}

static bool interpreted(struct cases *c)
{
	void *params[3] = {c->in, c->out[0], c->memory[0]};
	struct interp in = {.module = c->module,
		.globals = c->globals,
		.kernel = "k",
		.grid = {1, 1, 1},
		.block = {CASE_THREADS, 1, 1},
		.params = params};

	fill(c);
	if (interp_run(&in) == INTERP_RAN)
		return true;
	must_drop(c, in.line, ISA_NOT_COMPARED, in.why);
	return false;
}

static void load_globals(struct cases *c)
{
	size_t bytes, align;

	ptx_globals_layout(c->module, &bytes, &align);
	c->globals = aligned_alloc(64, (bytes + 64) & ~(size_t)63);
	if (!c->globals)
		abort();
	memset(c->globals, 0, bytes);
	ptx_globals_init(c->module, c->globals);
}

bool cases_prepare(struct cases *c, int (*refuses)(struct cases *c, struct ptx_log *log))
{
	while (c->count) {
		if (!parsed(c, refuses))
			continue;
		load_globals(c);
		if (interpreted(c))
			return true;
		cases_end(c);
	}
	return false;
}

void cases_end(struct cases *c)
{
	ptx_module_destroy(c->module);
	free(c->globals);
}

void cases_begin(struct cases *c)
{
	*c = (struct cases){.in = calloc(1, CASE_IN_BYTES)};
	for (unsigned side = 0; side < 2; side++) {
		c->out[side] = calloc(1, CASE_OUT_BYTES);
		c->memory[side] = aligned_alloc(64, CASE_MEMORY_BYTES);
		if (!c->out[side] || !c->memory[side] || !c->in)
			abort();
	}
}

void cases_finish(struct cases *c)
{
	for (unsigned side = 0; side < 2; side++) {
		free(c->out[side]);
		free(c->memory[side]);
	}
	free(c->in);
	free(c->text);
}

/* ---- comparing ---- */

static unsigned part_of(unsigned type, unsigned *parts)
{
	*parts = type == TYPE_f16x2 || type == TYPE_bf16x2 || type == TYPE_f32x2 ? 2 : 1;
	return type == TYPE_f16x2    ? TYPE_f16
	       : type == TYPE_bf16x2 ? TYPE_bf16
	       : type == TYPE_f32x2  ? TYPE_f32
				     : type;
}

static bool is_float(unsigned type)
{
	return type == TYPE_f16 || type == TYPE_bf16 || type == TYPE_f32 || type == TYPE_f64;
}

/* The distance of y's neighbours among the numbers of a type. */
static double last_place(unsigned type, double y)
{
	int fraction = type == TYPE_f16 ? 10 : type == TYPE_bf16 ? 7 : type == TYPE_f32 ? 23 : 52;
	int least = type == TYPE_f16 ? -14 : type == TYPE_f64 ? -1022 : -126;

	return ldexp(1, (y == 0 || ilogb(y) < least ? least : ilogb(y)) - fraction);
}

/* Within the stated error: units in the last place, relative, or of a function's kind. */
static bool close_enough(const char *tolerance, unsigned type, double a, double x, double y)
{
	double error = fabs(x - y), ulp = last_place(type, y);

	if (x == y || (isnan(x) && isnan(y)))
		return true;
	if (!*tolerance || isnan(x) || isnan(y))
		return false;
	if (!strcmp(tolerance, "sine"))
		return fabs(a) > 1000 ? fabs(x) <= 1 : error <= 0x1p-20;
	if (isinf(x) || isinf(y))
		return false;
	if (!strcmp(tolerance, "log"))
		return error <= fmax(0x1p-22, fabs(y) * 0x1p-22);
	if (!strncmp(tolerance, "2^-", 3))
		return error <= fmax(fabs(y) * exp2(-atof(tolerance + 3)), ulp);
	return error <= atof(tolerance) * ulp;
}

static bool equal(const struct isa_row *row, unsigned type, uint64_t a, uint64_t x, uint64_t y)
{
	unsigned parts, part = part_of(type, &parts), bits = ptx_type_bits[part];

	if (x == y)
		return true;
	if (!is_float(part))
		return false;
	for (unsigned k = 0; k < parts; k++) {
		uint64_t p = interp_low(x >> bits * k, bits), q = interp_low(y >> bits * k, bits);
		double d = interp_double(part, p), e = interp_double(part, q);

		if (p != q && !(isnan(d) && isnan(e)) &&
			!(*row->tolerance &&
				close_enough(row->tolerance, part,
					interp_double(part, interp_low(a >> bits * k, bits)), d,
					e)))
			return false;
	}
	return true;
}

static unsigned out_type(const struct case_shape *s, unsigned k)
{
	return k < CASE_OUT_MEMORY ? s->out[k].type : k == CASE_OUT_MEMORY ? s->types[0] : TYPE_b64;
}

static void say_operands(const struct cases *c, unsigned n, unsigned t, FILE *f)
{
	const uint64_t *in = c->in + n * CASE_IN * CASE_THREADS + t;

	fprintf(f, "%s %s: A=%#lx B=%#lx C=%#lx E=%#lx Q=%u: ", c->forms[n]->instruction,
		c->forms[n]->operands, in[0], in[CASE_THREADS], in[2 * CASE_THREADS],
		in[3 * CASE_THREADS], (int32_t)in[4 * CASE_THREADS] < 0);
}

/* Values for which `differ` holds, of the interpreter and of the other side. */
static unsigned count_values(const struct cases *c, unsigned n, unsigned most, FILE *f,
	bool (*differ)(
		const struct isa_row *row, unsigned type, uint64_t a, uint64_t x, uint64_t y))
{
	unsigned found = 0;

	for (unsigned k = 0; k < CASE_OUT; k++)
		for (unsigned t = 0; t < CASE_THREADS; t++) {
			size_t at = (n * CASE_OUT + k) * CASE_THREADS + t;

			if (!differ(c->forms[n]->row, out_type(&c->shapes[n], k),
				    c->in[n * CASE_IN * CASE_THREADS + t], c->out[1][at],
				    c->out[0][at]) ||
				found++ >= most)
				continue;
			say_operands(c, n, t, f);
			fprintf(f, "%u is %#lx, not %#lx\n", k, c->out[1][at], c->out[0][at]);
		}
	return found;
}

static bool unequal(const struct isa_row *row, unsigned type, uint64_t a, uint64_t x, uint64_t y)
{
	return !equal(row, type, a, x, y);
}

static bool other_nan(const struct isa_row *row, unsigned type, uint64_t a, uint64_t x, uint64_t y)
{
	unsigned parts, part = part_of(type, &parts), bits = ptx_type_bits[part];

	for (unsigned k = 0; x != y && is_float(part) && k < parts; k++) {
		uint64_t p = interp_low(x >> bits * k, bits), q = interp_low(y >> bits * k, bits);

		if (p != q && isnan(interp_double(part, p)) && isnan(interp_double(part, q)))
			return true;
	}
	return false;
}

/* The first element is of the form's type, what is behind it must be the same. */
static bool memory_differs(const struct cases *c, unsigned n, unsigned t)
{
	unsigned type = c->shapes[n].types[0], bytes = ptx_type_bits[type] / 8u;
	const uint8_t *x = c->memory[0] + (n * CASE_THREADS + t) * CASE_MEMORY;
	const uint8_t *y = c->memory[1] + (n * CASE_THREADS + t) * CASE_MEMORY;
	uint64_t v = 0, w = 0;

	if (!memcmp(x, y, CASE_MEMORY))
		return false;
	memcpy(&v, x, bytes);
	memcpy(&w, y, bytes);
	return memcmp(x + bytes, y + bytes, CASE_MEMORY - bytes) != 0 ||
	       !equal(c->forms[n]->row, type, 0, w, v);
}

unsigned cases_differing(const struct cases *c, unsigned n, unsigned most, FILE *f)
{
	unsigned found = count_values(c, n, most, f, unequal);

	for (unsigned t = 0; t < CASE_THREADS; t++) {
		const uint8_t *want = c->memory[0] + (n * CASE_THREADS + t) * CASE_MEMORY;
		const uint8_t *have = c->memory[1] + (n * CASE_THREADS + t) * CASE_MEMORY;

		if (!memory_differs(c, n, t) || found++ >= most)
			continue;
		say_operands(c, n, t, f);
		fprintf(f, "memory is");
		for (unsigned k = 0; k < 16; k++)
			fprintf(f, " %02x", have[k]);
		fprintf(f, ", not");
		for (unsigned k = 0; k < 16; k++)
			fprintf(f, " %02x", want[k]);
		fprintf(f, "\n");
	}
	return found;
}

unsigned cases_other_nans(const struct cases *c, unsigned n, unsigned most, FILE *f)
{
	return count_values(c, n, most, f, other_nan);
}
