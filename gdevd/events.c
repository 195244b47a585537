/* SPDX-License-Identifier: MIT
 *
 * Events between sessions. A worker asks to be told when a timeline of another session reaches a
 * value; gdevd asks that session's worker, and carries the answer back. When the session it is about is
 * gone, or goes, nobody waits for ever. The value was reached if that session had reached all that it shared when it
 * ended, as its worker says; else the answer is -GDEV_E_SESSION_LOST. The last sessions that left something unreached
 * are remembered.
 *
 * After a restart the session that asks may be back before the session that is asked: such a watch is kept
 * unclaimed until that session registers, or some seconds have passed.
 */
#include "gdevd/daemon.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "gdev/error.h"

#define WATCHES_A_SESSION 4096
#define QUEUED_MAX 64 /* messages to a session that is asked */
#define BUCKETS 4096  /* of watches, by the serial that the asked session gets */

/* Two sessions of which one waits for the other. What concerns both takes a step for each pair, and not for each watch. */
struct event_pair {
	struct list by_asker; /* asker->waits_for */
	struct list by_asked; /* asked->waited_for */
	struct session *asked;
	struct list watches; /* struct watch; not empty but while one is added */
};

struct watch {
	struct list link;   /* pair->watches; daemon->watches_unclaimed, while there is no pair */
	struct list bucket; /* buckets */
	struct event_pair *pair;
	struct session *asker;
	uint32_t serial;       /* the asker's */
	uint32_t asked_serial; /* ours, towards who is asked */
	uint64_t session, value;
	uint32_t timeline;
};

static struct list *bucket_of(uint32_t asked_serial)
{
	static struct list buckets[BUCKETS];
	struct list *bucket = &buckets[asked_serial % BUCKETS];

	if (!bucket->next)
		list_init(bucket);
	return bucket;
}

static void send_event(const struct session *to, enum control_type type, const struct watch *watch,
	uint32_t serial, int status)
{
	struct control_event message = {
		.session = watch->session,
		.value = watch->value,
		.timeline = watch->timeline,
	};

	control_fill(&message, type, serial);
	message.header.status = status;
	connection_send(to->worker->connection, &message, NULL, 0);
}

static void answer_asker(struct session *asker, const struct watch *watch, int status)
{
	send_event(asker, CONTROL_EVENT_DONE, watch, watch->serial, status);
}

/* NULL: no memory. */
static struct event_pair *pair_of(struct session *asker, struct session *asked)
{
	struct event_pair *pair;

	list_for_each (pair, &asker->waits_for, by_asker)
		if (pair->asked == asked)
			return pair;
	pair = malloc(sizeof *pair);
	if (!pair)
		return NULL;
	pair->asked = asked;
	list_init(&pair->watches);
	list_append(&asker->waits_for, &pair->by_asker);
	list_append(&asked->waited_for, &pair->by_asked);
	return pair;
}

static void pair_destroy(struct event_pair *pair)
{
	struct session *asked = pair->asked;

	list_remove(&pair->by_asker);
	list_remove(&pair->by_asked);
	free(pair);
	if (list_empty(&asked->waited_for)) {
		nice_return(asked);
		nice_apply(asked);
	}
}

static void watch_destroy(struct watch *watch)
{
	struct event_pair *pair = watch->pair;

	list_remove(&watch->link);
	list_remove(&watch->bucket);
	watch->asker->watch_count--;
	free(watch);
	if (pair && list_empty(&pair->watches))
		pair_destroy(pair);
}

static void watch_finish(struct watch *watch, int status)
{
	answer_asker(watch->asker, watch, status);
	watch_destroy(watch);
}

static void forward_watch(struct watch *watch, struct session *asked)
{
	static uint32_t serials;

	list_remove(&watch->link);
	watch->pair = pair_of(watch->asker, asked);
	if (!watch->pair) {
		watch_finish(watch, -ENOMEM);
		return;
	}
	list_append(&watch->pair->watches, &watch->link);
	nice_refresh(watch->asker);
	nice_lend(watch->asker, asked);
	nice_apply(asked);
	watch->asked_serial = ++serials ? serials : ++serials;
	list_append(bucket_of(watch->asked_serial), &watch->bucket);
	send_event(asked, CONTROL_EVENT_WATCH, watch, watch->asked_serial, 0);
}

/* The worker does not read what it is sent. It would be dropped for that, so it is asked nothing more. */
static bool is_deaf(const struct session *asked)
{
	const struct connection *connection = asked->worker->connection;

	return connection && connection->queued_packets >= QUEUED_MAX;
}

/* ---- sessions that are gone ---- */

void events_remember_unreached(struct daemon *daemon, uint64_t session)
{
	struct unreached *unreached = &daemon->unreached;

	unreached->sessions[unreached->count++ % array_length(unreached->sessions)] = session;
}

/* What a session is answered that waits for one which is not there. 0: that one ended well. */
static int status_of_gone(const struct daemon *daemon, uint64_t session)
{
	const struct unreached *unreached = &daemon->unreached;

	if (session_place(daemon, session)) /* it was to come back after a restart, and has not */
		return -GDEV_E_SESSION_LOST;
	for (size_t i = 0; i < min_of(unreached->count, array_length(unreached->sessions)); i++)
		if (unreached->sessions[i] == session)
			return -GDEV_E_SESSION_LOST;
	return 0;
}

static bool may_come_back(const struct daemon *daemon, uint64_t session)
{
	return !list_empty(&daemon->restored.link) && session_place(daemon, session);
}

/* A session may wait for the events of sessions of its own user, and of its own virtual GPU. */
static bool may_watch(const struct session *asker, const struct session *asked)
{
	return asked->vgpu == asker->vgpu || asked->uid == asker->uid;
}

int events_watch(struct session *session, const struct control_header *header)
{
	const struct control_event *message = (const struct control_event *)header;
	struct session *asked = session_find(session->daemon, message->session);
	struct watch *watch;
	struct watch refused = {
		.serial = message->header.serial,
		.session = message->session,
		.value = message->value,
		.timeline = message->timeline,
	};
	int status = 0;

	if (asked && !may_watch(session, asked))
		status = -EACCES;
	else if (session->watch_count >= WATCHES_A_SESSION || (asked && is_deaf(asked)))
		status = -EAGAIN;
	if (!status && !asked && !may_come_back(session->daemon, message->session)) {
		answer_asker(session, &refused, status_of_gone(session->daemon, message->session));
		return 0;
	}
	watch = status ? NULL : malloc(sizeof *watch);
	if (!watch) {
		answer_asker(session, &refused, status ? status : -ENOMEM);
		return 0;
	}
	*watch = refused;
	watch->asker = session;
	list_init(&watch->link);
	list_init(&watch->bucket);
	session->watch_count++;
	if (asked)
		forward_watch(watch, asked);
	else
		list_append(&session->daemon->watches_unclaimed, &watch->link);
	return 0;
}

int events_done(struct session *session, const struct control_header *header)
{
	const struct control_event *message = (const struct control_event *)header;
	uint32_t serial = message->header.serial;
	struct watch *watch;

	list_for_each (watch, bucket_of(serial), bucket)
		if (watch->asked_serial == serial && watch->pair->asked == session) {
			/* It is another session's word: reached, or it cannot tell. */
			watch_finish(watch, message->header.status ? -EAGAIN : 0);
			break;
		}
	return 0; /* or the session that asked is gone */
}

void events_lend_nice(struct daemon *daemon)
{
	struct event_pair *pair;
	struct session *asker;

	list_for_each (asker, &daemon->sessions, link)
		list_for_each (pair, &asker->waits_for, by_asker)
			nice_lend(asker, pair->asked);
}

void events_session_restored(struct session *session)
{
	struct watch *watch, *after;

	list_for_each_safe (watch, after, &session->daemon->watches_unclaimed, link) {
		if (watch->session != session->id)
			continue;
		if (is_deaf(session))
			watch_finish(watch, -EAGAIN);
		else if (may_watch(watch->asker, session))
			forward_watch(watch, session);
		else
			watch_finish(watch, -EACCES);
	}
}

void events_give_up_unclaimed(struct daemon *daemon)
{
	struct watch *watch, *after;

	list_for_each_safe (watch, after, &daemon->watches_unclaimed, link)
		watch_finish(watch, status_of_gone(daemon, watch->session));
}

void events_session_finish(struct session *session)
{
	struct event_pair *pair;
	struct watch *watch, *after;

	while ((pair = list_first(&session->waits_for, struct event_pair, by_asker)))
		watch_destroy(list_first(&pair->watches, struct watch, link));
	while ((pair = list_first(&session->waited_for, struct event_pair, by_asked)))
		watch_finish(list_first(&pair->watches, struct watch, link),
			session->events_reached ? 0 : -GDEV_E_SESSION_LOST);
	list_for_each_safe (watch, after, &session->daemon->watches_unclaimed, link)
		if (watch->asker == session)
			watch_destroy(watch);
	/* A session that its client never knew has shared none. */
	if (!session->events_reached && session->worker->state != WORKER_ATTACHING)
		events_remember_unreached(session->daemon, session->id);
}
