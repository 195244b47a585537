/* SPDX-License-Identifier: MIT
 *
 * Completion: the worker's half of the protocol at struct session_timeline, and what in the worker waits for the
 * same values. With the core's lock.
 */

#include "worker/command.h"
#include "worker/core.h"

void timeline_look_again(struct core *core, uint32_t timeline, uint64_t value)
{
	struct list *waiters = &core->streams.waiters[timeline];
	struct stream *stream, *next;

	list_for_each_safe (stream, next, waiters, link) {
		struct command *first = list_first(&stream->queued, struct command, link);
		if (first->request.wait->awaited_value <= value)
			stream_ready(core, stream);
	}
}

static void release_followers(struct core *core, uint32_t timeline)
{
	struct command *command, *next;

	list_for_each_safe (command, next, &core->streams.followers[timeline], flight_link)
		if (command->request.wait->awaited_value <= core->streams.completed[timeline])
			stream_released(core, command);
}

void timeline_complete(struct core *core, uint32_t timeline, uint64_t value)
{
	struct session_timeline *shared = &core->segment->timelines[timeline];
	uint64_t want;

	if (value <= core->streams.completed[timeline])
		return; /* grows only; a reply slot that was reused too early */
	core->streams.completed[timeline] = value;
	__atomic_store_n(&shared->completed, value, __ATOMIC_RELEASE);
	/* Pairs with the client's fence between storing `want` and looking at `completed`. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	want = __atomic_load_n(&shared->want, __ATOMIC_RELAXED);
	if (want && want <= value)
		core_wake_client(core);
	if (timeline && !list_empty(&core->streams.waiters[timeline]))
		timeline_look_again(core, timeline, value);
	if (!list_empty(&core->streams.followers[timeline]))
		release_followers(core, timeline);
	if (!list_empty(&core->events.watches))
		events_progress(core, timeline);
}

void timeline_error(struct core *core, uint32_t timeline, int error)
{
	struct session_timeline *shared = &core->segment->timelines[timeline];

	__atomic_store_n(&shared->error, error, __ATOMIC_RELAXED);
	/* Only the client goes by it, who may write there. */
	__atomic_fetch_add(&shared->failures, 1, __ATOMIC_RELEASE);
}

/* Everything is released that waits for a value of a record which we have read. What we have not read yet ends with
 * the hang-up of the peer socket, and the session's error. */
void timelines_release(struct core *core, int error)
{
	for (uint32_t i = 0; i < SESSION_TIMELINES; i++) {
		struct streams *streams = &core->streams;
		if (streams->posted[i] <= streams->completed[i])
			continue;
		if (i < SESSION_REPLIES) {
			struct session_reply *reply = &core->segment->replies[i];
			__atomic_store_n(&reply->length, 0, __ATOMIC_RELAXED);
			__atomic_store_n(&reply->status, error, __ATOMIC_RELAXED);
		} else {
			timeline_error(core, i, error);
		}
		timeline_complete(core, i, streams->posted[i]);
	}
}
