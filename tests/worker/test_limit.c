/* SPDX-License-Identifier: MIT
 *
 * The time limit of kernels, under a clock of the test's own.
 */
#include "harness.h"

#include "base/clock.h"
#include "worker/command.h"

#define A 40
#define B 41
#define LIMIT_NS (100 * NS_PER_MS)

/* As the service's timer does. */
static uint64_t look(struct fixture *fixture, uint64_t now_ns)
{
	uint64_t next;

	core_lock(fixture->core);
	next = limit_tick(fixture->core, now_ns);
	core_unlock(fixture->core);
	return next;
}

static uint32_t prepare(struct fixture *fixture)
{
	uint32_t function = make_function(fixture);

	make_stream(fixture, A);
	make_stream(fixture, B);
	fixture->core->limit.limit_ns = LIMIT_NS;
	double_hold(true);
	return function;
}

static void without_launches_nobody_looks(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = prepare(fixture);

	assert_int_equal(look(fixture, 1), UINT64_MAX);
	post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	assert_true(look(fixture, 1) != UINT64_MAX);
	double_release(1, 0);
	fixture_run(fixture);
	assert_int_equal(look(fixture, 1 + 2 * LIMIT_NS), UINT64_MAX);
	assert_int_equal(fixture->ended, 0);
}

static void without_a_limit_nobody_looks(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = prepare(fixture);

	fixture->core->limit.limit_ns = 0;
	post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	assert_int_equal(look(fixture, 1), UINT64_MAX);
}

static void a_launch_that_takes_too_long_ends_the_session_and_all_its_waits(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = prepare(fixture);
	uint64_t launched, waited;

	launched = post_launch(fixture, A, function, 0);
	waited = post_wait(fixture, B, A, launched);
	fixture_run(fixture);
	look(fixture, 1);
	look(fixture, 1 + LIMIT_NS);
	assert_int_equal(fixture->ended, 0);
	assert_int_equal(look(fixture, 2 + LIMIT_NS), UINT64_MAX);
	assert_int_equal(fixture->ended, 1);
	assert_int_equal(fixture->reason, -GDEV_E_LAUNCH_TIMEOUT);
	assert_int_equal(session_error(fixture), -GDEV_E_LAUNCH_TIMEOUT);
	assert_int_equal(completed(fixture, A), launched);
	assert_int_equal(completed(fixture, B), waited);
	assert_int_equal(stream_error(fixture, A), -GDEV_E_LAUNCH_TIMEOUT);
	assert_int_equal(stream_error(fixture, B), -GDEV_E_LAUNCH_TIMEOUT);
	double_release(double_held(), 0);
}

static void each_launch_has_the_whole_time(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = prepare(fixture);
	uint64_t now_ns = 1;

	for (int i = 0; i < 4; i++)
		post_launch(fixture, i % 2 ? A : B, function, 0);
	fixture_run(fixture);
	for (int i = 0; i < 4; i++) {
		look(fixture, now_ns);
		now_ns += LIMIT_NS;
		look(fixture, now_ns);
		double_release(1, 0);
		fixture_run(fixture);
	}
	assert_int_equal(fixture->ended, 0);
}

/* A kernel that can leave by itself, and be launched again, is to do so before it is too late. */
static void the_client_is_told_when_half_of_the_time_is_over(void **state)
{
	struct fixture *fixture = *state;
	const uint32_t *told = &fixture->core->segment->header.revoked;
	uint32_t function = prepare(fixture);

	post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	look(fixture, 1);
	look(fixture, 1 + LIMIT_NS / 2);
	assert_int_equal(*told, 0);
	look(fixture, 2 + LIMIT_NS / 2);
	assert_int_equal(*told, 1);
	post_launch(fixture, B, function, 0);
	fixture_run(fixture);
	assert_int_equal(*told, 1); /* the first is still there */
	double_release(2, 0);
	fixture_run(fixture);
	post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	assert_int_equal(*told, 0);
	double_release(1, 0);
	fixture_run(fixture);
}

static void where_the_device_tells_it_time_counts_from_the_start(void **state)
{
	struct fixture *fixture = *state;
	static struct device_ops ops; /* teardown needs it too */
	uint32_t function = prepare(fixture);
	struct command *second;

	ops = *fixture->core->ops;
	ops.tells_start = true;
	fixture->core->ops = &ops;
	post_launch(fixture, A, function, 0); /* is being compiled, say */
	post_launch(fixture, B, function, 0);
	fixture_run(fixture);
	look(fixture, 1);
	look(fixture, 10 * LIMIT_NS);
	assert_int_equal(fixture->ended, 0);
	second = list_entry(fixture->core->streams.flight.prev, struct command, flight_link);
	second->device.started_ns = 10 * LIMIT_NS;
	look(fixture, 11 * LIMIT_NS);
	assert_int_equal(fixture->ended, 0);
	look(fixture, 11 * LIMIT_NS + 1);
	assert_int_equal(fixture->ended, 1);
	double_release(double_held(), 0);
	fixture_run(fixture);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_alone, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(without_launches_nobody_looks),
		TEST(without_a_limit_nobody_looks),
		TEST(a_launch_that_takes_too_long_ends_the_session_and_all_its_waits),
		TEST(each_launch_has_the_whole_time),
		TEST(the_client_is_told_when_half_of_the_time_is_over),
		TEST(where_the_device_tells_it_time_counts_from_the_start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
