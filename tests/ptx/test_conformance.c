/* SPDX-License-Identifier: MIT
 *
 * Each form of isa.def, compiled, against the interpreter, over operands chosen for their edges. Some forms at a time
 * are one kernel, a line each, so that what is said of a line is said of a form. `--write FILE` writes the page of docs.
 */
#include "harness.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interp.h"
#include "interp_values.h"
#include "isa.h"

/* IN: inputs of a form; OUT: D to D3, P and P1, the carry, memory of 32 bytes. MEMORY: bytes of a thread's own. */
enum {
	THREADS = 256,
	BATCH = 48,
	IN = 5,
	OUT = 12,
	OUT_P = 4,
	OUT_CARRY = 6,
	OUT_MEMORY = 8,
	MEMORY = 64
};

struct slot { /* a register of a form */
	char name[4];
	unsigned type;
	char set; /* of sources: which values: t: of the type, s: shifts, l: lanes, c: counts, m: small */
};

struct shape { /* what the operands of a form are */
	unsigned types[4], type_count;
	struct slot in[IN], out[OUT_MEMORY];
	unsigned ins, outs; /* bits: which there are */
	bool global, shared, local, carry_in, carry_out;
};

struct batch {
	struct isa_form *forms[BATCH];
	struct shape shapes[BATCH];
	unsigned count;
	uint64_t *in, *out[2];
	uint8_t *memory[2];
	struct program program;
	char why[1024];
	uint32_t line;
};

static struct isa isa;
enum { HEAD_LINES = 16 };

/* ---- operands ---- */

static unsigned slot_bits(unsigned type)
{
	return ptx_type_bits[type] < 16 ? 32 : ptx_type_bits[type];
}

static void find_types(struct shape *s, const char *instruction)
{
	for (const char *p = strchr(instruction, '.'); p && s->type_count < 4;
		p = strchr(p + 1, '.')) {
		int type = ptx_type_lookup(p + 1, strcspn(p + 1, "."));

		if (type > 0)
			s->types[s->type_count++] = (unsigned)type;
	}
}

/* D1:b32: writes the register's name, and notes what it is. Returns what follows. */
static const char *read_slot(struct shape *s, const char *p, FILE *f)
{
	static const char *const ins = "ABCEQ";
	struct slot slot = {.name = {p[0], isdigit((unsigned char)p[1]) ? p[1] : 0},
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
			slot = (struct slot){.name = {slot.name[0]},
				.type = (unsigned)ptx_type_lookup(p + 2, n - 2),
				.set = 'm'};
		else if (n == 2 || !strncmp(p, ":lane", n) || !strncmp(p, ":count", n))
			slot = (struct slot){.name = {slot.name[0]}, .type = TYPE_b32, .set = p[1]};
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
		unsigned k = (slot.name[0] == 'P' ? OUT_P : 0) +
			     (slot.name[1] ? (unsigned)slot.name[1] - '0' : 0);

		s->out[k] = slot;
		s->outs |= 1u << k;
	}
	fprintf(f, "v%s", slot.name);
	return p;
}

/* [G+4], [S], …: where it is for this thread and form. */
static const char *read_memory(struct shape *s, const char *p, unsigned number, FILE *f)
{
	char place = p[1];
	unsigned long offset = p[2] == '+' ? strtoul(p + 3, NULL, 10) : 0;

	s->global |= place == 'G' || place == 'X';
	s->shared |= place == 'S';
	s->local |= place == 'L';
	if (place == 'S')
		fprintf(f, "[%%s+%lu]", offset);
	else if (place == 'L' || place == 'K')
		fprintf(f, "[%s+%lu]", place == 'L' ? "lo" : "co", offset);
	else
		fprintf(f, "[%%mem+%lu]", number * MEMORY * THREADS + offset);
	return strchr(p, ']') + 1;
}

static void write_operands(struct shape *s, const char *p, unsigned number, FILE *f)
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

static void write_sources(const struct shape *s, unsigned number, FILE *f)
{
	for (unsigned k = 0; k < IN; k++) {
		const struct slot *slot = &s->in[k];
		unsigned bits = slot->type == TYPE_pred ? 32 : slot_bits(slot->type);

		if (!(s->ins >> k & 1))
			continue;
		if (slot->type == TYPE_pred) {
			fprintf(f,
				".reg .pred vQ; .reg .b32 q; ld.global.b32 q, [%%in+%u]; setp.lt.s32 vQ, q, 0; ",
				(number * IN + k) * 8 * THREADS);
			continue;
		}
		fprintf(f, ".reg .b%u v%s; ld.global.b%u v%s, [%%in+%u]; ", bits, slot->name, bits,
			slot->name, (number * IN + k) * 8 * THREADS);
	}
}

/* Shared and local memory begin as the thread's global memory does. */
static void write_memory(const struct shape *s, unsigned number, bool before, FILE *f)
{
	const char *space = s->shared ? "shared" : "local", *place = s->shared ? "%s" : "lo";

	for (unsigned k = 0; (s->shared || s->local) && k < 32; k += 8)
		if (before)
			fprintf(f, "ld.global.b64 %%t, [%%mem+%u]; st.%s.b64 [%s+%u], %%t; ",
				number * MEMORY * THREADS + k, space, place, k);
		else
			fprintf(f, "ld.%s.b64 %%t, [%s+%u]; st.global.b64 [%%out+%u], %%t; ", space,
				place, k, (number * OUT + OUT_MEMORY + k / 8) * 8 * THREADS);
}

static void write_results(const struct shape *s, unsigned number, FILE *f)
{
	for (unsigned k = 0; k < OUT_MEMORY; k++) {
		unsigned at = (number * OUT + k) * 8 * THREADS;

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
			(number * OUT + OUT_CARRY) * 8 * THREADS);
}

static void write_form(struct batch *b, unsigned n, FILE *f)
{
	struct isa_form *form = b->forms[n];
	struct shape *s = &b->shapes[n];
	char *operands;
	size_t size;
	FILE *o = open_memstream(&operands, &size);

	assert_non_null(o);
	*s = (struct shape){0};
	find_types(s, form->instruction);
	write_operands(s, form->operands, n, o);
	fclose(o);
	size_t length = strcspn(form->instruction, ".");
	s->carry_in = length == 4 && form->instruction[3] == 'c';
	s->carry_out = strstr(form->instruction, ".cc");
	fprintf(f, "{ ");
	write_sources(s, n, f);
	write_memory(s, n, true, f);
	for (unsigned k = 0; k < OUT_MEMORY; k++)
		if (s->outs >> k & 1 && s->out[k].type == TYPE_pred)
			fprintf(f, ".reg .pred v%s; ", s->out[k].name);
		else if (s->outs >> k & 1)
			fprintf(f, ".reg .b%u v%s; ", slot_bits(s->out[k].type), s->out[k].name);
	if (s->carry_in)
		fprintf(f, "and.b32 %%c, %%tid_, 1; add.cc.u32 %%c, %%c, -1; ");
	fprintf(f, "%s %s; ", form->instruction, operands);
	write_results(s, n, f);
	write_memory(s, n, false, f);
	fprintf(f, "}\n");
	free(operands);
}

/* Form n is on line HEAD_LINES + n + 1. */
static char *batch_text(struct batch *b)
{
	char *text;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(f);
	fprintf(f,
		".version 8.7\n.target sm_90\n.address_size 64\n"
		".const .align 64 .b64 co[8] = {0x8081828384858687, 0x7ff0000000000000, 0xffc000007f800001, 0x123456789abcdef0,\n"
		"0xfedcba9876543210, 1, 0xffffffffffffffff, 0x3ff0000000000000};\n"
		".entry k(.param .u64 in, .param .u64 out, .param .u64 mem) {\n"
		".reg .b64 %%in, %%out, %%mem, %%t; .reg .b32 %%tid_, %%c, %%s;\n"
		".shared .align 64 .b8 sh[%u]; .local .align 64 .b8 lo[64];\n"
		"ld.param.u64 %%in, [in]; ld.param.u64 %%out, [out]; ld.param.u64 %%mem, [mem];\n"
		"mov.u32 %%tid_, %%tid.x; mul.wide.u32 %%t, %%tid_, 8;\n"
		"add.u64 %%in, %%in, %%t; add.u64 %%out, %%out, %%t;\n"
		"mul.wide.u32 %%t, %%tid_, %u; add.u64 %%mem, %%mem, %%t;\n"
		"mov.u32 %%s, sh; mad.lo.u32 %%s, %%tid_, 32, %%s;\n\n\n\n",
		THREADS * 32, MEMORY);
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
static uint64_t value(const struct slot *slot, unsigned k, unsigned thread)
{
	uint64_t h = hashed(thread * 8 + k + 1);
	unsigned n = k == 0 ? thread % 15 : k == 1 ? thread / 15 : thread * 7 + thread / 11 + k;

	switch (slot->set) {
	case 's':
		return thread % 16 == 15 ? h : (n * 9 + k) % 72;
	case 'l':
		return h % 32;
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

static void fill(struct batch *b)
{
	for (unsigned n = 0; n < b->count; n++)
		for (unsigned t = 0; t < THREADS; t++) {
			struct slot word = {.type = b->shapes[n].types[0], .set = 't'};

			for (unsigned k = 0; k < IN; k++)
				b->in[(n * IN + k) * THREADS + t] =
					value(&b->shapes[n].in[k], k, t);
			for (unsigned k = 0; k < MEMORY / 8; k++) {
				uint64_t v = value(&word, 1 + k, t * 3 + k);

				for (unsigned side = 0; side < 2; side++)
					memcpy(b->memory[side] + (n * THREADS + t) * MEMORY + k * 8,
						&v, 8);
			}
		}
	for (unsigned side = 0; side < 2; side++)
		memset(b->out[side], 0, sizeof(uint64_t) * BATCH * OUT * THREADS);
}

/* ---- running ---- */

static void drop(struct batch *b, unsigned n)
{
	memmove(b->forms + n, b->forms + n + 1, (--b->count - n) * sizeof(*b->forms));
}

/* Leaves out the form on the line of a message, which is not supported, or whose result nobody knows. */
static void drop_line(struct batch *b, uint32_t line, enum isa_verdict verdict, const char *why)
{
	unsigned n = line - HEAD_LINES - 1;

	if (line <= HEAD_LINES || n >= b->count)
		fail_msg("what is wrong, line %u? %s", line, why);
	b->forms[n]->verdict = verdict;
	drop(b, n);
}

static bool parsed(struct batch *b)
{
	struct ptx_log log = {b->program.log, sizeof(b->program.log), 0};
	char *text = batch_text(b);
	const char *line;
	int error;

	b->program.log[0] = 0;
	error = ptx_parse(text, strlen(text), &log, &b->program.module);
	if (!error) {
		const uint32_t block[3] = {THREADS, 1, 1};

		error = ptx_compile(b->program.module, ptx_kernel_find(b->program.module, "k"),
			block, &log, NULL, NULL);
		if (error)
			ptx_module_destroy(b->program.module);
	}
	line = strstr(b->program.log, "line ");
	if (error)
		drop_line(b, line ? (uint32_t)strtoul(line + 5, NULL, 10) : 0, ISA_UNSUPPORTED,
			b->program.log);
	free(text);
	return !error;
}

static bool interpreted(struct batch *b)
{
	void *params[3] = {b->in, b->out[0], b->memory[0]};
	struct interp in = {.module = b->program.module,
		.globals = b->program.globals,
		.kernel = "k",
		.grid = {1, 1, 1},
		.block = {THREADS, 1, 1},
		.params = params};

	fill(b);
	if (interp_run(&in) == INTERP_RAN)
		return true;
	drop_line(b, in.line, ISA_NOT_COMPARED, in.why);
	return false;
}

static void load_globals(struct batch *b)
{
	size_t bytes, align;

	ptx_globals_layout(b->program.module, &bytes, &align);
	b->program.globals = aligned_alloc(64, (bytes + 64) & ~(size_t)63);
	assert_non_null(b->program.globals);
	memset(b->program.globals, 0, bytes);
	ptx_globals_init(b->program.module, b->program.globals);
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

/* Within the stated error: units in the last place, relative, or of a function's kind. */
static bool close_enough(const char *tolerance, double a, double x, double y)
{
	double error = fabs(x - y), ulp = ldexp(1, fmax(ilogb(fabs(y) + 0x1p-149) - 23, -149));

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
				close_enough(row->tolerance,
					interp_double(part, interp_low(a >> bits * k, bits)), d,
					e)))
			return false;
	}
	return true;
}

/* The first thread that differs, or THREADS. */
static unsigned differing_thread(const struct batch *b, unsigned n, unsigned k)
{
	const struct shape *s = &b->shapes[n];
	unsigned type = k < OUT_MEMORY ? s->out[k].type : k == OUT_MEMORY ? s->types[0] : TYPE_b64;

	for (unsigned t = 0; t < THREADS; t++) {
		size_t at = (n * OUT + k) * THREADS + t;

		if (!equal(b->forms[n]->row, type, b->in[n * IN * THREADS + t], b->out[1][at],
			    b->out[0][at]))
			return t;
	}
	return THREADS;
}

/* The first element is of the form's type, what is behind it must be the same. */
static unsigned differing_memory(const struct batch *b, unsigned n)
{
	unsigned type = b->shapes[n].types[0], bytes = ptx_type_bits[type] / 8u;

	for (unsigned t = 0; t < THREADS; t++) {
		const uint8_t *x = b->memory[0] + (n * THREADS + t) * MEMORY;
		const uint8_t *y = b->memory[1] + (n * THREADS + t) * MEMORY;
		uint64_t v = 0, w = 0;

		if (!memcmp(x, y, MEMORY))
			continue;
		memcpy(&v, x, bytes);
		memcpy(&w, y, bytes);
		if (memcmp(x + bytes, y + bytes, MEMORY - bytes) != 0 ||
			!equal(b->forms[n]->row, type, 0, w, v))
			return t;
	}
	return THREADS;
}

static bool same(const struct batch *b, unsigned n)
{
	const uint64_t *in = b->in + n * IN * THREADS;
	unsigned t;

	for (unsigned k = 0; k < OUT; k++) {
		t = differing_thread(b, n, k);
		if (t == THREADS)
			continue;
		size_t at = (n * OUT + k) * THREADS + t;
		print_error("%s %s: A=%#lx B=%#lx C=%#lx E=%#lx Q=%u: %u is %#lx, not %#lx\n",
			b->forms[n]->instruction, b->forms[n]->operands, in[t], in[THREADS + t],
			in[2 * THREADS + t], in[3 * THREADS + t], (int32_t)in[4 * THREADS + t] < 0,
			k, b->out[1][at], b->out[0][at]);
		return false;
	}
	t = differing_memory(b, n);
	if (t == THREADS)
		return true;
	print_error("%s %s: A=%#lx: memory differs\n", b->forms[n]->instruction,
		b->forms[n]->operands, in[t]);
	return false;
}

/* Returns how many forms differ. */
static unsigned run_batch(struct batch *b)
{
	unsigned bad = 0;
	void *params[3] = {b->in, b->out[1], b->memory[1]};
	bool ready = false;

	while (b->count && !ready) {
		if (!parsed(b))
			continue;
		load_globals(b);
		ready = interpreted(b);
		if (!ready)
			unload(&b->program);
	}
	if (!b->count)
		return 0;
	assert_int_equal(
		run(&b->program, (struct run){.kernel = "k", .block = {THREADS}, .params = params}),
		RAN);
	unload(&b->program);
	for (unsigned n = 0; n < b->count; n++) {
		bool open = b->forms[n]->row->open, good = open || same(b, n);

		b->forms[n]->verdict = open ? ISA_NOT_COMPARED : good ? ISA_SAME : ISA_DIFFERS;
		bad += !good;
	}
	return bad;
}

static unsigned compare_all(void)
{
	struct batch *b = calloc(1, sizeof(*b));
	unsigned bad = 0;

	assert_non_null(b);
	b->in = calloc(BATCH * IN * THREADS, 8);
	for (unsigned side = 0; side < 2; side++) {
		b->out[side] = calloc(BATCH * OUT * THREADS, 8);
		b->memory[side] = aligned_alloc(64, BATCH * THREADS * MEMORY);
		assert_true(b->out[side] && b->memory[side] && b->in);
	}
	for (unsigned k = 0; k < isa.form_count; k++) {
		if (*isa.forms[k].operands)
			b->forms[b->count++] = &isa.forms[k];
		if (b->count == BATCH || k + 1 == isa.form_count) {
			bad += run_batch(b);
			b->count = 0;
		}
	}
	for (unsigned side = 0; side < 2; side++) {
		free(b->out[side]);
		free(b->memory[side]);
	}
	free(b->in);
	free(b);
	return bad;
}

static void forms_give_what_the_manual_says(void **state)
{
	assert_int_equal(compare_all(), 0);
}

/* ---- the page ---- */

static void the_page_of_docs_says_what_works(void **state)
{
	char *want = isa_coverage(&isa), *have = calloc(1, strlen(want) + 2);
	FILE *f = fopen(PAGE, "r");

	assert_true(f && have);
	assert_true(fread(have, 1, strlen(want) + 1, f) > 0);
	fclose(f);
	if (strcmp(want, have) != 0)
		fail_msg(
			"docs/ptx-coverage.md is not what isa.def makes: ninja -C build ptx-coverage");
	free(have);
	free(want);
}

static int write_page(const char *path)
{
	FILE *f = fopen(path, "w");

	if (!f)
		return 1;
	compare_all();
	char *text = isa_coverage(&isa);
	fputs(text, f);
	free(text);
	return fclose(f) != 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forms_give_what_the_manual_says),
		cmocka_unit_test(the_page_of_docs_says_what_works),
	};

	isa_read(&isa, TABLE);
	int status = argc == 3 && !strcmp(argv[1], "--write")
			     ? write_page(argv[2])
			     : cmocka_run_group_tests(tests, NULL, NULL);
	isa_finish(&isa);
	return status;
}
