/* SPDX-License-Identifier: MIT
 *
 * The interpreter by itself: what its rules say of kernels whose result is known.
 */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interp.h"

#define KERNEL(body)                                                                               \
	".version 8.7\n.target sm_90\n.address_size 64\n.entry k(.param .u64 out) {\n"             \
	".reg .b64 %rd<4>; .reg .b32 %r<12>; .reg .pred %p<4>; .shared .b32 s[64];\n"              \
	"ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4;\n"              \
	"add.u64 %rd1, %rd1, %rd2; mov.u32 %r9, %laneid;\n" body "ret; }"

static enum interp_outcome interpret(
	const char *text, uint32_t threads, uint64_t schedule, uint32_t *out, char why[512])
{
	struct program p;
	void *params[1] = {out};

	load_text(&p, text);
	struct interp in = {.module = p.module,
		.globals = p.globals,
		.kernel = "k",
		.grid = {1, 1, 1},
		.block = {threads, 1, 1},
		.params = params,
		.schedule = schedule};
	memset(out, 0, 64 * sizeof(*out));
	enum interp_outcome outcome = interp_run(&in);
	memcpy(why, in.why, sizeof(in.why));
	unload(&p);
	return outcome;
}

/* A trip count that differs a thread, and in the loop a collective of all, then one of the odd lanes. */
static void a_collective_waits_for_its_mask(void **state)
{
	static const char text[] =
		KERNEL("mov.u32 %r2, %r1; mov.u32 %r3, 0; setp.eq.u32 %p1, 0, 0;\n"
		       "and.b32 %r4, %r1, 1; setp.eq.u32 %p2, %r4, 1;\n"
		       "setp.ne.u32 %p3, 0, 0;\n"
		       "TOP: vote.sync.ballot.b32 %r5, %p1, 0xffffffff;\n"
		       "@%p2 shfl.sync.idx.b32 %r5, %r5, 1, 31, 0xaaaaaaaa;\n"
		       "and.b32 %r3, %r3, %r5; @!%p3 mov.u32 %r3, %r5; setp.eq.u32 %p3, 0, 0;\n"
		       "add.u32 %r2, %r2, 32; setp.lt.u32 %p0, %r2, 96; @%p0 bra TOP;\n"
		       "st.global.b32 [%rd1], %r3;\n");
	uint32_t out[64];
	char why[512];

	for (uint64_t schedule = 0; schedule < 20; schedule++) {
		if (interpret(text, 32, schedule, out, why) != INTERP_RAN)
			fail_msg("%s", why);
		for (int i = 0; i < 32; i++)
			assert_int_equal(out[i], 0xffffffff);
	}
}

static void lanes_that_left_are_not_waited_for(void **state)
{
	static const char text[] = KERNEL(
		"setp.ge.u32 %p1, %r1, 20; @%p1 exit; setp.eq.u32 %p2, 0, 0;\n"
		"vote.sync.ballot.b32 %r2, %p2, 0xffffffff; bar.sync 0; st.global.b32 [%rd1], %r2;\n");
	uint32_t out[64];
	char why[512];

	assert_int_equal(interpret(text, 32, 7, out, why), INTERP_RAN);
	for (int i = 0; i < 32; i++)
		assert_int_equal(out[i], i < 20 ? 0xfffff : 0);
}

static void a_deadlock_is_reported(void **state)
{
	static const char votes[] = KERNEL(
		"setp.lt.u32 %p1, %r1, 16; @%p1 bra LOW; bar.warp.sync 0xffffffff; bra END;\n"
		"LOW: setp.eq.u32 %p2, 0, 0; vote.sync.ballot.b32 %r2, %p2, 0xffffffff;\nEND:\n");
	static const char barrier[] =
		KERNEL("setp.lt.u32 %p1, %r1, 16; @%p1 bra LOW; barrier.sync 1; bra END;\n"
		       "LOW: barrier.sync 2;\nEND:\n");
	uint32_t out[64];
	char why[512];

	assert_int_equal(interpret(votes, 32, 0, out, why), INTERP_DEADLOCKED);
	assert_int_equal(interpret(barrier, 32, 3, out, why), INTERP_DEADLOCKED);
	assert_non_null(strstr(why, "deadlock in block 0: thread 0 at line"));
}

/* One thread waits in a loop for another of its block. */
static void threads_make_progress(void **state)
{
	static const char text[] = KERNEL(
		"st.shared.b32 [s], 0; bar.sync 0; setp.eq.u32 %p1, %r1, 63; @%p1 st.shared.b32 [s], 5;\n"
		"AGAIN: ld.volatile.shared.b32 %r2, [s]; setp.ne.u32 %p2, %r2, 5; @%p2 bra AGAIN;\n"
		"st.global.b32 [%rd1], %r2;\n");
	uint32_t out[64];
	char why[512];

	if (interpret(text, 64, 0, out, why) != INTERP_RAN)
		fail_msg("%s", why);
	for (int i = 0; i < 64; i++)
		assert_int_equal(out[i], 5);
}

static void barriers_count_threads(void **state)
{
	static const char text[] =
		KERNEL("setp.lt.u32 %p1, %r1, 32; @%p1 bra LOW;\n"
		       "mov.u32 %r2, 9; st.shared.b32 [s], %r2; bar.arrive 1, 64; bra END;\n"
		       "LOW: bar.sync 1, 64; ld.shared.b32 %r2, [s];\n"
		       "END: st.global.b32 [%rd1], %r2;\n");
	uint32_t out[64];
	char why[512];

	if (interpret(text, 64, 0, out, why) != INTERP_RAN)
		fail_msg("%s", why);
	for (int i = 0; i < 64; i++)
		assert_int_equal(out[i], 9);
}

static void wrong_kernels_are_told(void **state)
{
	uint32_t out[64];
	char why[512];

	assert_int_equal(
		interpret(KERNEL("ld.shared.b32 %r2, [s+256];"), 1, 0, out, why), INTERP_WRONG);
	assert_int_equal(
		interpret(KERNEL("ld.global.b32 %r2, [%rd1+2];"), 1, 0, out, why), INTERP_WRONG);
	assert_int_equal(interpret(KERNEL("bar.warp.sync 2;"), 1, 0, out, why), INTERP_WRONG);
	assert_int_equal(interpret(KERNEL("TOP: bra TOP;"), 1, 0, out, why), INTERP_ENDLESS);
	assert_int_equal(
		interpret(KERNEL("ld.shared.b32 %r2, [s];"), 1, 0, out, why), INTERP_WRONG);
	assert_int_equal(
		interpret(KERNEL("st.shared.b16 [s], 1; ld.shared.b32 %r2, [s];"), 1, 0, out, why),
		INTERP_WRONG);
	assert_int_equal(interpret(KERNEL(".local .b32 l; ld.local.b32 %r2, [l];"), 1, 0, out, why),
		INTERP_WRONG);
	assert_int_equal(
		interpret(KERNEL("st.global.b32 [%rd1], %r2;"), 1, 0, out, why), INTERP_WRONG);
	assert_int_equal(interpret(KERNEL("@%p1 trap;"), 1, 0, out, why), INTERP_WRONG);
	assert_non_null(strstr(why, "nobody has written %p1"));
	assert_int_equal(interpret(KERNEL("trap;"), 1, 0, out, why), INTERP_TRAPPED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_collective_waits_for_its_mask),
		cmocka_unit_test(lanes_that_left_are_not_waited_for),
		cmocka_unit_test(a_deadlock_is_reported),
		cmocka_unit_test(threads_make_progress),
		cmocka_unit_test(barriers_count_threads),
		cmocka_unit_test(wrong_kernels_are_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
