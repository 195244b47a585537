/* SPDX-License-Identifier: MIT
 *
 * Streams are timelines of the session segment: the number of the last record sent and the number of the
 * last one completed say all about a stream. A stream that the user destroys lives on at the worker until
 * its work is done; its timeline is used again only then, and its values go on counting.
 */
#include <errno.h>

#include "base/clock.h"
#include "lib/libgdev/internal.h"

/* A stream that the user has destroyed. */
struct leaver {
	struct list link;
	uint32_t timeline;
	uint64_t last;
};

static struct session_timeline *timeline_of(const struct gdev_stream *stream)
{
	return &stream->session->transport->segment->timelines[stream->timeline];
}

/* ---- timelines ---- */

static int take_timeline(struct streams *streams, uint32_t *timeline)
{
	for (uint32_t i = 0; i < array_length(streams->used); i++) {
		if (streams->used[i] == UINT64_MAX)
			continue;
		unsigned bit = (unsigned)__builtin_ctzll(~streams->used[i]);
		streams->used[i] |= 1ull << bit;
		*timeline = i * 64 + bit;
		return 0;
	}
	return -ENOMEM;
}

static void give_timeline(struct streams *streams, uint32_t timeline)
{
	streams->used[timeline / 64] &= ~(1ull << timeline % 64);
}

static int request_stream(
	struct gdev_session *session, uint16_t opcode, struct record_stream record)
{
	return session_request(session, opcode, &record, sizeof record, NULL, 0, NULL, 0, 0);
}

/* Tells the worker about destroyed streams whose work is done. */
static void see_off(struct gdev_session *session)
{
	struct streams *streams = &session->streams;
	struct leaver *leaver, *next;
	struct list done;

	list_init(&done);
	pthread_mutex_lock(&streams->lock);
	list_for_each_safe (leaver, next, &streams->leaving, link) {
		struct gdev_fence end = {.timeline = leaver->timeline, .value = leaver->last};
		if (!transport_reached(session->transport, &end))
			continue;
		list_remove(&leaver->link);
		list_append(&done, &leaver->link);
	}
	pthread_mutex_unlock(&streams->lock);
	list_for_each_safe (leaver, next, &done, link) {
		int error = request_stream(session, RECORD_STREAM_DESTROY,
			(struct record_stream){.stream = leaver->timeline});
		pthread_mutex_lock(&streams->lock);
		if (!error)
			give_timeline(streams, leaver->timeline);
		pthread_mutex_unlock(&streams->lock);
		free(leaver);
	}
}

/* ---- life ---- */

int gdev_stream_create(struct gdev_session *session, int priority, struct gdev_stream **stream)
{
	return gdev_stream_create_on(session, priority, (struct gdev_part){0}, stream);
}

int gdev_stream_create_on(struct gdev_session *session, int priority, struct gdev_part part,
	struct gdev_stream **created)
{
	struct streams *streams = &session->streams;
	struct gdev_stream *stream;
	int error = gdev_session_error(session, NULL);

	if (error)
		return error;
	stream = calloc(1, sizeof *stream);
	if (!stream)
		return -ENOMEM;
	see_off(session);
	stream->session = session;
	pthread_mutex_lock(&streams->lock);
	error = take_timeline(streams, &stream->timeline);
	pthread_mutex_unlock(&streams->lock);
	if (error)
		goto err_free;
	stream->last = session->next[stream->timeline];
	stream->failures_seen = __atomic_load_n(&timeline_of(stream)->failures, __ATOMIC_ACQUIRE);
	error = request_stream(session, RECORD_STREAM_CREATE,
		(struct record_stream){.stream = stream->timeline,
			.priority = priority,
			.first_multiprocessor = part.first,
			.multiprocessors = part.count});
	pthread_mutex_lock(&streams->lock);
	if (error)
		give_timeline(streams, stream->timeline);
	else
		list_append(&streams->live, &stream->link);
	pthread_mutex_unlock(&streams->lock);
	if (error)
		goto err_free;
	*created = stream;
	return 0;

err_free:
	free(stream);
	return error;
}

void gdev_stream_destroy(struct gdev_stream *stream)
{
	struct gdev_session *session;
	struct leaver *leaver;

	if (!stream)
		return;
	session = stream->session;
	if (session->forked) {
		free(stream);
		return;
	}
	leaver = malloc(sizeof *leaver);
	pthread_mutex_lock(&session->streams.lock);
	list_remove(&stream->link);
	if (leaver) { /* without: its timeline is never used again */
		leaver->timeline = stream->timeline;
		leaver->last = stream->last;
		list_append(&session->streams.leaving, &leaver->link);
	}
	pthread_mutex_unlock(&session->streams.lock);
	free(stream);
	if (!session_lost(session))
		see_off(session);
}

int streams_init(struct gdev_session *session)
{
	struct streams *streams = &session->streams;

	pthread_mutex_init(&streams->lock, NULL);
	list_init(&streams->live);
	list_init(&streams->leaving);
	for (uint32_t i = 0; i < SESSION_REPLIES; i++)
		streams->used[i / 64] |= 1ull << i % 64;
	return 0;
}

void streams_finish(struct gdev_session *session)
{
	struct gdev_stream *stream, *next_stream;
	struct leaver *leaver, *next;

	list_for_each_safe (stream, next_stream, &session->streams.live, link)
		free(stream);
	list_for_each_safe (leaver, next, &session->streams.leaving, link)
		free(leaver);
	pthread_mutex_destroy(&session->streams.lock);
}

/* ---- fences ---- */

void gdev_stream_fence(struct gdev_stream *stream, struct gdev_fence *fence)
{
	*fence = (struct gdev_fence){.timeline = stream->timeline,
		.value = atomic_load_explicit(&stream->last, memory_order_acquire)};
}

uint64_t gdev_stream_device_ns(struct gdev_stream *stream)
{
	return __atomic_load_n(&timeline_of(stream)->device_ns, __ATOMIC_RELAXED);
}

int gdev_fence_wait_until(
	struct gdev_session *session, const struct gdev_fence *fence, uint64_t deadline_ns)
{
	struct transport *transport = session->transport;
	int error;

	if (!fence->value)
		return gdev_session_error(session, NULL);
	error = transport->ops->wait(transport, fence, 1, deadline_ns, NULL);
	return error < 0 ? error : gdev_session_error(session, NULL);
}

int gdev_fence_wait(struct gdev_session *session, const struct gdev_fence *fence)
{
	return gdev_fence_wait_until(session, fence, FOREVER);
}

int gdev_fence_query(struct gdev_session *session, const struct gdev_fence *fence)
{
	int error = gdev_session_error(session, NULL);

	if (error)
		return error;
	return !fence->value || transport_reached(session->transport, fence) ? 0
									     : -GDEV_E_NOT_READY;
}

int stream_take_error(struct gdev_stream *stream)
{
	int error = gdev_session_error(stream->session, NULL);
	uint32_t failures;

	if (error)
		return error;
	error = atomic_load_explicit(&stream->unsent, memory_order_relaxed);
	if (error)
		return atomic_exchange(&stream->unsent, 0);
	failures = __atomic_load_n(&timeline_of(stream)->failures, __ATOMIC_ACQUIRE);
	if (failures == atomic_load_explicit(&stream->failures_seen, memory_order_relaxed) ||
		atomic_exchange(&stream->failures_seen, failures) == failures)
		return 0;
	return __atomic_load_n(&timeline_of(stream)->error, __ATOMIC_RELAXED);
}

int gdev_stream_error(struct gdev_stream *stream)
{
	return stream_take_error(stream);
}

void gdev_stream_fail(struct gdev_stream *stream, int error)
{
	atomic_store(&stream->unsent, error);
}

int gdev_stream_query(struct gdev_stream *stream)
{
	struct gdev_fence fence;
	int error;

	gdev_stream_fence(stream, &fence);
	error = gdev_fence_query(stream->session, &fence);
	return error ? error : stream_take_error(stream);
}

int gdev_stream_sync_until(struct gdev_stream *stream, uint64_t deadline_ns)
{
	struct gdev_fence fence;
	int error;

	gdev_stream_fence(stream, &fence);
	error = gdev_fence_wait_until(stream->session, &fence, deadline_ns);
	if (!error)
		error = stream_take_error(stream);
	gdev_session_flush(stream->session);
	return error;
}

int gdev_stream_sync(struct gdev_stream *stream)
{
	return gdev_stream_sync_until(stream, FOREVER);
}

int gdev_stream_wait(struct gdev_stream *stream, const struct gdev_fence *fence)
{
	struct gdev_session *session = stream->session;
	struct record_wait *record;
	int error;

	/* A point that is reached needs no waiting for, and the stream's own points come in order by themselves. */
	if (!fence->value || fence->timeline == stream->timeline)
		return gdev_session_error(session, NULL);
	if (!session_lost(session) && transport_reached(session->transport, fence))
		return gdev_session_error(session, NULL);
	error = stream_begin(stream, RECORD_WAIT, sizeof *record, &record);
	if (error)
		return error;
	record->awaited = fence->timeline;
	record->reserved = 0;
	record->awaited_value = fence->value;
	stream->may_block = stream->last;
	record_commit(session);
	return 0;
}

/* ---- all streams ---- */

/* The ends of all streams that are not there yet; malloc'ed. */
static int collect_busy(struct gdev_session *session, struct gdev_fence **fences, size_t *count)
{
	struct streams *streams = &session->streams;
	struct gdev_stream *stream;
	struct leaver *leaver;
	size_t capacity = 0;

	*fences = NULL;
	*count = 0;
	list_for_each (stream, &streams->live, link)
		capacity++;
	list_for_each (leaver, &streams->leaving, link)
		capacity++;
	if (!capacity)
		return 0;
	*fences = malloc(capacity * sizeof **fences);
	if (!*fences)
		return -ENOMEM;
	list_for_each (stream, &streams->live, link) {
		struct gdev_fence *fence = &(*fences)[*count];
		gdev_stream_fence(stream, fence);
		*count += !transport_reached(session->transport, fence);
	}
	list_for_each (leaver, &streams->leaving, link) {
		struct gdev_fence *fence = &(*fences)[*count];
		*fence = (struct gdev_fence){.timeline = leaver->timeline, .value = leaver->last};
		*count += !transport_reached(session->transport, fence);
	}
	return 0;
}

static int first_unseen_error(struct streams *streams)
{
	struct gdev_stream *stream;
	int error = 0;

	list_for_each (stream, &streams->live, link)
		if (!error)
			error = stream_take_error(stream);
	return error;
}

static bool stream_is_busy(
	struct gdev_session *session, struct gdev_stream *stream, struct gdev_fence *fence)
{
	uint32_t mine = calls_timeline(session);
	struct gdev_fence blocker = {.timeline = stream->timeline, .value = stream->may_block};

	gdev_stream_fence(stream, fence);
	if (stream->timeline == mine)
		return false;
	if (mine != UINT32_MAX && !transport_reached(session->transport, &blocker))
		fence->value = blocker.value - 1;
	return !transport_reached(session->transport, fence);
}

bool streams_first_busy(
	struct gdev_session *session, const struct gdev_stream *but, struct gdev_fence *fence)
{
	struct streams *streams = &session->streams;
	struct gdev_stream *stream;
	struct leaver *leaver;
	bool busy = false;

	pthread_mutex_lock(&streams->lock);
	list_for_each (stream, &streams->live, link)
		if (!busy && stream != but)
			busy = stream_is_busy(session, stream, fence);
	list_for_each (leaver, &streams->leaving, link) {
		if (busy || leaver->timeline == calls_timeline(session))
			continue;
		*fence = (struct gdev_fence){.timeline = leaver->timeline, .value = leaver->last};
		busy = !transport_reached(session->transport, fence);
	}
	pthread_mutex_unlock(&streams->lock);
	return busy;
}

int streams_drain(struct gdev_session *session)
{
	struct streams *streams = &session->streams;
	struct gdev_fence *fences;
	size_t count;
	int error;

	if (session_lost(session))
		return transport_error(session->transport);
	pthread_mutex_lock(&streams->lock);
	error = collect_busy(session, &fences, &count);
	pthread_mutex_unlock(&streams->lock);
	for (size_t i = 0; i < count && !error; i++)
		error = gdev_fence_wait(session, &fences[i]);
	free(fences);
	return error;
}

int streams_sync(struct gdev_session *session)
{
	struct streams *streams = &session->streams;
	int error = streams_drain(session);

	if (error)
		return error;
	pthread_mutex_lock(&streams->lock);
	error = first_unseen_error(streams);
	pthread_mutex_unlock(&streams->lock);
	return error;
}
