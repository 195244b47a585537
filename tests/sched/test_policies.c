/* SPDX-License-Identifier: MIT
 *
 * The policies that others have described: null, priority, credit, band, token, effective, interactive.
 */
#include "game.h"

static void null_lets_everyone_at_once(void **state)
{
	play_game(&(struct game){.policy = "null", .groups = {0, 0, 1}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{1, ACQUIRE, B, "+B"},
			{2, ACQUIRE, C, "+C"},
			{200, TICK, 0, ""},
			{201, RELEASE_WANTS, A, "+A"},
			{202, RELEASE, B, ""},
			{203, REMOVE, C, ""},
			{0},
		});
	assert_int_equal(sched_next_ns(&sched), UINT64_MAX);
}

static void priority_takes_the_device_from_the_lower_and_waits_for_equals(void **state)
{
	play_game(
		&(struct game){.policy = "priority", .groups = {0, 1, 2}, .priorities = {0, 0, 7}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{1, ACQUIRE, B, "?A"},
			{2, ACQUIRE, C, "-A"},
			{3, RELEASE_WANTS, A, "+C?C"},
			/* Not because of its quantum: those who wait are lower. */
			{30, TICK, 0, ""},
			{31, RELEASE, C, "+B?B"},
			{36, TICK, 0, "-B"},
			{0},
		});
}

static void priority_counts_the_nice_value_too(void **state)
{
	play_game(&(struct game){.policy = "priority", .groups = {0, 1}, .nices = {5, 0}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{1, ACQUIRE, B, "-A"},
			{0},
		});
}

static void priority_rescues_who_starves_for_a_quantum(void **state)
{
	play_game(&(struct game){.policy = "priority", .groups = {0, 1}, .priorities = {1, 0}},
		(const struct step[]){
			{1000, ACQUIRE, A, "+A"},
			{1001, ACQUIRE, B, "?A"},
			{1500, TICK, 0, ""},
			{1501, TICK, 0, "-A"},
			{1502, RELEASE_WANTS, A, "+B?B"},
			{1506, TICK, 0, ""},
			{1507, TICK, 0, "-B"},
			{1508, RELEASE_WANTS, B, "+A?A"},
			{1520, TICK, 0, ""},
			{0},
		});
}

static void credit_keeps_the_first_until_its_credit_is_gone(void **state)
{
	/* Half of each period of 30 ms is earned: at 30 both have 15. */
	play_game(&(struct game){.policy = "credit", .groups = {0, 1}, .shares = {50, 50, 1, 1}},
		(const struct step[]){
			{30, ACQUIRE, A, "+A"},
			{31, ACQUIRE, B, "?A"},
			{35, TICK, 0, "-A"},
			{36, RELEASE_WANTS, A, "+A?A", 6},
			{41, TICK, 0, "-A"},
			{43, RELEASE_WANTS, A, "+A?A", 7},
			{48, TICK, 0, "-A"},
			/* 18 used. */
			{48, RELEASE_WANTS, A, "+B?B", 5},
			{0},
		});
}

static void band_waits_for_short_ones_before_it_serves_who_is_over_its_bandwidth(void **state)
{
	play_game(&(struct game){.policy = "band", .groups = {0, 1}, .shares = {50, 50}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{1000, ACQUIRE, B, "-A"},
			/* Its utilization is looked at when the next period begins, at 1020. */
			{1001, RELEASE_WANTS, A, "+A?A", 1001},
			{1006, TICK, 0, "-A"},
			{1031, RELEASE_WANTS, A, "+B?B", 30},
			/* A is over its bandwidth: for half a millisecond B may come back. */
			{1031.5, RELEASE, B, "", 0.5},
			{1031.8, ACQUIRE, B, "+B?B"},
			{1032.3, RELEASE, B, "", 0.5},
			{1032.7, TICK, 0, ""},
			/* It did not. */
			{1032.8, TICK, 0, "+A"},
			{0},
		});
}

static void band_keeps_who_is_out_of_credit_but_within_its_bandwidth(void **state)
{
	play_game(&(struct game){.policy = "band", .groups = {0, 1}, .shares = {50, 50, 1, 1}},
		(const struct step[]){
			{61, ACQUIRE, A, "+A"},
			{95, ACQUIRE, B, "-A"},
			/* 35 used, and no credit: but 0 of the last period's time. */
			{96, RELEASE_WANTS, A, "+A?A", 35},
			{101, TICK, 0, "-A"},
			{121, RELEASE_WANTS, A, "+A?A", 25}, /* 35 of 120 */
			{126, TICK, 0, "-A"},
			{155, RELEASE_WANTS, A, "+A?A", 34}, /* 60 of 150 */
			{160, TICK, 0, "-A"},
			{185, RELEASE_WANTS, A, "+B?B", 5}, /* 94 of 180 */
			{0},
		});
	play_game(&(struct game){.policy = "credit", .groups = {0, 1}, .shares = {50, 50, 1, 1}},
		(const struct step[]){
			{61, ACQUIRE, A, "+A"},
			{95, ACQUIRE, B, "-A"},
			{96, RELEASE_WANTS, A, "+B?B", 35},
			{0},
		});
}

static void band_waits_for_nobody_before_the_same_one_goes_on(void **state)
{
	play_game(&(struct game){.policy = "band", .groups = {0, 1}, .shares = {50, 50, 1, 1}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{1001, RELEASE_WANTS, A, "+A", 1001},
			/* Over its bandwidth by now. */
			{1050, RELEASE_WANTS, A, "+A", 49},
			{0},
		});
}

static void band_gives_the_device_to_whoever_comes_while_it_waits(void **state)
{
	play_game(&(struct game){.policy = "band", .groups = {0, 1, 2}, .shares = {50, 25, 25, 1}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{1000, ACQUIRE, B, "-A"},
			{1001, RELEASE_WANTS, A, "+A?A", 1001},
			{1006, TICK, 0, "-A"},
			{1031, RELEASE_WANTS, A, "+B?B", 30},
			{1031.5, RELEASE, B, "", 0.5},
			/* Not one of the two. */
			{1031.7, ACQUIRE, C, "+C?C"},
			{0},
		});
}

static void token_keeps_away_who_has_overdrawn_its_budget(void **state)
{
	play_game(&(struct game){.policy = "token", .groups = {0, 1}, .shares = {90, 10}},
		(const struct step[]){
			{100, ACQUIRE, B, "+B"},
			{100, ACQUIRE, A, "?B"},
			{110, RELEASE_WANTS, B, "+A?A", 10},
			{120, TICK, 0, "-A"},
			{120, RELEASE_WANTS, A, "+A?A", 10},
			{0},
		});
}

static void effective_priority_prefers_the_short_and_those_who_waited(void **state)
{
	play_game(&(struct game){.policy = "effective", .groups = {0, 1, 2}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{0, ACQUIRE, B, "?A"},
			{8, TICK, 0, "-A"},
			{8, RELEASE, A, "+B", 8},
			{8, ACQUIRE, C, "?B"},
			{9, ACQUIRE, A, ""},
			{10, RELEASE, B, "+C?C", 1},
			{10, ACQUIRE, B, ""},
			/* B came after A, but A's kernels are longer. */
			{10.5, RELEASE, C, "+B?B"},
			{40, RELEASE_WANTS, B, "+A?A"},
			{0},
		});
}

/* B computes for 1 ms every 10 ms, alone, twice: it is interactive. */
#define B_IS_INTERACTIVE                                                                           \
	{0, ACQUIRE, B, "+B"}, {1, RELEASE, B, "", 1}, {10, ACQUIRE, B, "+B"},                     \
	{                                                                                          \
		11, RELEASE, B, "", 1                                                              \
	}

static void interactive_lets_a_batch_node_leave_at_once(void **state)
{
	play_game(&(struct game){.policy = "interactive", .groups = {0, 1}, .shares = {50, 50}},
		(const struct step[]){
			B_IS_INTERACTIVE,
			{15, ACQUIRE, A, "+A"},
			{20, ACQUIRE, B, "-A"},
			{21, RELEASE_WANTS, A, "+B?B", 6},
			{22, RELEASE, B, "+A", 1},
			{30, ACQUIRE, B, "-A"},
			{0},
		});
}

static void interactive_takes_who_has_not_paused_twice_for_batch(void **state)
{
	play_game(&(struct game){.policy = "interactive", .groups = {0, 1}, .shares = {50, 50}},
		(const struct step[]){
			{0, ACQUIRE, B, "+B"},
			{1, RELEASE, B, "", 1},
			{5, ACQUIRE, A, "+A"},
			{10, ACQUIRE, B, "?A"},
			{29, TICK, 0, ""},
			{30, TICK, 0, "-A"}, /* a turn is 20 */
			{0},
		});
}

static void interactive_interrupts_a_turn_and_does_not_end_it(void **state)
{
	play_game(
		&(struct game){
			.policy = "interactive", .groups = {0, 1, 2}, .shares = {30, 30, 30}},
		(const struct step[]){
			B_IS_INTERACTIVE,
			{12, ACQUIRE, A, "+A"},
			{12, ACQUIRE, C, "?A"},
			{20, ACQUIRE, B, "-A"},
			{20, RELEASE_WANTS, A, "+B?B", 8},
			{21, RELEASE, B, "+A?A", 1}, /* and not C, which has waited for longer */
			{32, TICK, 0, ""},
			{33, TICK, 0, "-A"}, /* 8 and 12 */
			{33, RELEASE_WANTS, A, "+C?C", 12},
			{0},
		});
}

static void interactive_gives_nobody_more_than_its_part(void **state)
{
	play_game(&(struct game){.policy = "interactive", .groups = {0, 1}, .shares = {90, 10}},
		(const struct step[]){
			B_IS_INTERACTIVE,
			{12, ACQUIRE, A, "+A"},
			{20, ACQUIRE, B, "-A"},
			{20, RELEASE_WANTS, A, "+B?B", 8},
			{30, RELEASE, B, "+A", 10}, /* its part of 100 ms */
			{42, ACQUIRE, B, "?A"},
			/* So long A's part of what B has used lasts. */
			{131, TICK, 0, ""},
			{133, TICK, 0, "-A"},
			{0},
		});
}

static void interactive_takes_a_long_burst_for_batch(void **state)
{
	play_game(&(struct game){.policy = "interactive", .groups = {0, 1}, .shares = {50, 50}},
		(const struct step[]){
			B_IS_INTERACTIVE,
			{20, ACQUIRE, B, "+B"},
			{50, RELEASE_WANTS, B, "+B", 30}, /* more than 20 */
			{51, ACQUIRE, A, "?B"},
			{70, TICK, 0, ""},
			{71, TICK, 0, "-B"},
			{0},
		});
}

static void unknown_policy_is_none(void **state)
{
	assert_null(sched_policy_find("lottery"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(null_lets_everyone_at_once),
		cmocka_unit_test(priority_takes_the_device_from_the_lower_and_waits_for_equals),
		cmocka_unit_test(priority_counts_the_nice_value_too),
		cmocka_unit_test(priority_rescues_who_starves_for_a_quantum),
		cmocka_unit_test(credit_keeps_the_first_until_its_credit_is_gone),
		cmocka_unit_test(
			band_waits_for_short_ones_before_it_serves_who_is_over_its_bandwidth),
		cmocka_unit_test(band_keeps_who_is_out_of_credit_but_within_its_bandwidth),
		cmocka_unit_test(band_waits_for_nobody_before_the_same_one_goes_on),
		cmocka_unit_test(band_gives_the_device_to_whoever_comes_while_it_waits),
		cmocka_unit_test(token_keeps_away_who_has_overdrawn_its_budget),
		cmocka_unit_test(effective_priority_prefers_the_short_and_those_who_waited),
		cmocka_unit_test(interactive_lets_a_batch_node_leave_at_once),
		cmocka_unit_test(interactive_takes_who_has_not_paused_twice_for_batch),
		cmocka_unit_test(interactive_interrupts_a_turn_and_does_not_end_it),
		cmocka_unit_test(interactive_gives_nobody_more_than_its_part),
		cmocka_unit_test(interactive_takes_a_long_burst_for_batch),
		cmocka_unit_test(unknown_policy_is_none),
	};

	return cmocka_run_group_tests_name("policies", tests, NULL, NULL);
}
