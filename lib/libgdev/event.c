/* SPDX-License-Identifier: MIT
 *
 * Events: a point in a stream, and for those that measure, a stamp that the worker writes when the stream
 * gets there. Recording one without timing costs nothing: it only notes where the stream is.
 */
#include <errno.h>

#include "lib/libgdev/internal.h"

#define NO_STAMP UINT32_MAX

struct gdev_event {
	struct gdev_session *session;
	uint32_t stamp;
	pthread_mutex_t lock; /* guards what follows */
	bool recorded;
	struct gdev_fence fence;
};

static int take_stamp(struct gdev_session *session, uint32_t *stamp)
{
	int error = -ENOMEM;

	pthread_mutex_lock(&session->lock);
	for (uint32_t i = 0; i < array_length(session->stamps) && error; i++) {
		if (session->stamps[i] == UINT64_MAX)
			continue;
		unsigned bit = (unsigned)__builtin_ctzll(~session->stamps[i]);
		session->stamps[i] |= 1ull << bit;
		*stamp = i * 64 + bit;
		error = 0;
	}
	pthread_mutex_unlock(&session->lock);
	return error;
}

static void give_stamp(struct gdev_session *session, uint32_t stamp)
{
	pthread_mutex_lock(&session->lock);
	session->stamps[stamp / 64] &= ~(1ull << stamp % 64);
	pthread_mutex_unlock(&session->lock);
}

int gdev_event_create(struct gdev_session *session, bool timing, struct gdev_event **created)
{
	struct gdev_event *event;
	int error = gdev_session_error(session, NULL);

	if (error)
		return error;
	event = calloc(1, sizeof *event);
	if (!event)
		return -ENOMEM;
	event->session = session;
	event->stamp = NO_STAMP;
	if (timing)
		error = take_stamp(session, &event->stamp);
	if (error) {
		free(event);
		return error;
	}
	pthread_mutex_init(&event->lock, NULL);
	*created = event;
	return 0;
}

void gdev_event_destroy(struct gdev_event *event)
{
	if (!event)
		return;
	/* A record under way may still write the stamp: another event that gets it then is recorded
	 * later, and so written later. */
	if (event->stamp != NO_STAMP && !event->session->forked)
		give_stamp(event->session, event->stamp);
	pthread_mutex_destroy(&event->lock);
	free(event);
}

static void get_fence(struct gdev_event *event, struct gdev_fence *fence, bool *recorded)
{
	pthread_mutex_lock(&event->lock);
	*fence = event->fence;
	*recorded = event->recorded;
	pthread_mutex_unlock(&event->lock);
}

int gdev_event_record(struct gdev_event *event, struct gdev_stream *stream)
{
	struct gdev_session *session = stream->session;
	struct record_stamp *record;
	int error = 0;

	if (event->session != session)
		return -EINVAL;
	if (session_lost(session))
		return transport_error(session->transport);
	pthread_mutex_lock(&event->lock);
	if (event->stamp != NO_STAMP) {
		error = stream_begin(stream, RECORD_STAMP, sizeof *record, &record);
		if (!error) {
			record->stamp = event->stamp;
			record->reserved = 0;
			gdev_stream_fence(stream, &event->fence);
			record_commit(session);
		}
	} else {
		gdev_stream_fence(stream, &event->fence);
	}
	if (!error)
		event->recorded = true;
	pthread_mutex_unlock(&event->lock);
	return error;
}

int gdev_event_query(struct gdev_event *event)
{
	struct gdev_fence fence;
	bool recorded;

	get_fence(event, &fence, &recorded);
	return gdev_fence_query(event->session, &fence);
}

int gdev_event_sync(struct gdev_event *event)
{
	struct gdev_fence fence;
	bool recorded;
	int error;

	get_fence(event, &fence, &recorded);
	error = gdev_fence_wait(event->session, &fence);
	gdev_session_flush(event->session);
	return error;
}

int gdev_stream_wait_event(struct gdev_stream *stream, struct gdev_event *event)
{
	struct gdev_fence fence;
	bool recorded;

	if (event->session != stream->session)
		return -EINVAL;
	get_fence(event, &fence, &recorded);
	return gdev_stream_wait(stream, &fence);
}

int gdev_event_elapsed(struct gdev_event *start, struct gdev_event *end, int64_t *ns)
{
	struct gdev_session *session = start->session;
	struct gdev_fence from, to;
	bool start_recorded, end_recorded;
	const uint64_t *stamps;
	int error;

	if (end->session != session || start->stamp == NO_STAMP || end->stamp == NO_STAMP)
		return -EINVAL;
	get_fence(start, &from, &start_recorded);
	get_fence(end, &to, &end_recorded);
	if (!start_recorded || !end_recorded)
		return -EINVAL;
	error = gdev_fence_query(session, &from);
	if (!error)
		error = gdev_fence_query(session, &to);
	if (error)
		return error;
	stamps = session->transport->segment->stamps;
	*ns = (int64_t)(__atomic_load_n(&stamps[end->stamp], __ATOMIC_RELAXED) -
			__atomic_load_n(&stamps[start->stamp], __ATOMIC_RELAXED));
	return 0;
}

int fence_share(struct gdev_session *session, const struct gdev_fence *fence, uint64_t *id)
{
	struct record_event record = {.stream = fence->timeline, .stream_value = fence->value};
	struct reply_event reply;
	int error = session_request(session, RECORD_EVENT_SHARE, &record, sizeof record, NULL, 0,
		&reply, sizeof reply, sizeof reply);

	if (error)
		return error;
	*id = reply.event;
	return 0;
}

int gdev_event_share(struct gdev_event *event, uint64_t *id)
{
	struct gdev_fence fence;
	bool recorded;

	get_fence(event, &fence, &recorded);
	return recorded ? fence_share(event->session, &fence, id) : -EINVAL;
}

int gdev_stream_wait_shared(struct gdev_stream *stream, uint64_t id)
{
	struct record_event *record;
	int error = stream_begin(stream, RECORD_EVENT_WAIT, sizeof *record, &record);

	if (error)
		return error;
	record->event = id;
	record->stream = 0;
	record->reserved = 0;
	record->stream_value = 0;
	stream->may_block = stream->last;
	record_commit(stream->session);
	return 0;
}
