/* SPDX-License-Identifier: MIT
 *
 * Living with gdevd: grants, events between sessions.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "double.h"
#include "harness.h"

enum { A = 40, B = 41 };

/* Streams and a function. */
static uint32_t prepare(struct fixture *fixture)
{
	make_stream(fixture, A);
	make_stream(fixture, B);
	return get_paid_function(fixture);
}

static void nothing_is_submitted_without_a_grant(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = prepare(fixture);

	post_launch(fixture, A, function, 0);
	post_launch(fixture, B, function, 0);
	fixture_run(fixture);
	expect_acquire(fixture, RESOURCE_COMPUTE);
	expect_no_message(fixture); /* once */
	assert_int_equal(double_submitted(), 0);
	grant(fixture, RESOURCE_COPY_TO_DEVICE); /* not what it asked for */
	assert_int_equal(double_submitted(), 0);
	grant(fixture, RESOURCE_COMPUTE);
	assert_int_equal(completed(fixture, A), 1);
	assert_int_equal(completed(fixture, B), 1);
	/* It keeps the grant as long as nobody wants it. */
	post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, A), 2);
	expect_no_message(fixture);
}

static void a_revoked_grant_is_drained_and_given_back(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = prepare(fixture);
	struct control_grant message;

	double_hold(true);
	for (int i = 0; i < 5; i++)
		post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	acquire(fixture, RESOURCE_COMPUTE);
	assert_int_equal(double_held(), 2);
	__atomic_store_n(
		&fixture->core->page->revoke[RESOURCE_COMPUTE], REVOKE_NOW, __ATOMIC_RELAXED);
	double_release(1, 0);
	fixture_run(fixture);
	assert_int_equal(double_held(), 1); /* seen at the command boundary, without a message */
	expect_no_message(fixture);
	double_release(1, 0);
	fixture_run(fixture);
	message = expect_release(fixture, RESOURCE_COMPUTE);
	assert_int_equal(message.used_ns, 200);
	assert_int_equal(message.wants, 1);
	fixture->core->page->revoke[RESOURCE_COMPUTE] = REVOKE_NONE;
	double_hold(false);
	grant(fixture, RESOURCE_COMPUTE); /* RELEASE with wants counted as ACQUIRE */
	assert_int_equal(completed(fixture, A), 5);
	expect_no_message(fixture);
	take_back(fixture, RESOURCE_COMPUTE, REVOKE_NOW);
	message = expect_release(fixture, RESOURCE_COMPUTE);
	assert_int_equal(message.wants, 0);
	assert_int_equal(message.used_ns, 300);
	take_back(fixture, RESOURCE_COMPUTE, REVOKE_NOW); /* of what it does not hold */
	expect_no_message(fixture);
}

/* gdevd's page, as another holder and gdevd see it. */
static struct turns *share_turns(struct fixture *fixture)
{
	static struct turns turns;

	memset(&turns, 0, sizeof turns);
	fixture->core->turns = &turns;
	fixture->core->session.session = 7;
	return &turns;
}

static void unshare_turns(struct fixture *fixture)
{
	fixture->core->turns = NULL; /* it is nothing that was mapped */
}

static void announce(struct fixture *fixture, uint32_t resource, uint32_t turn)
{
	struct control_grant message = {
		.header = {sizeof message, CONTROL_PREPARE, CONTROL_VERSION, 0, 0},
		.resource = resource,
		.turn = turn,
	};

	tell(fixture, &message, NULL, 0);
	fixture_run(fixture);
}

static bool take_turns(struct fixture *fixture)
{
	bool any;

	core_lock(fixture->core);
	any = turns_take(fixture->core);
	core_unlock(fixture->core);
	return any;
}

static void a_turn_that_another_hands_over_is_a_grant(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = prepare(fixture);
	struct turns *turns = share_turns(fixture);

	turns->resources[RESOURCE_COMPUTE].turn = 5;
	announce(fixture, RESOURCE_COMPUTE, 5); /* nothing was asked for */
	assert_false(take_turns(fixture) && double_submitted());
	post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	expect_acquire(fixture, RESOURCE_COMPUTE);
	announce(fixture, RESOURCE_COMPUTE, 6);
	assert_false(turns_are_there(fixture->core)); /* it is the last one's */
	assert_false(take_turns(fixture));
	turns->resources[RESOURCE_COMPUTE].turn = 6;
	assert_true(turns_are_there(fixture->core));
	assert_true(take_turns(fixture));
	fixture_run(fixture);
	assert_int_equal(completed(fixture, A), 1);
	assert_false(turns_are_there(fixture->core));
	grant(fixture, RESOURCE_COMPUTE); /* gdevd says so afterwards */
	post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, A), 2);
	expect_no_message(fixture);
	unshare_turns(fixture);
}

/* Who handed it over was told to leave as others waited; gdevd says so some time after the first command. */
static void who_is_handed_a_turn_does_not_fill_its_window(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = prepare(fixture);
	struct turns *turns = share_turns(fixture);

	double_hold(true);
	for (int i = 0; i < 3; i++)
		post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	expect_acquire(fixture, RESOURCE_COMPUTE);
	announce(fixture, RESOURCE_COMPUTE, 6);
	turns->resources[RESOURCE_COMPUTE].turn = 6;
	assert_true(take_turns(fixture));
	fixture_run(fixture);
	assert_int_equal(double_held(), 1);
	grant(fixture, RESOURCE_COMPUTE); /* nobody waits any more */
	assert_int_equal(double_held(), 2);
	double_release(2, 0);
	double_hold(false);
	fixture_run(fixture);
	expect_no_message(fixture);
	unshare_turns(fixture);
}

static void a_holder_hands_over_before_it_says_so(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = prepare(fixture);
	struct turns *turns = share_turns(fixture);

	for (unsigned session = 7; session <= 8; session++) {
		uint64_t word = TURN_NEXT(session, 9);

		double_hold(true);
		post_launch(fixture, A, function, 0);
		fixture_run(fixture);
		acquire(fixture, RESOURCE_COMPUTE);
		turns->resources[RESOURCE_COMPUTE].turn = 0;
		turns->resources[RESOURCE_COMPUTE].next = word;
		take_back(fixture, RESOURCE_COMPUTE, REVOKE_NOW);
		assert_int_equal(turns->resources[RESOURCE_COMPUTE].turn, 0);
		double_release(1, 0);
		fixture_run(fixture);
		expect_release(fixture, RESOURCE_COMPUTE);
		/* The second time it is another holder's. */
		assert_int_equal(turns->resources[RESOURCE_COMPUTE].next, session == 7 ? 0 : word);
		assert_int_equal(turns->resources[RESOURCE_COMPUTE].turn, session == 7 ? 9 : 0);
		fixture->core->page->revoke[RESOURCE_COMPUTE] = REVOKE_NONE;
	}
	double_hold(false);
	unshare_turns(fixture);
}

/* It has to wake up before it reads the message; the thread that waits for the device is awake. */
static void a_holder_sees_that_it_is_to_leave_before_it_is_told(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = prepare(fixture);
	struct turns *turns = share_turns(fixture);
	uint32_t *word = &fixture->core->page->revoke[RESOURCE_COMPUTE];

	post_first_launch(fixture, A, function);
	turns_look(fixture->core);
	__atomic_store_n(word, REVOKE_WHEN_IDLE, __ATOMIC_RELAXED);
	turns_look(fixture->core);
	expect_no_message(fixture);
	__atomic_store_n(word, REVOKE_NOW, __ATOMIC_RELAXED);
	turns_look(fixture->core);
	expect_release(fixture, RESOURCE_COMPUTE);
	turns->resources[RESOURCE_COMPUTE].turn = 0;
	unshare_turns(fixture);
}

/* One kernel of a millisecond is a window; another one would be in its way. */
static void a_holder_below_one_that_may_come_has_one_long_kernel_on_the_device(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = prepare(fixture),
		 *word = &fixture->core->page->revoke[RESOURCE_COMPUTE];

	double_looks();
	double_busy_ns(NS_PER_MS);
	post_first_launch(fixture, A, function);
	double_hold(true);
	__atomic_store_n(word, REVOKE_MAY_COME, __ATOMIC_RELAXED);
	for (int i = 0; i < 4; i++)
		post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	assert_int_equal(double_held(), 1);
	double_release(1, 0);
	fixture_run(fixture);
	assert_int_equal(double_held(), 1);
	expect_no_message(fixture); /* it keeps its grant, idle or not */
	__atomic_store_n(word, REVOKE_NONE, __ATOMIC_RELAXED);
	double_release(1, 0);
	fixture_run(fixture);
	assert_int_equal(double_held(), 2);
	double_release(2, 0);
	fixture_run(fixture);
	expect_no_message(fixture);
	double_hold(false);
}

static void begin_oldest(uint64_t at_ns)
{
	struct device_command *oldest = (struct device_command *)double_oldest();

	__atomic_store_n(&oldest->started_ns, at_ns, __ATOMIC_RELAXED);
}

static void what_follows_goes_to_the_device_just_before_that_is_idle(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = prepare(fixture),
		 *word = &fixture->core->page->revoke[RESOURCE_COMPUTE];

	double_looks();
	double_busy_ns(350 * NS_PER_US);
	post_first_launch(fixture, A, function);
	double_hold(true);
	__atomic_store_n(word, REVOKE_MAY_COME, __ATOMIC_RELAXED);
	for (int i = 0; i < 3; i++)
		post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	assert_int_equal(double_held(), 1); /* though it has not begun */
	begin_oldest(clock_now_ns() + 3600 * NS_PER_S);
	post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	grants_look_ahead(fixture->core);
	assert_int_equal(double_held(), 1);
	begin_oldest(clock_now_ns());
	post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	fixture_pass(350 * NS_PER_US);
	grants_look_ahead(fixture->core);
	assert_int_equal(double_held(), 2);
	grants_look_ahead(fixture->core);
	assert_int_equal(double_held(), 2);
	double_hold(false);
	double_release(2, 0);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, A), 6);
	expect_no_message(fixture); /* it keeps its grant, idle or not */
}

/* What is on the device may wait for what is not. */
static void a_session_that_cannot_leave_gives_its_turn_back_if_another_stream_waits(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = prepare(fixture);

	post_first_launch(fixture, A, function);
	double_hold(true);
	post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	assert_int_equal(fixture->segment->header.revoked, 0);
	take_back(fixture, RESOURCE_COMPUTE, REVOKE_NOW);
	assert_int_equal(fixture->segment->header.revoked, 1);
	fixture_pass(130 * NS_PER_MS);
	post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	fixture_tick(fixture);
	expect_no_message(fixture); /* for what is behind it in its own stream it does not wait */
	post_launch(fixture, B, function, 0);
	fixture_run(fixture);
	fixture_tick(fixture);
	assert_int_equal(expect_release(fixture, RESOURCE_COMPUTE).wants, 1);
	assert_int_equal(fixture->segment->header.revoked, 0);
	assert_int_equal(double_held(), 1);
	fixture->core->page->revoke[RESOURCE_COMPUTE] = REVOKE_NONE;
	grant(fixture, RESOURCE_COMPUTE);
	assert_int_equal(double_held(), 3);
	double_release(3, 0);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, A), 3);
	assert_int_equal(completed(fixture, B), 1);
	expect_no_message(fixture);
	double_hold(false);
}

static void the_preferred_session_says_that_it_comes_before_gdevd_knows(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = prepare(fixture);
	struct turns *turns = share_turns(fixture);

	turns->preferred = TURN_NEXT(8, 1); /* another */
	post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	acquire(fixture, RESOURCE_COMPUTE);
	assert_int_equal(turns->came, 0);
	take_back(fixture, RESOURCE_COMPUTE, REVOKE_NOW);
	expect_release(fixture, RESOURCE_COMPUTE);
	fixture->core->page->revoke[RESOURCE_COMPUTE] = REVOKE_NONE;
	turns->preferred = TURN_NEXT(7, 2);
	post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	expect_acquire(fixture, RESOURCE_COMPUTE);
	assert_int_equal(turns->came, TURN_NEXT(7, 2));
	grant(fixture, RESOURCE_COMPUTE);
	unshare_turns(fixture);
}

/* Until gdevd has said what is to be, and once in a hold: any worker can write to the page. */
static void a_holder_begins_nothing_when_the_preferred_session_has_come(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = prepare(fixture);
	struct turns *turns = share_turns(fixture);

	post_first_launch(fixture, A, function);
	double_hold(true);
	turns->preferred = turns->came = TURN_NEXT(8, 1);
	fixture->core->grants.yields_until_ns = 0;
	post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	assert_int_equal(double_held(), 0);
	turns->preferred = 0;
	take_back(fixture, RESOURCE_COMPUTE, REVOKE_NONE); /* it may go on */
	assert_int_equal(double_held(), 1);
	double_release(1, 0);
	turns->preferred = turns->came = TURN_NEXT(8, 2);
	post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	assert_int_equal(double_held(), 1); /* it has yielded in this hold */
	double_release(1, 0);
	fixture->core->grants.yields_until_ns = 0; /* another hold */
	post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	assert_int_equal(double_held(), 0);
	fixture_pass(NS_PER_S); /* gdevd does not answer */
	fixture_tick(fixture);
	assert_int_equal(double_held(), 1);
	double_release(1, 0);
	fixture_run(fixture);
	double_hold(false);
	unshare_turns(fixture);
}

static void a_holder_that_knows_when_it_ends_hands_over_a_moment_before(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = prepare(fixture);
	struct turns *turns = share_turns(fixture);
	struct resource *compute = &fixture->core->grants.resources[RESOURCE_COMPUTE];

	double_hold(true);
	post_launch(fixture, A, function, 0);
	post_first_launch(fixture, A, function);
	turns->resources[RESOURCE_COMPUTE].next = TURN_NEXT(7, 9);
	core_lock(fixture->core);
	turn_plan(fixture->core, RESOURCE_COMPUTE);
	assert_int_equal(
		turns->resources[RESOURCE_COMPUTE].turn, 0); /* nothing of this hold is done */
	compute->busy.floor_ns = compute->held_since_ns = 1; /* it was, long ago */
	compute->in_flight_ns = 0;
	compute->doubt_ns = 10 * 1000 * 1000;
	turn_plan(fixture->core, RESOURCE_COMPUTE);
	assert_int_equal(turns->resources[RESOURCE_COMPUTE].turn, 0); /* it does not know */
	compute->doubt_ns = 0;
	turn_plan(fixture->core, RESOURCE_COMPUTE);
	assert_int_equal(turns->resources[RESOURCE_COMPUTE].turn, 9);
	/* What the two brought along. */
	compute->in_flight_ns = compute->doubt_ns = 2 * fixture->core->window_ns;
	core_unlock(fixture->core);
	expect_no_message(fixture); /* it still holds it */
	double_release(2, 0);
	double_hold(false);
	fixture_run(fixture);
	unshare_turns(fixture);
}

static void an_idle_grant_goes_back_when_others_wait(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = prepare(fixture);

	post_first_launch(fixture, A, function);
	take_back(fixture, RESOURCE_COMPUTE, REVOKE_WHEN_IDLE);
	core_lock(fixture->core);
	grants_tick(fixture->core, UINT64_MAX);
	core_unlock(fixture->core);
	expect_release(fixture, RESOURCE_COMPUTE);
}

/* Rule 8 of docs/memory.md. */
static void a_pause_after_memory_was_brought_in_is_not_idle_at_once(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = prepare(fixture);
	struct resource *compute = &fixture->core->grants.resources[RESOURCE_COMPUTE];
	uint64_t idle_ns = clock_now_ns();

	post_first_launch(fixture, A, function);
	core_lock(fixture->core);
	fixture->core->residency.loaded_ns += 5 * NS_PER_MS;
	compute->idle_since_ns = idle_ns;
	core_unlock(fixture->core);
	take_back(fixture, RESOURCE_COMPUTE, REVOKE_WHEN_IDLE);
	core_lock(fixture->core);
	assert_int_equal(
		grants_tick(fixture->core, idle_ns + 4 * NS_PER_MS), idle_ns + 5 * NS_PER_MS);
	assert_int_equal(compute->state, GRANT_HELD);
	grants_tick(fixture->core, idle_ns + 5 * NS_PER_MS);
	core_unlock(fixture->core);
	expect_release(fixture, RESOURCE_COMPUTE);
}

static void what_runs_at_once_is_charged_once(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = prepare(fixture);
	struct control_grant message;

	double_hold(true);
	double_together();
	post_launch(fixture, A, function, 0);
	post_launch(fixture, B, function, 0);
	fixture_run(fixture);
	acquire(fixture, RESOURCE_COMPUTE);
	assert_int_equal(double_held(), 2);
	double_release(2, 0); /* one took 100 ns, the other the same and another 100 */
	fixture_run(fixture);
	assert_int_equal(fixture->core->page->compute_ns, 200);
	take_back(fixture, RESOURCE_COMPUTE, REVOKE_NOW);
	message = expect_release(fixture, RESOURCE_COMPUTE);
	assert_int_equal(message.used_ns, 200);
}

static void a_device_that_pauses_is_given_back_in_the_middle(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = prepare(fixture);
	struct control_grant message;

	double_pausable(true);
	double_hold(true);
	for (int i = 0; i < 3; i++)
		post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	acquire(fixture, RESOURCE_COMPUTE);
	assert_int_equal(double_held(), 2);
	take_back(fixture, RESOURCE_COMPUTE, REVOKE_NOW);
	message = expect_release(fixture, RESOURCE_COMPUTE);
	assert_int_equal(message.wants, 1);
	assert_true(double_paused());
	assert_int_equal(completed(fixture, A), 0);
	fixture->core->page->revoke[RESOURCE_COMPUTE] = REVOKE_NONE;
	double_hold(false);
	grant(fixture, RESOURCE_COMPUTE);
	assert_false(double_paused());
	assert_int_equal(completed(fixture, A), 3);
	expect_no_message(fixture);
}

static void a_block_that_goes_on_keeps_the_grant_unless_another_stream_is_kept(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = prepare(fixture);
	struct control_grant message;

	double_pausable(false);
	double_hold(true);
	post_first_launch(fixture, A, function);
	take_back(fixture, RESOURCE_COMPUTE, REVOKE_NOW);
	assert_true(double_paused());
	expect_no_message(fixture);
	double_pausable(true);
	grants_quiet(fixture->core);
	message = expect_release(fixture, RESOURCE_COMPUTE);
	assert_int_equal(message.wants, 1);
	/* Now it may wait for another launch, which the pause keeps from its begin. */
	double_pausable(false);
	fixture->core->page->revoke[RESOURCE_COMPUTE] = REVOKE_NONE;
	grant(fixture, RESOURCE_COMPUTE);
	post_launch(fixture, B, function, 0);
	fixture_run(fixture);
	take_back(fixture, RESOURCE_COMPUTE, REVOKE_NOW);
	fixture_pass(130 * NS_PER_MS);
	fixture_tick(fixture);
	assert_int_equal(expect_release(fixture, RESOURCE_COMPUTE).wants, 1);
	fixture->core->page->revoke[RESOURCE_COMPUTE] = REVOKE_NONE;
	grant(fixture, RESOURCE_COMPUTE);
	assert_false(double_paused());
}

static void a_pause_is_none_for_copies_within_the_device(void **state)
{
	struct fixture *fixture = *state;

	prepare(fixture);
	assert_int_equal(fixture->core->grants.resources[RESOURCE_COMPUTE].in_flight, 0);
	double_pausable(true);
	double_hold(true);
	post_copy(fixture, A, TEST_BASE, TEST_BASE + 64, 64);
	fixture_run(fixture);
	acquire(fixture, RESOURCE_COMPUTE);
	assert_int_equal(double_held(), 1);
	take_back(fixture, RESOURCE_COMPUTE, REVOKE_NOW);
	expect_no_message(fixture);
	double_release(1, 0);
	fixture_run(fixture);
	expect_release(fixture, RESOURCE_COMPUTE);
}

static void a_launch_before_such_a_copy_is_not_paused(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = prepare(fixture);

	double_pausable(true);
	double_hold(true);
	post_launch(fixture, A, function, 0);
	post_copy(fixture, A, TEST_BASE, TEST_BASE + 64, 64);
	fixture_run(fixture);
	acquire(fixture, RESOURCE_COMPUTE);
	assert_int_equal(double_held(), 2);
	take_back(fixture, RESOURCE_COMPUTE, REVOKE_NOW);
	expect_no_message(fixture);
	assert_false(double_paused()); /* the copy would never come */
	double_release(1, 0);
	fixture_run(fixture);
	expect_no_message(fixture);
	double_release(1, 0);
	fixture_run(fixture);
	expect_release(fixture, RESOURCE_COMPUTE);
	assert_int_equal(completed(fixture, A), 2);
}

static void a_worker_that_prepares_takes_the_grant(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = prepare(fixture);
	struct control_grant soon = {
		.header = {sizeof soon, CONTROL_PREPARE, CONTROL_VERSION, 0, 0},
		.quantum_ns = 1000000,
	};

	post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	expect_acquire(fixture, RESOURCE_COMPUTE);
	fixture->core->service.few_processors = false;
	tell(fixture, &soon, NULL, 0); /* which nothing follows: it gives up looking */
	fixture_run(fixture);
	assert_int_equal(fixture->core->control.awake_until_ns, 0);
	tell(fixture, &soon, NULL, 0);
	grant(fixture, RESOURCE_COMPUTE);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, A), 1);
	assert_int_equal(fixture->core->control.awake_until_ns, 0);
}

static void long_launches_go_one_by_one_while_others_wait(void **state)
{
	struct fixture *fixture = *state;
	uint32_t function = prepare(fixture);

	double_busy_ns(5000000);
	post_first_launch(fixture, A, function);
	double_hold(true);
	post_launch(fixture, A, function, 0);
	post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	assert_int_equal(double_held(), 2);
	take_back(fixture, RESOURCE_COMPUTE, REVOKE_WHEN_IDLE);
	double_release(2, 0);
	post_launch(fixture, A, function, 0);
	post_launch(fixture, A, function, 0);
	fixture_run(fixture);
	assert_int_equal(double_held(), 1);
	double_release(1, 0);
	fixture_run(fixture);
	assert_int_equal(double_held(), 1);
	double_release(1, 0);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, A), 5);
}

/* ---- events ---- */

static void an_event_of_another_session_is_waited_for_at_gdevd(void **state)
{
	struct fixture *fixture = *state;
	struct record_event wait = {
		{.opcode = RECORD_EVENT_WAIT, .timeline = A}, .event = 9ull << 32 | 0x12345};
	struct record_event lost = {
		{.opcode = RECORD_EVENT_WAIT, .timeline = B}, .event = 10ull << 32 | 1};
	struct control_event message;

	make_stream(fixture, A);
	make_stream(fixture, B);
	post(fixture, &wait);
	fixture_run(fixture);
	expect_message(fixture, CONTROL_EVENT_WATCH, &message, sizeof message, NULL, NULL);
	assert_int_equal(message.session, 9);
	assert_int_equal(message.value, 0x12345);
	assert_int_not_equal(message.header.serial, 0);
	message.header.type = CONTROL_EVENT_DONE;
	tell(fixture, &message, NULL, 0);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, A), 1);
	assert_int_equal(stream_error(fixture, A), 0);
	/* A session that is gone ends the wait, and harms only the stream. */
	post(fixture, &lost);
	fixture_run(fixture);
	expect_message(fixture, CONTROL_EVENT_WATCH, &message, sizeof message, NULL, NULL);
	message.header.type = CONTROL_EVENT_DONE;
	message.header.status = -GDEV_E_SESSION_LOST;
	tell(fixture, &message, NULL, 0);
	fixture_run(fixture);
	assert_int_equal(completed(fixture, B), 1);
	assert_int_equal(stream_error(fixture, B), -GDEV_E_SESSION_LOST);
	assert_int_equal(session_error(fixture), 0);
}

static void a_shared_event_is_told_to_those_who_watch(void **state)
{
	struct fixture *fixture = *state;
	struct record_event share = {{.opcode = RECORD_EVENT_SHARE}, .stream = A};
	struct control_event watch =
				     {
					     .header = {sizeof watch, CONTROL_EVENT_WATCH,
						     CONTROL_VERSION, 5, 0},
					     .session = 7,
				     },
			     done;
	uint64_t one = 1;

	make_stream(fixture, A);
	share.stream_value = post_wait(fixture, A, 0, 1);
	assert_int_equal(ask_plain(fixture, &share), 0);
	watch.value = ((const struct reply_event *)reply_payload(fixture))->event & 0xffffffff;
	tell(fixture, &watch, NULL, 0);
	fixture_run(fixture);
	expect_no_message(fixture);
	/* What it cannot watch is not called reached. */
	fixture->core->events.watch_count = EVENT_WATCHES_MAX;
	tell(fixture, &watch, NULL, 0);
	fixture_run(fixture);
	expect_message(fixture, CONTROL_EVENT_DONE, &done, sizeof done, NULL, NULL);
	assert_int_equal(done.header.status, -EAGAIN);
	fixture->core->events.watch_count = 1;
	fixture->segment->header.host_completed = 1;
	assert_int_equal(write(fixture->core->wake_fd, &one, sizeof one), sizeof one);
	fixture_run(fixture);
	expect_message(fixture, CONTROL_EVENT_DONE, &done, sizeof done, NULL, NULL);
	assert_int_equal(done.header.serial, 5);
	assert_int_equal(done.header.status, 0);
	assert_int_equal(done.value, watch.value);
	/* What was reached, or was never shared, is done. */
	tell(fixture, &watch, NULL, 0);
	fixture_run(fixture);
	expect_message(fixture, CONTROL_EVENT_DONE, &done, sizeof done, NULL, NULL);
	watch.value ^= 1;
	tell(fixture, &watch, NULL, 0);
	fixture_run(fixture);
	expect_message(fixture, CONTROL_EVENT_DONE, &done, sizeof done, NULL, NULL);
}

/* ---- modules that take more than could be known ---- */

#define MODULE_BYTES (64 * MIB)

static struct device_module *opened_modules[3];
static unsigned opened;

static int open_module(struct device_module *module, struct device_log *log)
{
	opened_modules[opened++] = module;
	return 0;
}

static uint64_t opened_bytes(struct device_module *module)
{
	for (unsigned i = 0; i < opened; i++)
		if (opened_modules[i] == module)
			return MODULE_BYTES;
	return 0;
}

static void one_module_at_a_time_takes_what_it_will_pay_for(void **state)
{
	struct device_ops ops = *double_ops();
	struct control_allocate wish;
	struct fixture fixture;

	opened = 0;
	ops.module_open = open_module;
	ops.module_bytes = opened_bytes;
	fixture_start_ops(&fixture, &ops, true, 0);
	for (uint32_t i = 0; i < 3; i++) {
		struct record_module_load load = {
			.header = {.opcode = RECORD_MODULE_LOAD, .timeline = i},
			.image = TEST_BASE,
			.image_bytes = 16,
		};
		post(&fixture, &load);
	}
	fixture_run(&fixture);
	for (unsigned i = 1; i <= 3; i++) {
		assert_int_equal(opened, i);
		wish = expect_allocate(&fixture, MODULE_BYTES);
		say_charged(
			&fixture, &wish.header, i == 2 ? -ENOMEM : 0, i == 2 ? 0 : MODULE_BYTES, 0);
		fixture_run(&fixture);
		assert_int_equal(fixture.segment->replies[i - 1].status, i == 2 ? -ENOMEM : 0);
	}
	fixture_stop(&fixture);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_with_gdevd, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nothing_is_submitted_without_a_grant),
		TEST(a_revoked_grant_is_drained_and_given_back),
		TEST(a_session_that_cannot_leave_gives_its_turn_back_if_another_stream_waits),
		TEST(a_turn_that_another_hands_over_is_a_grant),
		TEST(who_is_handed_a_turn_does_not_fill_its_window),
		TEST(a_holder_hands_over_before_it_says_so),
		TEST(a_holder_sees_that_it_is_to_leave_before_it_is_told),
		TEST(a_holder_below_one_that_may_come_has_one_long_kernel_on_the_device),
		TEST(what_follows_goes_to_the_device_just_before_that_is_idle),
		TEST(the_preferred_session_says_that_it_comes_before_gdevd_knows),
		TEST(a_holder_begins_nothing_when_the_preferred_session_has_come),
		TEST(a_holder_that_knows_when_it_ends_hands_over_a_moment_before),
		TEST(an_idle_grant_goes_back_when_others_wait),
		TEST(a_pause_after_memory_was_brought_in_is_not_idle_at_once),
		TEST(what_runs_at_once_is_charged_once),
		TEST(a_device_that_pauses_is_given_back_in_the_middle),
		TEST(a_block_that_goes_on_keeps_the_grant_unless_another_stream_is_kept),
		TEST(a_pause_is_none_for_copies_within_the_device),
		TEST(a_launch_before_such_a_copy_is_not_paused),
		TEST(a_worker_that_prepares_takes_the_grant),
		TEST(long_launches_go_one_by_one_while_others_wait),
		TEST(an_event_of_another_session_is_waited_for_at_gdevd),
		TEST(a_shared_event_is_told_to_those_who_watch),
		cmocka_unit_test(one_module_at_a_time_takes_what_it_will_pay_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
