/* SPDX-License-Identifier: MIT
 *
 * Who is named to follow a holder, and when gdevd wakes up early.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <stdlib.h>
#include <sys/eventfd.h>

#include "gdevd/daemon.h"

/* ---- turns ---- */

/* A daemon with a holder and two who wait; its workers have a page and no socket. */
struct turning_fixture {
	struct daemon daemon;
	struct worker workers[3];
	struct worker_page pages[3];
	struct session sessions[3];
};

static struct turning_fixture *make_turning(void)
{
	struct turning_fixture *fixture = calloc(1, sizeof *fixture);

	for (unsigned i = 0; i < 3; i++) {
		fixture->workers[i].page = &fixture->pages[i];
		fixture->pages[i].revoke[RESOURCE_COMPUTE] = REVOKE_NOW; /* in its last turn */
		fixture->sessions[i] = (struct session){.daemon = &fixture->daemon,
			.worker = &fixture->workers[i],
			.id = 10 + i,
			.turns = true};
	}
	assert_int_equal(turns_init(&fixture->daemon), 0);
	return fixture;
}

static void a_holder_is_told_who_follows_and_gdevd_sees_whether_it_handed_over(void **state)
{
	struct turning_fixture *fixture = make_turning();
	struct daemon *daemon = &fixture->daemon;
	struct session *holder = &fixture->sessions[0], *next = &fixture->sessions[1],
		       *other = &fixture->sessions[2];
	uint64_t *word = &daemon->device.turning.page->resources[RESOURCE_COMPUTE].next;

	assert_true(turns_name(daemon, RESOURCE_COMPUTE, holder, next));
	assert_int_equal(*word, TURN_NEXT(10, 1));
	assert_int_equal(fixture->pages[1].revoke[RESOURCE_COMPUTE], REVOKE_NONE);
	assert_true(turns_name(daemon, RESOURCE_COMPUTE, holder, other)); /* it had not */
	assert_int_equal(*word, TURN_NEXT(10, 2));
	*word = 0; /* now it has */
	assert_false(turns_name(daemon, RESOURCE_COMPUTE, holder, next));
	assert_int_equal(*word, 0);
	assert_true(turns_name(daemon, RESOURCE_COMPUTE, other, NULL)); /* the next holder's */
	assert_true(turns_name(daemon, RESOURCE_COMPUTE, other, next));
	assert_true(turns_name(daemon, RESOURCE_COMPUTE, other, NULL));
	assert_int_equal(*word, 0);
	turns_finish(daemon);
	free(fixture);
}

static void who_needs_a_message_is_not_named(void **state)
{
	struct turning_fixture *fixture = make_turning();
	struct daemon *daemon = &fixture->daemon;
	struct session *holder = &fixture->sessions[0], *next = &fixture->sessions[1];
	uint64_t *word = &daemon->device.turning.page->resources[RESOURCE_COMPUTE].next;

	*word = TURN_NEXT(10, 1); /* what a worker may have written there */
	next->turns = false;      /* it came with an earlier gdevd */
	assert_true(turns_name(daemon, RESOURCE_COMPUTE, holder, next));
	assert_int_equal(*word, 0);
	next->turns = true;
	daemon->config.one_queue = true;
	assert_true(turns_name(daemon, RESOURCE_COMPUTE, holder, next));
	assert_int_equal(*word, 0);
	daemon->config.one_queue = false;
	next->worker->residency.dry =
		true; /* gdevd does not count on its memory until it is granted */
	assert_true(turns_name(daemon, RESOURCE_COMPUTE, holder, next));
	assert_int_equal(*word, 0);
	assert_int_equal(fixture->pages[1].revoke[RESOURCE_COMPUTE], REVOKE_NOW);
	assert_true(turns_name(daemon, RESOURCE_COMPUTE, holder, NULL));
	turns_finish(daemon);
	free(fixture);
}

/* ---- waking up together with a worker ---- */

static void finish_early(struct daemon *daemon)
{
	early_finish(daemon);
	deadlines_finish(&daemon->deadlines);
	uv_close((uv_handle_t *)&daemon->eager, NULL);
	uv_run(&daemon->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&daemon->loop), 0);
}

static void client_that_wakes_its_worker_wakes_gdevd_once(void **state)
{
	static struct daemon daemon;
	struct session session = {.daemon = &daemon};

	daemon_init(&daemon);
	session.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_int_equal(early_init(&daemon), 0);
	uv_run(&daemon.loop, UV_RUN_NOWAIT);
	assert_int_equal(eventfd_write(session.wake_fd, 1), 0);
	early_begin(&session); /* what was written before is no news */
	uv_run(&daemon.loop, UV_RUN_NOWAIT);
	assert_true(session.early);
	assert_int_equal(daemon.eager_until_ns, 0);
	assert_int_equal(eventfd_write(session.wake_fd, 1), 0);
	uv_run(&daemon.loop, UV_RUN_NOWAIT);
	assert_false(session.early);
	assert_true(daemon.eager_until_ns > 0);
	/* Once: not before it is asked for again. */
	daemon.eager_until_ns = 0;
	assert_int_equal(eventfd_write(session.wake_fd, 1), 0);
	uv_run(&daemon.loop, UV_RUN_NOWAIT);
	assert_int_equal(daemon.eager_until_ns, 0);
	early_begin(&session);
	early_session_finish(&session);
	assert_int_equal(session.wake_fd, -1);
	finish_early(&daemon);
}

/* What the holder's word says when the other's client has woken its worker. */
static uint32_t word_when_woken(struct session *holder, struct session *other)
{
	uv_loop_t *loop = &holder->daemon->loop;

	early_begin(other);
	uv_run(loop, UV_RUN_NOWAIT);
	assert_int_equal(eventfd_write(other->wake_fd, 1), 0);
	uv_run(loop, UV_RUN_NOWAIT);
	assert_false(other->early);
	return holder->worker->page->revoke[RESOURCE_COMPUTE];
}

static void holder_is_held_back_for_one_that_is_let_in_whenever_it_comes(void **state)
{
	static struct daemon daemon;
	struct worker_page page = {0}, next_page = {0};
	struct worker worker = {.page = &page}, next_worker = {.page = &next_page};
	struct session holder = {.daemon = &daemon, .worker = &worker, .id = 1},
		       other = {.daemon = &daemon, .id = 2},
		       next = {.daemon = &daemon, .worker = &next_worker, .id = 3};
	struct sched *sched = &daemon.device.sched[RESOURCE_COMPUTE];

	daemon_init(&daemon);
	assert_int_equal(early_init(&daemon), 0);
	other.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	sched->holder = &holder.entities[RESOURCE_COMPUTE];
	/* It has not been seen to come, or came too late. */
	assert_int_equal(word_when_woken(&holder, &other), REVOKE_NONE);
	early_asked(&other, true, other.woken_ns + NS_PER_S);
	assert_int_equal(word_when_woken(&holder, &other), REVOKE_NONE);
	early_asked(&other, true, other.woken_ns + 1);
	sched->revoked = REVOKE_WHEN_IDLE;
	assert_int_equal(word_when_woken(&holder, &other), REVOKE_SOON);
	/* It does not ask: the holder goes on, and is not held back for this one again. */
	while (page.revoke[RESOURCE_COMPUTE] == REVOKE_SOON)
		uv_run(&daemon.loop, UV_RUN_NOWAIT);
	assert_int_equal(page.revoke[RESOURCE_COMPUTE], REVOKE_WHEN_IDLE);
	assert_int_equal(word_when_woken(&holder, &other), REVOKE_WHEN_IDLE);
	/* Nor for one that is not let in when it asks. */
	early_asked(&other, false, other.woken_ns + 1);
	assert_int_equal(word_when_woken(&holder, &other), REVOKE_WHEN_IDLE);
	/* Who is told to leave anyway leaves. */
	early_asked(&other, true, other.woken_ns + 1);
	sched->revoked = page.revoke[RESOURCE_COMPUTE] = REVOKE_NOW;
	assert_int_equal(word_when_woken(&holder, &other), REVOKE_NOW);
	assert_int_equal(grants_word(&next, RESOURCE_COMPUTE, REVOKE_NONE), REVOKE_NONE);
	/* Whom it hands over to begins nothing either, nor does whoever is given the device by then. */
	early_asked(&other, true, other.woken_ns + 1);
	sched->named = &next.entities[RESOURCE_COMPUTE];
	assert_int_equal(word_when_woken(&holder, &other), REVOKE_NOW);
	assert_int_equal(next_page.revoke[RESOURCE_COMPUTE], REVOKE_SOON);
	assert_int_equal(grants_word(&next, RESOURCE_COMPUTE, REVOKE_WHEN_IDLE), REVOKE_SOON);
	assert_int_equal(grants_word(&next, RESOURCE_COMPUTE, REVOKE_NOW), REVOKE_NOW);
	assert_int_equal(grants_word(&next, RESOURCE_COPY_TO_DEVICE, REVOKE_NONE), REVOKE_NONE);
	assert_int_equal(grants_word(&other, RESOURCE_COMPUTE, REVOKE_NONE), REVOKE_NONE);
	while (grants_word(&next, RESOURCE_COMPUTE, REVOKE_NONE) == REVOKE_SOON)
		uv_run(&daemon.loop, UV_RUN_NOWAIT);
	early_session_finish(&other);
	finish_early(&daemon);
}

static void who_is_below_one_that_left_lately_is_told_that_it_may_come(void **state)
{
	static struct daemon daemon;
	static struct sched_group groups[2] = {{.node.priority = 10}, {.node.priority = 0}};
	struct worker_page page = {0};
	struct worker worker = {.page = &page};
	struct session holder = {.daemon = &daemon, .worker = &worker, .id = 1},
		       other = {.daemon = &daemon, .id = 2};
	struct sched *sched = &daemon.device.sched[RESOURCE_COMPUTE];

	daemon_init(&daemon);
	list_append(&daemon.sessions, &holder.link);
	list_append(&daemon.sessions, &other.link);
	holder.entities[RESOURCE_COMPUTE].group = &groups[1];
	other.entities[RESOURCE_COMPUTE].group = &groups[0];
	assert_int_equal(early_init(&daemon), 0);
	other.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	sched->holder = &holder.entities[RESOURCE_COMPUTE];
	assert_int_equal(grants_word(&holder, RESOURCE_COMPUTE, REVOKE_NONE), REVOKE_NONE);
	early_begin(&other);
	assert_int_equal(page.revoke[RESOURCE_COMPUTE], REVOKE_MAY_COME);
	assert_int_equal(grants_word(&holder, RESOURCE_COMPUTE, REVOKE_NONE), REVOKE_MAY_COME);
	assert_int_equal(
		grants_word(&holder, RESOURCE_COMPUTE, REVOKE_WHEN_IDLE), REVOKE_WHEN_IDLE);
	assert_int_equal(grants_word(&holder, RESOURCE_COPY_TO_DEVICE, REVOKE_NONE), REVOKE_NONE);
	/* It has been away for long. */
	other.left_ns -= 10 * NS_PER_S;
	while (page.revoke[RESOURCE_COMPUTE] == REVOKE_MAY_COME)
		uv_run(&daemon.loop, UV_RUN_ONCE);
	assert_int_equal(page.revoke[RESOURCE_COMPUTE], REVOKE_NONE);
	/* It comes, and leaves again; who is not below it is not concerned. */
	early_stop(&other);
	early_begin(&other);
	assert_true(early_may_come(&holder));
	groups[1].node.priority = 10;
	assert_false(early_may_come(&holder));
	holder.entities[RESOURCE_COMPUTE].node.nice = 5;
	assert_true(early_may_come(&holder));
	assert_false(early_may_come(&other));
	early_session_finish(&other);
	assert_false(early_may_come(&holder));
	list_remove(&holder.link);
	list_remove(&other.link);
	finish_early(&daemon);
}

/* It was away for so long, and comes. */
static void come_after(struct session *session, uint64_t away_ns)
{
	early_begin(session);
	uv_run(&session->daemon->loop, UV_RUN_NOWAIT);
	session->left_ns = clock_now_ns() - away_ns;
	assert_int_equal(eventfd_write(session->wake_fd, 1), 0);
	while (session->early)
		uv_run(&session->daemon->loop, UV_RUN_NOWAIT);
	early_asked(session, true, session->woken_ns);
}

/* It leaves, is expected after 20 ms, and comes before that or not at all. Whether gdevd waited for it. */
static bool wait_for(struct session *session, bool comes_before)
{
	struct daemon *daemon = session->daemon;

	daemon->early.expect_until_ns = 0;
	session->away_ns = 20 * NS_PER_MS;
	session->regular = true;
	early_stop(session);
	early_begin(session);
	assert_int_equal(session->expected_ns, session->left_ns + 20 * NS_PER_MS);
	if (comes_before)
		early_asks(session, clock_now_ns());
	while (session->expected_ns)
		uv_run(&daemon->loop, UV_RUN_ONCE);
	return daemon->early.expect_until_ns > session->left_ns;
}

static void one_that_comes_regularly_is_expected(void **state)
{
	static struct daemon daemon;
	struct worker worker = {0};
	struct session session = {.daemon = &daemon, .worker = &worker, .id = 2};
	bool expected = false;

	daemon_init(&daemon);
	list_append(&daemon.sessions, &session.link);
	assert_int_equal(early_init(&daemon), 0);
	session.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	come_after(&session, 6 * NS_PER_MS);
	come_after(&session, NS_PER_S);
	early_begin(&session);
	assert_int_equal(session.expected_ns, 0); /* nobody knows */
	for (unsigned i = 0; i < 500 && !expected; i++)
		expected = wait_for(
			&session, false); /* on a busy machine the timer may come too late */
	assert_true(expected);
	assert_false(wait_for(&session, true));
	early_stop(&session);
	session.away_ns = NS_PER_MS; /* too often */
	session.regular = true;
	early_begin(&session);
	assert_int_equal(session.expected_ns, 0);
	early_session_finish(&session);
	list_remove(&session.link);
	finish_early(&daemon);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_holder_is_told_who_follows_and_gdevd_sees_whether_it_handed_over),
		cmocka_unit_test(who_needs_a_message_is_not_named),
		cmocka_unit_test(client_that_wakes_its_worker_wakes_gdevd_once),
		cmocka_unit_test(holder_is_held_back_for_one_that_is_let_in_whenever_it_comes),
		cmocka_unit_test(who_is_below_one_that_left_lately_is_told_that_it_may_come),
		cmocka_unit_test(one_that_comes_regularly_is_expected),
	};

	return cmocka_run_group_tests_name("gdevd turns", tests, NULL, NULL);
}
