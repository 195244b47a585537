/* SPDX-License-Identifier: MIT
 *
 * wmma in whole kernels: kernels/wmma.cu, every type and shape, loaded and stored by rows and by columns. The numbers are
 * small and whole, so that products are exact in any order.
 */
#include "harness.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { WARPS = 2, PART = 4096, OUT_PART = 1024, MORE = 8 };
enum kind { F16, BF16, F32, F64, S8, U8, S32 };

static struct program program;

static int load_program(void **state)
{
	load_file(&program, "wmma.ptx");
	return 0;
}

static int unload_program(void **state)
{
	unload(&program);
	return 0;
}

static size_t bytes_of(enum kind kind)
{
	static const size_t bytes[] = {2, 2, 4, 8, 1, 1, 4};

	return bytes[kind];
}

static void put(enum kind kind, uint8_t *at, int value)
{
	_Float16 h = (_Float16)value;
	float f = (float)value;
	double d = value;
	const void *from = &value;

	if (kind == F16)
		from = &h;
	else if (kind == BF16)
		from = (uint8_t *)&f + 2;
	else if (kind == F32)
		from = &f;
	else if (kind == F64)
		from = &d;
	memcpy(at, from, bytes_of(kind));
}

static int get(enum kind kind, const uint8_t *at)
{
	_Float16 h;
	float f;
	double d;
	int n;

	memcpy(&h, at, 2);
	memcpy(&f, at, 4);
	memcpy(&n, at, 4);
	if (kind == F64)
		memcpy(&d, at, 8);
	return kind == F16 ? (int)h : kind == F32 ? (int)f : kind == F64 ? (int)d : n;
}

/* Different for each n; never negative where the type has no sign. */
static int entry(enum kind kind, unsigned n)
{
	int v = (int)(n * 2654435761u >> 20) % 7;

	return kind == U8 ? v : v - 3;
}

struct product {
	const char *name;
	enum kind in, out;
	unsigned m, n, k;
	bool a_columns, b_columns; /* how they lie in memory */
};

#define SHAPES(name, in, out)                                                                      \
	{name "_16x16", in, out, 16, 16, 16, false, true},                                         \
		{name "_32x8", in, out, 32, 8, 16, true, false},                                   \
	{                                                                                          \
		name "_8x32", in, out, 8, 32, 16, false, false                                     \
	}

static const struct product products[] = {SHAPES("f16_f32", F16, F32), SHAPES("f16_f16", F16, F16),
	SHAPES("bf16", BF16, F32), SHAPES("s8", S8, S32), SHAPES("u8", U8, S32),
	{"tf32", F32, F32, 16, 16, 8, true, false}, {"f64", F64, F64, 8, 8, 4, false, false}};

static unsigned place(unsigned row, unsigned column, unsigned rows, unsigned columns, bool turned)
{
	return turned ? column * (rows + MORE) + row : row * (columns + MORE) + column;
}

static uint8_t *filled(enum kind kind, unsigned count, unsigned from)
{
	uint8_t *p = aligned_alloc(64, count * 8);

	assert_non_null(p);
	for (unsigned k = 0; k < count; k++)
		put(kind, p + k * bytes_of(kind), entry(kind, k + from));
	return p;
}

static void check_product(const struct product *p)
{
	uint8_t *a = filled(p->in, WARPS * PART, 0), *b = filled(p->in, WARPS * PART, 77);
	uint8_t *c = filled(p->out, OUT_PART, 5), *d = filled(p->out, WARPS * OUT_PART, 0);
	void *params[] = {a, b, c, d};

	assert_int_equal(
		run(&program,
			(struct run){.kernel = p->name, .block = {WARPS * 32}, .params = params}),
		RAN);
	for (unsigned e = 0; e < WARPS * p->m * p->n; e++) {
		unsigned w = e / (p->m * p->n), row = e / p->n % p->m, column = e % p->n;
		int sum = entry(p->out, place(row, column, p->m, p->n, false) + 5);

		for (unsigned k = 0; k < p->k; k++)
			sum += 2 *
			       entry(p->in, w * PART + place(row, k, p->m, p->k, p->a_columns)) *
			       entry(p->in,
				       w * PART + place(k, column, p->k, p->n, p->b_columns) + 77);
		int got = get(p->out, d + (w * OUT_PART + place(row, column, p->m, p->n, true)) *
						      bytes_of(p->out));
		if (got != sum)
			fail_msg("%s: warp %u, row %u, column %u: %d, not %d", p->name, w, row,
				column, got, sum);
	}
	free(a);
	free(b);
	free(c);
	free(d);
}

static void matrices_multiply(void **state)
{
	for (size_t k = 0; k < sizeof(products) / sizeof(*products); k++)
		check_product(&products[k]);
}

static int nibble(const uint8_t *p, unsigned n, bool has_sign)
{
	int v = p[n / 2] >> n % 2 * 4 & 15;

	return has_sign && v > 7 ? v - 16 : v;
}

static void elements_may_be_smaller_than_bytes(void **state)
{
	static const char *const names[] = {"s4", "u4", "b1_xor", "b1_and"};
	static uint8_t a[512], b[512];
	static int c[8 * 16], d[64];
	void *params[] = {a, b, c, d};

	for (unsigned k = 0; k < 512; k++) {
		a[k] = (uint8_t)(k * 2654435761u >> 20);
		b[k] = (uint8_t)(k * 2246822519u >> 21);
	}
	for (unsigned k = 0; k < 128; k++)
		c[k] = (int)k * 3 - 100;
	c[16 + 2] = INT32_MAX - 1; /* .satfinite */
	for (unsigned kind = 0; kind < 4; kind++) {
		assert_int_equal(run(&program, (struct run){.kernel = names[kind],
						       .block = {32},
						       .params = params}),
			RAN);
		for (unsigned e = 0; e < 64; e++) {
			unsigned row = e / 8, column = e % 8;
			int64_t sum = c[row * 16 + column];

			for (unsigned k = 0; k < 32 && kind < 2; k++)
				sum += nibble(a, row * 64 + k, !kind) *
				       nibble(b, column * 64 + k, !kind);
			for (unsigned k = 0; k < 16 && kind >= 2; k++) {
				unsigned x = a[row * 32 + k], y = b[column * 32 + k];

				sum += __builtin_popcount(kind == 2 ? x ^ y : x & y);
			}
			if (kind == 1 && sum > INT32_MAX)
				sum = INT32_MAX;
			if (d[e] != (int)(uint32_t)sum)
				fail_msg("%s, %u: %d, not %d", names[kind], e, d[e], (int)sum);
		}
	}
}

#define HEAD ".version 8.7\n.target sm_90\n.address_size 64\n"
#define KERNEL(text) HEAD ".entry k() {\n.reg .b32 %r<9>;\n.reg .b64 %d<9>;\n" text "\nret;\n}\n"

static void what_is_not_there_is_refused(void **state)
{
	static const char *const texts[] = {
		/* too few registers, a type without such a shape, bits of A by columns, a store of A */
		KERNEL("wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r1, %r2}, [%d1], %r1;"),
		KERNEL("wmma.load.a.sync.aligned.row.m8n8k4.f16 {%r1}, [%d1], %r1;"),
		KERNEL("wmma.load.a.sync.aligned.col.m8n8k32.s4 {%r1}, [%d1], %r1;"),
		KERNEL("wmma.store.a.sync.aligned.row.m8n8k32.s4 [%d1], {%r1}, %r1;"),
		KERNEL("wmma.mma.sync.aligned.row.col.m8n8k32.s32.s4.u4.s32 {%r1,%r2}, {%r1}, {%r1}, {%r1,%r2};"),
	};

	for (size_t k = 0; k < sizeof(texts) / sizeof(*texts); k++) {
		struct program p;

		assert_int_equal(error_of(&p, texts[k], "k"), -ENOTSUP);
		if (!strstr(p.log, "line 7"))
			fail_msg("text %zu: %s", k, p.log);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(matrices_multiply),
		cmocka_unit_test(elements_may_be_smaller_than_bytes),
		cmocka_unit_test(what_is_not_there_is_refused),
	};

	return cmocka_run_group_tests(tests, load_program, unload_program);
}
