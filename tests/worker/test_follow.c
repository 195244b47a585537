/* SPDX-License-Identifier: MIT
 *
 * Waits that the device does by itself (COMMAND_FOLLOWS): which ones, and that nothing else changes by it.
 */
#include <errno.h>

#include "base/clock.h"
#include "harness.h"

enum { A = 40, B = 41, C = 42 };

/* Of which the worker knows that it takes so long. */
static uint32_t known_function(struct fixture *fixture, uint64_t busy_ns)
{
	uint32_t function = make_function(fixture);

	double_busy_ns(busy_ns);
	post_launch(fixture, C, function, 0);
	fixture_run(fixture);
	double_hold(true);
	return function;
}

static uint32_t begin(struct fixture *fixture, uint64_t busy_ns)
{
	double_follows(false);
	make_stream(fixture, A);
	make_stream(fixture, B);
	make_stream(fixture, C);
	return known_function(fixture, busy_ns);
}

static void end(struct fixture *fixture)
{
	while (double_held()) {
		double_release(double_held(), 0);
		fixture_run(fixture);
	}
}

static void a_wait_for_what_is_on_the_device_is_the_devices(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = begin(fixture, 1000);

	post_wait(fixture, B, A, post_launch(fixture, A, function, 0));
	post_launch(fixture, B, function, 0);
	fixture_run(fixture);
	assert_int_equal(double_held(), 2);
	assert_int_equal(double_followed(), 1);
	assert_int_equal(completed(fixture, B), 0);
	double_release(1, 0);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, A), 1);
	assert_int_equal(completed(fixture, B), 1);
	double_release(1, 0);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, B), 2);
	assert_int_equal(stream_error(fixture, B), 0);
}

/* The device may tell of the second one first. */
static void what_follows_is_not_complete_before_what_it_follows(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = begin(fixture, 1000);

	post_wait(fixture, B, A, post_launch(fixture, A, function, 0));
	post_launch(fixture, B, function, 0);
	post_wait(fixture, A, B, 2);
	post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	assert_int_equal(double_held(), 3);
	double_release_newest(0);
	double_release_newest(0);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, A), 0);
	assert_int_equal(completed(fixture, B), 0);
	double_release(1, 0);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, A), 3);
	assert_int_equal(completed(fixture, B), 2);
}

static void the_time_until_it_could_begin_is_not_its_own(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = begin(fixture, 50000);
	struct record_stamp stamp = {{.opcode = RECORD_STAMP, .timeline = B}, .stamp = 3};
	uint64_t before_ns = fixture->segment->timelines[B].device_ns;

	assert_int_equal(alloc(fixture, TEST_DEVICE, 2 * MIB), 0);
	double_together(); /* both are issued at once */
	post_copy(fixture, A, TEST_DEVICE, TEST_BASE, 4);
	fixture_run(fixture);
	end(fixture);
	post_wait(fixture, B, A, post_copy(fixture, A, TEST_DEVICE, TEST_BASE, 4));
	post(fixture, &stamp);
	post_launch(fixture, B, function, 0);
	fixture_run(fixture);
	assert_int_equal(double_held(), 2);
	double_release(1, 0);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, B), 2);
	double_busy_ns(70000);
	((struct device_command *)double_oldest())->busy_ns = 0;
	double_release(1, 0);
	fixture_run(fixture);
	assert_int_equal(fixture->segment->timelines[B].device_ns - before_ns, 70000);
	assert_int_equal(
		fixture->core->grants.resources[RESOURCE_COMPUTE].used_ns % 1000000, 50000 + 70000);
	assert_true(fixture->segment->stamps[3] > 0);
	assert_true(fixture->segment->stamps[3] <
		    1000000000); /* when the copy ended, by the double's clock */
}

/* What the worker has to see to itself. */
static void other_waits_are_the_workers(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = begin(fixture, 1000);
	uint64_t value;

	/* Something is behind what is awaited: it might wait for what comes next. */
	value = post_launch(fixture, A, function, 0);
	post_launch(fixture, A, function, 0);
	post_wait(fixture, B, A, value);
	post_launch(fixture, B, function, 0);
	fixture_run(fixture);
	assert_int_equal(double_held(), 2);
	end(fixture);
	/* It is not there yet: it waits for the program, or has not been read. */
	post_wait(fixture, A, 0, 1);
	value = post_launch(fixture, A, function, 0);
	post_wait(fixture, B, A, value);
	post_wait(fixture, C, A, value + 1);
	fixture_run(fixture);
	assert_int_equal(double_held(), 0);
	assert_int_equal(double_followed(), 0);
	__atomic_store_n(&fixture->segment->header.host_completed, 1, __ATOMIC_RELEASE);
	core_lock(fixture->core);
	streams_host_progress(fixture->core);
	core_unlock(fixture->core);
	assert_int_equal(double_followed(), 1); /* now it is */
	end(fixture);
	post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	assert_int_equal(double_followed(), 2);
	end(fixture);
	/* What is awaited only follows itself. */
	value = post_launch(fixture, A, function, 0);
	value = post_wait(fixture, B, A, value);
	post_wait(fixture, C, B, value);
	post_launch(fixture, C, function, 0);
	fixture_run(fixture);
	assert_int_equal(double_followed(), 3);
	assert_int_equal(double_held(), 1);
	end(fixture);
	/* The device cannot. */
	double_follows(true);
	post_wait(fixture, B, A, post_launch(fixture, A, function, 0));
	post_launch(fixture, B, function, 0);
	fixture_run(fixture);
	assert_int_equal(double_held(), 1);
	end(fixture);
	assert_int_equal(completed(fixture, B), fixture->values[B]);
	assert_int_equal(completed(fixture, C), fixture->values[C]);
}

/* It would take the place of what could run meanwhile. */
static void nothing_follows_what_is_long(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = begin(fixture, 500000);

	post_wait(fixture, B, A, post_launch(fixture, A, function, 0));
	post_launch(fixture, B, function, 0);
	fixture_run(fixture);
	assert_int_equal(double_held(), 1);
	end(fixture);
}

static void a_fault_is_the_error_of_what_follows(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = begin(fixture, 1000);

	post_wait(fixture, B, A, post_launch(fixture, A, function, 0));
	post_wait(fixture, C, A, 1);
	post_launch(fixture, B, function, 0);
	fixture_run(fixture);
	assert_int_equal(double_followed(), 2);
	double_release(1, -GDEV_E_TRAP);
	fixture_run(fixture);
	assert_int_equal(session_error(fixture), -GDEV_E_TRAP);
	assert_int_equal(stream_error(fixture, C), -GDEV_E_TRAP);
	double_release(1, -GDEV_E_SESSION_LOST);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, B), 2);
	assert_int_equal(stream_error(fixture, B), -GDEV_E_SESSION_LOST);
}

/* It is over, although the device has not said so. */
static void an_abandoned_device_leaves_nothing_waiting(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = begin(fixture, 1000);

	post_wait(fixture, B, A, post_launch(fixture, A, function, 0));
	post_wait(fixture, B, A, 1);
	post_launch(fixture, B, function, 0);
	fixture_run(fixture);
	assert_int_equal(double_followed(), 2);
	core_lock(fixture->core);
	core_abandon(fixture->core, -GDEV_E_DEVICE_LOST);
	core_unlock(fixture->core);
	assert_int_equal(completed(fixture, B), 3);
	assert_int_equal(session_error(fixture), -GDEV_E_DEVICE_LOST);
	end(fixture);
}

/* The turn would last as long as that wait. */
static void nothing_waits_on_a_device_that_others_want(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function;

	double_follows(false);
	make_stream(fixture, A);
	make_stream(fixture, B);
	function = get_paid_function(fixture);
	double_busy_ns(1000);
	post_first_launch(fixture, A, function);
	fixture_run(fixture);
	double_hold(true);
	post_wait(fixture, B, A, post_launch(fixture, A, function, 0));
	post_launch(fixture, B, function, 0);
	fixture_run(fixture);
	assert_int_equal(double_held(), 2);
	end(fixture);
	take_back(fixture, RESOURCE_COMPUTE, REVOKE_WHEN_IDLE);
	post_wait(fixture, B, A, post_launch(fixture, A, function, 0));
	post_launch(fixture, B, function, 0);
	fixture_run(fixture);
	assert_int_equal(double_held(), 1);
	assert_int_equal(double_followed(), 1);
	end(fixture);
	assert_int_equal(completed(fixture, B), fixture->values[B]);
}

int main(void)
{
#define ALONE(test) cmocka_unit_test_setup_teardown(test, setup_alone, teardown)
	const struct CMUnitTest tests[] = {
		ALONE(a_wait_for_what_is_on_the_device_is_the_devices),
		ALONE(what_follows_is_not_complete_before_what_it_follows),
		ALONE(the_time_until_it_could_begin_is_not_its_own),
		ALONE(other_waits_are_the_workers),
		ALONE(nothing_follows_what_is_long),
		ALONE(a_fault_is_the_error_of_what_follows),
		ALONE(an_abandoned_device_leaves_nothing_waiting),
		cmocka_unit_test_setup_teardown(
			nothing_waits_on_a_device_that_others_want, setup_with_gdevd, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
