/* SPDX-License-Identifier: MIT
 *
 * Matrix instructions in whole kernels: kernels/matrix.cu, and what is refused.
 */
#include "harness.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct program program;

static int load_program(void **state)
{
	load_file(&program, "matrix.ptx");
	return 0;
}

static int unload_program(void **state)
{
	unload(&program);
	return 0;
}

/* A half that is not a whole number, different for each n. */
static _Float16 entry(size_t n)
{
	return (_Float16)((float)(n * 2654435761u % 2048) / 512 - 2);
}

/* Products of halves are exact in f32; what a sum loses is in proportion to the sum of its terms' sizes. */
static void check_product(const _Float16 *a, const _Float16 *b, const float *c, size_t rows,
	size_t columns, size_t depth)
{
	for (size_t r = 0; r < rows; r++)
		for (size_t n = 0; n < columns; n++) {
			double sum = 0, size = 0;

			for (size_t k = 0; k < depth; k++) {
				double v = (double)a[r * depth + k] * (double)b[k * columns + n];

				sum += v;
				size += fabs(v);
			}
			if (fabs((double)c[r * columns + n] - sum) > size * (double)depth * 0x1p-24)
				fail_msg("row %zu, column %zu: %g, not %g", r, n,
					(double)c[r * columns + n], sum);
		}
}

static void halves_multiply(void **state)
{
	enum { ROWS = 128, COLUMNS = 192, DEPTH = 96 };
	_Float16 *a = malloc(ROWS * DEPTH * sizeof(*a)), *b = malloc(DEPTH * COLUMNS * sizeof(*b));
	float *c = calloc(ROWS * COLUMNS, sizeof(*c));
	struct {
		void *a, *b, *c;
		int columns, depth;
	} params = {a, b, c, COLUMNS, DEPTH};

	assert_true(a && b && c);
	for (size_t k = 0; k < ROWS * DEPTH; k++)
		a[k] = entry(k);
	for (size_t k = 0; k < COLUMNS * DEPTH; k++)
		b[k] = entry(k + 77);
	assert_int_equal(run(&program, (struct run){.kernel = "gemm",
					       .grid = {COLUMNS / 64, ROWS / 64},
					       .block = {128},
					       .params = &params}),
		RAN);
	check_product(a, b, c, ROWS, COLUMNS, DEPTH);
	free(a);
	free(b);
	free(c);
}

static void warps_go_their_own_rounds(void **state)
{
	static float out[256];
	void *params[1] = {out};

	assert_int_equal(
		run(&program, (struct run){.kernel = "rounds", .block = {256}, .params = params}),
		RAN);
	for (unsigned t = 0; t < 256; t++) {
		unsigned rounds = 0;

		for (unsigned k = 0; k <= t / 32; k++)
			rounds += k % 3 != 2;
		assert_true(out[t] == (float)(rounds * 64));
	}
}

static void warps_must_be_whole(void **state)
{
	const struct ptx_kernel *k = ptx_kernel_find(program.module, "rounds");
	const struct ptx_code *code;

	assert_int_equal(compile(&program, k, (uint32_t[]){48, 1, 1}, &code), -ENOTSUP);
	assert_non_null(strstr(program.log, "warps must be whole"));
}

#define HEAD ".version 8.7\n.target sm_90\n.address_size 64\n"
#define KERNEL(text) HEAD ".entry k() {\n.reg .b32 %r<9>;\n.reg .b64 %d<9>;\n" text "\nret;\n}\n"

static void what_is_not_there_is_refused(void **state)
{
	static const char *const texts[] = {
		/* a shape of another type, types that do not go together, too few registers */
		KERNEL("mma.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%r1,%r1,%r1,%r1}, "
		       "{%r1,%r1,%r1,%r1}, {%r1,%r1}, {%r1,%r1,%r1,%r1};"),
		KERNEL("mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32 {%r1,%r1,%r1,%r1}, "
		       "{%r1,%r1,%r1,%r1}, {%r1,%r1}, {%r1,%r1,%r1,%r1};"),
		KERNEL("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r1,%r1,%r1,%r1}, "
		       "{%r1,%r1,%r1}, {%r1,%r1}, {%r1,%r1,%r1,%r1};"),
		KERNEL("mma.sync.aligned.m16n8k16.row.row.f32.f16.f16.f32 {%r1,%r1,%r1,%r1}, "
		       "{%r1,%r1,%r1,%r1}, {%r1,%r1}, {%r1,%r1,%r1,%r1};"),
		KERNEL("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%r1,%r1,%r1,%r1}, "
		       "{%r1,%r1}, {%r1,%r1}, {%r1,%r1,%r1,%r1};"),
		KERNEL("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1}, [%r2];"),
		KERNEL("ldmatrix.sync.aligned.m8n8.x1.shared.b8 {%r1}, [%r2];"),
		KERNEL("movmatrix.sync.aligned.m8n8.b16 %r1, %r2;"),
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
		cmocka_unit_test(halves_multiply),
		cmocka_unit_test(warps_go_their_own_rounds),
		cmocka_unit_test(warps_must_be_whole),
		cmocka_unit_test(what_is_not_there_is_refused),
	};

	return cmocka_run_group_tests(tests, load_program, unload_program);
}
