/* SPDX-License-Identifier: MIT
 *
 * Barriers in memory, as libcu++ uses them: kernels/barriers.cu.
 */
#include "harness.h"

#include <string.h>

enum { ROUNDS = 7, THREADS = 128 };

static struct program program;
static int in[ROUNDS * 256], out[ROUNDS * THREADS];

static int load_program(void **state)
{
	for (unsigned k = 0; k < ROUNDS * 256; k++)
		in[k] = (int)(k * 2654435761u >> 12);
	load_file(&program, "barriers.ptx");
	return 0;
}

static int unload_program(void **state)
{
	unload(&program);
	return 0;
}

static void launch(const char *kernel)
{
	struct {
		const void *in;
		void *out;
		int rounds;
	} params = {in, out, ROUNDS};

	memset(out, 0, sizeof(out));
	assert_int_equal(
		run(&program,
			(struct run){.kernel = kernel, .block = {THREADS}, .params = &params}),
		RAN);
}

static void consumers_wait_for_producers(void **state)
{
	launch("producers");
	for (int t = 64; t < THREADS; t++) {
		uint32_t sum = 0;

		for (int k = 0; k < ROUNDS; k++)
			sum = sum * 3 + (uint32_t)in[k * 64 + (t * 5 & 63)];
		assert_int_equal((uint32_t)out[t - 64], sum);
	}
}

static void copies_are_waited_for_by_their_bytes(void **state)
{
	launch("bulk");
	for (int t = 0; t < THREADS; t++) {
		int sum = 0;

		for (int k = 0; k < ROUNDS; k++)
			sum += in[k * 256 + (t * 7 & 255)] * (k + 1);
		assert_int_equal(out[t], sum);
	}
}

static void a_pipeline_has_stages(void **state)
{
	launch("stages");
	for (int t = 0; t < THREADS; t++) {
		uint32_t sum = 0;

		for (int k = 0; k < ROUNDS; k++)
			sum = sum * 5 + (uint32_t)in[k * 128 + (t + k) % 128];
		assert_int_equal((uint32_t)out[t], sum);
	}
}

static void threads_that_drop_out_are_not_waited_for(void **state)
{
	launch("leaving");
	for (int k = 0; k < ROUNDS; k++) {
		int sum = 0;

		for (int t = 0; t < THREADS; t++)
			sum += t % 16 > k ? in[t] : 0;
		for (int t = 0; t < THREADS; t++)
			assert_int_equal(out[k * THREADS + t], t % 16 > k ? sum : 0);
	}
}

/* Blocks of 40 threads: the second warp has 8. Thread 3 leaves before, of the first warp. The second one arrives, or waits, too. */
static void warps_that_are_not_whole_count_as_warps(void **state)
{
	static const char text[] =
		".version 6.3\n.target sm_70\n.address_size 64\n"
		".visible .entry warps(.param .u64 out, .param .u32 waits) {\n"
		".reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %d<9>; .shared .align 4 .b8 words[160];\n"
		"ld.param.u64 %d1, [out]; ld.param.u32 %r1, [waits]; mov.u32 %r2, %tid.x;\n"
		"setp.eq.u32 %p1, %r2, 3; @%p1 exit;\n"
		"mul.wide.u32 %d2, %r2, 4; mov.u64 %d3, words; add.s64 %d4, %d3, %d2;\n"
		"setp.lt.u32 %p2, %r2, 32; @%p2 bra TAKE;\n"
		"add.u32 %r3, %r2, 100; st.shared.u32 [%d4], %r3; setp.ne.u32 %p3, %r1, 0;\n"
		"@%p3 bra WAIT; barrier.arrive 1, 64; bra END;\nWAIT: barrier.sync 1, 64; bra END;\n"
		"TAKE: barrier.sync 1, 64; and.b32 %r4, %r2, 7; mul.wide.u32 %d5, %r4, 4;\n"
		"add.s64 %d5, %d3, %d5; ld.shared.u32 %r5, [%d5+128]; add.s64 %d6, %d1, %d2;\n"
		"st.global.u32 [%d6], %r5;\nEND: ret;\n}\n";
	struct program p;

	load_text(&p, text);
	for (uint32_t waits = 0; waits < 2; waits++) {
		uint32_t got[32] = {0};
		struct {
			void *out;
			uint32_t waits;
		} params = {got, waits};

		assert_int_equal(
			run(&p, (struct run){.kernel = "warps", .block = {40}, .params = &params}),
			RAN);
		for (uint32_t t = 0; t < 32; t++)
			assert_int_equal(got[t], t == 3 ? 0 : 132 + t % 8);
	}
	unload(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(warps_that_are_not_whole_count_as_warps),
		cmocka_unit_test(consumers_wait_for_producers),
		cmocka_unit_test(copies_are_waited_for_by_their_bytes),
		cmocka_unit_test(a_pipeline_has_stages),
		cmocka_unit_test(threads_that_drop_out_are_not_waited_for),
	};

	return cmocka_run_group_tests(tests, load_program, unload_program);
}
