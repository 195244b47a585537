/* SPDX-License-Identifier: MIT
 *
 * What holds under every policy: who holds, waits, is told and is passed over, handing over, and strict groups.
 */
#include "game.h"

static void who_waits_may_prepare_when_the_holder_is_told_to_leave(void **state)
{
	/* A group of two, and two more groups. */
	const struct game game = {.prepares = true, .groups = {0, 0, 1, 2}};

	play_game(&game, (const struct step[]){
				 {0, ACQUIRE, A, "+A"},
				 {1, ACQUIRE, B, "?A"},
				 {2, ACQUIRE, C, ""},
				 {6, TICK, 0, "-A!B!C"},
				 {7, RELEASE, A, "+C?C"},
				 {8, RELEASE, C, "+B"},
				 {9, RELEASE, B, ""},
				 {0},
			 });
}

static void the_holder_hands_over_itself(void **state)
{
	play_game(&(struct game){.names = true, .groups = {0, 1, 2, 3}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{1, ACQUIRE, B, "?A"},
			{2, ACQUIRE, C, ""},
			{6, TICK, 0,
				">B-A"}, /* named before it is told, and nobody else prepares */
			{7, HAND, 0, ""},
			{8, RELEASE_WANTS, A, "+B?B"},
			{14, TICK, 0, ">C-B"},
			{15, RELEASE, B, ">.+C?C"}, /* it did not */
			{16, RELEASE, C, "+A"},
			{0},
		});
}

static void who_is_named_changes_as_others_come_and_go(void **state)
{
	const struct game game = {.policy = "priority",
		.names = true,
		.groups = {0, 1, 2, 3},
		.priorities = {0, 1, 2, 0}};

	play_game(&game, (const struct step[]){
				 {0, ACQUIRE, A, "+A"},
				 {1, ACQUIRE, B, ">B-A"},
				 {2, ACQUIRE, C, ">C"},
				 {3, REMOVE, C, ">.>B"},
				 {4, HAND, 0, ""},
				 {5, ACQUIRE, D, ""},
				 {6, REMOVE, A, "+B?B"}, /* it died when it had handed over */
				 {0},
			 });
	/* Who was handed the device is gone before the one that handed it. */
	play_game(&game, (const struct step[]){
				 {0, ACQUIRE, A, "+A"},
				 {1, ACQUIRE, B, ">B-A"},
				 {2, ACQUIRE, D, ""},
				 {3, HAND, 0, ""},
				 {4, REMOVE, B, ""},
				 {0},
			 });
}

static void one_that_says_it_handed_over_and_stays_is_overdue(void **state)
{
	play_game(&(struct game){.names = true, .groups = {0, 1, 2, 3}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{1, ACQUIRE, B, "?A"},
			{6, TICK, 0, ">B-A"},
			{7, HAND, 0, ""},
			{106, TICK, 0, "+B"},
			{107, RELEASE_WANTS, A, "?B"},
			{0},
		});
}

static void the_next_within_a_group_is_named_when_its_turn_is_over(void **state)
{
	/* Two in a group, and a group beside it. */
	const struct game game = {.policy = "fair",
		.members = "fair",
		.names = true,
		.groups = {0, 0, 1, 1},
		.shares = {50, 50}};

	play_game(&game, (const struct step[]){
				 {0, ACQUIRE, A, "+A"},
				 {1, ACQUIRE, B, "?A"},
				 {6, TICK, 0, ">B-A"},
				 {7, RELEASE_WANTS, A, ">.+B?B"},
				 {0},
			 });
}

static void one_that_prepares_for_its_turn_keeps_it_a_minute_at_most(void **state)
{
	play((const struct step[]){
		{1, ACQUIRE, A, "+A"},
		{1, KEEP, A, "", 50},
		{2, ACQUIRE, B, "?A"},
		{49, TICK, 0, ""},
		{50, KEEP, A, "", 1e9}, /* it says so again and again */
		{60001, TICK, 0, ""},
		{60002, TICK, 0, "-A"},
		{60102, TICK, 0, "+B"},
		{0},
	});
	/* What it held alone does not count. */
	play((const struct step[]){
		{0, ACQUIRE, A, "+A"},
		{120000, KEEP, A, "", 120050},
		{120010, ACQUIRE, B, "?A"},
		{120049, TICK, 0, ""},
		{120050, TICK, 0, "-A"},
		{0},
	});
}

static void sole_user_is_left_alone(void **state)
{
	play((const struct step[]){
		{0, ACQUIRE, A, "+A"},
		{3, ACQUIRE, A, ""},
		{1000, TICK, A, ""},
		{2000, RELEASE, A, ""},
		{2001, ACQUIRE, A, "+A"},
		{0},
	});
	assert_int_equal(sched_next_ns(&sched), UINT64_MAX);
}

static void holder_keeps_its_quantum(void **state)
{
	play((const struct step[]){
		{0, ACQUIRE, A, "+A"},
		{1, ACQUIRE, B, "?A"},
		{2, ACQUIRE, C, ""},
		{4, TICK, A, ""},
		{5, TICK, A, "-A"},
		{6, TICK, A, ""},
		{7, RELEASE_WANTS, A, "+B?B"},
		{12, TICK, A, "-B"},
		{13, RELEASE, B, "+C?C"},
		{0},
	});
}

static void late_comer_revokes_an_old_grant_at_once(void **state)
{
	play((const struct step[]){
		{0, ACQUIRE, A, "+A"},
		{50, ACQUIRE, B, "-A"},
		{51, RELEASE, A, "+B"},
		{0},
	});
}

static void idle_holder_leaves_early(void **state)
{
	play((const struct step[]){
		{0, ACQUIRE, A, "+A"},
		{1, ACQUIRE, B, "?A"},
		{2, RELEASE, A, "+B"},
		{3, ACQUIRE, A, "?B"},
		{0},
	});
}

static void first_come_is_first_served(void **state)
{
	play((const struct step[]){
		{0, ACQUIRE, D, "+D"},
		{1, ACQUIRE, C, "?D"},
		{1, ACQUIRE, A, ""},
		{1, ACQUIRE, B, ""},
		{2, RELEASE_WANTS, D, "+C?C"},
		{3, RELEASE, C, "+A?A"},
		{4, RELEASE, A, "+B?B"},
		{5, RELEASE, B, "+D"},
		{0},
	});
}

static void overdue_holder_is_passed_over(void **state)
{
	play((const struct step[]){
		{0, ACQUIRE, A, "+A"},
		{1, ACQUIRE, B, "?A"},
		{5, TICK, A, "-A"},
		{104, TICK, A, ""},
		{105, TICK, A, "+B"},
		/* What it asks for while overdue waits until it has left. */
		{106, ACQUIRE, A, ""},
		{120, TICK, A, ""},
		{200, RELEASE, A, "-B"},
		{201, RELEASE, B, "+A"},
		{0},
	});
	/* It says 1 ms, and had others wait from 1 ms on until 105 ms. */
	assert_int_equal(entities[A].node.used_ns, 104 * MS);
}

/* Each release says 1 ms. */
static void who_keeps_others_waiting_pays_for_half_of_it_at_least(void **state)
{
	play((const struct step[]){
		{0, ACQUIRE, A, "+A"},
		{100, ACQUIRE, B, "-A"},
		{104, RELEASE, A, "+B"},
		{204, RELEASE, B, ""},
		{0},
	});
	assert_int_equal(entities[A].node.used_ns, 2 * MS);
	assert_int_equal(entities[B].node.used_ns, MS); /* nobody waited */
}

static void overdue_holder_that_leaves_for_good_is_forgotten(void **state)
{
	play((const struct step[]){
		{0, ACQUIRE, A, "+A"},
		{6, ACQUIRE, B, "-A"},
		{106, TICK, A, "+B"},
		{107, RELEASE, A, ""},
		{108, RELEASE, B, ""},
		{0},
	});
}

static void dead_holder_makes_room(void **state)
{
	play((const struct step[]){
		{0, ACQUIRE, A, "+A"},
		{1, ACQUIRE, B, "?A"},
		{1, ACQUIRE, C, ""},
		{2, REMOVE, B, ""},
		{3, REMOVE, A, "+C"},
		{4, REMOVE, C, ""},
		{5, REMOVE, C, ""},
		{0},
	});
	assert_true(list_empty(&sched.groups.waiting));
}

static void dead_waiter_stops_the_clock(void **state)
{
	play((const struct step[]){
		{0, ACQUIRE, A, "+A"},
		{1, ACQUIRE, B, "?A"},
		{2, REMOVE, B, ""},
		{50, TICK, A, ""},
		{60, ACQUIRE, C, "-A"},
		{0},
	});
}

static void release_of_what_is_not_held_only_charges(void **state)
{
	play((const struct step[]){
		{0, RELEASE, A, ""},
		{1, ACQUIRE, B, "+B"},
		{2, RELEASE, A, ""},
		{3, RELEASE_WANTS, A, "?B"},
		{0},
	});
	assert_int_equal(entities[A].node.used_ns, 2 * MS); /* it did not exist for longer */
}

static void next_time_is_the_end_of_the_quantum_and_then_overdue(void **state)
{
	play((const struct step[]){{2, ACQUIRE, A, "+A"}, {3, ACQUIRE, B, "?A"}, {0}});
	assert_int_equal(sched_next_ns(&sched), 7 * MS);
	sched_tick(&sched, 8 * MS);
	assert_int_equal(sched_next_ns(&sched), 108 * MS);
	sched_tick(&sched, 108 * MS);
	assert_int_equal(sched_next_ns(&sched), UINT64_MAX);
}

static void one_setting_is_found_by_its_name(void **state)
{
	play_game(&(struct game){.policy = "band", .setting = "wait_us", .value = 700},
		(const struct step[]){{0}});
	assert_int_equal(sched.groups.settings[1], 700);
	assert_int_equal(sched_queue_set(&sched.groups, "nonsense", 1), -2 /* ENOENT */);
}

static void groups_take_turns_however_many_contexts_they_have(void **state)
{
	play_game(&(struct game){.groups = {0, 0, 0, 1}}, (const struct step[]){
								  {0, ACQUIRE, A, "+A"},
								  {1, ACQUIRE, B, "?A"},
								  {1, ACQUIRE, C, ""},
								  {1, ACQUIRE, D, ""},
								  {5, TICK, 0, "-A"},
								  {6, RELEASE_WANTS, A, "+D?D"},
								  {11, TICK, 0, "-D"},
								  {12, RELEASE_WANTS, D, "+B?B"},
								  {17, TICK, 0, "-B"},
								  {18, RELEASE_WANTS, B, "+D?D"},
								  {0},
							  });
}

static void strict_group_gets_no_more_than_its_share_of_an_idle_device(void **state)
{
	play_game(&(struct game){.shares = {25}, .strict = {true}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{5, TICK, 0, "-A"},
			/* It had 5 ms, used 7, and earns a quarter: half a quantum is there in 18. */
			{7, RELEASE_WANTS, A, "", 7},
			{7.1, TICK, 0, ""},
			{24.9, TICK, 0, ""},
			{25.1, TICK, 0, "+A"},
			{0},
		});
}

static void what_was_used_before_a_group_became_strict_is_not_held_against_it(void **state)
{
	play((const struct step[]){
		{0, ACQUIRE, A, "+A"},
		{1000, STRICT, A, "-A", 20},
		{1001, RELEASE_WANTS, A, "+A", 1001},
		{1006.2, TICK, A, "-A"},
		{1007, RELEASE_WANTS, A, "", 6},
		{0},
	});
}

static void others_are_served_while_a_strict_group_waits_for_its_allowance(void **state)
{
	play_game(&(struct game){.groups = {0, 1}, .shares = {25, 25}, .strict = {true}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{5, TICK, 0, "-A"},
			{9, RELEASE_WANTS, A, "", 9},
			{9, ACQUIRE, B, "+B"},
			{20, TICK, 0, ""},
			{60, TICK, 0, "-B"},
			{61, RELEASE, B, "+A"},
			{0},
		});
}

static void what_is_done_for_ones_sake_counts_against_a_strict_share(void **state)
{
	play_game(&(struct game){.groups = {0, 1}, .shares = {10, 90}, .strict = {true}},
		(const struct step[]){
			{0, CHARGE, A, "", 20},
			{1, ACQUIRE, A, ""},
			{170, TICK, 0, ""},
			{180, TICK, 0, "+A"},
			{0},
		});
}

static void who_ranks_above_another_is_known(void **state)
{
	play_game(&(struct game){.groups = {0, 1, 1}, .priorities = {3, 0}, .nices = {0, 0, 5}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{1, RELEASE, A, "", 1},
			{2, ACQUIRE, C, "+C"},
			{0},
		});
	assert_true(sched_outranks(&entities[A], &entities[B]));
	assert_true(sched_outranks(&entities[B], &entities[C]));
	assert_false(sched_outranks(&entities[C], &entities[B]));
	sched_renice(&entities[A], 19, 3 * MS);
	assert_false(sched_outranks(&entities[A], &entities[B]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_waits_may_prepare_when_the_holder_is_told_to_leave),
		cmocka_unit_test(the_holder_hands_over_itself),
		cmocka_unit_test(who_is_named_changes_as_others_come_and_go),
		cmocka_unit_test(one_that_says_it_handed_over_and_stays_is_overdue),
		cmocka_unit_test(the_next_within_a_group_is_named_when_its_turn_is_over),
		cmocka_unit_test(one_that_prepares_for_its_turn_keeps_it_a_minute_at_most),
		cmocka_unit_test(sole_user_is_left_alone),
		cmocka_unit_test(holder_keeps_its_quantum),
		cmocka_unit_test(late_comer_revokes_an_old_grant_at_once),
		cmocka_unit_test(idle_holder_leaves_early),
		cmocka_unit_test(first_come_is_first_served),
		cmocka_unit_test(overdue_holder_is_passed_over),
		cmocka_unit_test(who_keeps_others_waiting_pays_for_half_of_it_at_least),
		cmocka_unit_test(overdue_holder_that_leaves_for_good_is_forgotten),
		cmocka_unit_test(dead_holder_makes_room),
		cmocka_unit_test(dead_waiter_stops_the_clock),
		cmocka_unit_test(release_of_what_is_not_held_only_charges),
		cmocka_unit_test(next_time_is_the_end_of_the_quantum_and_then_overdue),
		cmocka_unit_test(one_setting_is_found_by_its_name),
		cmocka_unit_test(groups_take_turns_however_many_contexts_they_have),
		cmocka_unit_test(strict_group_gets_no_more_than_its_share_of_an_idle_device),
		cmocka_unit_test(what_was_used_before_a_group_became_strict_is_not_held_against_it),
		cmocka_unit_test(others_are_served_while_a_strict_group_waits_for_its_allowance),
		cmocka_unit_test(what_is_done_for_ones_sake_counts_against_a_strict_share),
		cmocka_unit_test(who_ranks_above_another_is_known),
	};

	return cmocka_run_group_tests_name("arbiter", tests, NULL, NULL);
}
