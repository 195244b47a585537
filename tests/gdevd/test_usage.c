/* SPDX-License-Identifier: MIT
 *
 * What is known of the use of a device: counters, windows, what each could expect.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "gdevd/usage.h"

static void waiting_counts_while_nobody_of_them_holds(void **state)
{
	struct usage vgpu = {0}, device = {.device = true};

	usage_waits(&vgpu, 1, 100);
	usage_waits(&device, 1, 100);
	assert_int_equal(usage_now(&vgpu, 0, 130).waited_ns, 30);
	usage_waits(&vgpu, -1, 150);
	usage_holds(&vgpu, 1, 150);
	usage_waits(&vgpu, 1, 160); /* another session of the same */
	usage_waits(&device, -1, 150);
	usage_holds(&device, 1, 150);
	usage_waits(&device, 1, 160);
	assert_int_equal(usage_now(&vgpu, 7, 200).waited_ns, 50);
	assert_int_equal(usage_now(&vgpu, 7, 200).used_ns, 7);
	assert_int_equal(usage_now(&device, 0, 200).waited_ns, 90);
	/* Of the 90 in which somebody waited, 25 were used. */
	usage_count_lost(&device, 25, 200);
	assert_int_equal(device.lost_ns, 65);
	usage_count_lost(&device, 25, 200);
	assert_int_equal(device.lost_ns, 65);
}

static uint64_t used_at_once(
	struct usage *device, uint64_t used_ns, uint64_t longest_ns, uint64_t now_ns)
{
	struct usage_counters counters = {.used_ns = used_ns};

	return usage_at_once(device, counters, longest_ns, now_ns).used_ns;
}

static void what_is_used_at_once_is_used_once(void **state)
{
	struct usage device = {.device = true};

	usage_holds(&device, 1, 1000);
	/* One alone: what it says, also of a command that was begun earlier. */
	assert_int_equal(used_at_once(&device, 100, 0, 1100), 100);
	assert_int_equal(used_at_once(&device, 300, 0, 1200), 300);
	/* Two at once, each all the time. */
	usage_holds(&device, 1, 1200);
	assert_int_equal(used_at_once(&device, 500, 0, 1300), 400);
	usage_holds(&device, -1, 1350); /* that it was so a moment ago counts */
	assert_int_equal(used_at_once(&device, 700, 0, 1400), 500);
	/* One alone again, */
	assert_int_equal(used_at_once(&device, 800, 0, 1500), 600);
	/* and two that use less than there is, */
	usage_holds(&device, 1, 1500);
	assert_int_equal(used_at_once(&device, 850, 0, 1600), 650);
	/* or whose commands end long after they began. */
	assert_int_equal(used_at_once(&device, 850, 0, 1700), 650);
	assert_int_equal(used_at_once(&device, 850, 0, 1800), 650);
	assert_int_equal(used_at_once(&device, 1450, 250, 1900), 1000);
	/* Nothing becomes less because a holder says less. */
	assert_int_equal(used_at_once(&device, 1440, 0, 2000), 990);
	assert_int_equal(used_at_once(&device, 1450, 0, 2100), 1000);
}

static void windows_reach_back_to_the_right_sample(void **state)
{
	static struct usage usage;
	static struct usage_clock clock;
	struct usage_counters since;
	uint64_t now = 1000000000000, over;

	usage_since(&usage, &clock, usage.charged, 1000000000, now, &over);
	assert_int_equal(over, 0);
	for (int i = 0; i < 100; i++, now += USAGE_INTERVAL_NS) {
		usage.charged.used_ns += USAGE_INTERVAL_NS / 4;
		usage_clock_tick(&clock, false, now);
		usage_sample(&usage, &clock, usage_now(&usage, 0, now));
	}
	now -= USAGE_INTERVAL_NS;
	since = usage_since(&usage, &clock, usage.charged, 1000000000, now, &over);
	assert_int_equal(over, 1000000000);
	assert_int_equal(since.used_ns, 250000000);
	since = usage_since(&usage, &clock, usage.charged, 10000000000, now, &over);
	assert_int_equal(over, 10000000000);
	assert_int_equal(since.used_ns, 2500000000);
	/* Less than the last sample said: the worker had said more than it charged. */
	since = usage_since(&usage, &clock, (struct usage_counters){0}, 1000000000, now, &over);
	assert_int_equal(since.used_ns, 0);
}

static void a_window_that_begins_in_a_quiet_hour_is_no_longer_for_it(void **state)
{
	static const struct {
		bool quiet;
		uint64_t over_ns;
	} cases[] = {{true, 10000000000}, {false, 3603000000000}};

	for (size_t i = 0; i < array_length(cases); i++) {
		struct usage usage = {.charged.used_ns = 5000};
		struct usage_clock clock = {0};
		uint64_t now = 1000000000000, over;

		usage_clock_tick(&clock, false, now);
		usage_sample(&usage, &clock, usage_now(&usage, 0, now));
		now += 3600000000000;
		usage_clock_tick(&clock, cases[i].quiet, now);
		usage_sample(&usage, &clock, usage_now(&usage, 0, now));
		usage.charged.used_ns += 1000000000;
		now += 3000000000;
		assert_int_equal(
			usage_since(&usage, &clock, usage.charged, 10000000000, now, &over).used_ns,
			1000000000);
		assert_int_equal(over, cases[i].over_ns);
		usage_since(&usage, &clock, usage.charged, 1000000000, now, &over);
		assert_int_equal(over, 3000000000);
	}
}

static void expected_parts_are_shares_or_what_can_be_used(void **state)
{
	/* In thousandths of the second: weight, used, waited; and what is expected. */
	static const struct {
		struct {
			double weight, most;
			uint64_t used, waited;
			int expected;
		} parts[3];
	} cases[] = {
		/* Both want all of it: by weight, of what was used. */
		{{{25, 1, 500, 500, 245}, {75, 1, 480, 500, 735}, {50, 1, 0, 0, 0}}},
		/* The first pauses, and could not use more than 200. */
		{{{50, 1, 200, 0, 200}, {50, 1, 700, 200, 700}, {50, 1, 0, 0, 0}}},
		/* Nobody waits: what they use is what they want. */
		{{{90, 1, 100, 0, 100}, {5, 1, 300, 0, 300}, {5, 1, 400, 0, 400}}},
		/* Strict, and nobody else there. */
		{{{25, .25, 400, 600, 250}, {50, 1, 0, 0, 0}, {25, 1, 0, 0, 0}}},
		/* Waits, and has not had its turn. */
		{{{50, 1, 0, 1000, 450}, {50, 1, 900, 0, 450}, {25, 1, 0, 0, 0}}},
	};

	for (size_t i = 0; i < array_length(cases); i++) {
		struct usage_part parts[3];
		for (int j = 0; j < 3; j++)
			parts[j] = (struct usage_part){
				.weight = cases[i].parts[j].weight,
				.most = cases[i].parts[j].most,
				.counters = {cases[i].parts[j].used * 1000000,
					cases[i].parts[j].waited * 1000000},
			};
		usage_expect(parts, 3, 1000000000);
		for (int j = 0; j < 3; j++)
			if ((int)(parts[j].expected * 1000 + .5) != cases[i].parts[j].expected)
				fail_msg("case %zu, %d: %f is not %d", i, j, parts[j].expected,
					cases[i].parts[j].expected);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(waiting_counts_while_nobody_of_them_holds),
		cmocka_unit_test(what_is_used_at_once_is_used_once),
		cmocka_unit_test(windows_reach_back_to_the_right_sample),
		cmocka_unit_test(a_window_that_begins_in_a_quiet_hour_is_no_longer_for_it),
		cmocka_unit_test(expected_parts_are_shares_or_what_can_be_used),
	};

	return cmocka_run_group_tests_name("gdevd usage", tests, NULL, NULL);
}
