/* SPDX-License-Identifier: MIT
 *
 * Copies that the client does itself: when it may, that it is waited for, what is counted, and that a client
 * which lies about it keeps nobody waiting for long.
 */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "harness.h"
#include "worker/usage.h"

enum { A = 40 };

static enum session_leave allowed(struct fixture *fixture, enum copy_direction direction)
{
	return fixture->segment->header.direct_allowed[direction];
}

static void copying(struct fixture *fixture, enum copy_direction direction, uint32_t threads)
{
	__atomic_store_n(
		&fixture->segment->header.direct_copying[direction], threads, __ATOMIC_SEQ_CST);
}

/* As the client does when it is not allowed any more. */
static void wake(struct fixture *fixture)
{
	uint64_t one = 1;

	assert_int_equal(write(fixture->core->wake_fd, &one, sizeof one), sizeof one);
	fixture_run(fixture);
}

/* A copy to the device, for which the grant is asked, and given. */
static void get_grant(struct fixture *fixture)
{
	struct record_memory record = {{.opcode = RECORD_MEMORY_ALLOC}, TEST_DEVICE, 2 * MIB};
	struct control_allocate wish;

	make_stream(fixture, A);
	post(fixture, &record);
	fixture_run(fixture);
	wish = expect_allocate(fixture, 2 * MIB);
	answer_allocate(fixture, &wish, 0);
	post_copy(fixture, A, TEST_DEVICE, TEST_BASE, 64);
	fixture_run(fixture);
	acquire(fixture, RESOURCE_COPY_TO_DEVICE);
	expect_no_message(fixture);
}

static void where_nobody_arbitrates_the_client_may_always_copy(void **state)
{
	struct fixture *fixture = *state;

	assert_true(allowed(fixture, COPY_TO_DEVICE));
	assert_true(allowed(fixture, COPY_FROM_DEVICE));
}

static void the_client_may_copy_while_we_hold_the_grant(void **state)
{
	struct fixture *fixture = *state;

	assert_int_equal(allowed(fixture, COPY_TO_DEVICE), SESSION_BY_RECORD);
	get_grant(fixture);
	assert_int_equal(allowed(fixture, COPY_TO_DEVICE), SESSION_DIRECT);
	assert_int_equal(allowed(fixture, COPY_FROM_DEVICE), SESSION_BY_RECORD);
	take_back(fixture, RESOURCE_COPY_TO_DEVICE, REVOKE_WHEN_IDLE);
	assert_int_equal(allowed(fixture, COPY_TO_DEVICE), SESSION_DIRECT_CONTENDED);
	take_back(fixture, RESOURCE_COPY_TO_DEVICE, REVOKE_NOW);
	assert_int_equal(allowed(fixture, COPY_TO_DEVICE), SESSION_BY_RECORD);
	expect_release(fixture, RESOURCE_COPY_TO_DEVICE);
}

static void a_grant_is_given_back_when_the_client_is_done(void **state)
{
	struct fixture *fixture = *state;
	struct session_header *header = &fixture->segment->header;
	struct control_grant message;

	get_grant(fixture);
	copying(fixture, COPY_TO_DEVICE, 2);
	take_back(fixture, RESOURCE_COPY_TO_DEVICE, REVOKE_NOW);
	assert_false(allowed(fixture, COPY_TO_DEVICE));
	expect_no_message(fixture);
	/* Nor does a record get in before it. */
	post_copy(fixture, A, TEST_DEVICE, TEST_BASE, 64);
	copying(fixture, COPY_TO_DEVICE, 1);
	wake(fixture);
	expect_no_message(fixture);
	assert_int_equal(completed(fixture, A), 1);
	header->direct_ns[COPY_TO_DEVICE] = 500;
	copying(fixture, COPY_TO_DEVICE, 0);
	wake(fixture);
	message = expect_release(fixture, RESOURCE_COPY_TO_DEVICE);
	assert_int_equal(message.used_ns, 100 + 500); /* and the copy by record */
	assert_int_equal(message.wants, 1);
}

static uint64_t tick(struct fixture *fixture, uint64_t now_ns)
{
	core_lock(fixture->core);
	now_ns = grants_tick(fixture->core, now_ns);
	core_unlock(fixture->core);
	return now_ns;
}

static void a_client_that_copies_is_not_idle(void **state)
{
	struct fixture *fixture = *state;
	struct session_header *header = &fixture->segment->header;
	uint64_t now_ns = clock_now_ns() + NS_PER_S, idle_ns;
	struct control_grant message;

	get_grant(fixture);
	copying(fixture, COPY_TO_DEVICE, 1);
	take_back(fixture, RESOURCE_COPY_TO_DEVICE, REVOKE_WHEN_IDLE);
	assert_int_equal(tick(fixture, now_ns), now_ns + DIRECT_LOOK_NS);
	/* Between two copies, of which one has ended since the last look. */
	copying(fixture, COPY_TO_DEVICE, 0);
	header->direct_bytes[COPY_TO_DEVICE] = 100;
	now_ns += DIRECT_LOOK_NS;
	idle_ns = tick(fixture, now_ns);
	assert_true(idle_ns < now_ns + 2 * DIRECT_LOOK_NS);
	assert_int_equal(tick(fixture, idle_ns - 1), idle_ns);
	expect_no_message(fixture);
	assert_int_equal(allowed(fixture, COPY_TO_DEVICE), SESSION_DIRECT_CONTENDED);
	tick(fixture, idle_ns);
	message = expect_release(fixture, RESOURCE_COPY_TO_DEVICE);
	assert_int_equal(message.wants, 0);
	assert_int_equal(allowed(fixture, COPY_TO_DEVICE), SESSION_BY_RECORD);
}

/* ---- the account ---- */

static void what_the_client_copies_is_its_session_s_use(void **state)
{
	struct fixture *fixture = *state;
	struct session_header *header = &fixture->segment->header;
	struct record_query query = {{.opcode = RECORD_QUERY}, .type = QUERY_USAGE};
	const struct reply_usage *usage = reply_payload(fixture);

	header->direct_bytes[COPY_TO_DEVICE] = 1000;
	header->direct_bytes[COPY_FROM_DEVICE] = 10;
	assert_int_equal(ask_plain(fixture, &query), 0);
	assert_int_equal(usage->to_device_bytes, 1000);
	assert_int_equal(usage->from_device_bytes, 10);
	header->direct_bytes[COPY_TO_DEVICE] = 1500;
	wake(fixture);
	assert_int_equal(fixture->core->page->to_device_bytes, 1500);
	/* The last of it is seen without a wake-up, some time later. */
	header->direct_bytes[COPY_TO_DEVICE] = 1600;
	core_lock(fixture->core);
	assert_int_not_equal(direct_tick(fixture->core, clock_now_ns()), UINT64_MAX);
	assert_int_equal(fixture->core->page->to_device_bytes, 1500);
	direct_tick(fixture->core, clock_now_ns() + NS_PER_S);
	assert_int_equal(fixture->core->page->to_device_bytes, 1600);
	direct_tick(fixture->core, clock_now_ns() + NS_PER_S);
	assert_int_equal(direct_tick(fixture->core, clock_now_ns() + NS_PER_S), UINT64_MAX);
	core_unlock(fixture->core);
}

static void an_account_that_runs_backwards_or_ahead_of_time_is_not_believed(void **state)
{
	struct fixture *fixture = *state;
	struct session_header *header = &fixture->segment->header;
	struct worker_page *page = fixture->core->page;

	header->direct_ns[COPY_TO_DEVICE] = UINT64_MAX / 2;
	wake(fixture);
	assert_true(page->to_device_ns < clock_now_ns());
	header->direct_ns[COPY_TO_DEVICE] = 0;
	header->direct_bytes[COPY_TO_DEVICE] = 77;
	wake(fixture);
	header->direct_bytes[COPY_TO_DEVICE] = 7;
	wake(fixture);
	assert_int_equal(page->to_device_bytes, 77);
}

static void who_copies_while_others_wait_and_does_not_say_so_pays_for_a_part(void **state)
{
	struct fixture *fixture = *state;
	struct session_header *header = &fixture->segment->header;
	uint64_t begin_ns = clock_now_ns() + NS_PER_S, now_ns = begin_ns, seen_ns = 0;
	struct control_grant message;

	get_grant(fixture);
	copying(fixture, COPY_TO_DEVICE, 1);
	take_back(fixture, RESOURCE_COPY_TO_DEVICE, REVOKE_WHEN_IDLE);
	for (int i = 0; i < 16; i++) {
		seen_ns = DIRECT_LOOK_NS + now_ns - begin_ns;
		now_ns = tick(fixture, now_ns);
	}
	header->direct_ns[COPY_TO_DEVICE] = 500;
	copying(fixture, COPY_TO_DEVICE, 0);
	take_back(fixture, RESOURCE_COPY_TO_DEVICE, REVOKE_NOW);
	message = expect_release(fixture, RESOURCE_COPY_TO_DEVICE);
	assert_in_range(message.used_ns, 100 + seen_ns / 8 - 16, 100 + seen_ns / 8);
}

static void who_has_copied_for_long_is_looked_at_less_often(void **state)
{
	struct fixture *fixture = *state;
	uint64_t begin_ns = clock_now_ns() + NS_PER_S, now_ns = begin_ns;

	get_grant(fixture);
	copying(fixture, COPY_TO_DEVICE, 1);
	take_back(fixture, RESOURCE_COPY_TO_DEVICE, REVOKE_WHEN_IDLE);
	now_ns = tick(fixture, now_ns + 80 * DIRECT_LOOK_NS);
	assert_int_equal(now_ns, begin_ns + 81 * DIRECT_LOOK_NS); /* who knows what it did so far */
	begin_ns = now_ns;
	now_ns = tick(fixture, now_ns + 79 * DIRECT_LOOK_NS);
	assert_int_equal(now_ns, begin_ns + 79 * DIRECT_LOOK_NS + 80 * DIRECT_LOOK_NS / 8);
	/* It pauses, but is not idle for long enough yet, and begins again. */
	copying(fixture, COPY_TO_DEVICE, 0);
	core_lock(fixture->core);
	assert_int_equal(direct_look(fixture->core, RESOURCE_COPY_TO_DEVICE, now_ns), 0);
	copying(fixture, COPY_TO_DEVICE, 1);
	assert_int_equal(direct_look(fixture->core, RESOURCE_COPY_TO_DEVICE, now_ns),
		now_ns + DIRECT_LOOK_NS);
	core_unlock(fixture->core);
}

static void who_says_what_it_copied_pays_for_that_alone(void **state)
{
	struct fixture *fixture = *state;
	struct session_header *header = &fixture->segment->header;
	uint64_t now_ns = clock_now_ns() + NS_PER_S;
	struct control_grant message;

	get_grant(fixture);
	fixture_pass(2 * NS_PER_MS); /* nobody has copied for longer than there was time */
	copying(fixture, COPY_TO_DEVICE, 1);
	take_back(fixture, RESOURCE_COPY_TO_DEVICE, REVOKE_WHEN_IDLE);
	for (int i = 0; i < 4; i++) {
		now_ns = tick(fixture, now_ns);
		header->direct_ns[COPY_TO_DEVICE] += DIRECT_LOOK_NS / 2;
	}
	copying(fixture, COPY_TO_DEVICE, 0);
	take_back(fixture, RESOURCE_COPY_TO_DEVICE, REVOKE_NOW);
	message = expect_release(fixture, RESOURCE_COPY_TO_DEVICE);
	assert_int_equal(message.used_ns, 100 + 2 * DIRECT_LOOK_NS);
}

/* ---- stopping ---- */

struct stopper {
	struct direct_stop stop;
	unsigned stopped;
};

static void note(struct core *core, struct direct_stop *stop)
{
	((struct stopper *)stop)->stopped++;
}

static void stopping_waits_for_the_client_and_says_what_has_moved(void **state)
{
	struct fixture *fixture = *state;
	struct stopper one = {.stop.stopped = note}, two = one;
	uint64_t generation = fixture->segment->header.direct_generation;

	copying(fixture, COPY_FROM_DEVICE, 1);
	core_lock(fixture->core);
	direct_stop(fixture->core, &one.stop);
	core_unlock(fixture->core);
	assert_false(allowed(fixture, COPY_TO_DEVICE));
	assert_false(allowed(fixture, COPY_FROM_DEVICE));
	assert_int_equal(one.stopped, 0);
	copying(fixture, COPY_FROM_DEVICE, 0);
	wake(fixture);
	assert_int_equal(one.stopped, 1);
	core_lock(fixture->core);
	direct_stop(fixture->core, &two.stop);
	assert_int_equal(two.stopped, 1);
	direct_resume(fixture->core);
	assert_false(allowed(fixture, COPY_TO_DEVICE));
	assert_int_equal(fixture->segment->header.direct_generation, generation);
	direct_moved(fixture->core);
	direct_resume(fixture->core);
	core_unlock(fixture->core);
	assert_true(allowed(fixture, COPY_TO_DEVICE));
	assert_int_equal(fixture->segment->header.direct_generation, generation + 1);
}

static void a_client_that_never_stops_is_not_waited_for(void **state)
{
	struct fixture *fixture = *state;
	struct stopper one = {.stop.stopped = note};
	uint64_t generation = fixture->segment->header.direct_generation;

	copying(fixture, COPY_TO_DEVICE, UINT32_MAX);
	core_lock(fixture->core);
	direct_stop(fixture->core, &one.stop);
	assert_true(direct_tick(fixture->core, clock_now_ns()) <= one.stop.deadline_ns);
	assert_int_equal(one.stopped, 0);
	assert_int_equal(fixture->segment->header.direct_generation, generation);
	direct_tick(fixture->core, one.stop.deadline_ns);
	assert_int_equal(one.stopped, 1);
	/* Before the memory is somewhere else. */
	assert_int_equal(fixture->segment->header.direct_generation, generation + 1);
	direct_moved(fixture->core);
	direct_resume(fixture->core);
	core_unlock(fixture->core);
	/* Somebody else's wish is. */
	fixture->segment->header.direct_allowed[COPY_TO_DEVICE] = 99;
	wake(fixture);
	assert_int_equal(fixture->ended, 0);
}

/* ---- what is lent ---- */

static int map(struct fixture *fixture, uint32_t type, uint64_t address, uint64_t bytes)
{
	struct peer_message message = {.type = type, .serial = 7, .address = address};
	int fds[PEER_FDS_MAX];
	size_t count = PEER_FDS_MAX;

	message.bytes = bytes;
	assert_int_equal(fd_send(fixture->peer, &message, sizeof message, NULL, 0), 0);
	fixture_run(fixture);
	assert_int_equal(
		fd_receive(fixture->peer, &message, sizeof message, fds, &count), sizeof message);
	fd_close_all(fds, count);
	return message.status ? message.status : (int)count;
}

static void what_the_client_maps_is_known(void **state)
{
	struct fixture *fixture = *state;
	const struct range *range;

	assert_int_equal(alloc(fixture, TEST_DEVICE, 4 * MIB), 0);
	range = memory_find(fixture->core, TEST_DEVICE, 1);
	assert_int_equal(map(fixture, PEER_DEVICE_MAP_REVOCABLE, TEST_BASE, 2 * MIB), -EINVAL);
	assert_false(range->lent);
	assert_int_equal(map(fixture, PEER_DEVICE_MAP_REVOCABLE, TEST_DEVICE, 4 * MIB), 2);
	assert_true(range->lent);
	assert_false(range->mapped);
	assert_int_equal(map(fixture, PEER_DEVICE_MAP, TEST_DEVICE, 4 * MIB), 2);
	assert_true(range->mapped);
}

#define ALONE(name) cmocka_unit_test_setup_teardown(name, setup_alone, teardown)
#define WITH_GDEVD(name) cmocka_unit_test_setup_teardown(name, setup_with_gdevd, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ALONE(where_nobody_arbitrates_the_client_may_always_copy),
		WITH_GDEVD(the_client_may_copy_while_we_hold_the_grant),
		WITH_GDEVD(a_grant_is_given_back_when_the_client_is_done),
		WITH_GDEVD(a_client_that_copies_is_not_idle),
		ALONE(what_the_client_copies_is_its_session_s_use),
		ALONE(an_account_that_runs_backwards_or_ahead_of_time_is_not_believed),
		WITH_GDEVD(who_copies_while_others_wait_and_does_not_say_so_pays_for_a_part),
		WITH_GDEVD(who_has_copied_for_long_is_looked_at_less_often),
		WITH_GDEVD(who_says_what_it_copied_pays_for_that_alone),
		ALONE(stopping_waits_for_the_client_and_says_what_has_moved),
		ALONE(a_client_that_never_stops_is_not_waited_for),
		ALONE(what_the_client_maps_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
