/* SPDX-License-Identifier: MIT
 *
 * The context of an idle session is given back, and had again for the next command (docs/memory.md, rule 13).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/clock.h"
#include "harness.h"

#define CONTEXT (64 * MIB)

enum { A = 40 };

static void order(struct fixture *fixture, uint32_t flags)
{
	struct control_evict message = {
		.header = {sizeof message, CONTROL_EVICT, CONTROL_VERSION, 9, 0},
		.bytes = flags & EVICT_RESUME ? 0 : CONTEXT + 8 * MIB,
		.swapped = flags & EVICT_RESUME ? 0 : 8 * MIB,
		.flags = flags,
	};

	tell(fixture, &message, NULL, 0);
	fixture_run(fixture);
}

static void expect_evicted(struct fixture *fixture, bool retired)
{
	struct control_evicted message;

	expect_message(fixture, CONTROL_EVICTED, &message, sizeof message, NULL, NULL);
	assert_int_equal(message.header.status, 0);
	assert_int_equal(message.retired, retired);
}

/* A session with an object of 8 MiB, whose first piece has been written. */
static int with_object(void **state)
{
	struct record_memory record = {{.opcode = RECORD_MEMORY_ALLOC}, TEST_DEVICE, 8 * MIB};
	struct control_allocate wish;
	struct fixture *fixture;

	double_context = (struct double_context){.bytes = CONTEXT};
	setup_with_gdevd(state);
	fixture = *state;
	make_stream(fixture, A);
	post(fixture, &record);
	fixture_run(fixture);
	wish = expect_allocate(fixture, 8 * MIB);
	answer_allocate(fixture, &wish, 0);
	post_write(fixture, A, TEST_DEVICE, "abcdefgh", 8, 0);
	fixture_run(fixture);
	acquire(fixture, RESOURCE_COPY_TO_DEVICE);
	grant(fixture, RESOURCE_COPY_FROM_DEVICE);
	return 0;
}

static int end(void **state)
{
	int result = teardown(state);

	double_context = (struct double_context){0};
	return result;
}

static uint32_t context_of(struct fixture *fixture)
{
	return fixture->core->page->context;
}

/* Lets it be given back, whatever is said meanwhile. */
static void give_back(struct fixture *fixture)
{
	order(fixture, EVICT_RETIRE);
	grant(fixture, RESOURCE_COPY_FROM_DEVICE); /* for what was written */
	fixture_run(fixture);
	drain(fixture);
	assert_int_equal(context_of(fixture), WORKER_CONTEXT_RETIRED);
	assert_true(double_context.retired);
}

static struct control_room expect_wish(struct fixture *fixture)
{
	struct control_room wish = expect_room(fixture, CONTEXT);

	assert_int_equal(wish.purpose, ROOM_FOR_CONTEXT);
	assert_int_equal(context_of(fixture), WORKER_CONTEXT_WANTED);
	return wish;
}

/* What was written waits for the copy engine; the rest is gone. */
static void begin_to_leave(struct fixture *fixture)
{

	order(fixture, EVICT_RETIRE);
	expect_acquire(fixture, RESOURCE_COPY_FROM_DEVICE);
	for (int i = 0; i < 3; i++)
		expect_return(fixture, 2 * MIB, 0);
}

static void it_leaves_behind_the_objects_and_is_paid_back(void **state)
{
	struct fixture *fixture = *state;

	begin_to_leave(fixture);
	assert_int_equal(context_of(fixture), WORKER_CONTEXT_OPEN);
	grant(fixture, RESOURCE_COPY_FROM_DEVICE);
	fixture_run(fixture);
	expect_return(fixture, 2 * MIB, 0);
	expect_return(fixture, CONTEXT, 0);
	expect_evicted(fixture, true);
	assert_true(double_context.retired);
	assert_int_equal(double_chunks, 0);
	assert_int_equal(fixture->core->page->retirements, 1);
	assert_int_equal(fixture->core->memory.charged_bytes, 0);
	expect_no_message(fixture);
}

static void the_next_record_has_it_made_again(void **state)
{
	struct fixture *fixture = *state;
	struct control_room wish;
	uint64_t value;

	give_back(fixture);
	value = post_copy(fixture, A, TEST_BASE, TEST_DEVICE, 8);
	fixture_run(fixture);
	wish = expect_wish(fixture);
	assert_true(completed(fixture, A) < value);
	expect_no_message(fixture); /* it asks once */
	answer_room(fixture, &wish, 0, 0);
	assert_int_equal(context_of(fixture), WORKER_CONTEXT_OPEN);
	assert_false(double_context.retired);
	assert_int_equal(completed(fixture, A), value); /* from host swap */
	assert_memory_equal((void *)TEST_BASE, "abcdefgh", 8);
}

static void a_record_that_comes_meanwhile_calls_it_off(void **state)
{
	struct fixture *fixture = *state;

	begin_to_leave(fixture);
	make_stream(fixture, A + 1);
	grant(fixture, RESOURCE_COPY_FROM_DEVICE);
	fixture_run(fixture);
	expect_return(fixture, 2 * MIB, 0);
	expect_evicted(fixture, false);
	assert_false(double_context.retired);
	assert_int_equal(context_of(fixture), WORKER_CONTEXT_OPEN);
}

/* Nothing has left: nothing of the swap space is needed. */
static void expect_kept(struct fixture *fixture)
{
	expect_return(fixture, 0, 8 * MIB);
	expect_evicted(fixture, false);
}

static void who_is_busy_keeps_it_and_its_objects(void **state)
{
	struct fixture *fixture = *state;

	double_hold(true);
	post_write(fixture, A, TEST_DEVICE, "abcdefgh", 8, 0);
	fixture_run(fixture);
	assert_int_equal(double_held(), 1);
	order(fixture, EVICT_RETIRE);
	expect_kept(fixture);
	assert_int_equal(double_chunks, 4);
	assert_int_equal(fixture->core->page->kept_by, KEPT_BY_NOTHING);
}

static void what_keeps_it_is_said_and_nothing_moves(void **state)
{
	struct fixture *fixture = *state;

	double_context.keeper = KEPT_BY_HEAP;
	order(fixture, EVICT_RETIRE);
	expect_kept(fixture);
	assert_int_equal(fixture->core->page->kept_by, KEPT_BY_HEAP);
	double_context.keeper = KEPT_BY_NOTHING;
	memory_find(fixture->core, TEST_DEVICE, 1)->mapped = true;
	order(fixture, EVICT_RETIRE);
	expect_kept(fixture);
	assert_int_equal(fixture->core->page->kept_by, KEPT_BY_MAPPING);
	assert_int_equal(double_chunks, 4);
	assert_false(double_context.retired);
}

static void a_device_that_cannot_give_it_back_goes_on(void **state)
{
	struct fixture *fixture = *state;

	double_context.error = -EIO;
	order(fixture, EVICT_RETIRE);
	grant(fixture, RESOURCE_COPY_FROM_DEVICE);
	fixture_run(fixture);
	assert_int_equal(context_of(fixture), WORKER_CONTEXT_OPEN);
	drain(fixture);
	make_stream(fixture, A + 1);
	assert_int_equal(fixture->ended, 0);
}

static void without_memory_it_is_tried_again(void **state)
{
	struct fixture *fixture = *state;
	struct control_room wish;

	give_back(fixture);
	post_copy(fixture, A, TEST_BASE, TEST_DEVICE, 8);
	fixture_run(fixture);
	wish = expect_wish(fixture);
	double_context.error = -ENOMEM;
	answer_room(fixture, &wish, 0, 0);
	expect_return(fixture, CONTEXT, 0);
	expect_no_message(fixture);
	double_context.error = 0;
	for (int i = 0; i < 100 && context_of(fixture) == WORKER_CONTEXT_RETIRED; i++) {
		fixture_pass(10 * NS_PER_MS);
		fixture_tick(fixture);
	}
	wish = expect_wish(fixture);
	answer_room(fixture, &wish, 0, 0);
	assert_int_equal(context_of(fixture), WORKER_CONTEXT_OPEN);
}

static void what_cannot_be_made_again_ends_the_session(void **state)
{
	struct fixture *fixture = *state;
	struct control_room wish;

	give_back(fixture);
	post_copy(fixture, A, TEST_BASE, TEST_DEVICE, 8);
	fixture_run(fixture);
	wish = expect_wish(fixture);
	double_context.error = -EIO;
	answer_room(fixture, &wish, 0, 0);
	assert_int_equal(fixture->ended, 1);
	assert_int_equal(fixture->reason, -EIO);
	assert_int_equal(context_of(fixture), WORKER_CONTEXT_LOST);
	double_context.error = 0;
}

static void gdevd_that_goes_does_not_keep_it_away(void **state)
{
	struct fixture *fixture = *state;
	uint64_t value;

	give_back(fixture);
	value = post_copy(fixture, A, TEST_BASE, TEST_DEVICE, 8);
	fixture_run(fixture);
	expect_wish(fixture);
	close(fixture->gdevd);
	fixture->gdevd = -1;
	fixture_run(fixture);
	assert_int_equal(context_of(fixture), WORKER_CONTEXT_OPEN);
	assert_int_equal(completed(fixture, A), value);
	assert_int_equal(context_held_bytes(fixture->core), CONTEXT); /* which the next is told */
}

static void the_client_s_end_needs_none(void **state)
{
	struct fixture *fixture = *state;

	give_back(fixture);
	close(fixture->peer);
	fixture->peer = -1;
	fixture_run(fixture);
	assert_int_equal(fixture->ended, 1);
	assert_int_equal(fixture->reason, 0);
	assert_true(double_context.retired);
}

static void memory_that_the_client_adds_waits_for_it(void **state)
{
	struct fixture *fixture = *state;
	int fd = fd_shared_memory("test", 4096);
	struct peer_message message = {
		.type = PEER_HOST_ADD,
		.serial = 3,
		.address = TEST_DEVICE + 64 * MIB,
		.bytes = 4096,
	};
	struct control_room wish;

	give_back(fixture);
	assert_int_equal(fd_send(fixture->peer, &message, sizeof message, &fd, 1), 0);
	fixture_run(fixture);
	wish = expect_wish(fixture);
	assert_true(recv(fixture->peer, &message, sizeof message, MSG_DONTWAIT) < 0);
	answer_room(fixture, &wish, 0, 0);
	assert_int_equal(
		recv(fixture->peer, &message, sizeof message, MSG_DONTWAIT), sizeof message);
	assert_int_equal(message.serial, 3);
	assert_int_equal(message.status, 0);
	close(fd);
}

static void a_suspended_session_has_none_until_it_is_resumed(void **state)
{
	struct fixture *fixture = *state;
	struct control_room wish;
	uint64_t value;

	order(fixture, EVICT_SUSPEND | EVICT_RETIRE);
	grant(fixture, RESOURCE_COPY_FROM_DEVICE);
	fixture_run(fixture);
	drain(fixture);
	assert_true(double_context.retired);
	value = post_copy(fixture, A, TEST_BASE, TEST_DEVICE, 8);
	fixture_run(fixture);
	expect_no_message(fixture);
	order(fixture, EVICT_RESUME);
	wish = expect_wish(fixture);
	expect_evicted(fixture, false);
	answer_room(fixture, &wish, 0, 0);
	assert_int_equal(completed(fixture, A), value);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, with_object, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(it_leaves_behind_the_objects_and_is_paid_back),
		TEST(the_next_record_has_it_made_again),
		TEST(a_record_that_comes_meanwhile_calls_it_off),
		TEST(who_is_busy_keeps_it_and_its_objects),
		TEST(what_keeps_it_is_said_and_nothing_moves),
		TEST(a_device_that_cannot_give_it_back_goes_on),
		TEST(without_memory_it_is_tried_again),
		TEST(what_cannot_be_made_again_ends_the_session),
		TEST(gdevd_that_goes_does_not_keep_it_away),
		TEST(the_client_s_end_needs_none),
		TEST(memory_that_the_client_adds_waits_for_it),
		TEST(a_suspended_session_has_none_until_it_is_resumed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
