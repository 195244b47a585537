/* SPDX-License-Identifier: MIT
 *
 * wgmma against products of its own: every type, with A in registers and in shared memory, by rows and by columns, with all
 * swizzles. The numbers are small and whole, so that products are exact in any order.
 */
#include "harness.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 256, GROUPS = THREADS / 128, ROWS = 64, MOST_COLUMNS = 256, MOST_DEPTH = 256 };
enum { MEMORY = 48 << 10, B_AT = 16 << 10, TEXT = 96 << 10 };

enum kind { F16, BF16, TF32, E4M3, E5M2, S8, U8, B1, F32, S32 };

static const struct type {
	const char *name;
	unsigned bits, depth;
} types[] = {{"f16", 16, 16}, {"bf16", 16, 16}, {"tf32", 32, 8}, {"e4m3", 8, 32}, {"e5m2", 8, 32},
	{"s8", 8, 32}, {"u8", 8, 32}, {"b1", 1, 256}, {"f32", 32, 0}, {"s32", 32, 0}};

struct product {
	enum kind d, a, b;
	const char *after; /* the types */
	unsigned columns;
	bool registers;       /* A is in registers */
	int scale_a, scale_b; /* 0: the type has none */
	bool turned_a, turned_b;
};

/* How a matrix lies in shared memory, in bytes. */
struct lie {
	unsigned at, leading, stride, width; /* width: 1, 2, 4 or 8 pieces of 16 bytes */
	unsigned first;                      /* piece of the row at which a tile by rows begins */
	bool turned;
};

/* ---- numbers ---- */

static int entry(enum kind kind, unsigned n)
{
	int v = (int)(n * 2654435761u >> 20) % 7;

	return kind == B1 ? v & 1 : kind == U8 ? v : v - 3;
}

static uint32_t encoded(enum kind kind, int value)
{
	/* 0 to 3 with the exponent's bias of 7, and of 15 */
	static const uint8_t e4m3[] = {0, 0x38, 0x40, 0x44}, e5m2[] = {0, 0x3c, 0x40, 0x42};
	_Float16 h = (_Float16)value;
	float f = (float)value;
	uint32_t bits = 0;

	switch (kind) {
	case F16:
		memcpy(&bits, &h, 2);
		return bits;
	case E4M3:
	case E5M2:
		return (kind == E4M3 ? e4m3 : e5m2)[abs(value)] | (value < 0 ? 0x80u : 0);
	case S8:
	case U8:
		return (uint8_t)value;
	case B1:
	case S32:
		return (uint32_t)value;
	default:
		memcpy(&bits, &f, 4);
		return kind == BF16 ? bits >> 16 : bits;
	}
}

/* Element n of memory. */
static void put(uint8_t *memory, enum kind kind, unsigned n, int value)
{
	unsigned bits = types[kind].bits;
	uint32_t v = encoded(kind, value);

	if (bits == 1)
		memory[n / 8] = (uint8_t)((memory[n / 8] & ~(1u << n % 8)) | v << n % 8);
	else
		memcpy(memory + n * bits / 8, &v, bits / 8);
}

static int64_t get(const uint8_t *memory, enum kind kind, unsigned n)
{
	_Float16 h;
	float f;
	int32_t i;

	if (kind == F16) {
		memcpy(&h, memory + 2 * n, 2);
		return (int64_t)h;
	}
	memcpy(&f, memory + 4 * n, 4);
	memcpy(&i, memory + 4 * n, 4);
	return kind == F32 ? (int64_t)f : i;
}

/* ---- where things are: by the figures of the manual ---- */

/* Of the k-th element of a row of A, or a column of B, the number as if memory were an array of such elements. */
static unsigned place(const struct lie *l, enum kind kind, unsigned row, unsigned k)
{
	unsigned per = 128 / types[kind].bits, line, piece, in, at;

	if (l->turned) { /* 8 rows are a piece; lines are along the depth */
		line = k % 8;
		piece = row / per % l->width;
		in = row % per;
		at = l->width > 1 ? row / per / l->width * l->leading + k / 8 * l->stride
				  : row / per * l->stride + k / 8 * l->leading;
	} else {
		line = row % 8;
		piece = l->width > 1 ? l->first + k / per : 0;
		in = k % per;
		at = row / 8 * l->stride + (l->width > 1 ? 0 : k / per * l->leading);
	}
	piece ^= line / (8 / l->width);
	return (l->at + at + (line * l->width + piece) * 16) * 8 / types[kind].bits + in;
}

static uint64_t descriptor(const struct lie *l)
{
	static const uint64_t modes[] = {0, 0, 3, 0, 2, 0, 0, 0, 1};

	return (l->at + l->first * 16) / 16 | (uint64_t)(l->leading / 16) << 16 |
	       (uint64_t)(l->stride / 16) << 32 | modes[l->width] << 62;
}

/* With gaps between the tiles. */
static struct lie lie_of(unsigned at, unsigned width, bool turned, unsigned rows, unsigned depth)
{
	struct lie l = {.at = at, .width = width, .turned = turned};
	unsigned line = width * 128; /* 8 lines */

	if (turned && width > 1) {
		l.leading = line * 2;
		l.stride = line;
	} else if (turned || width == 1) {
		l.leading = turned ? 128 : 128 + 16;
		l.stride = turned ? 256 : 256 + 64;
	} else {
		l.stride = line;
		l.first = width > 2 ? 2 : 0;
	}
	return l;
}

/* Element n of a thread's part of the sum. */
static void sum_place(unsigned thread, unsigned n, unsigned *row, unsigned *column)
{
	unsigned lane = thread % 32;

	*row = thread % 128 / 32 * 16 + lane / 4 + n / 2 % 2 * 8;
	*column = n / 4 * 8 + lane % 4 * 2 + n % 2;
}

static unsigned of_sum(const struct product *p)
{
	return p->columns / (p->d == F16 ? 4 : 2);
}

/* ---- the kernel ---- */

struct params {
	const void *memory, *a;
	void *c;
	uint64_t left, right;
	uint32_t adds;
};

static const char head[] =
	".version 8.7\n.target sm_90a\n.address_size 64\n"
	".visible .entry k(.param .u64 m, .param .u64 a, .param .u64 c, .param .u64 l, .param .u64 r,\n"
	" .param .u32 s) {\n"
	".reg .b32 %a<4>, %c<128>, %t<9>;\n.reg .b64 %d<20>;\n.reg .pred %p<4>;\n"
	".shared .align 1024 .b8 mem[49152];\n"
	"ld.param.u64 %d0, [m];\nld.param.u64 %d1, [a];\nld.param.u64 %d2, [c];\n"
	"ld.param.u64 %d3, [l];\nld.param.u64 %d4, [r];\nld.param.u32 %t0, [s];\n"
	"setp.ne.b32 %p0, %t0, 0;\nmov.u32 %t1, %tid.x;\nshl.b32 %t2, %t1, 2;\n"
	"mov.u32 %t5, mem;\n"
	"copy:\ncvt.u64.u32 %d5, %t2;\nadd.u64 %d5, %d0, %d5;\nld.global.b32 %t3, [%d5];\n"
	"add.u32 %t4, %t5, %t2;\nst.shared.b32 [%t4], %t3;\nadd.u32 %t2, %t2, 1024;\n"
	"setp.lt.u32 %p1, %t2, 49152;\n@%p1 bra copy;\nbar.sync 0;\n"
	"shr.u32 %t5, %t5, 4;\ncvt.u64.u32 %d6, %t5;\nadd.u64 %d3, %d3, %d6;\nadd.u64 %d4, %d4, %d6;\n"
	"mul.wide.u32 %d7, %t1, 16;\nadd.u64 %d1, %d1, %d7;\n"
	"ld.global.v4.b32 {%a0, %a1, %a2, %a3}, [%d1];\n"
	"mul.wide.u32 %d7, %t1, 512;\nadd.u64 %d2, %d2, %d7;\n";

static size_t sums(const struct product *p, char *at, size_t size)
{
	size_t n = 0;

	for (unsigned k = 0; k < of_sum(p); k++)
		n += (size_t)snprintf(at + n, size - n, "%s%%c%u", k ? ", " : "{", k);
	return n + (size_t)snprintf(at + n, size - n, "}");
}

static void write_text(const struct product *p, char *text)
{
	size_t n = (size_t)snprintf(text, TEXT, "%s", head);

	for (unsigned k = 0; k < of_sum(p); k++)
		n += (size_t)snprintf(
			text + n, TEXT - n, "ld.global.b32 %%c%u, [%%d2+%u];\n", k, k * 4);
	n += (size_t)snprintf(text + n, TEXT - n,
		"wgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n%uk%u.%s.%s.%s%s ",
		p->columns, types[p->a].depth, types[p->d].name, types[p->a].name, types[p->b].name,
		p->after);
	n += sums(p, text + n, TEXT - n);
	n += (size_t)snprintf(text + n, TEXT - n, ", %s, %%d4, %%p0",
		p->registers ? "{%a0, %a1, %a2, %a3}" : "%d3");
	if (p->scale_a)
		n += (size_t)snprintf(text + n, TEXT - n, ", %d, %d", p->scale_a, p->scale_b);
	if (types[p->a].bits == 16 && !p->registers)
		n += (size_t)snprintf(text + n, TEXT - n, ", %d", p->turned_a);
	if (types[p->a].bits == 16)
		n += (size_t)snprintf(text + n, TEXT - n, ", %d", p->turned_b);
	n += (size_t)snprintf(text + n, TEXT - n,
		";\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n");
	for (unsigned k = 0; k < of_sum(p); k++)
		n += (size_t)snprintf(
			text + n, TEXT - n, "st.global.b32 [%%d2+%u], %%c%u;\n", k * 4, k);
	snprintf(text + n, TEXT - n, "ret;\n}\n");
}

/* ---- what comes out ---- */

static uint8_t memory[MEMORY] __attribute__((aligned(16)));
static uint8_t left[THREADS][16] __attribute__((aligned(16)));
static uint8_t sum[THREADS][512] __attribute__((aligned(16)));

static int first_sum(const struct product *p, unsigned row, unsigned column)
{
	int v = entry(S32, row * 31 + column * 7);

	/* .satfinite */
	return *p->after == '.' && p->d == S32 && p->a != B1 && v == 3 ? INT32_MAX - 5 : v;
}

static void fill(const struct product *p, const struct lie *a, const struct lie *b)
{
	unsigned depth = types[p->a].depth, per = 32 / types[p->a].bits, row, column;

	memset(memory, 0xee, sizeof(memory));
	for (unsigned k = 0; k < depth; k++) {
		for (row = 0; row < ROWS; row++)
			put(memory, p->a, place(a, p->a, row, k), entry(p->a, row * 300 + k));
		for (column = 0; column < p->columns; column++)
			put(memory, p->b, place(b, p->b, column, k),
				entry(p->b, column * 301 + k + 99));
	}
	for (unsigned t = 0; t < THREADS; t++) {
		for (unsigned n = 0; n < 4 * per; n++)
			put(left[t], p->a, n,
				entry(p->a,
					(t % 128 / 32 * 16 + t % 32 / 4 + n / per % 2 * 8) * 300 +
						t % 4 * per + n % per + n / per / 2 * 4 * per));
		for (unsigned n = 0; n < p->columns / 2; n++) {
			sum_place(t, n, &row, &column);
			put(sum[t], p->d, n, first_sum(p, row, column));
		}
	}
}

static void check(const struct product *p, unsigned adds, unsigned width)
{
	unsigned depth = types[p->a].depth, row, column;

	for (unsigned t = 0; t < THREADS; t++)
		for (unsigned n = 0; n < p->columns / 2; n++) {
			int64_t want = 0, got = get(sum[t], p->d, n);

			sum_place(t, n, &row, &column);
			for (unsigned k = 0; k < depth; k++)
				want += entry(p->a, row * 300 + k) *
					entry(p->b, column * 301 + k + 99);
			if (p->scale_a)
				want *= p->scale_a * p->scale_b;
			want += adds ? first_sum(p, row, column) : 0;
			if (want > INT32_MAX)
				want = INT32_MAX;
			if (got != want)
				fail_msg(
					"%s.%s.%s%s, %u columns, %s%s%s, width %u: thread %u, sum %u: %ld, not %ld",
					types[p->d].name, types[p->a].name, types[p->b].name,
					p->after, p->columns, p->registers ? "registers" : "memory",
					p->turned_a ? ", A turned" : "",
					p->turned_b ? ", B turned" : "", width, t, n, (long)got,
					(long)want);
		}
}

static void run_all(const struct product *p)
{
	static char text[TEXT];
	struct program program;
	const struct ptx_code *code;

	write_text(p, text);
	load_text(&program, text);
	const struct ptx_kernel *k = ptx_kernel_find(program.module, "k");
	if (compile(&program, k, (uint32_t[]){THREADS, 1, 1}, &code))
		fail_msg("%s", program.log);
	for (unsigned width = 1, adds = 0; width <= 8; width *= 2, adds ^= 1) {
		struct lie a = lie_of(0, 8 / width, p->turned_a, ROWS, types[p->a].depth);
		struct lie b = lie_of(B_AT, width, p->turned_b, p->columns, types[p->a].depth);
		struct params params = {memory, left, sum, descriptor(&a), descriptor(&b), adds};

		fill(p, &a, &b);
		assert_int_equal(run_code(&program, k, code,
					 (struct run){.kernel = "k",
						 .grid = {1, 1, 1},
						 .block = {THREADS, 1, 1},
						 .pool = 1,
						 .params = &params}),
			RAN);
		check(p, adds, width);
	}
	ptx_unlink(code);
	unload(&program);
}

static void all_types_multiply(void **state)
{
	static const struct product products[] = {
		{F32, F16, F16, "", 256, false, 1, 1, false, false},
		{F32, F16, F16, "", 8, false, -1, 1, true, false},
		{F16, F16, F16, "", 64, false, 1, -1, false, true},
		{F16, F16, F16, "", 8, true, -1, -1, false, false},
		{F32, BF16, BF16, "", 128, false, 1, 1, true, true},
		{F32, BF16, BF16, "", 24, true, -1, 1, false, true},
		{F32, TF32, TF32, "", 96, false, 1, 1, false, false},
		{F32, TF32, TF32, "", 8, true, 1, -1, false, false},
		{F32, E4M3, E4M3, "", 200, false, 1, 1, false, false},
		{F32, E5M2, E4M3, "", 40, true, -1, 1, false, false},
		{F16, E4M3, E5M2, "", 16, false, -1, 1, false, false},
		{S32, S8, S8, "", 24, false, 0, 0, false, false},
		{S32, U8, S8, "", 240, true, 0, 0, false, false},
		{S32, U8, U8, "", 8, false, 0, 0, false, false},
		{S32, S8, U8, ".satfinite", 48, false, 0, 0, false, false},
		{S32, B1, B1, ".and.popc", 256, false, 0, 0, false, false},
		{S32, B1, B1, ".and.popc", 8, true, 0, 0, false, false},
	};

	for (size_t k = 0; k < sizeof(products) / sizeof(*products); k++)
		run_all(&products[k]);
}

#define HEAD ".version 8.7\n.target sm_90a\n.address_size 64\n"
#define KERNEL(text)                                                                               \
	HEAD ".entry k() {\n.reg .b32 %r<9>;\n.reg .b64 %d<9>;\n.reg .pred %p;\n" text "\nret;\n}\n"
#define FOUR "{%r1,%r2,%r3,%r4}"
#define MMA "wgmma.mma_async.sync.aligned."

static void what_is_not_there_is_refused(void **state)
{
	static const char *const texts[] = {
		/* a shape of another type, none at all, too few sums, too few numbers, one that is neither 1 nor -1, types that do not
		   go together, bits by xor, sparse matrices */
		KERNEL(MMA "m64n8k32.f32.f16.f16 " FOUR ", %d1, %d2, %p, 1, 1, 0, 0;"),
		KERNEL(MMA
			"m64n12k16.f32.f16.f16 {%r1,%r2,%r3,%r4,%r5,%r6}, %d1, %d2, %p, 1, 1, 0, 0;"),
		KERNEL(MMA "m64n16k16.f32.f16.f16 " FOUR ", %d1, %d2, %p, 1, 1, 0, 0;"),
		KERNEL(MMA "m64n8k16.f32.f16.f16 " FOUR ", %d1, %d2, %p, 1, 1, 0;"),
		KERNEL(MMA "m64n8k16.f32.f16.f16 " FOUR ", %d1, %d2, %p, 1, 2, 0, 0;"),
		KERNEL(MMA "m64n8k16.f32.f16.bf16 " FOUR ", %d1, %d2, %p, 1, 1, 0, 0;"),
		KERNEL(MMA "m64n8k8.f32.tf32.tf32 " FOUR ", %d1, %d2, %p, 1, 1, 0, 0;"),
		KERNEL(MMA "m64n8k256.s32.b1.b1.xor.popc " FOUR ", %d1, %d2, %p;"),
		KERNEL("wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 " FOUR
		       ", %d1, %d2, %r5, 0, %p, 1, 1, 0, 0;"),
	};

	for (size_t k = 0; k < sizeof(texts) / sizeof(*texts); k++) {
		struct program p;

		assert_int_equal(error_of(&p, texts[k], "k"), -ENOTSUP);
		if (!strstr(p.log, "line 8"))
			fail_msg("text %zu: %s", k, p.log);
	}
}

static const char eight[] = KERNEL(
	"mov.b64 %d1, 0x0000000100000001;\nmov.b64 %d2, 0x0002000100000001;\nsetp.eq.u32 %p, %r1, 1;\n" MMA
	"m64n8k16.f32.f16.f16 " FOUR ", %d1, %d2, %p, 1, 1, 0, 0;");

static void groups_of_warps_must_be_whole(void **state)
{
	const struct ptx_code *code;
	struct program p;

	load_text(&p, eight);
	assert_int_equal(compile(&p, ptx_kernel_find(p.module, "k"), (uint32_t[]){96, 1, 1}, &code),
		-ENOTSUP);
	assert_non_null(strstr(p.log, "groups of four warps must be whole"));
	unload(&p);
}

static void offsets_of_patterns_are_refused(void **state)
{
	struct program p;

	load_text(&p, eight);
	assert_int_equal(run(&p, (struct run){.kernel = "k", .block = {128}}), UNSUPPORTED);
	unload(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_types_multiply),
		cmocka_unit_test(what_is_not_there_is_refused),
		cmocka_unit_test(groups_of_warps_must_be_whole),
		cmocka_unit_test(offsets_of_patterns_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
