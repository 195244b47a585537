/* SPDX-License-Identifier: MIT
 *
 * Host functions. The stream is made to wait (RECORD_WAIT on timeline 0) for header.host_completed to reach
 * the call's number; a thread of the library, started at the first call, waits until the stream has got
 * there, runs the function, and moves host_completed on. Functions of different streams run in the order
 * in which their streams get to them; host_completed, being one number, moves on when all calls with
 * lower numbers are done too.
 *
 * The thread blocks all signals, so that the application's handlers never run on it, but that of a fault: a function may
 * touch managed memory. It does not exist in a forked child.
 */
#include <errno.h>
#include <signal.h>

#include "lib/libgdev/managed.h"

#define HEADS_MAX 64 /* calls that are waited for at once */

struct call {
	struct list link;
	struct gdev_fence ready; /* the commands before it are done */
	uint64_t value;
	bool done;
	void (*function)(void *argument, int error);
	void *argument;
};

static _Thread_local struct {
	const struct gdev_session *session;
	uint32_t timeline;
} running; /* the host function that this thread runs */

uint32_t calls_timeline(const struct gdev_session *session)
{
	return running.session == session ? running.timeline : UINT32_MAX;
}

void calls_init(struct gdev_session *session)
{
	pthread_mutex_init(&session->calls.lock, NULL);
	pthread_cond_init(&session->calls.changed, NULL);
	list_init(&session->calls.queued);
}

/* The first call of each stream; only the thread removes calls, so they stay. With the lock. */
static unsigned collect_heads(
	struct calls *calls, struct call *heads[HEADS_MAX], struct gdev_fence fences[HEADS_MAX])
{
	unsigned count = 0;
	struct call *call;

	list_for_each (call, &calls->queued, link) {
		bool behind = call->done;
		for (unsigned i = 0; i < count && !behind; i++)
			behind = heads[i]->ready.timeline == call->ready.timeline;
		if (behind)
			continue;
		heads[count] = call;
		fences[count++] = call->ready;
		if (count == HEADS_MAX)
			break;
	}
	return count;
}

/* Takes finished calls from the front and publishes the last one's number. With the lock. */
static void retire_calls(struct gdev_session *session)
{
	struct calls *calls = &session->calls;
	uint64_t completed = 0;
	struct call *call, *next;

	list_for_each_safe (call, next, &calls->queued, link) {
		if (!call->done)
			break;
		completed = call->value;
		list_remove(&call->link);
		free(call);
	}
	if (!completed)
		return;
	__atomic_store_n(
		&session->transport->segment->header.host_completed, completed, __ATOMIC_RELEASE);
	session->transport->ops->kick(session->transport);
}

/* Waits for the first head that is ready and runs it. */
static void run_one(struct gdev_session *session, struct call *const *heads,
	const struct gdev_fence *fences, unsigned count)
{
	struct transport *transport = session->transport;
	int which = transport->ops->wait(transport, fences, count, FOREVER, &session->calls.poked);
	int error = gdev_session_error(session, NULL);
	struct call *call;

	if (which == -ECANCELED)
		return;
	call = heads[which < 0 ? 0 : which];
	running.session = session;
	running.timeline = call->ready.timeline;
	call->function(call->argument, error);
	running.session = NULL;
	managed_settle(session);
	pthread_mutex_lock(&session->calls.lock);
	call->done = true;
	retire_calls(session);
	pthread_mutex_unlock(&session->calls.lock);
}

static void *run_calls(void *argument)
{
	struct gdev_session *session = argument;
	struct calls *calls = &session->calls;
	struct gdev_fence fences[HEADS_MAX];
	struct call *heads[HEADS_MAX];

	pthread_setname_np(pthread_self(), "gdev-calls");
	for (;;) {
		pthread_mutex_lock(&calls->lock);
		while (list_empty(&calls->queued) && !calls->stopping)
			pthread_cond_wait(&calls->changed, &calls->lock);
		bool stopping = calls->stopping;
		atomic_store(&calls->poked, false);
		unsigned count = collect_heads(calls, heads, fences);
		pthread_mutex_unlock(&calls->lock);
		if (stopping)
			return NULL;
		run_one(session, heads, fences, count);
	}
}

static int start_thread(struct gdev_session *session)
{
	struct calls *calls = &session->calls;
	sigset_t all, before;
	int error;

	if (calls->started)
		return 0;
	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = -pthread_create(&calls->thread, NULL, run_calls, session);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	calls->started = !error;
	return error;
}

static int send_wait(struct gdev_stream *stream, struct call *call)
{
	struct record_wait *record;
	int error = stream_begin(stream, RECORD_WAIT, sizeof *record, &record);

	if (error)
		return error;
	record->awaited = 0;
	record->reserved = 0;
	record->awaited_value = call->value;
	gdev_stream_fence(stream, &call->ready);
	stream->may_block = call->ready.value;
	call->ready.value--; /* what is before the wait */
	record_commit(stream->session);
	return 0;
}

int gdev_stream_call(
	struct gdev_stream *stream, void (*function)(void *argument, int error), void *argument)
{
	struct gdev_session *session = stream->session;
	struct calls *calls = &session->calls;
	struct call *call;
	int error = gdev_session_error(session, NULL);

	if (error)
		return error;
	call = calloc(1, sizeof *call);
	if (!call)
		return -ENOMEM;
	call->function = function;
	call->argument = argument;
	pthread_mutex_lock(&calls->lock);
	error = start_thread(session);
	if (!error) {
		call->value = calls->next_value + 1;
		error = send_wait(stream, call);
	}
	if (error) {
		free(call);
	} else {
		calls->next_value++;
		list_append(&calls->queued, &call->link);
		atomic_store(&calls->poked, true);
		pthread_cond_signal(&calls->changed);
	}
	pthread_mutex_unlock(&calls->lock);
	if (!error)
		session->transport->ops->cancel(session->transport);
	return error;
}

void calls_finish(struct gdev_session *session)
{
	struct calls *calls = &session->calls;
	struct call *call, *next;

	pthread_mutex_lock(&calls->lock);
	calls->stopping = true;
	atomic_store(&calls->poked, true);
	pthread_cond_signal(&calls->changed);
	pthread_mutex_unlock(&calls->lock);
	if (calls->started) {
		session->transport->ops->cancel(session->transport);
		pthread_join(calls->thread, NULL);
	}
	list_for_each_safe (call, next, &calls->queued, link)
		free(call);
	pthread_mutex_destroy(&calls->lock);
	pthread_cond_destroy(&calls->changed);
}
