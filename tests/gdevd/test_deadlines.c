/* SPDX-License-Identifier: MIT
 *
 * Deadlines: in order, never early, and in time for an arbiter that waits for half a millisecond.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "gdevd/deadlines.h"

#define TIMES 50

static struct {
	uv_loop_t loop;
	struct deadlines deadlines;
	unsigned count;
	struct deadline *order[8];
	uint64_t late_ns;
} fixture;

static void on_deadline(struct deadline *deadline, uint64_t now_ns)
{
	assert_true(now_ns >= deadline->at_ns);
	fixture.late_ns = clock_now_ns() - deadline->at_ns;
	fixture.order[fixture.count++ % array_length(fixture.order)] = deadline;
}

static int set_up(void **state)
{
	fixture.count = 0;
	return uv_loop_init(&fixture.loop) || deadlines_init(&fixture.deadlines, &fixture.loop);
}

static int tear_down(void **state)
{
	deadlines_finish(&fixture.deadlines);
	uv_run(&fixture.loop, UV_RUN_DEFAULT);
	return uv_loop_close(&fixture.loop);
}

static void wait_for(unsigned count)
{
	while (fixture.count < count)
		uv_run(&fixture.loop, UV_RUN_ONCE);
}

static void half_a_millisecond_is_half_a_millisecond(void **state)
{
	uint64_t least_late_ns = UINT64_MAX; /* others use the processors, too */
	struct deadline deadline;

	deadline_init(&deadline, on_deadline);
	for (unsigned i = 0; i < TIMES; i++) {
		deadline_set(&fixture.deadlines, &deadline, clock_now_ns() + NS_PER_MS / 2);
		wait_for(i + 1);
		least_late_ns = min_of(least_late_ns, fixture.late_ns);
	}
	assert_true(least_late_ns < NS_PER_MS / 4);
}

static void they_come_in_order_whatever_was_set_first(void **state)
{
	struct deadline deadlines[4];
	uint64_t now_ns = clock_now_ns();

	for (unsigned i = 0; i < array_length(deadlines); i++)
		deadline_init(&deadlines[i], on_deadline);
	deadline_set(&fixture.deadlines, &deadlines[2], now_ns + 3 * NS_PER_MS);
	deadline_set(&fixture.deadlines, &deadlines[3], now_ns + NS_PER_MS);
	deadline_set(&fixture.deadlines, &deadlines[0], now_ns + 2 * NS_PER_MS);
	deadline_set(&fixture.deadlines, &deadlines[1], 0);                      /* long ago */
	deadline_set(&fixture.deadlines, &deadlines[3], now_ns + 4 * NS_PER_MS); /* put off */
	deadline_cancel(&deadlines[0]);
	wait_for(3);
	assert_ptr_equal(fixture.order[0], &deadlines[1]);
	assert_ptr_equal(fixture.order[1], &deadlines[2]);
	assert_ptr_equal(fixture.order[2], &deadlines[3]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			half_a_millisecond_is_half_a_millisecond, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			they_come_in_order_whatever_was_set_first, set_up, tear_down),
	};

	return cmocka_run_group_tests_name("deadlines", tests, NULL, NULL);
}
