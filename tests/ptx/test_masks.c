/* SPDX-License-Identifier: MIT
 *
 * Threads that go different ways and yet are computed together: with masks, and in blocks of many shapes.
 */
#include "harness.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct program program;

/* Wide enough for vectors, not of whole vectors, narrow, and flat. */
static const uint32_t shapes[][2] = {
	{16, 16}, {32, 4}, {64, 1}, {24, 3}, {17, 5}, {8, 8}, {1, 32}, {256, 1}};
enum { SHAPES = sizeof(shapes) / sizeof(*shapes) };

static int load_program(void **state)
{
	load_file(&program, "masks.ptx");
	return 0;
}

static int unload_program(void **state)
{
	unload(&program);
	return 0;
}

/* Over a square of n x n. */
static void launch(const char *kernel, uint32_t n, const uint32_t shape[2], const void *params)
{
	struct run r = {.kernel = kernel,
		.grid = {(n + shape[0] - 1) / shape[0], (n + shape[1] - 1) / shape[1]},
		.block = {shape[0], shape[1]},
		.pool = 2,
		.params = params};

	assert_int_equal(run(&program, r), RAN);
}

/* Memory that begins, or ends, where nothing may be touched. */
static void *at_edge(size_t bytes, bool end)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) & ~(page - 1);
	uint8_t *p = mmap(NULL, whole + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	assert_int_equal(mprotect(p + page, whole, PROT_READ | PROT_WRITE), 0);
	return p + page + (end ? whole - bytes : 0);
}

static void neighbours(uint32_t n, bool end)
{
	float *in = at_edge(n * n * sizeof(float), end), *out = at_edge(n * n * sizeof(float), end);
	struct {
		void *out, *in;
		int n;
	} params = {out, in, (int)n};

	for (uint32_t i = 0; i < n * n; i++)
		in[i] = (float)(i % 13);
	for (int k = 0; k < SHAPES; k++) {
		memset(out, 0, n * n * sizeof(float));
		launch("neighbours", n, shapes[k], &params);
		for (uint32_t i = 0; i < n * n; i++) {
			uint32_t x = i % n, y = i / n;
			float sum = in[i];

			sum += 2 * (y > 0 ? in[i - n] : 1) + 3 * (y < n - 1 ? in[i + n] : 2);
			sum += 5 * (x > 0 ? in[i - 1] - in[i] : 3);
			sum += 7 * (x < n - 1 ? in[i + 1] * in[i] : 4);
			assert_true(out[i] == sum);
		}
	}
}

static void what_a_thread_does_not_load_is_not_touched(void **state)
{
	neighbours(61, false);
	neighbours(64, true);
}

/* A float, a double or a short, as its size says. */
static void put_number(void *array, size_t bytes, uint32_t i, uint32_t value)
{
	if (bytes == sizeof(double))
		((double *)array)[i] = value;
	else if (bytes == sizeof(float))
		((float *)array)[i] = (float)value;
	else
		((short *)array)[i] = (short)value;
}

static int number_of(const void *array, size_t bytes, uint32_t i)
{
	return bytes == sizeof(double)  ? (int)((const double *)array)[i]
	       : bytes == sizeof(float) ? (int)((const float *)array)[i]
					: ((const short *)array)[i];
}

/* Blocks of `shape`, four by two of them. */
static void beside(const char *kernel, size_t bytes, const uint32_t shape[2], bool end)
{
	uint32_t n = 4 * shape[0], count = n * 2 * shape[1];
	void *in = at_edge(count * bytes, end), *out = at_edge(count * bytes, end);
	struct {
		void *out, *in;
		int n;
	} params = {out, in, (int)n};
	struct run r = {
		.kernel = kernel, .grid = {4, 2}, .block = {shape[0], shape[1]}, .params = &params};

	for (uint32_t i = 0; i < count; i++)
		put_number(in, bytes, i, i * 7 % 1000);
	assert_int_equal(run(&program, r), RAN);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t west = i % n ? i - 1 : i, east = i % n < n - 1 ? i + 1 : i;

		assert_int_equal(number_of(out, bytes, i),
			i * 7 % 1000 + 2 * (west * 7 % 1000) + 3 * (east * 7 % 1000));
	}
}

static void one_thread_of_a_row_loads_what_lies_beside(void **state)
{
	for (int k = 0; k < SHAPES; k++)
		for (int end = 0; end < 2; end++) {
			beside("beside", sizeof(float), shapes[k], end);
			beside("beside_double", sizeof(double), shapes[k], end);
			beside("beside_short", sizeof(short), shapes[k], end);
		}
}

static void unsigned_differences_are_guarded(void **state)
{
	static int in[256], out[256];
	static const uint32_t distances[] = {0, 1, 3, 16, 100, 255, 256, UINT32_MAX};
	struct {
		void *out, *in;
		uint32_t d;
	} params = {out, in, 0};

	for (int i = 0; i < 256; i++)
		in[i] = i * i;
	for (int k = 0; k < 8; k++) {
		uint32_t d = params.d = distances[k];

		assert_int_equal(run(&program, (struct run){.kernel = "before",
						       .block = {256},
						       .params = &params}),
			RAN);
		for (uint32_t t = 0; t < 256; t++)
			assert_int_equal(out[t],
				in[t] + (t >= d ? in[t - d] : 0) + (t >= 3 ? 2 * in[t - 3] : 0));
	}
}

static void threads_leave_a_loop_one_by_one(void **state)
{
	enum { N = 70 };
	static int steps[N * N], want[N * N];
	static float left[N * N], first[N * N];
	static const int limits[] = {200, 0};
	struct {
		void *steps, *left;
		int n, limit;
	} params = {steps, left, N, 0};

	for (int l = 0; l < 2; l++) {
		int most = 0;

		params.limit = limits[l];
		for (int k = SHAPES - 1; k >= 0; k--) {
			memset(steps, 0xff, sizeof(steps));
			memset(left, 0xff, sizeof(left));
			/* One thread at a time is how it is meant. */
			launch("escape", N, k == SHAPES - 1 ? (uint32_t[]){1, 1} : shapes[k],
				&params);
			for (int i = 0; i < N * N; i++)
				most = steps[i] > most ? steps[i] : most;
			if (k == SHAPES - 1) {
				memcpy(want, steps, sizeof(want));
				memcpy(first, left, sizeof(first));
			}
			assert_memory_equal(steps, want, sizeof(want));
			assert_memory_equal(left, first, sizeof(first));
		}
		assert_int_equal(most, limits[l]);
	}
}

static uint32_t wander(uint32_t v)
{
	uint32_t rounds = 0, odd = 0;

	if (v % 3) {
		while (v != 1 && rounds < 50) {
			odd += v & 1;
			v = v & 1 ? 3 * v + 1 : v / 2;
			rounds++;
		}
		odd += rounds == 50 ? 2000 : 1000;
		rounds *= 2;
	}
	return v + 16 * rounds + 65536 * odd;
}

static void a_loop_has_several_ways_out(void **state)
{
	enum { N = 1000 };
	static uint32_t in[N], out[N];
	static const uint32_t blocks[] = {1, 8, 32, 48, 100, 256};
	struct {
		void *out, *in;
		int n;
	} params = {out, in, N - 5};

	for (uint32_t i = 0; i < N; i++)
		in[i] = i < 500 ? i : i * 2654435761u;
	for (int k = 0; k < 6; k++) {
		memset(out, 0, sizeof(out));
		assert_int_equal(run(&program, (struct run){.kernel = "wander",
						       .grid = {(N + blocks[k] - 1) / blocks[k]},
						       .block = {blocks[k]},
						       .params = &params}),
			RAN);
		for (uint32_t i = 0; i < N; i++)
			assert_int_equal(out[i], i < N - 5 ? wander(in[i]) : 0);
	}
}

static void what_no_thread_loads_is_not_touched(void **state)
{
	int out[64] = {0};
	struct {
		void *out, *nothing;
		int n;
	} params = {out, NULL, 32};

	assert_int_equal(
		run(&program,
			(struct run){.kernel = "unreached", .block = {64}, .params = &params}),
		RAN);
	for (int t = 0; t < 64; t++)
		assert_int_equal(out[t], (t & 56) == 8 && t < 32);
}

static int bounds(int x, int y, int n, int first)
{
	return (x < n && y < n ? 1 : 0) | (x < first ? 2 : 0) | (n > x ? 4 : 0) |
	       (x - 5 >= first ? 8 : 0) | ((unsigned)y <= (unsigned)first ? 16 : 0) |
	       (3 * x + 2 * y + 7 > n ? 32 : 0) | (first <= y ? 64 : 0) |
	       (x > n || y > n ? 128 : 0);
}

static void guards_grow_with_the_index(void **state)
{
	enum { N = 48 };
	static int out[4096 * 64];
	static const int numbers[][2] = {
		{40, 17}, {1000, 48}, {0, 0}, {-3, -1}, {16, 31}, {INT32_MAX, INT32_MIN}};
	struct {
		void *out;
		int n, first;
	} params = {out, 0, 0};

	for (int k = 0; k < 6; k++) {
		const uint32_t *shape = shapes[k % 3 == 0 ? 0 : k % 3 == 1 ? 3 : 5];

		memset(out, 0, sizeof(out));
		params.n = numbers[k][0];
		params.first = numbers[k][1];
		launch("bounds", N, shape, &params);
		for (int y = 0; y < N; y++)
			for (int x = 0; x < N; x++)
				assert_int_equal(
					out[y * 4096 + x], bounds(x, y, params.n, params.first));
	}
}

static void order_pairs(int *v, int first, int count, int distance)
{
	for (int i = first; i < first + count; i++) {
		int j = i ^ distance, a = v[i], b = v[j];

		if (j > i && (i & 64 ? a < b : a > b)) {
			v[i] = b;
			v[j] = a;
		}
	}
}

/* Strips of neighbours, where the distance and the first index let them be, and threads one by one elsewhere. */
static void pairs_are_put_in_order(void **state)
{
	enum { N = 1024, ALL = 4096 };
	static const int firsts[] = {0, 3, 8, 16, -2048},
			 distances[] = {0, 1, 2, 4, 7, 8, 16, 20, 24, 32, 64, 100, 256, 1024};
	static const uint32_t widths[] = {256, 64, 24, 17};
	static int got[ALL], want[ALL];
	struct {
		int *v;
		int first, distance, size;
	} params = {got + ALL / 2, 0, 0, 64};

	for (unsigned w = 0; w < 4; w++) {
		struct run r = {.kernel = "order_pairs",
			.grid = {N / widths[w], 1, 1},
			.block = {widths[w], 1, 1},
			.pool = 1,
			.params = &params};
		const struct ptx_kernel *kernel = ptx_kernel_find(program.module, r.kernel);
		const struct ptx_code *code;

		assert_int_equal(compile(&program, kernel, r.block, &code), 0);
		for (unsigned k = 0; k < 5 * 14; k++) {
			params.first = firsts[k % 5];
			params.distance = distances[k / 5];
			for (int i = 0; i < ALL; i++)
				got[i] = want[i] = (int)((unsigned)i * 2654435761u >> 8) % 1000;
			order_pairs(want + ALL / 2, params.first, (int)(widths[w] * r.grid[0]),
				params.distance);
			assert_int_equal(run_code(&program, kernel, code, r), RAN);
			assert_memory_equal(got, want, sizeof(want));
		}
		ptx_unlink(code);
	}
}

static void threads_look_up_what_lies_apart(void **state)
{
	enum { N = 1000 };
	static uint32_t v[N + 24], table[256];
	struct {
		void *v, *table;
		uint32_t n;
	} params = {v, table, N};

	for (uint32_t k = 0; k < 256; k++)
		table[k] = k * 0x9e3779b9u ^ 0x5bd1e995u;
	for (uint32_t k = 0; k < N + 24; k++)
		v[k] = k * 0x01000193u;
	assert_int_equal(run(&program, (struct run){.kernel = "look_up",
					       .grid = {4},
					       .block = {256},
					       .pool = 2,
					       .params = &params}),
		RAN);
	for (uint32_t k = 0; k < N + 24; k++) {
		uint32_t x = k * 0x01000193u;

		for (int round = 0; round < 8 && k < N; round++)
			x = (x >> 8) ^ table[x & 255] ^ table[round];
		assert_int_equal(v[k], x);
	}
}

/* LLVM makes other instructions of this where vectors have masks, and some of them are wrong (ternary.c). */
static void some_threads_take_bits_in(void **state)
{
	enum { N = 1000 };
	static uint32_t in[3 * N], out[3 * N];
	struct {
		void *out, *in;
		uint32_t n;
	} params = {out, in, N};

	for (uint32_t k = 0; k < 3 * N; k++)
		in[k] = k * 0x9e3779b9u ^ k >> 3;
	assert_int_equal(run(&program, (struct run){.kernel = "insert",
					       .grid = {4},
					       .block = {256},
					       .params = &params}),
		RAN);
	for (uint32_t i = 0; i < N; i++) {
		uint32_t a = in[i], b = in[N + i], c = in[2 * N + i];

		assert_int_equal(out[i], c & 128 ? a : (a & ~15u) | (b & 15));
		assert_int_equal(out[N + i], c & 64 ? (a & 0xffff0000) | (b & 0xffff) : a);
		assert_int_equal(out[2 * N + i], c & 32 ? b : (b & ~0x7f00u) | (a << 8 & 0x7f00));
	}
}

static void a_uniform_branch_leaves_out_where_threads_leave(void **state)
{
	enum { N = 192, LIMIT = 70 };
	static int in[N], out[N];
	struct {
		void *out, *in;
		int n, some;
	} params = {out, in, LIMIT, 0};
	struct run r = {.kernel = "leave",
		.grid = {2, 1, 1},
		.block = {N / 2, 1, 1},
		.pool = 1,
		.params = &params};
	const struct ptx_kernel *kernel = ptx_kernel_find(program.module, r.kernel);
	const struct ptx_code *code;

	for (int k = 0; k < N; k++)
		in[k] = (int)(k * 0x9e3779b9u >> 7);
	assert_int_equal(compile(&program, kernel, r.block, &code), 0);
	for (params.some = 0; params.some < 512; params.some++) {
		memset(out, 0, sizeof(out));
		assert_int_equal(run_code(&program, kernel, code, r), RAN);
		for (int i = 0; i < N; i++) {
			bool left = params.some & 1 && in[i] & 1;
			int want = 0;

			want += left ? 0 : 1;
			want += left || !(params.some & 2) ? 0 : 1000;
			left |= params.some & 2 && i >= LIMIT;
			want += left ? 0 : 10;
			for (int round = 2; round < 6; round++) {
				left |= params.some & 4 << round && in[i] >> round & 1;
				want += left ? 0 : 100;
			}
			want += left || !(params.some & 256) ? 0 : 1000;
			left |= params.some & 256 && i % (N / 2) >= LIMIT;
			want += left ? 0 : 10000;
			assert_int_equal(out[i], want);
		}
	}
	ptx_unlink(code);
}

static void threads_leave_on_either_side(void **state)
{
	enum { N = 192 };
	static int in[N], out[N];
	struct {
		void *out, *in;
		int some;
	} params = {out, in, 0};
	struct run r = {.kernel = "either", .grid = {2}, .block = {N / 2}, .params = &params};

	for (int k = 0; k < N; k++)
		in[k] = (int)(k * 0x9e3779b9u >> 7);
	for (params.some = 0; params.some < 2; params.some++) {
		memset(out, 0, sizeof(out));
		assert_int_equal(run(&program, r), RAN);
		for (int i = 0; i < N; i++)
			assert_int_equal(out[i], in[i] & (params.some ? 1 : 2) ? 0
						 : params.some                 ? 11
									       : 12);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_thread_does_not_load_is_not_touched),
		cmocka_unit_test(what_no_thread_loads_is_not_touched),
		cmocka_unit_test(one_thread_of_a_row_loads_what_lies_beside),
		cmocka_unit_test(guards_grow_with_the_index),
		cmocka_unit_test(unsigned_differences_are_guarded),
		cmocka_unit_test(threads_leave_a_loop_one_by_one),
		cmocka_unit_test(a_loop_has_several_ways_out),
		cmocka_unit_test(pairs_are_put_in_order),
		cmocka_unit_test(threads_look_up_what_lies_apart),
		cmocka_unit_test(some_threads_take_bits_in),
		cmocka_unit_test(a_uniform_branch_leaves_out_where_threads_leave),
		cmocka_unit_test(threads_leave_on_either_side),
	};

	return cmocka_run_group_tests(tests, load_program, unload_program);
}
