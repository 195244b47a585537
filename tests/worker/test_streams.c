/* SPDX-License-Identifier: MIT
 *
 * Streams: order, waits, fences, stamps, the window, and what errors do.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness.h"

enum { A = 40, B = 41, C = 42 };

static void commands_of_a_stream_complete_in_order(void **state)
{
	struct fixture *fixture = *state;
	uint8_t out[4] = {0};

	make_stream(fixture, A);
	assert_int_equal(alloc(fixture, TEST_DEVICE, 2 * MIB), 0);
	post_write(fixture, A, TEST_DEVICE, "abcd", 4, 0);
	post_write(fixture, A, TEST_DEVICE + 1, "xy", 2, 0);
	post_copy(fixture, A, TEST_BASE, TEST_DEVICE, 4);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, A), 3);
	memcpy(out, (void *)TEST_BASE, 4);
	assert_memory_equal(out, "axyd", 4);
	assert_int_equal(fixture->segment->timelines[A].device_ns, 300);
}

static void a_timeline_counts_in_order_whatever_the_device_does(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = make_function(fixture);
	struct record_stamp stamp = {{.opcode = RECORD_STAMP, .timeline = A}, .stamp = 3};

	make_stream(fixture, A);
	double_hold(true);
	post_launch(fixture, A, function, 0);
	post(fixture, &stamp); /* needs no device, and completes after the launch all the same */
	fixture_run(fixture);
	assert_int_equal(completed(fixture, A), 0);
	double_release(1, 0);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, A), 2);
}

static void a_stamp_is_when_the_command_before_it_ended(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = make_function(fixture);
	struct record_stamp stamp = {{.opcode = RECORD_STAMP, .timeline = A}, .stamp = 3};
	uint64_t finished;

	make_stream(fixture, A);
	double_hold(true);
	post_launch(fixture, A, function, 0);
	post(fixture, &stamp);
	fixture_run(fixture);
	double_release(1, 0);
	fixture_run(fixture);
	finished = fixture->segment->stamps[3];
	assert_true(finished > 0 && finished < 1000000000); /* of the double's clock */
	stamp = (struct record_stamp){
		{.opcode = RECORD_STAMP, .timeline = A}, .stamp = SESSION_STAMPS};
	post(fixture, &stamp);
	fixture_run(fixture);
	assert_int_equal(stream_error(fixture, A), -EINVAL);
}

static void a_wait_holds_its_stream_and_no_other(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = make_function(fixture);
	uint64_t value;

	make_stream(fixture, A);
	make_stream(fixture, B);
	make_stream(fixture, C);
	double_hold(true);
	value = post_launch(fixture, A, function, 0);
	post_wait(fixture, B, A, value);
	post_launch(fixture, B, function, 0);
	post_launch(fixture, C, function, 0);
	fixture_run(fixture);
	assert_int_equal(double_held(), 2); /* of A and of C */
	double_release(1, 0);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, A), 1);
	assert_int_equal(completed(fixture, B), 1);
	assert_int_equal(double_held(), 2); /* of C and now of B */
	double_release(2, 0);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, B), 2);
	assert_int_equal(completed(fixture, C), 1);
}

static void a_wait_for_what_is_done_is_over(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = make_function(fixture);

	make_stream(fixture, A);
	make_stream(fixture, B);
	post_wait(fixture, B, A, post_launch(fixture, A, function, 0));
	post_wait(fixture, B, A, 0);
	post_wait(fixture, B, SESSION_TIMELINES, 1);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, B), 3);
	assert_int_equal(stream_error(fixture, B), -EINVAL);
	assert_int_equal(session_error(fixture), 0);
}

static void a_host_function_releases_its_stream(void **state)
{
	struct fixture *fixture = *state;
	uint64_t one = 1;

	make_stream(fixture, A);
	post_wait(fixture, A, 0, 1);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, A), 0);
	__atomic_store_n(&fixture->segment->header.host_completed, 1, __ATOMIC_RELEASE);
	assert_int_equal(write(fixture->core->wake_fd, &one, sizeof one), sizeof one);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, A), 1);
}

static void what_follows_a_fence_waits_for_it_on_every_stream(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = make_function(fixture);

	make_stream(fixture, A);
	make_stream(fixture, B);
	assert_int_equal(alloc(fixture, TEST_DEVICE, 2 * MIB), 0);
	double_hold(true);
	post_launch(fixture, B, function, 0); /* before the fence: free */
	post_write(fixture, A, TEST_DEVICE, "abcd", 4, RECORD_FENCE);
	post_launch(fixture, A, function, 0); /* its own stream orders it */
	post_launch(fixture, B, function, 0);
	fixture_run(fixture);
	assert_int_equal(double_held(), 3);
	double_release(1, 0);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, B), 1);
	assert_int_equal(double_held(), 2); /* the write, the launch of A */
	double_release(1, 0);
	fixture_run(fixture);
	assert_int_equal(double_held(), 2); /* the launches of A and B */
	double_release(2, 0);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, A), 2);
	assert_int_equal(completed(fixture, B), 2);
}

static void fences_complete_in_any_order(void **state)
{
	struct fixture *fixture = *state;

	make_stream(fixture, A);
	make_stream(fixture, B);
	make_stream(fixture, C);
	assert_int_equal(alloc(fixture, TEST_DEVICE, 2 * MIB), 0);
	post_wait(fixture, A, 0, 1);
	post_write(fixture, A, TEST_DEVICE, "abcd", 4, RECORD_FENCE);
	post_write(fixture, B, TEST_DEVICE, "efgh", 4, RECORD_FENCE); /* behind the first */
	post_write(fixture, C, TEST_DEVICE, "ijkl", 4, 0);            /* behind both */
	fixture_run(fixture);
	assert_int_equal(completed(fixture, B), 0);
	assert_int_equal(completed(fixture, C), 0);
	__atomic_store_n(&fixture->segment->header.host_completed, 1, __ATOMIC_RELEASE);
	core_lock(fixture->core);
	streams_host_progress(fixture->core);
	core_unlock(fixture->core);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, A), 2);
	assert_int_equal(completed(fixture, B), 1);
	assert_int_equal(completed(fixture, C), 1);
}

static void the_window_is_two_commands_or_a_millisecond(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = make_function(fixture);

	make_stream(fixture, A);
	double_hold(true);
	for (int i = 0; i < 20; i++)
		post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	assert_int_equal(double_held(), 2); /* nothing is known of the function */
	double_busy_ns(200 * 1000);
	double_release(1, 0);
	fixture_run(fixture);
	/* One of them was submitted as if it took the whole window. */
	assert_int_equal(double_held(), 2);
	double_release(1, 0);
	fixture_run(fixture);
	assert_int_equal(double_held(), 5); /* 5 x 200 us */
	double_busy_ns(10 * 1000 * 1000);
	double_release(5, 0);
	fixture_run(fixture);
	double_release(double_held(), 0);
	fixture_run(fixture);
	assert_int_equal(double_held(), 2);
}

static void launches_of_many_blocks_are_not_taken_for_as_short_as_those_of_few(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = make_function(fixture);

	make_stream(fixture, A);
	double_hold(true);
	double_busy_ns(1000);
	post_launch_of(fixture, A, function, 1, 0);
	fixture_run(fixture);
	double_release(1, 0);
	fixture_run(fixture);
	for (int i = 0; i < 20; i++)
		post_launch_of(fixture, A, function, 1000, 0);
	fixture_run(fixture);
	assert_int_equal(double_held(), 2);
	double_busy_ns(200 * 1000);
	double_release(2, 0);
	fixture_run(fixture);
	assert_int_equal(double_held(), 5); /* 5 x 200 us */
	/* The short ones are as they were. */
	for (int i = 0; i < 20; i++)
		post_launch_of(fixture, A, function, 1, 0);
	while (double_held() && double_held() < 20) {
		double_release(1, 0);
		fixture_run(fixture);
	}
	assert_true(double_held() >= 20);
}

static uint64_t compute_due_ns(struct fixture *fixture)
{
	uint64_t due_ns;

	core_lock(fixture->core);
	due_ns = grant_due_ns(fixture->core, RESOURCE_COMPUTE);
	core_unlock(fixture->core);
	return due_ns;
}

static void what_is_on_the_device_is_expected_to_take_what_it_took(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = make_function(fixture);
	uint64_t began_ns;

	make_stream(fixture, A);
	double_together();
	double_hold(true);
	double_busy_ns(3 * NS_PER_MS);
	assert_int_equal(compute_due_ns(fixture), 0);
	post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	double_release(1, 0);
	fixture_run(fixture);
	assert_int_equal(compute_due_ns(fixture), 0);
	post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	began_ns = double_oldest()->started_ns;
	assert_int_equal(compute_due_ns(fixture), began_ns + 3 * NS_PER_MS);
	post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	assert_int_equal(double_held(), 2);
	assert_int_equal(compute_due_ns(fixture), began_ns + 6 * NS_PER_MS);
	double_release(1, 0); /* the other was issued at the same time, and begins now */
	assert_int_equal(compute_due_ns(fixture), began_ns + 6 * NS_PER_MS);
	double_release(1, 0);
	fixture_run(fixture);
	assert_int_equal(compute_due_ns(fixture), 0);
}

/* How many launches of a kernel of `busy_ns` go to the device at once. */
static unsigned admitted(
	struct fixture *fixture, uint32_t function, uint64_t busy_ns, uint8_t flags)
{
	unsigned count;

	double_hold(true);
	double_busy_ns(busy_ns);
	post_launch(fixture, A, function, 0); /* from which it is known */
	fixture_run(fixture);
	double_release(1, 0);
	fixture_run(fixture);
	for (int i = 0; i < 64; i++)
		post_launch(fixture, A, function, flags);
	fixture_run(fixture);
	count = double_held();
	while (double_held()) {
		double_release(double_held(), 0);
		fixture_run(fixture);
	}
	return count;
}

static void a_row_of_short_launches_may_take_two_windows(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = make_function(fixture);

	make_stream(fixture, A);
	assert_int_equal(admitted(fixture, function, 40 * 1000, 0), 25);
	assert_int_equal(admitted(fixture, function, 40 * 1000, RECORD_MORE), 50);
	assert_int_equal(admitted(fixture, function, 100 * 1000, RECORD_MORE), 10);
}

static void what_stands_behind_its_own_stream_keeps_no_other_out(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = make_function(fixture);

	make_stream(fixture, A);
	make_stream(fixture, B);
	make_stream(fixture, C);
	double_hold(true);
	double_busy_ns(10 * 1000 * 1000);
	for (int i = 0; i < 4; i++)
		post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	assert_int_equal(double_held(), 2);
	post_launch(fixture, B, function, 0); /* A waits, and comes before it */
	post_launch(fixture, B, function, 0);
	post_launch(fixture, C, function, 0);
	fixture_run(fixture);
	assert_int_equal(double_held(), 3); /* A, A, B */
	double_release(1, 0);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, A), 1);
	assert_int_equal(double_held(), 2); /* A, B */
	double_release(1, 0);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, A), 2);
	while (double_held()) {
		double_release(1, 0);
		fixture_run(fixture);
		assert_true(double_held() <= 3);
	}
	assert_int_equal(completed(fixture, A), 4);
	assert_int_equal(completed(fixture, B), 2);
	assert_int_equal(completed(fixture, C), 1);
}

static void launches_do_not_take_the_window_of_copies(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = make_function(fixture);

	make_stream(fixture, A);
	make_stream(fixture, B);
	make_stream(fixture, C);
	assert_int_equal(alloc(fixture, TEST_DEVICE, 2 * MIB), 0);
	double_hold(true);
	for (int i = 0; i < 5; i++)
		post_launch(fixture, A, function, 0);
	post_copy(fixture, B, TEST_DEVICE, TEST_BASE, 64);
	post_copy(fixture, C, TEST_BASE, TEST_DEVICE, 64);
	fixture_run(fixture);
	assert_int_equal(double_held(), 4);
}

static void streams_share_the_window_in_turn(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = make_function(fixture);

	make_stream(fixture, A);
	make_stream(fixture, B);
	double_hold(true);
	double_busy_ns(10 * 1000 * 1000);
	for (int i = 0; i < 10; i++)
		post_launch(fixture, A, function, 0);
	for (int i = 0; i < 10; i++)
		post_launch(fixture, B, function, 0);
	fixture_run(fixture);
	for (int i = 0; i < 10; i++) {
		double_release(1, 0);
		fixture_run(fixture);
	}
	assert_true(completed(fixture, A) >= 4 && completed(fixture, B) >= 4);
}

/* Nobody else wants the engine of this device, which says how long a piece of a copy through it is. */
static void a_copy_within_a_gpu_is_one_while_nobody_else_wants_it(void **state)
{
	struct fixture *fixture = *state;
	static struct device_ops ops;
	const struct device_ops *whole[] = {fixture->core->ops, &ops};
	struct record_copy record = {
		.header = {.opcode = RECORD_COPY, .timeline = A},
		.destination = TEST_DEVICE + 96 * MIB,
		.source = TEST_DEVICE,
		.width = 96 * MIB,
		.height = 1,
		.depth = 1,
		.destination_pitch = 96 * MIB,
		.source_pitch = 96 * MIB,
		.destination_slice = 96 * MIB,
		.source_slice = 96 * MIB,
	};

	ops = *fixture->core->ops;
	ops.piece_bytes = 32 * MIB;
	make_stream(fixture, A);
	assert_int_equal(alloc(fixture, TEST_DEVICE, 192 * MIB), 0);
	double_hold(true);
	for (int gpu = 0; gpu < 2; gpu++) {
		fixture->core->ops = whole[gpu];
		record.header.value = 0; /* the next */
		post(fixture, &record);
		fixture_run(fixture);
		assert_int_equal(double_held(), 1);
		assert_int_equal(double_oldest()->copy.width, (gpu ? 96 : 64) * MIB);
		while (double_held()) {
			double_release(1, 0);
			fixture_run(fixture);
		}
	}
	fixture->core->ops = whole[0];
}

static void long_copies_go_in_pieces(void **state)
{
	struct fixture *fixture = *state;
	const uint64_t bytes = 10 * MIB;

	make_stream(fixture, A);
	assert_int_equal(alloc(fixture, TEST_DEVICE, 16 * MIB), 0);
	assert_int_equal(alloc(fixture, TEST_DEVICE + 16 * MIB, 16 * MIB), 0);
	memset((void *)TEST_BASE, 0x5a, TEST_STAGING);
	for (uint64_t at = 0; at < bytes; at += 2 * MIB)
		post_copy(fixture, A, TEST_DEVICE + at, TEST_BASE, 2 * MIB);
	fixture_run(fixture);
	double_hold(true);
	struct record_copy record = {
		.header = {.opcode = RECORD_COPY, .timeline = A},
		.destination = TEST_BASE,
		.source = TEST_DEVICE,
		.width = 3000,
		.height = 1000,
		.depth = 3,
		.destination_pitch = 3000,
		.source_pitch = 3000,
		.destination_slice = 3000 * 1000,
		.source_slice = 3000 * 1000,
	};

	post(fixture, &record);
	post_write(fixture, A, TEST_DEVICE, "z", 1, 0);
	for (unsigned piece = 1; piece <= 3; piece++) {
		fixture_run(fixture);
		/* One piece at a time, and nothing passes it but behind the last one. */
		assert_int_equal(double_held(), piece < 3 ? 1 : 2);
		assert_int_equal(double_oldest()->copy.width * double_oldest()->copy.height *
					 double_oldest()->copy.depth,
			3000 * 1000);
		double_release(1, 0);
	}
	double_hold(false);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, A), fixture->values[A]);
	assert_int_equal(((uint8_t *)TEST_BASE)[2999999], 0x5a);
	assert_int_equal(((uint8_t *)TEST_DEVICE)[0], 'z');
	assert_int_equal(session_error(fixture), 0);
}

static void touching_what_is_not_there_breaks_the_session(void **state)
{
	struct fixture *fixture = *state;

	make_stream(fixture, A);
	assert_int_equal(alloc(fixture, TEST_DEVICE, 2 * MIB), 0);
	post_copy(fixture, A, TEST_DEVICE, TEST_BASE, 64);
	post_copy(fixture, A, TEST_DEVICE + 2 * MIB - 32, TEST_BASE, 64);
	post_copy(fixture, A, TEST_DEVICE, TEST_BASE, 64);
	fixture_run(fixture);
	assert_int_equal(session_error(fixture), -GDEV_E_ILLEGAL_ADDRESS);
	assert_int_equal(fixture->segment->header.fault_address, TEST_DEVICE + 2 * MIB - 32);
	assert_int_equal(completed(fixture, A), 3); /* nobody hangs */
	assert_int_equal(stream_error(fixture, A), -GDEV_E_ILLEGAL_ADDRESS);
	assert_int_equal(double_submitted(), 1);
}

static void copies_stay_within_one_object(void **state)
{
	static const struct {
		int64_t destination;
		uint64_t bytes;
		bool good;
	} cases[] = {
		{0, 2 * MIB, true},
		{0, 2 * MIB + 1, false},
		{-1, 1, true}, /* the end of the staging memory */
		{-1, 2, false},
		{2 * MIB, 1, true}, /* the next object */
		{4 * MIB - 1, 1, true},
		{4 * MIB, 1, false},
		{-(int64_t)TEST_STAGING - 1, 1, false},
		{TEST_BYTES, 1, false},
		{0, UINT64_MAX, false},
		{0, 0, true},
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct fixture *fixture = *state;
		make_stream(fixture, A);
		assert_int_equal(alloc(fixture, TEST_DEVICE, 2 * MIB), 0);
		assert_int_equal(alloc(fixture, TEST_DEVICE + 2 * MIB, 2 * MIB), 0);
		struct record_fill fill = {
			.header = {.opcode = RECORD_FILL, .timeline = A},
			.destination = TEST_DEVICE + (uint64_t)cases[i].destination,
			.width = cases[i].bytes,
			.height = 1,
			.element_bytes = 1,
		};
		post(fixture, &fill);
		fixture_run(fixture);
		assert_int_equal(
			session_error(fixture), cases[i].good ? 0 : -GDEV_E_ILLEGAL_ADDRESS);
		fixture_stop(fixture);
		fixture_start(fixture, false);
	}
}

static void a_fault_on_the_device_is_sticky(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = make_function(fixture);
	struct record_memory record = {{.opcode = RECORD_MEMORY_ALLOC}, TEST_DEVICE, 2 * MIB};
	struct record_query query = {{.opcode = RECORD_QUERY}, .type = QUERY_USAGE};

	make_stream(fixture, A);
	make_stream(fixture, B);
	double_hold(true);
	post_launch(fixture, A, function, 0);
	post_launch(fixture, A, function, 0);
	post_wait(fixture, B, 0, 99); /* never ends by itself */
	post_launch(fixture, B, function, 0);
	fixture_run(fixture);
	double_release(1, -GDEV_E_TRAP);
	fixture_run(fixture);
	assert_int_equal(session_error(fixture), -GDEV_E_TRAP);
	assert_int_equal(fixture->segment->header.fault_address, 0xdead);
	double_release(1, -GDEV_E_SESSION_LOST);
	fixture_run(fixture);
	assert_int_equal(session_error(fixture), -GDEV_E_TRAP); /* the first one stays */
	assert_int_equal(completed(fixture, A), 2);
	assert_int_equal(completed(fixture, B), 2);
	assert_int_equal(ask_plain(fixture, &record), -GDEV_E_TRAP);
	assert_int_equal(ask_plain(fixture, &query), 0);
	assert_int_equal(fixture->ended, 0);
}

static void an_error_of_one_command_harms_no_other(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = make_function(fixture);

	make_stream(fixture, A);
	make_stream(fixture, B);
	double_hold(true);
	post_launch(fixture, A, function, 0);
	post_launch(fixture, A, function, 0);
	post_launch(fixture, B, function, 0);
	fixture_run(fixture);
	double_release(1, -GDEV_E_INVALID_LAUNCH);
	fixture_run(fixture);
	double_hold(false);
	fixture_run(fixture);
	assert_int_equal(stream_error(fixture, A), -GDEV_E_INVALID_LAUNCH);
	assert_int_equal(stream_error(fixture, B), 0);
	assert_int_equal(session_error(fixture), 0);
	assert_int_equal(completed(fixture, A), 2);
	assert_int_equal(completed(fixture, B), 1);
}

static void bad_records_of_a_stream_fail_in_their_place(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = make_function(fixture);
	struct record_launch few = {
		.header = {.opcode = RECORD_LAUNCH, .timeline = B},
		.function = function,
		.grid = {1, 1, 1},
		.block = {1, 1, 1},
		.param_bytes = 8,
	};
	uint64_t param = 0;

	make_stream(fixture, A);
	make_stream(fixture, B);
	double_hold(true);
	post_launch(fixture, A, function, 0);
	post_launch(fixture, A, function + 1, 0); /* no such function */
	fixture_run(fixture);
	assert_int_equal(stream_error(fixture, A), 0);
	double_release(1, 0);
	fixture_run(fixture);
	assert_int_equal(stream_error(fixture, A), -GDEV_E_INVALID_HANDLE);
	assert_int_equal(completed(fixture, A), 2);
	post_raw(fixture, &few, sizeof few, &param, sizeof param);
	fixture_run(fixture);
	assert_int_equal(stream_error(fixture, B), -GDEV_E_INVALID_LAUNCH);
	/* A stream that is not there. */
	post_launch(fixture, C, function, 0);
	fixture_run(fixture);
	assert_int_equal(stream_error(fixture, C), -GDEV_E_INVALID_HANDLE);
	assert_int_equal(completed(fixture, C), 1);
	assert_int_equal(session_error(fixture), 0);
}

static void a_destroyed_stream_finishes_its_work(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = make_function(fixture);
	struct record_stream record = {{.opcode = RECORD_STREAM_DESTROY}, .stream = A};
	struct record_stream again = {{.opcode = RECORD_STREAM_DESTROY}, .stream = A};

	make_stream(fixture, A);
	double_hold(true);
	post_launch(fixture, A, function, 0);
	assert_int_equal(ask_plain(fixture, &record), 0);
	assert_int_equal(ask_plain(fixture, &again), -GDEV_E_INVALID_HANDLE);
	make_stream(fixture, A); /* the place may be taken at once */
	post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	assert_int_equal(double_held(), 2);
	double_release(2, 0);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, A), 2);
	assert_int_equal(stream_error(fixture, A), 0);
}

static void a_waiter_is_woken_and_only_then(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = make_function(fixture);
	uint64_t count;

	make_stream(fixture, A);
	post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	assert_int_equal(read(fixture->core->client_fd, &count, sizeof count), -1);
	__atomic_store_n(&fixture->segment->timelines[A].want, 3, __ATOMIC_SEQ_CST);
	post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	assert_int_equal(read(fixture->core->client_fd, &count, sizeof count), -1);
	post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	assert_int_equal(read(fixture->core->client_fd, &count, sizeof count), sizeof count);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_alone, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(commands_of_a_stream_complete_in_order),
		TEST(a_timeline_counts_in_order_whatever_the_device_does),
		TEST(a_stamp_is_when_the_command_before_it_ended),
		TEST(a_wait_holds_its_stream_and_no_other),
		TEST(a_wait_for_what_is_done_is_over),
		TEST(a_host_function_releases_its_stream),
		TEST(what_follows_a_fence_waits_for_it_on_every_stream),
		TEST(fences_complete_in_any_order),
		TEST(the_window_is_two_commands_or_a_millisecond),
		TEST(launches_of_many_blocks_are_not_taken_for_as_short_as_those_of_few),
		TEST(what_is_on_the_device_is_expected_to_take_what_it_took),
		TEST(a_row_of_short_launches_may_take_two_windows),
		TEST(what_stands_behind_its_own_stream_keeps_no_other_out),
		TEST(launches_do_not_take_the_window_of_copies),
		TEST(streams_share_the_window_in_turn),
		TEST(a_copy_within_a_gpu_is_one_while_nobody_else_wants_it),
		TEST(long_copies_go_in_pieces),
		TEST(touching_what_is_not_there_breaks_the_session),
		TEST(copies_stay_within_one_object),
		TEST(a_fault_on_the_device_is_sticky),
		TEST(an_error_of_one_command_harms_no_other),
		TEST(bad_records_of_a_stream_fail_in_their_place),
		TEST(a_destroyed_stream_finishes_its_work),
		TEST(a_waiter_is_woken_and_only_then),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
