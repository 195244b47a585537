/* SPDX-License-Identifier: MIT
 *
 * How the threads of a block get on: collectives wait for their masks, threads that wait for each
 * other through memory make progress, and those that wait in vain are found.
 */
#include "harness.h"

#include <string.h>

static struct program program;

static int load_program(void **state)
{
	load_file(&program, "threads.ptx");
	return 0;
}

static int unload_program(void **state)
{
	unload(&program);
	return 0;
}

static enum outcome launch(const char *kernel, uint32_t threads, const void *params)
{
	return run(&program, (struct run){.kernel = kernel, .block = {threads}, .params = params});
}

static void collectives_wait_for_their_masks(void **state)
{
	static uint32_t o[96];
	struct {
		void *o;
		int n;
	} params = {o, 96};

	assert_int_equal(launch("rounds", 32, &params), RAN);
	for (int i = 0; i < 96; i++)
		assert_int_equal(o[i], UINT32_MAX);
	/* The last round has half of the lanes: the others have left. */
	memset(o, 0, sizeof(o));
	params.n = 80;
	assert_int_equal(launch("rounds", 32, &params), RAN);
	for (int i = 0; i < 80; i++)
		assert_int_equal(o[i], i < 64 ? UINT32_MAX : 0xffff);
}

/* One group of lanes, step by step. */
static void go_round(uint32_t *v, int trips)
{
	for (int k = 0; k < trips; k++) {
		uint32_t w[8];
		bool any = false;

		for (int l = 0; l < 8; l++)
			w[l] = v[l] + v[l ^ (1 + k % 7)], any |= w[l] == 77;
		for (int l = 0; l < 8; l++)
			w[l] ^= any ? 3 : 0;
		memcpy(v, w, sizeof(w));
	}
}

static void groups_of_lanes_go_their_own_ways(void **state)
{
	static uint32_t o[64];
	static int trips[8] = {3, 0, 17, 1, 5, 5, 40, 2};
	void *params[2] = {o, trips};
	uint32_t want[64];

	for (uint32_t t = 0; t < 64; t++)
		want[t] = t;
	assert_int_equal(launch("groups", 64, params), RAN);
	for (int k = 0; k < 8; k++)
		go_round(want + 8 * k, trips[k]);
	assert_memory_equal(o, want, sizeof(o));
}

static void lanes_wait_at_one_instruction_for_those_of_their_round(void **state)
{
	static uint32_t o[32];
	struct {
		void *o;
		int n;
	} params = {o, 6};

	assert_int_equal(launch("nested", 32, &params), RAN);
	for (uint32_t t = 0; t < 32; t++) {
		uint32_t sum = 0;

		for (uint32_t k = 0; k < 6; k++)
			for (uint32_t i = 0; i < (t * 7 + k * 3) % 5; i++)
				for (uint32_t l = 0; l < 32; l++)
					sum += i < (l * 7 + k * 3) % 5;
		assert_int_equal(o[t], sum);
	}
}

static void reductions_are_of_their_masks(void **state)
{
	static int o[32];
	void *params[1] = {o};

	assert_int_equal(launch("halves", 32, params), RAN);
	for (int t = 0; t < 32; t++)
		assert_int_equal(o[t], t < 16 ? 120 : 376);
}

static void threads_wait_for_threads_of_their_block(void **state)
{
	static int o[256];
	void *params[1] = {o};

	for (uint32_t n = 2; n <= 256; n += 127) {
		uint32_t sum = 0;

		assert_int_equal(launch("chain", n, params), RAN);
		for (uint32_t t = n; t-- > 0;) {
			sum = sum * 3 + t;
			assert_int_equal((uint32_t)o[t], sum);
		}
	}
	assert_int_equal(launch("fenced", 96, params), RAN);
	for (int t = 0; t < 96; t++)
		assert_int_equal(o[t], 5);
}

static void a_lock_is_for_every_thread(void **state)
{
	static int o[128];
	void *params[1] = {o};

	assert_int_equal(launch("lock", 128, params), RAN);
	for (int t = 0; t < 128; t++)
		assert_int_equal(o[t], 128 * 127 / 2);
}

static void warps_wait_for_warps(void **state)
{
	static int o[256];
	void *params[1] = {o};

	assert_int_equal(launch("warps", 256, params), RAN);
	for (int t = 0; t < 256; t++)
		assert_int_equal(o[t], t + (t < 224 ? o[(t ^ 1) + 32] : 1));
}

static void a_barrier_of_some_threads_waits_for_those_only(void **state)
{
	static int o[128];
	void *params[1] = {o};

	assert_int_equal(launch("lower_half", 128, params), RAN);
	for (int t = 0; t < 128; t++)
		assert_int_equal(o[t], 9);
}

static void roles_meet_at_barriers_of_their_own(void **state)
{
	static int o[96];
	void *params[1] = {o};

	assert_int_equal(launch("roles", 96, params), RAN);
	for (int t = 0; t < 96; t++)
		assert_int_equal(o[t], t < 32 ? (t + 32) * 2 + (t + 64) * 2
					      : (t < 64 ? t + 68 : (t - 32) * 2) + (t & 31) + 100);
}

static void a_barrier_reduces_over_all_that_wait_at_it(void **state)
{
	static int o[128][4];
	void *params[1] = {o};
	int count = 0;

	for (int t = 0; t < 128; t++)
		count += t < 32 ? t % 3 == 0 : t % 5 == 0;
	assert_int_equal(launch("counts", 128, params), RAN);
	for (int t = 0; t < 128; t++) {
		assert_int_equal(o[t][0], count);
		assert_int_equal(o[t][1], 0);
		assert_int_equal(o[t][2], 1);
		assert_int_equal(o[t][3], t < 64 ? 23 : 64);
	}
}

static void warps_of_a_tile_meet(void **state)
{
	static int o[128];
	void *params[1] = {o};

	assert_int_equal(launch("tiles", 128, params), RAN);
	for (int t = 0; t < 128; t++) {
		int other = t ^ 63;

		assert_int_equal(o[t], t < 64 ? other + 40 : 2 * (other + 104) + 1 + 2 * 1000);
	}
}

static void who_arrives_does_not_wait(void **state)
{
	static int o[128];
	struct {
		void *o;
		int rounds;
	} params = {o, 7};

	assert_int_equal(launch("producers", 128, &params), RAN);
	for (int t = 0; t < 128; t++) {
		int sum = 0;

		for (int k = 0; k < params.rounds; k++)
			sum = sum * 3 + k * 32 + (t * 7 & 31);
		assert_int_equal(o[t], t < 32 ? 0 : sum);
	}
}

static void a_cluster_of_one_block_meets(void **state)
{
	static int o[64];
	void *params[1] = {o};

	assert_int_equal(launch("cluster", 64, params), RAN);
	for (int t = 0; t < 64; t++)
		assert_int_equal(o[t], 2 * (63 - (t ^ 1)));
}

static void threads_that_wait_in_vain_are_found(void **state)
{
	static int o[96];
	struct {
		void *o;
		int n;
	} params = {o, 96};

	assert_int_equal(launch("vain", 32, &params), STUCK);
	assert_string_equal(stuck.kernel, "vain");
	assert_int_equal(stuck.block[0], 0);
	assert_true(stuck.lines[0] && stuck.lines[1] && stuck.lines[0] != stuck.lines[1]);
	for (int t = 2; t < 32; t++)
		assert_int_equal(stuck.lines[t], stuck.lines[t & 1]);
	params.n = 0;
	assert_int_equal(launch("vain", 32, &params), RAN);
	/* A barrier that wants more threads than come. */
	assert_int_equal(launch("counted", 96, &params), RAN);
	assert_int_equal(launch("counted", 64, &params), STUCK);
	assert_true(stuck.lines[0] && stuck.lines[32] && stuck.lines[0] != stuck.lines[32]);
}

static void addresses_of_32_bits_wrap(void **state)
{
	static int o[31];
	void *params[1] = {o};

	assert_int_equal(launch("diagonal", 31, params), RAN);
	for (int q = 0; q < 31; q++) {
		int sum = 0;

		for (int t = 0; t < 16; t++)
			if (q + t >= 15 && q + t < 31)
				sum += ((q + t - 15) * 16 + t) * ((q + t - 15) * 16 + t);
		assert_int_equal(o[q], sum);
	}
}

/* Sides of a branch, and what they do at instructions of their own. %o gets %x; `mine` has a word of each thread. */
#define SIDES(name, code)                                                                          \
	".visible .entry " name "(.param .u64 p)\n{\n"                                             \
	".reg .b32 %t, %l, %x, %v, %m; .reg .b64 %o; .reg .pred %p, %q, %n;\n"                     \
	".shared .b32 mine[64]; ld.param.u64 %o, [p]; mov.u32 %t, %tid.x; mov.u32 %l, %laneid;\n"  \
	"mad.wide.u32 %o, %t, 4, %o; shl.b32 %m, %t, 2; mov.u32 %v, mine;\n"                       \
	"add.u32 %m, %m, %v; mov.u32 %x, 0; mad.lo.u32 %v, %t, 7, 5; st.shared.u32 [%m], 0;\n"     \
	"setp.lt.u32 %p, %l, 16; setp.lt.u32 %q, %t, 32; bar.sync 0;\n" code                       \
	"\nst.global.u32 [%o], %x; ret;\n}\n"
#define READ_THEN_WRITTEN(barrier)                                                                 \
	"@%q bra NEXT; " barrier "; ld.shared.u32 %x, [%m-128]; NEXT:\n"                           \
	"@!%q bra END; st.shared.u32 [%m], %v; " barrier "; END:\n"

static const char sides[] = ".version 8.7\n.target sm_90\n.address_size 64\n"
	/* the upper lanes see what the lower ones made of what the upper ones had left */
	SIDES("memory",
		"st.shared.u32 [%m], %v; bar.warp.sync -1; @!%p bra UPPER;\n"
		"ld.shared.u32 %x, [%m+64]; add.u32 %x, %x, 3; bar.warp.sync -1;\n"
		"st.shared.u32 [%m], %x; bar.warp.sync -1; bra END;\n"
		"UPPER: bar.warp.sync -1; bar.warp.sync -1; ld.shared.u32 %x, [%m-64]; END:")
	/* a number of each lane, from three places */
	SIDES("values",
		"setp.lt.u32 %n, %l, 9; @%n bra NINE; @%p bra SEVEN;\n"
		"redux.sync.add.u32 %x, %v, -1; shfl.sync.bfly.b32 %v|%n, %x, 1, 31, -1; bra END;\n"
		"NINE: redux.sync.add.u32 %x, %l, -1; shfl.sync.bfly.b32 %v, %l, 1, 31, -1; bra END;\n"
		"SEVEN: mov.u32 %v, 1000; redux.sync.add.u32 %x, %v, -1;\n"
		"shfl.sync.bfly.b32 %v, %v, 1, 31, -1; END: add.u32 %x, %x, %v;")
	/* one `if` behind the other */
	SIDES("ifs", READ_THEN_WRITTEN("bar.sync 0"))
		SIDES("counting_ifs", READ_THEN_WRITTEN("bar.sync 1, 64"))
			SIDES("alone", "@%q bra END; bar.sync 1, 64; END:")
	/* A loop that waits begins with the same instruction as the one around it: the last thread counts, the others wait for it. */
	SIDES("same_start", "setp.eq.u32 %q, %t, 63; mov.u32 %x, 1;\n"
			    "LOOP: ld.volatile.shared.u32 %v, [mine]; @%q mov.u32 %v, %x;\n"
			    "setp.lt.u32 %n, %v, %x; @%n bra LOOP; @!%q bra NEXT;\n"
			    "st.volatile.shared.u32 [mine], %x; NEXT: add.u32 %x, %x, 1;\n"
			    "setp.lt.u32 %n, %x, 6; @%n bra LOOP;")
	/* what a thread carries beyond a barrier, and beyond what another thread does alone */
	SIDES("carries",
		"add.cc.u32 %v, %t, 0xffffffe0; bar.sync 0; addc.u32 %x, 0, 0;\n"
		"add.cc.u32 %v, %t, 0xffffffd0; setp.lt.u32 %n, %t, 40; @%n st.shared.u32 [%m], %t;\n"
		"addc.u32 %v, 0, 0; mad.lo.u32 %x, %v, 2, %x;");

static void collectives_of_both_sides_meet(void **state)
{
	static uint32_t o[64];
	void *params[1] = {o};
	struct program p;

	load_text(&p, sides);
	assert_int_equal(run(&p, (struct run){"memory", .block = {64}, .params = params}), RAN);
	for (uint32_t t = 0; t < 64; t++)
		assert_int_equal(o[t], ((t | 16) * 7 + 5) + 3);
	assert_int_equal(run(&p, (struct run){"values", .block = {64}, .params = params}), RAN);
	for (uint32_t t = 0; t < 64; t++) {
		uint32_t sum = 36 + 7 * 1000, first = t & 32, other = (t & 31) ^ 1;

		for (uint32_t l = 16; l < 32; l++)
			sum += (first + l) * 7 + 5;
		assert_int_equal(o[t], sum + (other < 9 ? other : other < 16 ? 1000 : sum));
	}
	unload(&p);
}

static void barriers_of_one_if_behind_the_other_meet(void **state)
{
	static const char *const kernels[] = {"ifs", "counting_ifs"};
	static uint32_t o[64];
	void *params[1] = {o};
	struct program p;

	load_text(&p, sides);
	for (int k = 0; k < 2; k++) {
		assert_int_equal(
			run(&p, (struct run){kernels[k], .block = {64}, .params = params}), RAN);
		for (uint32_t t = 0; t < 64; t++)
			assert_int_equal(o[t], t < 32 ? 0 : (t - 32) * 7 + 5);
	}
	/* It wants twice as many as come. */
	assert_int_equal(run(&p, (struct run){"alone", .block = {64}, .params = params}), STUCK);
	assert_string_equal(stuck.kernel, "alone");
	assert_true(!stuck.lines[0] && stuck.lines[32] && stuck.lines[32] == stuck.lines[63]);
	unload(&p);
}

static void a_loop_waits_that_begins_as_the_one_around_it(void **state)
{
	static uint32_t o[64];
	void *params[1] = {o};
	struct program p;

	load_text(&p, sides);
	assert_int_equal(run(&p, (struct run){"same_start", .block = {64}, .params = params}), RAN);
	for (uint32_t t = 0; t < 64; t++)
		assert_int_equal(o[t], 6);
	unload(&p);
}

static void a_carry_is_its_threads(void **state)
{
	static uint32_t o[64];
	void *params[1] = {o};
	struct program p;

	load_text(&p, sides);
	assert_int_equal(run(&p, (struct run){"carries", .block = {64}, .params = params}), RAN);
	for (uint32_t t = 0; t < 64; t++)
		assert_int_equal(o[t], (t >= 32) + 2 * (t >= 48));
	unload(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(collectives_wait_for_their_masks),
		cmocka_unit_test(groups_of_lanes_go_their_own_ways),
		cmocka_unit_test(lanes_wait_at_one_instruction_for_those_of_their_round),
		cmocka_unit_test(reductions_are_of_their_masks),
		cmocka_unit_test(threads_wait_for_threads_of_their_block),
		cmocka_unit_test(a_lock_is_for_every_thread),
		cmocka_unit_test(warps_wait_for_warps),
		cmocka_unit_test(a_barrier_of_some_threads_waits_for_those_only),
		cmocka_unit_test(roles_meet_at_barriers_of_their_own),
		cmocka_unit_test(a_barrier_reduces_over_all_that_wait_at_it),
		cmocka_unit_test(warps_of_a_tile_meet),
		cmocka_unit_test(who_arrives_does_not_wait),
		cmocka_unit_test(a_cluster_of_one_block_meets),
		cmocka_unit_test(threads_that_wait_in_vain_are_found),
		cmocka_unit_test(collectives_of_both_sides_meet),
		cmocka_unit_test(barriers_of_one_if_behind_the_other_meet),
		cmocka_unit_test(a_loop_waits_that_begins_as_the_one_around_it),
		cmocka_unit_test(a_carry_is_its_threads),
		cmocka_unit_test(addresses_of_32_bits_wrap),
	};

	return cmocka_run_group_tests(tests, load_program, unload_program);
}
