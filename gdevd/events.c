/* SPDX-License-Identifier: MIT
 *
 * Events between sessions. A worker asks to be told when a timeline of another session reaches a
 * value; gdevd asks that session's worker, and carries the answer back. When the session it is about is
 * gone, or goes, the answer is -GDEV_E_SESSION_LOST: nobody waits for ever.
 *
 * After a restart the one who asks may be back before the one who is asked: such a watch is kept
 * unclaimed until that one registers, or some seconds have passed.
 */
#include "gdevd/daemon.h"

#include <errno.h>
#include <stdlib.h>

#include "gdev/error.h"

#define WATCHES_A_SESSION 4096
#define QUEUED_MAX 64 /* messages to one that is asked */

struct watch {
	struct list by_asker;  /* asker->watches */
	struct list unclaimed; /* daemon->watches_unclaimed, while there is no `asked` */
	struct session *asker, *asked;
	uint32_t serial;       /* the asker's */
	uint32_t asked_serial; /* ours, towards `asked` */
	uint64_t session, value;
	uint32_t timeline;
};

static void answer(struct session *asker, const struct watch *watch, int status)
{
	struct control_event message = {
		.session = watch->session,
		.value = watch->value,
		.timeline = watch->timeline,
	};

	control_fill(&message, CONTROL_EVENT_DONE, watch->serial);
	message.header.status = status;
	if (asker->worker->connection)
		connection_send(asker->worker->connection, &message, NULL, 0);
}

static void watch_destroy(struct watch *watch)
{
	list_remove(&watch->by_asker);
	list_remove(&watch->unclaimed);
	watch->asker->watch_count--;
	if (watch->asked && --watch->asked->watchers == 0) {
		nice_return(watch->asked);
		nice_apply(watch->asked);
	}
	free(watch);
}

static void watch_finish(struct watch *watch, int status)
{
	answer(watch->asker, watch, status);
	watch_destroy(watch);
}

static void forward(struct watch *watch, struct session *asked)
{
	static uint32_t serials;
	struct control_event message = {
		.session = watch->session,
		.value = watch->value,
		.timeline = watch->timeline,
	};

	list_remove(&watch->unclaimed);
	watch->asked = asked;
	asked->watchers++;
	nice_refresh(watch->asker);
	nice_lend(watch->asker, asked);
	nice_apply(asked);
	watch->asked_serial = ++serials ? serials : ++serials;
	control_fill(&message, CONTROL_EVENT_WATCH, watch->asked_serial);
	if (asked->worker->connection)
		connection_send(asked->worker->connection, &message, NULL, 0);
}

/* It does not read what it is sent: rather than that it is dropped for it, nobody may ask it more. */
static bool is_deaf(const struct session *asked)
{
	const struct connection *connection = asked->worker->connection;

	return connection && connection->queued_packets >= QUEUED_MAX;
}

/* Whoever may use the same virtual GPU, or is the same user, may wait for it. */
static bool may_watch(const struct session *asker, const struct session *asked)
{
	return asked->vgpu == asker->vgpu || asked->uid == asker->uid;
}

int events_watch(struct session *session, const struct control_event *message)
{
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
	else if (!asked && list_empty(&session->daemon->restored.link))
		status = -GDEV_E_SESSION_LOST;
	watch = status ? NULL : malloc(sizeof *watch);
	if (!watch) {
		answer(session, &refused, status ? status : -ENOMEM);
		return 0;
	}
	*watch = refused;
	watch->asker = session;
	list_init(&watch->unclaimed);
	list_append(&session->watches, &watch->by_asker);
	session->watch_count++;
	if (asked)
		forward(watch, asked);
	else
		list_append(&session->daemon->watches_unclaimed, &watch->unclaimed);
	return 0;
}

int events_done(struct session *session, const struct control_event *message)
{
	struct session *asker;
	struct watch *watch;

	list_for_each (asker, &session->daemon->sessions, link) {
		list_for_each (watch, &asker->watches, by_asker) {
			if (watch->asked != session ||
				watch->asked_serial != message->header.serial)
				continue;
			watch_finish(watch, 0); /* what else it says is another session's word */
			return 0;
		}
	}
	return 0; /* the one who asked is gone */
}

void events_lend_nice(struct daemon *daemon)
{
	struct session *asker;
	struct watch *watch;

	list_for_each (asker, &daemon->sessions, link)
		list_for_each (watch, &asker->watches, by_asker)
			if (watch->asked)
				nice_lend(asker, watch->asked);
}

void events_session_restored(struct session *session)
{
	struct watch *watch, *after;

	list_for_each_safe (watch, after, &session->daemon->watches_unclaimed, unclaimed) {
		if (watch->session != session->id)
			continue;
		if (may_watch(watch->asker, session))
			forward(watch, session);
		else
			watch_finish(watch, -EACCES);
	}
}

void events_give_up_unclaimed(struct daemon *daemon)
{
	struct watch *watch, *after;

	list_for_each_safe (watch, after, &daemon->watches_unclaimed, unclaimed)
		watch_finish(watch, -GDEV_E_SESSION_LOST);
}

void events_session_finish(struct session *session)
{
	struct session *other;
	struct watch *watch, *after;

	list_for_each_safe (watch, after, &session->watches, by_asker)
		watch_destroy(watch);
	list_for_each (other, &session->daemon->sessions, link) {
		list_for_each_safe (watch, after, &other->watches, by_asker)
			if (watch->asked == session)
				watch_finish(watch, -GDEV_E_SESSION_LOST);
	}
}
