/* SPDX-License-Identifier: MIT
 *
 * Whole kernels as nvcc and clang write them: barriers, warps, shared and local memory, atomics,
 * calls, and what a program sees of printf, assert and trap.
 */
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct program nvcc, clang;

static int load_programs(void **state)
{
	load_file(&nvcc, "nvcc.ptx");
	load_file(&clang, "clang.ptx");
	return 0;
}

static int unload_programs(void **state)
{
	unload(&nvcc);
	unload(&clang);
	return 0;
}

static void guarded_vectors_add(void **state)
{
	enum { N = 1000 };
	static float a[N], b[N], c[N];
	struct {
		void *a, *b, *c;
		int n;
	} params = {a, b, c, N - 3};
	static const uint32_t blocks[] = {1, 7, 32, 100, 256};

	for (int i = 0; i < N; i++)
		a[i] = (float)i, b[i] = (float)(i % 7);
	for (int k = 0; k < 5; k++) {
		memset(c, 0, sizeof(c));
		run(&nvcc, (struct run){.kernel = "vecadd",
				   .grid = {(N + blocks[k]) / blocks[k]},
				   .block = {blocks[k]},
				   .pool = 3,
				   .params = &params});
		for (int i = 0; i < N; i++)
			assert_true(c[i] == (i < N - 3 ? a[i] + b[i] : 0));
	}
}

static void matrices_multiply(void **state)
{
	enum { N = 64 };
	static float a[N * N], b[N * N], c[N * N];
	struct {
		void *a, *b, *c;
		int n;
	} params = {a, b, c, N};
	static const char *const kernels[] = {"matmul", "naive"};

	for (int i = 0; i < N * N; i++)
		a[i] = (float)(i % 7), b[i] = (float)(i % 5 - 2);
	for (int k = 0; k < 2; k++) {
		memset(c, 0, sizeof(c));
		run(&nvcc, (struct run){.kernel = kernels[k],
				   .grid = {4, 4},
				   .block = {16, 16},
				   .pool = 2,
				   .params = &params});
		for (int i = 0; i < N * N; i++) {
			float want = 0;

			for (int j = 0; j < N; j++)
				want += a[i / N * N + j] * b[j * N + i % N];
			assert_true(c[i] == want);
		}
	}
}

static void blocks_reduce_with_shuffles(void **state)
{
	enum { N = 10000 };
	static float a[N], out;
	struct {
		void *a, *out;
		int n;
	} params = {a, &out, N};
	float want = 0;

	for (int i = 0; i < N; i++)
		a[i] = (float)(i % 3), want += a[i];
	out = 0;
	run(&nvcc, (struct run){.kernel = "reduce",
			   .grid = {8},
			   .block = {256},
			   .pool = 4,
			   .params = &params});
	assert_true(out == want);
}

static void pool_threads_share_atomics(void **state)
{
	enum { N = 20000 };
	static uint32_t d[N], h[256];
	struct {
		void *d, *h;
		int n;
	} params = {d, h, N};
	uint32_t want[256] = {0};

	for (uint32_t i = 0; i < N; i++)
		d[i] = i * 2654435761u >> 7, want[d[i] & 255]++;
	run(&nvcc, (struct run){.kernel = "histogram",
			   .grid = {16},
			   .block = {96},
			   .pool = 4,
			   .params = &params});
	assert_memory_equal(h, want, sizeof(h));
}

static void threads_that_return_early_do_not_meet_barriers(void **state)
{
	static int o[256];
	struct {
		void *o;
		int n;
	} params = {o, 150};

	memset(o, 0xff, sizeof(o));
	run(&nvcc, (struct run){.kernel = "early",
			   .grid = {4},
			   .block = {64},
			   .dynamic_shared = 256,
			   .params = &params});
	for (int i = 0; i < 256; i++)
		assert_int_equal(o[i], i < 150 ? (i ^ 1) * 2 : -1);
}

static void barriers_in_loops_with_trips_from_memory(void **state)
{
	static int o[3 * 40], trips[3] = {0, 3, 17};
	void *params[2] = {o, trips};

	run(&nvcc, (struct run){.kernel = "rotate", .grid = {3}, .block = {40}, .params = params});
	for (int i = 0; i < 120; i++)
		assert_int_equal(o[i], (i % 40 + trips[i / 40]) % 40);
}

static void warps_vote(void **state)
{
	static uint32_t o[40 * 8];
	struct {
		void *o;
		int n;
	} params = {o, 32};

	run(&nvcc, (struct run){.kernel = "votes", .block = {40}, .params = &params});
	for (uint32_t t = 0; t < 40; t++) {
		uint32_t first = t & ~31u, lanes = first ? 8 : 32, ballot = 0, sum = 0;
		const uint32_t *r = o + t * 8;

		for (uint32_t l = 0; l < lanes; l++)
			ballot |= (uint32_t)((first + l) % 3 == 0) << l, sum += first + l;
		assert_int_equal(r[0], ballot);
		assert_int_equal(r[1], first == 0);
		assert_int_equal(r[2], first == 0);
		assert_int_equal(r[3], lanes == 32 ? UINT32_MAX : 255);
		assert_int_equal(r[4], t & 1 ? (t ^ 2) * 10 : 0);
		assert_int_equal(r[5], 7);
		assert_int_equal(r[6], 0);
		assert_int_equal(r[7], sum);
	}
}

/* Each round has 7 from the warp's first lane, and 0 when that has left the loop. */
static void warps_leave_loops_apart(void **state)
{
	static int o[64];
	void *params[1] = {o};

	run(&nvcc, (struct run){.kernel = "leave", .block = {64}, .params = params});
	for (int t = 0; t < 64; t++) {
		int v = t, first = t & ~31;

		while (v < 100) {
			v += (first <= 50 ? 7 : 0) + (t & 3);
			first += 7;
			if (v > 50 && (t & 3) == 0)
				break;
		}
		assert_int_equal(o[t], v);
	}
}

static void barriers_with_ragged_trips_end(void **state)
{
	static int o[128];
	void *params[1] = {o};

	run(&nvcc, (struct run){.kernel = "ragged", .block = {128}, .params = params});
	for (int t = 0; t < 128; t++)
		assert_int_equal(o[t], 127 - t);
}

static void stencils_read_their_halo(void **state)
{
	enum { N = 40 };
	static float p[N * N], t[N * N], o[N * N];
	struct {
		void *p, *t, *o;
		int n;
	} params = {p, t, o, N};

	for (int i = 0; i < N * N; i++)
		p[i] = (float)(i % 11), t[i] = (float)(i % 13);
	run(&nvcc, (struct run){.kernel = "hotspot",
			   .grid = {3, 3},
			   .block = {16, 16},
			   .pool = 2,
			   .params = &params});
	for (int y = 1; y < N - 1; y++)
		for (int x = 1; x < N - 1; x++) {
			int i = y * N + x;
			float want = t[i] + 0.1f * (p[i] + t[i - N] + t[i + N] + t[i - 1] +
							   t[i + 1] - 4 * t[i]);

			assert_true(fabsf(o[i] - want) < 1e-4f);
		}
}

static void breadth_first_search_reaches_all(void **state)
{
	enum { N = 500 };
	static int row[N + 1], column[2 * N], level[N];
	int again = 1, now = 0;
	struct {
		void *row, *column, *level, *again;
		int now, n;
	} params = {row, column, level, &again, 0, N};

	for (int i = 0; i < N; i++) {
		row[i + 1] = row[i] + 2;
		column[2 * i] = (2 * i + 1) % N;
		column[2 * i + 1] = (2 * i + 2) % N;
		level[i] = i ? -1 : 0;
	}
	for (; again; now++) {
		again = 0;
		params.now = now;
		run(&nvcc, (struct run){
				   .kernel = "bfs", .grid = {8}, .block = {64}, .params = &params});
	}
	for (int i = 0; i < N; i++)
		assert_int_equal(level[i], i ? level[(i - 1) / 2] + 1 : 0);
}

static void tiles_decompose(void **state)
{
	enum { N = 16 };
	static float m[N * N], original[N * N];
	void *params[1] = {m};

	for (int i = 0; i < N * N; i++)
		original[i] = m[i] = (float)((i * 37) % 19) + (i % (N + 1) ? 0.f : 50.f);
	run(&nvcc, (struct run){.kernel = "lu", .block = {N}, .params = params});
	for (int i = 0; i < N; i++)
		for (int j = 0; j < N; j++) {
			float sum = 0;

			for (int k = 0; k <= (i < j ? i : j); k++)
				sum += (k == i ? 1 : m[i * N + k]) * m[k * N + j];
			assert_true(fabsf(sum - original[i * N + j]) < 1e-2f);
		}
}

static void functions_are_called_through_pointers(void **state)
{
	static int o[32];
	struct {
		void *o;
		int x;
	} params = {o, 9};

	run(&nvcc, (struct run){.kernel = "indirect", .block = {32}, .params = &params});
	for (int t = 0; t < 32; t++)
		assert_int_equal(o[t], (t + 9) & 1 ? t * 9 : t + 9);
}

static void variables_have_initial_values(void **state)
{
	static int o[32];
	struct {
		void *o;
		int six[6];
	} params = {o, {10, 20, 30, 40, 50, 60}};

	run(&nvcc, (struct run){.kernel = "variables", .block = {32}, .params = &params});
	for (int t = 0; t < 32; t++)
		assert_int_equal(
			o[t], (t & 3) + 1 + 7 + params.six[t % 6] + params.six[(t + 1) % 6]);
}

static void kernels_print_assert_and_trap(void **state)
{
	int x = 5;

	assert_int_equal(
		run(&nvcc, (struct run){.kernel = "speak", .block = {4}, .params = &x}), RAN);
	assert_string_equal(printed, "value 5\n");
	x = 3;
	assert_int_equal(
		run(&nvcc, (struct run){.kernel = "speak", .block = {4}, .params = &x}), ASSERTED);
	assert_non_null(strstr(asserted, "x != 3:kernels.cu"));
	x = 4;
	assert_int_equal(
		run(&nvcc, (struct run){.kernel = "speak", .block = {4}, .params = &x}), TRAPPED);
}

static void mathematics_is_accurate(void **state)
{
	static double d[64], x[64];
	static float f[64], y[64];
	void *params[2] = {d, f};

	for (int i = 0; i < 64; i++)
		d[i] = x[i] = 0.01 + i * 0.37, f[i] = y[i] = 0.01f + (float)i * 0.2f;
	run(&nvcc, (struct run){.kernel = "numbers", .block = {64}, .params = params});
	for (int i = 0; i < 64; i++) {
		double a = sin(x[i]) + pow(x[i], 1.3) + log(x[i]) + erf(x[i]) / cbrt(x[i]);
		float b = expf(y[i]) + sinf(y[i] * 1e5f) + powf(y[i], 2.5f) + tanhf(y[i]);

		assert_true(fabs(d[i] - a) <= 1e-13 * fmax(1, fabs(a)));
		assert_true(fabsf(f[i] - b) <= 2e-6f * fmaxf(1, fabsf(b)));
	}
}

static void a_grid_beyond_32_bit_indices_traps(void **state)
{
	struct {
		void *a, *b, *c;
		int n;
	} params = {0};
	struct run r = {
		.kernel = "vecadd", .grid = {(1u << 23) + 1}, .block = {256}, .params = &params};

	assert_int_equal(run(&nvcc, r), TRAPPED);
}

static void clang_kernels_run(void **state)
{
	static float x[100], y[100];
	static int d[256];
	struct {
		float a;
		void *x, *y;
		int n;
	} params = {2, x, y, 90};
	void *p[1] = {d};

	for (int i = 0; i < 100; i++)
		x[i] = (float)i, y[i] = 1;
	run(&clang, (struct run){.kernel = "saxpy", .grid = {4}, .block = {32}, .params = &params});
	for (int i = 0; i < 100; i++)
		assert_true(y[i] == (i < 90 ? 2.f * (float)i + 1 : 1));
	for (int i = 0; i < 256; i++)
		d[i] = i;
	run(&clang, (struct run){.kernel = "scan", .block = {256}, .params = p});
	for (int i = 0; i < 256; i++)
		assert_int_equal(d[i], i * (i + 1) / 2);
	for (int i = 0; i < 256; i++)
		d[i] = i + 1;
	run(&clang, (struct run){.kernel = "collatz", .block = {256}, .params = p});
	for (int i = 0; i < 256; i++) {
		int steps = 0;

		for (int v = i + 1; v > 1; v = v % 2 ? 3 * v + 1 : v / 2)
			steps++;
		assert_int_equal(d[i], steps);
	}
	run(&clang, (struct run){.kernel = "picks", .block = {128}, .params = p});
	for (int t = 0; t < 128; t++)
		assert_int_equal(d[t], (t ^ 1) * 100 + ((127 - (t ^ 1)) & 7) + t * 100 + 3);
}

/* Each thread updates the word of 16 that its number says; those of the first 16 threads tell what the words are. */
static void count_sums(void *owner, enum ptx_form form, const char *text)
{
	const char *at = text;

	while (form == PTX_FORM_IR && (at = strstr(at, "call float @ptx_fma_f32")) && at++)
		++*(unsigned *)owner;
}

/* bench/cpu/programs/spmv.cu, of which nvcc and clang make a loop of four numbers a round, and one for what is left over. */
static void unrolled_rows_are_one_loop(void **state)
{
	enum { ROWS = 300 };
	static const char *const files[] = {"rows_nvcc.ptx", "rows_clang.ptx"};
	static int first[ROWS + 1], columns[ROWS * 12];
	static float values[ROWS * 12], x[ROWS], y[ROWS];
	const uint32_t block[3] = {64, 1, 1};
	struct {
		void *y, *first, *columns, *values, *x;
		int n;
	} params = {y, first, columns, values, x, ROWS};

	for (int r = 0; r < ROWS; r++) {
		first[r + 1] = first[r] + r * 7 % 13;
		x[r] = (float)(r % 9);
	}
	for (int i = 0; i < first[ROWS]; i++)
		columns[i] = i * 31 % ROWS, values[i] = (float)(i % 5);
	for (int k = 0; k < 2; k++) {
		struct program p;
		unsigned sums = 0;

		load_file(&p, files[k]);
		memset(y, 0xff, sizeof(y));
		run(&p, (struct run){.kernel = "spmv",
				.grid = {(ROWS + 63) / 64},
				.block = {64},
				.params = &params});
		for (int r = 0; r < ROWS; r++) {
			float want = 0;

			for (int i = first[r]; i < first[r + 1]; i++)
				want += values[i] * x[columns[i]];
			assert_true(y[r] == want);
		}
		ptx_list(p.module, ptx_kernel_find(p.module, "spmv"), block, count_sums, &sums);
		assert_int_equal(sums, 1);
		unload(&p);
	}
}

static void threads_update_the_same_word_in_a_row(void **state)
{
	static const char text[] =
		".version 6.3\n.target sm_70\n.address_size 64\n"
		".visible .entry update(.param .u64 in, .param .u64 olds, .param .u64 out) {\n"
		".reg .pred %p; .reg .b32 %r<9>; .reg .b64 %d<9>; .shared .align 4 .b8 words[64];\n"
		"ld.param.u64 %d1, [in]; ld.param.u64 %d2, [olds]; ld.param.u64 %d3, [out];\n"
		"mov.u32 %r1, %tid.x; cvt.u64.u32 %d4, %r1; shl.b64 %d5, %d4, 2; mov.u64 %d6, words;\n"
		"cvt.u32.u64 %r2, %d4; add.s64 %d7, %d6, %d5; setp.gt.u32 %p, %r2, 15;\n"
		"mov.b32 %r3, 0; @%p bra A; st.shared.u32 [%d7], %r3;\nA: bar.sync 0;\n"
		"add.s64 %d1, %d1, %d5; ld.global.u32 %r4, [%d1]; mul.wide.u32 %d8, %r4, 4;\n"
		"add.s64 %d8, %d6, %d8; atom.shared.add.u32 %r5, [%d8], 3;\n"
		"add.s64 %d2, %d2, %d5; st.global.u32 [%d2], %r5; bar.sync 0;\n"
		"@%p bra B; ld.shared.u32 %r6, [%d7]; add.s64 %d3, %d3, %d5; st.global.u32 [%d3], %r6;\n"
		"B: ret;\n}\n";
	struct program p;

	load_text(&p, text);
	for (unsigned shift = 0; shift < 5;
		shift++) { /* how many threads in a row have the same word */
		static uint32_t in[256], olds[256], out[17];
		void *params[] = {in, olds, out};
		uint32_t count[16] = {0};

		out[16] = 77;
		for (unsigned i = 0; i < 256; i++)
			in[i] = (i >> shift) * 7 % 16;
		run(&p, (struct run){.kernel = "update", .block = {256}, .params = params});
		for (unsigned i = 0; i < 256; i++)
			assert_int_equal(olds[i], 3 * count[in[i]]++);
		for (unsigned i = 0; i < 16; i++)
			assert_int_equal(out[i], 3 * count[i]);
		assert_int_equal(out[16], 77);
	}
	unload(&p);
}

/* Structures of four numbers lie side by side in shared memory. Each thread writes its own, changes a part of it, reads it, and writes
 * it anew, which LLVM may do for neighbours at once: not before they have read. */
static void structures_are_read_before_they_are_written_anew(void **state)
{
	static const char text[] =
		".version 6.3\n.target sm_70\n.address_size 64\n"
		".visible .entry k(.param .u64 in, .param .u64 out) {\n"
		".reg .b32 %r<9>; .reg .b64 %d<30>; .shared .align 64 .b8 s[8192];\n"
		"ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out]; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 5;\n"
		"mul.wide.u32 %d3, %r1, 8; add.s64 %d4, %d1, %d3; add.s64 %d6, %d2, %d3;\n"
		"mov.u32 %r3, s; add.u32 %r4, %r3, %r2; ld.global.b32 %r5, [%d4+16384];\n"
		"ld.global.b64 %d10, [%d4+0]; st.shared.b64 [%r4+0], %d10;\n"
		"ld.global.b64 %d11, [%d4+2048]; st.shared.b64 [%r4+8], %d11;\n"
		"ld.global.b64 %d12, [%d4+4096]; st.shared.b64 [%r4+16], %d12;\n"
		"ld.global.b64 %d13, [%d4+6144]; st.shared.b64 [%r4+24], %d13;\n"
		"st.shared.f32 [%r4], %r5;\n"
		"ld.shared.b64 %d14, [%r4+0]; st.global.b64 [%d6+0], %d14;\n"
		"ld.shared.b64 %d15, [%r4+8]; st.global.b64 [%d6+2048], %d15;\n"
		"ld.shared.b64 %d16, [%r4+16]; st.global.b64 [%d6+4096], %d16;\n"
		"ld.shared.b64 %d17, [%r4+24]; st.global.b64 [%d6+6144], %d17;\n"
		"ld.global.b64 %d20, [%d4+8192]; st.shared.b64 [%r4+0], %d20;\n"
		"ld.global.b64 %d21, [%d4+10240]; st.shared.b64 [%r4+8], %d21;\n"
		"ld.global.b64 %d22, [%d4+12288]; st.shared.b64 [%r4+16], %d22;\n"
		"ld.global.b64 %d23, [%d4+14336]; st.shared.b64 [%r4+24], %d23;\n"
		"st.shared.b64 [%r4], %d10;\n"
		"ld.shared.b64 %d24, [%r4+0]; st.global.b64 [%d6+8192], %d24;\n"
		"ld.shared.b64 %d25, [%r4+8]; st.global.b64 [%d6+10240], %d25;\n"
		"ld.shared.b64 %d26, [%r4+16]; st.global.b64 [%d6+12288], %d26;\n"
		"ld.shared.b64 %d27, [%r4+24]; st.global.b64 [%d6+14336], %d27;\n"
		"ret;\n}\n";
	static uint64_t in[9][256], out[8][256];
	void *params[] = {in, out};
	struct program p;

	for (uint64_t k = 0; k < 9; k++)
		for (uint64_t t = 0; t < 256; t++)
			in[k][t] = t << 40 | k << 32 | (t * 9 + k);
	load_text(&p, text);
	run(&p, (struct run){.kernel = "k", .block = {256}, .params = params});
	for (uint64_t k = 0; k < 8; k++)
		for (uint64_t t = 0; t < 256; t++) {
			uint64_t want = in[k % 4 ? k : 0][t];

			if (!k)
				want = (want & ~UINT64_C(0xffffffff)) | (uint32_t)in[8][t];
			assert_true(out[k][t] == want);
		}
	unload(&p);
}

/* Threads count numbers below 32 in 16 words and the 16 behind them, and ask for no result. One that looks at its word sees at
 * least what it has added itself. */
static void threads_count_in_a_few_words(void **state)
{
	static const char text[] =
		".version 6.3\n.target sm_70\n.address_size 64\n"
		".visible .entry %s(.param .u64 in, .param .u64 seen, .param .u64 out) {\n"
		".reg .pred %%p; .reg .b32 %%r<9>; .reg .b64 %%d<9>;\n"
		".shared .align 4 .b8 words[64]; .shared .align 4 .b8 behind[64];\n"
		"ld.param.u64 %%d1, [in]; ld.param.u64 %%d2, [seen]; ld.param.u64 %%d3, [out];\n"
		"mov.u32 %%r1, %%tid.x; mul.wide.u32 %%d5, %%r1, 4; mov.u64 %%d6, words;\n"
		"add.s64 %%d7, %%d6, %%d5; setp.gt.u32 %%p, %%r1, 31;\n"
		"@%%p bra A; st.shared.u32 [%%d7], 5;\nA: bar.sync 0;\n"
		"add.s64 %%d1, %%d1, %%d5; ld.global.u32 %%r4, [%%d1]; mul.wide.u32 %%d8, %%r4, 4;\n"
		"add.s64 %%d8, %%d6, %%d8; red.shared.add.u32 [%%d8], 3; mov.b32 %%r5, 8;\n%s\n"
		"add.s64 %%d2, %%d2, %%d5; st.global.u32 [%%d2], %%r5; bar.sync 0;\n"
		"@%%p bra B; ld.shared.u32 %%r6, [%%d7]; add.s64 %%d3, %%d3, %%d5;\n"
		"st.global.u32 [%%d3], %%r6;\nB: ret;\n}\n";
	static const char *const looks[] = {"", "ld.shared.u32 %r5, [%d8];"};

	for (unsigned k = 0; k < 2; k++) {
		static uint32_t in[256], seen[256], out[33];
		void *params[] = {in, seen, out};
		uint32_t count[32] = {0};
		struct program p;
		char written[2048];

		snprintf(written, sizeof(written), text, "count", looks[k]);
		load_text(&p, written);
		out[32] = 77;
		for (unsigned i = 0; i < 256; i++) {
			in[i] = i / 5 * 7 % 32;
			count[in[i]]++;
		}
		run(&p, (struct run){.kernel = "count", .block = {256}, .params = params});
		for (unsigned i = 0; i < 256; i++)
			assert_true(seen[i] >= 8 && seen[i] <= 5 + 3 * count[in[i]]);
		for (unsigned i = 0; i < 32; i++)
			assert_int_equal(out[i], 5 + 3 * count[i]);
		assert_int_equal(out[32], 77);
		unload(&p);
	}
}

/* clang adds to such an address with `or`. */
static void local_variables_of_each_thread_are_aligned(void **state)
{
	static const char text[] =
		".version 8.0\n.target sm_90\n.address_size 64\n"
		".visible .entry k(.param .u64 o)\n{\n"
		".local .align 32 .b8 wide[36];\n.local .align 1 .b8 narrow[3];\n"
		".reg .b64 %d<6>; .reg .b32 %r<4>;\n"
		"ld.param.u64 %d1, [o]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4;\n"
		"add.s64 %d1, %d1, %d2; mov.u64 %d3, wide; cvta.local.u64 %d3, %d3;\n"
		"or.b64 %d4, %d3, 16; st.u32 [%d4], %r1; st.u32 [%d3+20], 7;\n"
		"mov.u64 %d5, narrow; st.local.u8 [%d5+2], 9; ld.u32 %r2, [%d3+16];\n"
		"cvt.u32.u64 %r3, %d3; and.b32 %r3, %r3, 31; mad.lo.s32 %r2, %r3, 1000, %r2;\n"
		"st.global.u32 [%d1], %r2; ret;\n}\n";
	uint32_t out[40];
	void *params[] = {out};
	struct program p;

	load_text(&p, text);
	run(&p, (struct run){.kernel = "k", .block = {40}, .params = params});
	for (uint32_t i = 0; i < 40; i++)
		assert_int_equal(out[i], i);
	unload(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unrolled_rows_are_one_loop),
		cmocka_unit_test(threads_update_the_same_word_in_a_row),
		cmocka_unit_test(structures_are_read_before_they_are_written_anew),
		cmocka_unit_test(threads_count_in_a_few_words),
		cmocka_unit_test(local_variables_of_each_thread_are_aligned),
		cmocka_unit_test(guarded_vectors_add),
		cmocka_unit_test(matrices_multiply),
		cmocka_unit_test(blocks_reduce_with_shuffles),
		cmocka_unit_test(pool_threads_share_atomics),
		cmocka_unit_test(threads_that_return_early_do_not_meet_barriers),
		cmocka_unit_test(barriers_in_loops_with_trips_from_memory),
		cmocka_unit_test(warps_vote),
		cmocka_unit_test(warps_leave_loops_apart),
		cmocka_unit_test(barriers_with_ragged_trips_end),
		cmocka_unit_test(stencils_read_their_halo),
		cmocka_unit_test(breadth_first_search_reaches_all),
		cmocka_unit_test(tiles_decompose),
		cmocka_unit_test(functions_are_called_through_pointers),
		cmocka_unit_test(variables_have_initial_values),
		cmocka_unit_test(kernels_print_assert_and_trap),
		cmocka_unit_test(mathematics_is_accurate),
		cmocka_unit_test(a_grid_beyond_32_bit_indices_traps),
		cmocka_unit_test(clang_kernels_run),
	};

	return cmocka_run_group_tests(tests, load_programs, unload_programs);
}
