/* SPDX-License-Identifier: MIT
 *
 * Our own policy, fair.
 */
#include "game.h"

#include <string.h>

static const struct game halves = {.policy = "fair", .groups = {0, 1}, .shares = {50, 50}};

static void use_of_an_idle_device_is_not_held_against_anyone(void **state)
{
	play_game(&halves, (const struct step[]){
				   {0, ACQUIRE, A, "+A"},
				   {10000, ACQUIRE, B, "-A"}, /* it has had a turn */
				   {10001, RELEASE_WANTS, A, "+B?B", 10001},
				   {10005, TICK, 0, ""},
				   {10006, TICK, 0, "-B"},
				   {10006, RELEASE_WANTS, B, "+A?A", 5},
				   {0},
			   });
}

static void use_before_others_came_is_not_held_against_who_used_half_of_the_time(void **state)
{
	play_game(&halves, (const struct step[]){
				   {0, ACQUIRE, A, "+A"},
				   {20, ACQUIRE, B, "-A"},
				   {40, RELEASE_WANTS, A, "+B?B", 20},
				   /* B catches up with what A used since it came: 10. */
				   {49, TICK, 0, ""},
				   {50, TICK, 0, "-B"},
				   {50, RELEASE_WANTS, B, "+A?A", 10},
				   {0},
			   });
}

static void fair_gives_turns_by_weight(void **state)
{
	play_game(&(struct game){.policy = "fair", .groups = {0, 1}, .shares = {20, 80}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{0, ACQUIRE, B, "?A"},
			{5, TICK, 0, "-A"},
			{5, RELEASE_WANTS, A, "+B?B", 5},
			/* It catches up with A: four times as long. */
			{24, TICK, 0, ""},
			{25, TICK, 0, "-B"},
			{25, RELEASE_WANTS, B, "+A?A", 20},
			{0},
		});
}

static void fair_carries_an_overrun_into_the_next_turns(void **state)
{
	play_game(&halves, (const struct step[]){
				   {0, ACQUIRE, A, "+A"},
				   {0, ACQUIRE, B, "?A"},
				   {5, TICK, 0, "-A"},
				   {30, RELEASE_WANTS, A, "+B?B", 30},
				   {59, TICK, 0, ""},
				   {60, TICK, 0, "-B"},
				   {60, RELEASE_WANTS, B, "+A?A", 30},
				   {0},
			   });
}

/* It was not there when the holder was named, and so was not passed over. */
static void who_goes_first_goes_before_one_that_was_handed_the_device_meanwhile(void **state)
{
	const struct game game = {.policy = "fair",
		.names = true,
		.groups = {0, 1, 2, 3},
		.shares = {30, 30, 40},
		.priorities = {0, 0, 10}};

	play_game(&game, (const struct step[]){
				 {0, ACQUIRE, C, "+C"},
				 {1, RELEASE, C, "", 1},
				 {1, ACQUIRE, A, "+A"},
				 {1, ACQUIRE, B, "?A"},
				 {6, TICK, 0, ">B-A"},
				 {7, RELEASE_WANTS, A, ">.+B?B", 6},
				 {12, TICK, 0, ""},
				 {13, TICK, 0, ">A-B"},
				 {13.5, HAND, 0, ""},
				 {13.6, ACQUIRE, C, ""}, /* it is behind both */
				 {14, RELEASE_WANTS, B, "+A>C-A", 7},
				 {15, RELEASE_WANTS, A, ">.+C?C", 1},
				 {0},
			 });
}

static void fair_keeps_the_device_free_for_one_that_is_owed_and_will_be_back(void **state)
{
	play_game(&halves, (const struct step[]){
				   /* A is known to pause for 0.2 ms after each 2 ms. */
				   {0, ACQUIRE, A, "+A"},
				   {2, RELEASE, A, "", 2},
				   {2.2, ACQUIRE, A, "+A"},
				   {4.2, RELEASE, A, "", 2},
				   {4.4, ACQUIRE, A, "+A"},
				   {5, ACQUIRE, B, "?A"},
				   {6.4, RELEASE, A, "+B", 2},
				   {6.6, ACQUIRE, A, "?B"},
				   {11.6, TICK, 0, "-B"},
				   {36.6, RELEASE_WANTS, B, "+A?A", 30},
				   /* B has had 30 ms, and waits for those of A that are short. */
				   {38.6, RELEASE, A, "", 2},
				   {38.8, ACQUIRE, A, "+A?A"},
				   {40.8, RELEASE, A, "", 2},
				   /* A does not come. */
				   {41.5, TICK, 0, "+B"},
				   {0},
			   });
}

static void fair_lets_a_higher_priority_in_at_once_unless_it_is_ahead(void **state)
{
	play_game(&(struct game){.policy = "fair",
			  .groups = {0, 1},
			  .shares = {50, 50},
			  .priorities = {0, 3}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{1, ACQUIRE, B, "-A"},
			{2, RELEASE_WANTS, A, "+B?B", 2},
			{32, RELEASE, B, "+A", 30},
			{33, ACQUIRE, B, "?A"},
			{34, TICK, 0, ""},
			{0},
		});
}

static void fair_forgets_who_was_ahead_while_nobody_wants_the_device(void **state)
{
	struct game game = {
		.policy = "fair", .groups = {0, 1}, .shares = {50, 50}, .priorities = {0, 3}};
	const struct step ahead[] = {
		{0, ACQUIRE, A, "+A"},
		{1, ACQUIRE, B, "-A"},
		{2, RELEASE_WANTS, A, "+B?B", 2},
		{32, RELEASE, B, "+A", 30},
		/* Another 24 of A's would have made up for it. */
		{34, RELEASE, A, "", 2},
	};
	struct step later[16] = {0};

	memcpy(later, ahead, sizeof ahead);
	memcpy(&later[5],
		(const struct step[]){{40, ACQUIRE, A, "+A"}, {41, ACQUIRE, B, "?A"}, {0}},
		3 * sizeof *later);
	play_game(&game, later);
	memcpy(&later[5],
		(const struct step[]){{150, ACQUIRE, A, "+A"}, {151, ACQUIRE, B, "-A"}, {0}},
		3 * sizeof *later);
	play_game(&game, later);
}

static void fair_follows_a_share_that_changes(void **state)
{
	play_game(&halves, (const struct step[]){
				   {0, ACQUIRE, A, "+A"},
				   {0, ACQUIRE, B, "?A"},
				   {5, TICK, 0, "-A"},
				   {5, RELEASE_WANTS, A, "+B?B", 5},
				   {6, SHARE, 1, "", 90},
				   {6, SHARE, 0, "", 10},
				   {10, TICK, 0, ""},
				   {0},
			   });
	/* Not at 10: what A is ahead is worth more of B's time now. */
	assert_in_range(sched_next_ns(&sched), 20 * MS, 60 * MS);
}

static void fair_charges_what_others_did_for_ones_sake(void **state)
{
	play_game(&halves, (const struct step[]){
				   {0, ACQUIRE, A, "+A"},
				   {0, ACQUIRE, B, "?A"},
				   {1, CHARGE, B, "", 12},
				   /* A's turn lasts until it has had as much. */
				   {11, TICK, 0, ""},
				   {12, TICK, 0, "-A"},
				   {12, RELEASE_WANTS, A, "+B?B", 12},
				   {0},
			   });
	/* The same for one that comes later. */
	play_game(&halves, (const struct step[]){
				   {0, ACQUIRE, A, "+A"},
				   {1, CHARGE, B, "", 12},
				   {2, ACQUIRE, B, "?A"},
				   {13, TICK, 0, ""},
				   {14, TICK, 0, "-A"},
				   {0},
			   });
}

static void fair_lets_in_who_was_away_although_something_is_charged_meanwhile(void **state)
{
	play_game(&halves, (const struct step[]){
				   {100, ACQUIRE, A, "+A"},
				   {101, ACQUIRE, B, "?A"},
				   {102, CHARGE, B, "", 1},
				   /* A quantum of the hold, not of B's wait. */
				   {104.9, TICK, 0, ""},
				   {105, TICK, 0, "-A"},
				   {0},
			   });
}

static void fair_members_share_by_their_nice_values(void **state)
{
	play_game(&(struct game){.members = "fair", .nices = {0, 5}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{0, ACQUIRE, B, "?A"},
			{5, TICK, 0, "-A"},
			{5, RELEASE_WANTS, A, "+B?B", 5},
			{10, TICK, 0, "-B"},
			{10, RELEASE_WANTS, B, "+A?A", 5},
			/* 1024 to 335 */
			{20.1, TICK, 0, ""},
			{20.3, TICK, 0, "-A"},
			{0},
		});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(use_of_an_idle_device_is_not_held_against_anyone),
		cmocka_unit_test(
			use_before_others_came_is_not_held_against_who_used_half_of_the_time),
		cmocka_unit_test(fair_gives_turns_by_weight),
		cmocka_unit_test(fair_carries_an_overrun_into_the_next_turns),
		cmocka_unit_test(fair_keeps_the_device_free_for_one_that_is_owed_and_will_be_back),
		cmocka_unit_test(fair_lets_a_higher_priority_in_at_once_unless_it_is_ahead),
		cmocka_unit_test(fair_forgets_who_was_ahead_while_nobody_wants_the_device),
		cmocka_unit_test(fair_follows_a_share_that_changes),
		cmocka_unit_test(fair_charges_what_others_did_for_ones_sake),
		cmocka_unit_test(fair_lets_in_who_was_away_although_something_is_charged_meanwhile),
		cmocka_unit_test(fair_members_share_by_their_nice_values),
		cmocka_unit_test(
			who_goes_first_goes_before_one_that_was_handed_the_device_meanwhile),
	};

	return cmocka_run_group_tests_name("fair", tests, NULL, NULL);
}
