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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(consumers_wait_for_producers),
		cmocka_unit_test(copies_are_waited_for_by_their_bytes),
		cmocka_unit_test(a_pipeline_has_stages),
		cmocka_unit_test(threads_that_drop_out_are_not_waited_for),
	};

	return cmocka_run_group_tests(tests, load_program, unload_program);
}
