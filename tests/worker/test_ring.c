/* SPDX-License-Identifier: MIT
 *
 * The ring: what is read from it, what is answered, and the lies that end a session.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "harness.h"
#include "proto/check.h"

enum { A = 40 };

static void publish_bytes(struct fixture *fixture, const void *bytes, size_t length)
{
	memcpy(fixture->segment->ring + fixture->tail % SESSION_RING_BYTES, bytes, length);
	fixture->tail += length;
	publish(fixture);
	fixture_run(fixture);
}

static void restart(struct fixture *fixture)
{
	fixture_stop(fixture);
	fixture_start(fixture, false);
}

static void a_ring_that_makes_no_sense_ends_the_session(void **state)
{
	static const uint32_t lengths[] = {
		0, 1, 7, 12, 16, 20, 4096, RECORD_BYTES_MAX + 8, UINT32_MAX, UINT32_MAX - 7};

	for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
		struct fixture *fixture = *state;
		struct record_stamp record = {
			.header = {.opcode = RECORD_STAMP, .length = lengths[i], .timeline = A}};
		publish_bytes(fixture, &record, sizeof record);
		assert_int_equal(fixture->ended, 1);
		assert_int_equal(fixture->reason, -GDEV_E_PROTOCOL);
		assert_int_equal(session_error(fixture), -GDEV_E_PROTOCOL);
		/* And is not looked at again. */
		publish_bytes(fixture, &record, sizeof record);
		assert_int_equal(fixture->ended, 1);
		restart(fixture);
	}
}

static void a_tail_that_lies_ends_the_session(void **state)
{
	static const uint64_t tails[] = {SESSION_RING_BYTES + 8, UINT64_MAX, 4, UINT64_MAX - 7};

	for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
		struct fixture *fixture = *state;
		fixture->tail = tails[i];
		publish(fixture);
		fixture_run(fixture);
		assert_int_equal(fixture->ended, 1);
		assert_int_equal(fixture->reason, -GDEV_E_PROTOCOL);
		restart(fixture);
	}
}

static void a_record_may_not_cross_the_end(void **state)
{
	struct fixture *fixture = *state;
	struct record_query query = {
		{.opcode = RECORD_QUERY, .length = sizeof query, .value = 1}, .type = QUERY_USAGE};

	/* Pads bring the head to 24 bytes before the end. */
	while (fixture->tail < SESSION_RING_BYTES - 24) {
		uint64_t left = SESSION_RING_BYTES - 24 - fixture->tail;
		struct record_header pad = {
			.opcode = RECORD_PAD, .length = left < 65536 ? (uint32_t)left : 65536};
		memcpy(fixture->segment->ring + fixture->tail, &pad, 8);
		fixture->tail += pad.length;
	}
	publish(fixture);
	fixture_run(fixture);
	assert_int_equal(fixture->ended, 0);
	memcpy(fixture->segment->ring + fixture->tail, &query, 24);
	fixture->tail += sizeof query;
	publish(fixture);
	fixture_run(fixture);
	assert_int_equal(fixture->ended, 1);
}

static void the_ring_goes_round(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = make_function(fixture);
	const unsigned many = 3 * SESSION_RING_BYTES / 80;

	make_stream(fixture, A);
	for (unsigned i = 0; i < many; i++) {
		post_launch(fixture, A, function, 0);
		fixture_run(fixture);
	}
	assert_int_equal(completed(fixture, A), many);
	assert_int_equal(fixture->segment->header.ring_head, fixture->tail);
	assert_int_equal(fixture->ended, 0);
}

static void a_pad_may_be_shorter_than_a_header(void **state)
{
	struct fixture *fixture = *state;
	struct record_header pad = {.opcode = RECORD_PAD, .length = 8};

	publish_bytes(fixture, &pad, 8);
	assert_int_equal(fixture->ended, 0);
	make_stream(fixture, A);
}

static void immediate_records_that_are_bad_are_answered(void **state)
{
	struct fixture *fixture = *state;
	struct record_memory bad = {
		.header = {.opcode = RECORD_MEMORY_ALLOC, .reserved = 1, .timeline = 0}};
	struct record_memory version = {.header = {.opcode = RECORD_MEMORY_ALLOC, .version = 1}};
	struct record_memory unknown = {.header = {.opcode = 90}};

	assert_int_equal(ask_plain(fixture, &bad), -EINVAL);
	assert_int_equal(ask_plain(fixture, &version), -ENOSYS);
	assert_int_equal(ask_plain(fixture, &unknown), -ENOSYS);
	assert_int_equal(session_error(fixture), 0);
}

/* Also one whose fields are all 0. An event's wait is asked of gdevd. */
static void each_record_is_answered(void **state)
{
	struct fixture *fixture = *state;
	unsigned count = 0;

	make_stream(fixture, A);
	for (uint16_t opcode = 1; opcode < RECORD_OPCODE_END; opcode++) {
		const struct record_type *type = record_type_find(opcode);
		uint64_t words[64] = {0};
		struct record_header *header = (void *)words;
		if (!type || opcode == RECORD_EVENT_WAIT)
			continue;
		count++;
		header->opcode = opcode;
		header->timeline = type->class == RECORD_CLASS_STREAM ? A : 0;
		post_raw(fixture, words, type->fixed_bytes, NULL, 0);
		fixture_run(fixture);
		assert_int_equal(completed(fixture, header->timeline), header->value);
	}
	assert_int_equal(fixture->ended, 0);
	assert_true(count > 25);
}

static void records_without_a_place_for_their_error_break_the_session(void **state)
{
	const struct record_header cases[] = {
		{.opcode = RECORD_STAMP, .timeline = SESSION_TIMELINES, .value = 1},
		{.opcode = RECORD_STAMP, .timeline = UINT32_MAX, .value = 1},
		{.opcode = RECORD_STAMP, .timeline = 3, .value = 1}, /* a reply slot */
		{.opcode = RECORD_QUERY, .timeline = SESSION_REPLIES, .value = 1},
		{.opcode = RECORD_QUERY, .timeline = 0, .value = 0},
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct fixture *fixture = *state;
		uint64_t words[5] = {0};
		struct record_header *header = (void *)words;
		*header = cases[i];
		header->length = header->opcode == RECORD_STAMP ? 32 : 40;
		publish_bytes(fixture, words, header->length);
		assert_int_equal(session_error(fixture), -GDEV_E_PROTOCOL);
		assert_int_equal(fixture->ended, 0);
		restart(fixture);
	}
}

static void values_of_a_timeline_grow(void **state)
{
	struct fixture *fixture = *state;
	struct record_wait wait = {
		.header = {.opcode = RECORD_WAIT, .timeline = A, .value = 5},
		.awaited = 1,
	};
	struct record_wait again = wait;

	make_stream(fixture, A);
	post(fixture, &wait);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, A), 5);
	post(fixture, &again);
	fixture_run(fixture);
	assert_int_equal(session_error(fixture), -GDEV_E_PROTOCOL);
}

static void the_ring_waits_while_too_much_is_pending(void **state)
{
	struct fixture *fixture = *state;
	static uint8_t bytes[32768];
	uint64_t posted = 0;

	make_stream(fixture, A);
	assert_int_equal(alloc(fixture, TEST_DEVICE, 2 * MIB), 0);
	post_wait(fixture, A, 0, 1);
	for (int i = 0; i < 4000; i++) {
		if (fixture->tail + 2 * sizeof bytes - fixture->segment->header.ring_head >
			SESSION_RING_BYTES)
			break;
		posted = post_write(fixture, A, TEST_DEVICE, bytes, sizeof bytes, 0);
		fixture_run(fixture);
	}
	assert_true(fixture->segment->header.ring_head < fixture->tail);
	assert_true(fixture->core->pending_bytes < PENDING_BYTES_MAX + MIB);
	assert_true(posted < 3000);
	__atomic_store_n(&fixture->segment->header.host_completed, 1, __ATOMIC_RELEASE);
	core_lock(fixture->core);
	streams_host_progress(fixture->core);
	core_unlock(fixture->core);
	fixture_run(fixture);
	assert_int_equal(fixture->segment->header.ring_head, fixture->tail);
	assert_int_equal(completed(fixture, A), posted);
	assert_int_equal(fixture->core->pending_bytes, 0);
}

static void a_client_that_waits_for_room_is_woken(void **state)
{
	struct fixture *fixture = *state;
	uint64_t count;

	make_stream(fixture, A);
	assert_int_equal(read(fixture->core->client_fd, &count, sizeof count), -1);
	fixture->segment->header.ring_want = 1;
	post_wait(fixture, A, 0, 0);
	fixture_run(fixture);
	assert_int_equal(read(fixture->core->client_fd, &count, sizeof count), sizeof count);
}

/* For something else, and long after it was due: who has just left the device to the timer would never be asked for. */
static void a_late_tick_does_not_forget_the_device(void **state)
{
	struct fixture *fixture = *state;
	struct core *core = fixture->core;
	uint64_t at_ns = clock_now_ns() + 60 * NS_PER_S;

	core->service.poll_at_ns = at_ns;
	fixture_tick(fixture);
	assert_true(core->service.poll_at_ns == at_ns);
	assert_true(core->service.timer_at <= at_ns);
	core->service.poll_at_ns = clock_now_ns();
	fixture_tick(fixture);
	assert_true(core->service.poll_at_ns == UINT64_MAX);
}

static void a_device_is_asked_when_it_is_expected_to_be_done(void **state)
{
	enum { US = 1000, MS = 1000 * US };
	static const struct {
		uint64_t progress_ns, due_ns, now_ns, again_ns;
	} table[] = {
		{10 * MS, 0, 12 * MS, 12 * MS + 250 * US}, /* nobody knows: an eighth of the time */
		{10 * MS, 0, 10 * MS, 10 * MS + 100 * US},
		{10 * MS, 0, 100 * MS, 102 * MS},
		{10 * MS, 11 * MS, 12 * MS, 12 * MS + 250 * US}, /* it takes longer than expected */
		{10 * MS, 12 * MS + 200 * US, 12 * MS, 12 * MS}, /* just before */
		{10 * MS, 11 * MS + 800 * US, 12 * MS, 12 * MS}, /* and just after */
		{10 * MS, 12 * MS + 400 * US, 12 * MS, 12 * MS + 100 * US},
		{10 * MS, 14 * MS, 12 * MS, 12 * MS + 250 * US}, /* it may be wrong */
		{10 * MS, 55 * MS, 54 * MS, 54 * MS + 700 * US},
	};

	for (size_t i = 0; i < array_length(table); i++)
		assert_int_equal(service_ask_again_ns(
					 table[i].progress_ns, table[i].due_ns, table[i].now_ns),
			table[i].again_ns);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_alone, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_ring_that_makes_no_sense_ends_the_session),
		TEST(a_late_tick_does_not_forget_the_device),
		cmocka_unit_test(a_device_is_asked_when_it_is_expected_to_be_done),
		TEST(a_tail_that_lies_ends_the_session),
		TEST(a_record_may_not_cross_the_end),
		TEST(the_ring_goes_round),
		TEST(a_pad_may_be_shorter_than_a_header),
		TEST(immediate_records_that_are_bad_are_answered),
		TEST(each_record_is_answered),
		TEST(records_without_a_place_for_their_error_break_the_session),
		TEST(values_of_a_timeline_grow),
		TEST(the_ring_waits_while_too_much_is_pending),
		TEST(a_client_that_waits_for_room_is_woken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
