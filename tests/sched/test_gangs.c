/* SPDX-License-Identifier: MIT
 *
 * Gangs: entities of one process have the resource together.
 */
#include "game.h"

static void those_that_wait_go_along_with_the_first_that_is_granted(void **state)
{
	/* A and B are of one process, each in a group of its own; C is of another process. */
	play_game(&(struct game){.groups = {0, 1, 2}, .gangs = {1, 1}},
		(const struct step[]){
			{0, ACQUIRE, C, "+C"},
			{1, ACQUIRE, A, "?C"},
			{2, ACQUIRE, B, ""},
			{3, RELEASE_WANTS, C, "+A+B?A?B"},
			{8, TICK, 0, "-A-B"},
			{9, RELEASE, B, ""},
			{10, RELEASE, A, "+C"},
			{0},
		});
}

static void one_that_comes_while_another_holds_goes_along(void **state)
{
	play_game(&(struct game){.groups = {0, 1, 2}, .gangs = {1, 1}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{1, ACQUIRE, B, "+B"},
			{2, ACQUIRE, C, "?A?B"},
			{3, RELEASE_WANTS, B, "+B"},
			{7, TICK, 0, "-A-B"},
			{8, RELEASE_WANTS, B, ""}, /* it has been told to leave */
			{9, RELEASE_WANTS, A, "+C?C"},
			{14, TICK, 0, "-C"},
			{15, RELEASE, C, "+B+A"},
			{0},
		});
}

static void two_of_one_group_go_together(void **state)
{
	play_game(&(struct game){.groups = {0, 0, 1}, .gangs = {1, 1}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{1, ACQUIRE, B, "+B"},
			{2, RELEASE, A, ""},
			{3, ACQUIRE, C, "?B"},
			{4, ACQUIRE, A, "+A"},
			{4.5, RELEASE, B, ""},
			{4.6, RELEASE, A, "+C"},
			{0},
		});
}

static void turns_are_not_longer_because_the_holder_leaves_before_others(void **state)
{
	play_game(&(struct game){.groups = {0, 1, 2}, .gangs = {1, 1}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{0, ACQUIRE, B, "+B"},
			{0, ACQUIRE, C, "?A?B"},
			{2, RELEASE_WANTS, A, "+A"}, /* B holds now, and A goes along */
			{4, RELEASE_WANTS, B, "+B"},
			{5, TICK, 0, "-A-B"},
			{6, RELEASE_WANTS, A, ""},
			{7, RELEASE_WANTS, B, "+C?C"},
			{0},
		});
}

static void a_gang_that_does_not_leave_is_passed_over_together(void **state)
{
	play_game(&(struct game){.groups = {0, 1, 2}, .gangs = {1, 1}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{0, ACQUIRE, B, "+B"},
			{0, ACQUIRE, C, "?A?B"},
			{5, TICK, 0, "-A-B"},
			{105, TICK, 0, "+C"},
			{106, ACQUIRE, B, ""},
			{107, RELEASE, B, "?C"},
			{108, RELEASE, A, ""},
			{109, RELEASE, C, "+B"},
			{0},
		});
}

static void one_whose_holder_is_gone_goes_on(void **state)
{
	play_game(
		&(struct game){.groups = {0, 1, 2}, .gangs = {1, 1}}, (const struct step[]){
									      {0, ACQUIRE, A, "+A"},
									      {0, ACQUIRE, B, "+B"},
									      {1, REMOVE, A, ""},
									      {2, ACQUIRE, C, "?B"},
									      {7, TICK, 0, "-B"},
									      {8, REMOVE, B, "+C"},
									      {0},
								      });
}

static void a_strict_group_does_not_go_along(void **state)
{
	play_game(&(struct game){.groups = {0, 1}, .gangs = {1, 1}, .strict = {false, true}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{1, ACQUIRE, B, "?A"},
			{2, RELEASE_WANTS, A, "+B+A"},
			{0},
		});
}

static void nobody_goes_along_past_others_of_its_group(void **state)
{
	/* B and D are of one group. */
	play_game(&(struct game){.groups = {0, 1, 2, 1}, .gangs = {1, 1}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{1, ACQUIRE, D, "?A"},
			{2, ACQUIRE, B, ""},
			{5, TICK, 0, "-A"},
			{6, RELEASE_WANTS, A, "+D?D"},
			{11, TICK, 0, "-D"},
			{12, RELEASE, D, "+A+B"},
			{0},
		});
}

static void one_that_lacks_memory_has_its_turn_alone(void **state)
{
	play_game(&(struct game){.groups = {0, 1}, .gangs = {1, 1}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{0, ACQUIRE, B, "+B"},
			{1, PART, 0, "-B"},
			{2, PART, 0, ""},
			{3, RELEASE_WANTS, B, "?A"},
			{5, TICK, 0, "-A"},
			{6, RELEASE_WANTS, A, "+B+A"},
			{0},
		});
}

static void the_device_is_not_handed_over_as_long_as_others_go_along(void **state)
{
	play_game(&(struct game){.names = true, .groups = {0, 1, 2}, .gangs = {1, 1}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{0, ACQUIRE, B, "+B"},
			{0, ACQUIRE, C, "?A?B"},
			{5, TICK, 0, "-A-B!C"},
			{6, RELEASE, A, ">C"}, /* B is the last */
			{7, HAND, 0, ""},
			{8, RELEASE, B, "+C"},
			{0},
		});
}

static void each_group_is_charged_what_its_own_used(void **state)
{
	play_game(&(struct game){.policy = "fair", .groups = {0, 1, 2}, .gangs = {1, 1}},
		(const struct step[]){
			{0, ACQUIRE, A, "+A"},
			{0, ACQUIRE, B, "+B"},
			{20, RELEASE, B, "", 15},
			{20, RELEASE, A, "", 20},
			{0},
		});
	assert_int_equal(entities[A].group->node.used_ns, 20 * MS);
	assert_int_equal(entities[B].group->node.used_ns, 15 * MS);
	/* What B used while C waited is made good: C has two turns. */
	play_game(&(struct game){.policy = "fair", .groups = {0, 1, 2}, .gangs = {1, 1}},
		(const struct step[]){
			{0, ACQUIRE, C, "+C"},
			{0, ACQUIRE, A, "?C"},
			{0, ACQUIRE, B, ""},
			{5, TICK, 0, "-C"},
			{5, RELEASE_WANTS, C, "+A+B?A?B", 5},
			{10, TICK, 0, "-A-B"},
			{10, RELEASE, A, "", 5},
			{10, RELEASE_WANTS, B, "+C?C", 5},
			{0},
		});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(those_that_wait_go_along_with_the_first_that_is_granted),
		cmocka_unit_test(one_that_comes_while_another_holds_goes_along),
		cmocka_unit_test(two_of_one_group_go_together),
		cmocka_unit_test(turns_are_not_longer_because_the_holder_leaves_before_others),
		cmocka_unit_test(a_gang_that_does_not_leave_is_passed_over_together),
		cmocka_unit_test(one_whose_holder_is_gone_goes_on),
		cmocka_unit_test(a_strict_group_does_not_go_along),
		cmocka_unit_test(nobody_goes_along_past_others_of_its_group),
		cmocka_unit_test(one_that_lacks_memory_has_its_turn_alone),
		cmocka_unit_test(the_device_is_not_handed_over_as_long_as_others_go_along),
		cmocka_unit_test(each_group_is_charged_what_its_own_used),
	};

	return cmocka_run_group_tests_name("sched gangs", tests, NULL, NULL);
}
