/* SPDX-License-Identifier: MIT
 *
 * What the simulation says about shares: the bounds that `fair` has to keep, and that it is better than
 * BAND. Simulated time, so it does not depend on the machine.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim.h"

static struct sim_result run(const char *scenario, const char *policy)
{
	struct sim_result result;

	sim_run(sim_scenario_find(scenario), sched_policy_find(policy), NULL, 1, &result);
	return result;
}

static void assert_less(const char *scenario, const char *what, double value, double bound)
{
	if (value > bound)
		fail_msg(
			"%s: %s is %.3f, and should be at most %.3f", scenario, what, value, bound);
}

/* Those in which everyone can use its share. */
static const char *const backlogged[] = {
	"equal",
	"short-long-50-50",
	"short-long-30-70",
	"short-long-10-90",
	"short-long-90-10",
	"tiny-batches-long",
	"sync-short-long",
	"sync-pause-long",
	"sync-pause-long-80-20",
	"sync-pause-varied",
	"sync-pause-both",
	"random-30-70",
	"mixed-10-90",
	"copy-chunks",
	"copy-compute-one-queue",
	"software-short-long",
	"software-copies",
	"software-sync",
	"many-streams",
	"four",
	"sixteen",
	"huge-kernels",
	"change",
	"change-beside",
	"second-comes-later",
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct sim_result fair[COUNT(backlogged)], band[COUNT(backlogged)];

static int run_all(void **state)
{
	for (unsigned i = 0; i < COUNT(backlogged); i++) {
		fair[i] = run(backlogged[i], "fair");
		band[i] = run(backlogged[i], "band");
	}
	return 0;
}

static void shares_hold_within_one_percent_and_three_at_worst(void **state)
{
	for (unsigned i = 0; i < COUNT(backlogged); i++) {
		assert_less(backlogged[i], "the error", fair[i].error_avg_pct, 1.0);
		assert_less(backlogged[i], "the worst error", fair[i].error_worst_pct, 3.0);
	}
}

static void contention_costs_at_most_four_percent_of_throughput(void **state)
{
	for (unsigned i = 0; i < COUNT(backlogged); i++)
		assert_less(backlogged[i], "1 - throughput", 1 - fair[i].throughput, 0.04);
}

static void copies_keep_their_shares_within_two_percent(void **state)
{
	assert_less(
		"copy-chunks", "the worst error", run("copy-chunks", "fair").error_worst_pct, 2);
}

static void who_copies_between_its_kernels_does_not_wait_for_a_turn(void **state)
{
	/* Turns are 31 ms, and one that ends for it is worth 50 handovers. */
	assert_less("software-copies-between", "the wait",
		run("software-copies-between", "fair").wait_p99_ms[0], 50 * 0.28 + 1);
}

static void fair_beats_band(void **state)
{
	double fair_error = 0, band_error = 0, fair_throughput = 0, band_throughput = 0;

	for (unsigned i = 0; i < COUNT(backlogged); i++) {
		assert_less(backlogged[i], "the error against BAND's", fair[i].error_avg_pct,
			band[i].error_avg_pct);
		/* Nowhere by more than a little, and that with waits that are seconds shorter. */
		assert_less(backlogged[i], "BAND's throughput beyond it",
			band[i].throughput - fair[i].throughput, 0.016);
		fair_error += fair[i].error_avg_pct;
		band_error += band[i].error_avg_pct;
		fair_throughput += fair[i].throughput;
		band_throughput += band[i].throughput;
	}
	assert_less("all", "the mean error against a fifth of BAND's", fair_error, band_error / 5);
	assert_less("all", "BAND's mean throughput", band_throughput, fair_throughput);
}

static void high_priority_waits_for_a_window_and_the_handover(void **state)
{
	/* A kernel of a millisecond is the window, and the switch is 140 us. */
	assert_less("priority", "the wait", run("priority", "fair").wait_p99_ms[0], 1.0 + 0.4);
	assert_less("priority", "the wait", run("priority", "priority").wait_p99_ms[0], 1.0 + 0.4);
}

/* At whatever moment of the others' turns it comes, and while one of them hands over to the other. */
static void high_priority_waits_no_longer_where_turns_change(void **state)
{
	struct sim_scenario scenario = *sim_scenario_find("priority");
	struct sim_result result;

	for (unsigned ms = 0; ms < 20; ms++) {
		scenario.contexts[0].pause_us = 9500 + 1037 * ms;
		sim_run(&scenario, sched_policy_find("fair"), NULL, 1, &result);
		assert_less("priority", "the worst wait under fair", result.wait_worst_ms[0], 1.4);
		sim_run(&scenario, sched_policy_find("priority"), NULL, 1, &result);
		assert_less("priority", "the worst wait", result.wait_worst_ms[0], 1.4);
	}
}

/* Which has the device for itself in between, and knows that the other may come (REVOKE_MAY_COME). */
static void high_priority_waits_no_longer_beside_one(void **state)
{
	struct sim_scenario scenario = *sim_scenario_find("priority");
	struct sim_result result;

	scenario.group_count = scenario.context_count = 2;
	for (unsigned ms = 0; ms < 20; ms++) {
		scenario.contexts[0].pause_us = 9500 + 1037 * ms;
		sim_run(&scenario, sched_policy_find("fair"), NULL, 1, &result);
		assert_less("priority", "the worst wait beside one", result.wait_worst_ms[0], 1.4);
	}
}

/* r squared of a straight line through what the groups have got. */
static double linearity(const double *values, unsigned count)
{
	double mean = 0, slope = 0, all = 0, spread = 0;

	for (unsigned i = 0; i < count; i++)
		mean += values[i] / count;
	for (unsigned i = 0; i < count; i++) {
		double x = i - (count - 1) / 2.0, y = values[i] - mean;
		slope += x * y;
		spread += x * x;
		all += y * y;
	}
	return slope * slope / spread / all;
}

/* What interactive guests wait for: a kernel that is on the device, a handover, and the other's moment. */
static void interactive_guests_go_first_and_batch_guests_have_long_turns(void **state)
{
	struct sim_result ours = run("guests", "interactive"), under_fair = run("guests", "fair");

	for (unsigned group = 0; group < 2; group++)
		assert_less("guests", "the wait", ours.wait_p99_ms[group], 1.0 + 0.4 + 2.0);
	assert_less("guests", "the wait under interactive", ours.wait_p99_ms[1],
		under_fair.wait_p99_ms[1]);
	assert_less("guests", "the throughput under fair", under_fair.throughput, ours.throughput);
	assert_less("guests", "the error", ours.error_avg_pct, 1.0);
}

static void effective_priority_gives_in_proportion_whatever_a_turn_is(void **state)
{
	static const char *const scenarios[] = {"priorities", "priorities-sync",
		"priorities-rounds", "priorities-varied", "software-priorities"};

	for (unsigned i = 0; i < COUNT(scenarios); i++) {
		struct sim_result result = run(scenarios[i], "effective");
		const double *got = result.busy_group_pct;
		assert_less(scenarios[i], "1 - r squared", 1 - linearity(got, 4), 0.02);
		assert_less(scenarios[i], "1.25 of what the lowest gets", 1.25 * got[0], got[3]);
	}
}

/* They have nothing to make up for: the one that came to an idle device meanwhile used less than its part. */
static void high_priority_waits_no_longer_when_others_come_back_from_a_pause(void **state)
{
	struct sim_result result = run("priority-pauses", "fair");

	assert_less("priority-pauses", "the worst wait", result.wait_worst_ms[0], 1.0 + 0.4);
}

static void shares_hold_among_those_that_work_in_bursts(void **state)
{
	struct sim_result result = run("bursts-both", "fair");

	assert_less("bursts-both", "the error", result.error_avg_pct, 2.5);
	assert_less("bursts-both", "the worst error", result.error_worst_pct, 3.5);
}

/* It pays for half of what it keeps from others. */
static void who_says_that_it_uses_nothing_gets_no_more_than_twice_its_part(void **state)
{
	static const char *const scenarios[] = {"equal", "short-long-50-50", "software-short-long"};
	struct sim_result result;

	for (unsigned i = 0; i < COUNT(scenarios); i++) {
		struct sim_scenario scenario = *sim_scenario_find(scenarios[i]);

		for (unsigned liar = 0; liar < 2; liar++) {
			scenario.contexts[liar].lies = true;
			scenario.contexts[!liar].lies = false;
			sim_run(&scenario, sched_policy_find("fair"), NULL, 1, &result);
			assert_less(scenarios[i], "two thirds without what the honest one gets",
				200.0 / 3 - 2 * result.busy_group_pct[!liar], 3);
		}
	}
}

static void nice_ones_leave_the_rest_to_others(void **state)
{
	struct sim_scenario scenario = *sim_scenario_find("nice");
	struct sim_result together, alone;

	sim_run(&scenario, sched_policy_find("fair"), NULL, 1, &together);
	scenario.context_count = 1;
	sim_run(&scenario, sched_policy_find("fair"), NULL, 1, &alone);
	/* Of what the two at nice 19 leave it: their weights are 15, its is 1024. */
	assert_true(together.busy_pct > 95);
	assert_true(alone.busy_pct > 95);
	assert_less("nice", "the wait", together.wait_p99_ms[0], 500);
}

static void new_shares_hold_a_tenth_of_a_second_after_they_were_set(void **state)
{
	struct sim_result result = run("change", "fair");

	assert_true(result.after_change_pct >= 0);
	assert_less("change", "the error", result.after_change_pct, 2);
}

/* Nearly always in the first one, and else in one that begins a little later: a round takes half of it. */
static void new_shares_show_in_the_next_tenth_of_a_second(void **state)
{
	struct sim_scenario scenario = *sim_scenario_find("change-beside");
	struct sim_result result;
	double sum_ms = 0;

	for (unsigned ms = 0; ms < 120; ms += 3) {
		scenario.groups[0].change_s = scenario.groups[1].change_s = 5 + (double)ms / 1000;
		sim_run(&scenario, sched_policy_find("fair"), NULL, 1, &result);
		assert_less("change-beside", "the time until it shows", result.effect_ms, 120);
		sum_ms += result.effect_ms / 40;
	}
	assert_less("change-beside", "the mean time until it shows", sum_ms, 101);
}

static void same_seed_gives_the_same_result(void **state)
{
	struct sim_result a = run("random-30-70", "band"), b = run("random-30-70", "band");

	assert_memory_equal(&a, &b, sizeof a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shares_hold_within_one_percent_and_three_at_worst),
		cmocka_unit_test(contention_costs_at_most_four_percent_of_throughput),
		cmocka_unit_test(copies_keep_their_shares_within_two_percent),
		cmocka_unit_test(who_copies_between_its_kernels_does_not_wait_for_a_turn),
		cmocka_unit_test(fair_beats_band),
		cmocka_unit_test(high_priority_waits_for_a_window_and_the_handover),
		cmocka_unit_test(high_priority_waits_no_longer_where_turns_change),
		cmocka_unit_test(high_priority_waits_no_longer_beside_one),
		cmocka_unit_test(interactive_guests_go_first_and_batch_guests_have_long_turns),
		cmocka_unit_test(effective_priority_gives_in_proportion_whatever_a_turn_is),
		cmocka_unit_test(high_priority_waits_no_longer_when_others_come_back_from_a_pause),
		cmocka_unit_test(shares_hold_among_those_that_work_in_bursts),
		cmocka_unit_test(who_says_that_it_uses_nothing_gets_no_more_than_twice_its_part),
		cmocka_unit_test(nice_ones_leave_the_rest_to_others),
		cmocka_unit_test(new_shares_hold_a_tenth_of_a_second_after_they_were_set),
		cmocka_unit_test(new_shares_show_in_the_next_tenth_of_a_second),
		cmocka_unit_test(same_seed_gives_the_same_result),
	};

	return cmocka_run_group_tests_name("simulation", tests, run_all, NULL);
}
