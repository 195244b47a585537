/* SPDX-License-Identifier: MIT
 *
 * See stream.h. All of it runs with the core's lock. The path of a launch is stream_push, try_pass,
 * submit_command; later, from core_unlock of whichever thread, stream_finished, complete_front.
 */
#include "worker/stream.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "gdev/error.h"
#include "worker/command.h"
#include "worker/core.h"
#include "worker/graph.h"
#include "worker/memory/residency.h"
#include "worker/module.h"
#include "worker/usage.h"

#define STAMPS_BEHIND 8 /* the last command on the device is looked for so far */

void streams_init(struct core *core)
{
	struct streams *streams = &core->streams;

	for (int i = 0; i < SESSION_TIMELINES; i++) {
		list_init(&streams->waiters[i]);
		list_init(&streams->followers[i]);
	}
	list_init(&streams->ready);
	list_init(&streams->fenced);
	list_init(&streams->fences);
	list_init(&streams->flight);
	list_init(&streams->gone);
	list_init(&streams->barriers);
}

static void drop_commands(struct list *commands)
{
	struct command *command, *next;

	list_for_each_safe (command, next, commands, link)
		command_destroy(command);
}

static void gone_job(struct job *job)
{
	struct streams *streams = container_of(job, struct streams, gone_job);
	struct core *core = container_of(streams, struct core, streams);
	struct stream *stream;

	core_lock(core);
	while ((stream = list_first(&streams->gone, struct stream, link))) {
		list_remove(&stream->link);
		core_unlock(core);
		core->ops->queue_destroy(stream->queue);
		free(stream);
		core_lock(core);
	}
	streams->clearing = false;
	core_unlock(core);
}

static void stream_release(struct core *core, struct stream *stream)
{
	struct streams *streams = &core->streams;

	streams->by_timeline[stream->timeline] = NULL;
	list_remove(&stream->link);
	list_append(&streams->gone, &stream->link);
	if (!streams->clearing)
		service_job(core, LANE_CALLS, &streams->gone_job, gone_job);
	streams->clearing = true;
}

void streams_finish(struct core *core)
{
	for (int i = 0; i < SESSION_TIMELINES; i++) {
		struct stream *stream = core->streams.by_timeline[i];
		if (!stream)
			continue;
		drop_commands(&stream->queued);
		drop_commands(&stream->passed);
		stream_release(core, stream);
	}
}

static int make_queue(
	struct core *core, const struct record_stream *wanted, struct device_queue **queue)
{
	const struct device_ops *ops = core->ops;
	int error;

	if (wanted->multiprocessors && !ops->queue_bind)
		return -ENOTSUP;
	error = ops->queue_create(core->space, wanted->priority, queue);
	if (error || !wanted->multiprocessors)
		return error;
	error = ops->queue_bind(*queue, wanted->first_multiprocessor, wanted->multiprocessors);
	if (error)
		ops->queue_destroy(*queue);
	return error;
}

int stream_create(struct core *core, const struct record_stream *wanted)
{
	uint32_t timeline = wanted->stream;
	struct stream *stream;
	int error;

	if (timeline < SESSION_REPLIES || timeline >= SESSION_TIMELINES)
		return -EINVAL;
	stream = core->streams.by_timeline[timeline];
	if (stream && !stream->closing)
		return -EEXIST;
	if (stream && (wanted->multiprocessors || stream->bound))
		return -EEXIST;
	if (stream) { /* its last commands are still to come: the new ones follow them */
		stream->closing = false;
		return 0;
	}
	stream = calloc(1, sizeof *stream);
	if (!stream)
		return -ENOMEM;
	core_unlock(core);
	error = make_queue(core, wanted, &stream->queue);
	core_lock(core);
	if (error) {
		free(stream);
		return error;
	}
	stream->timeline = timeline;
	stream->bound = wanted->multiprocessors;
	list_init(&stream->link);
	list_init(&stream->queued);
	list_init(&stream->passed);
	core->streams.by_timeline[timeline] = stream;
	return 0;
}

static bool is_empty(const struct stream *stream)
{
	return list_empty(&stream->queued) && list_empty(&stream->passed);
}

int stream_destroy(struct core *core, uint32_t timeline)
{
	struct stream *stream =
		timeline < SESSION_TIMELINES ? core->streams.by_timeline[timeline] : NULL;

	if (!stream || stream->closing)
		return -GDEV_E_INVALID_HANDLE;
	stream->closing = true;
	if (is_empty(stream))
		stream_release(core, stream);
	return 0;
}

void stream_ready(struct core *core, struct stream *stream)
{
	list_remove(&stream->link);
	list_append(&core->streams.ready, &stream->link);
}

void streams_ready_all(struct core *core)
{
	for (int i = 0; i < SESSION_TIMELINES; i++) {
		struct stream *stream = core->streams.by_timeline[i];
		if (stream && !list_empty(&stream->queued))
			stream_ready(core, stream);
	}
}

static void note_busy(struct core *core, int change)
{
	core->streams.busy += (unsigned)change;
	if (!core->streams.busy)
		usage_set(&core->page->active_ns, clock_coarse_ns());
	usage_set(&core->page->streams_busy, core->streams.busy);
	evict_eased(core);
}

void stream_push(struct core *core, struct command *command, int error)
{
	struct streams *streams = &core->streams;
	struct stream *stream = streams->by_timeline[command->timeline];

	if (!stream) {
		timeline_error(core, command->timeline, -GDEV_E_INVALID_HANDLE);
		timeline_complete(core, command->timeline, command->value);
		command_destroy(command);
		return;
	}
	if (!error && stream->closing)
		error = -GDEV_E_INVALID_HANDLE;
	if (!error && command->request.header->opcode == RECORD_LAUNCH)
		error = function_take(core, command->request.launch, &command->function);
	if (!error && command->request.header->opcode == RECORD_GRAPH_LAUNCH)
		error = graph_take(command);
	command->stream = stream;
	command->error = error;
	command->queued_ns = error ? 0 : core->trace.read_ns;
	command->fence_number = streams->fence_count;
	if (command->request.header->flags & RECORD_FENCE) {
		command->fence = true;
		streams->fence_count++;
		list_append(&streams->fences, &command->fence_link);
	}
	if (is_empty(stream))
		note_busy(core, 1);
	if (list_empty(&stream->queued))
		stream_ready(core, stream);
	list_append(&stream->queued, &command->link);
}

/* ---- completion ---- */

/* Fences are complete or not in any order; what waits behind them looks again. */
static void end_fence(struct core *core, struct command *command)
{
	struct stream *stream, *next;

	list_remove(&command->fence_link);
	list_for_each_safe (stream, next, &core->streams.fenced, link)
		stream_ready(core, stream);
}

/* The end of another session, for which an EVENT_WAIT has waited, does not harm this one. */
static bool breaks_session(const struct command *command)
{
	return core_error_is_fatal(command->error) &&
	       command->request.header->opcode != RECORD_EVENT_WAIT;
}

static void note_failure(struct core *core, struct command *command)
{
	struct stream *stream = command->stream;

	if (breaks_session(command))
		core_fail(core, command->error, command->device.fault_address);
	timeline_error(core, stream->timeline, command->error);
	if (command->error == -GDEV_E_DEVICE_LOST)
		core_abandon(core, command->error);
}

static void write_stamp(struct core *core, struct command *command)
{
	uint32_t stamp = command->request.stamp->stamp;
	uint64_t time_ns = command->stream->finished_ns;

	if (!command->behind || !time_ns)
		time_ns = clock_now_ns();
	__atomic_store_n(&core->segment->stamps[stamp], time_ns, __ATOMIC_RELAXED);
}

/* Completes what is done at the front of the stream. */
static void complete_front(struct core *core, struct stream *stream)
{
	struct session_timeline *shared = &core->segment->timelines[stream->timeline];
	struct command *command;

	while ((command = list_first(&stream->passed, struct command, link)) &&
		command->state == COMMAND_PASSED) {
		if (command->error)
			note_failure(core, command);
		else if (command->request.header->opcode == RECORD_STAMP)
			write_stamp(core, command);
		if (command->fence)
			end_fence(core, command);
		__atomic_store_n(&shared->device_ns, stream->device_ns, __ATOMIC_RELAXED);
		timeline_complete(core, stream->timeline, command->value);
		command_destroy(command);
	}
}

/* Last thing to do with a stream: it may be gone afterwards. */
static void stream_settle(struct core *core, struct stream *stream)
{
	if (!is_empty(stream))
		return;
	note_busy(core, -1);
	list_remove(&stream->link);
	if (stream->closing)
		stream_release(core, stream);
}

void barrier_start(struct core *core, struct barrier *barrier)
{
	barrier->sequence = core->streams.submitted;
	if (list_empty(&core->streams.flight)) {
		list_init(&barrier->link);
		barrier->passed(barrier);
	} else {
		list_append(&core->streams.barriers, &barrier->link);
	}
}

static void pass_barriers(struct core *core)
{
	struct streams *streams = &core->streams;
	struct command *oldest = list_first(&streams->flight, struct command, flight_link);
	struct barrier *barrier;

	while ((barrier = list_first(&streams->barriers, struct barrier, link)) &&
		(!oldest || oldest->sequence > barrier->sequence)) {
		list_remove(&barrier->link);
		barrier->passed(barrier);
	}
}

static void move_finished(struct core *core, struct command *command)
{
	uint64_t used_ns = grant_finished(core, command);

	if (command->resource == RESOURCE_COPY_TO_DEVICE)
		usage_charge(core, RESOURCE_COPY_TO_DEVICE, used_ns);
	trace_move(core, command);
	command->moved(core, command);
	command_destroy(command);
}

/* The command is done as far as the device goes. The stream may be gone afterwards. */
static void finish_command(struct core *core, struct stream *stream, struct command *command)
{
	command->state = COMMAND_PASSED;
	if (command->queued_ns)
		trace_command(core, command);
	complete_front(core, stream);
	if (stream->ordered && list_empty(&stream->passed)) {
		stream->ordered = false;
		stream_ready(core, stream);
	}
	stream_settle(core, stream);
}

/* What it follows is complete. */
static void wait_finished(struct core *core, struct command *command)
{
	const struct stream *awaited = core->streams.by_timeline[command->request.wait->awaited];
	struct stream *stream = command->stream;

	command->error = core->error;
	if (list_first(&stream->passed, struct command, link) == command) {
		stream->released_ns = awaited ? awaited->finished_ns : clock_now_ns();
		stream->finished_ns = max_of(stream->finished_ns, stream->released_ns);
	}
	finish_command(core, stream, command);
}

/* It was on the device before it could begin there: that was no time of its own. */
static void begin_released(const struct stream *stream, struct device_command *command)
{
	uint64_t start_ns = min_of(stream->released_ns, command->finished_ns);

	if (command->started_ns >= start_ns)
		return;
	device_command_start(command, start_ns);
	command->busy_ns = min_of(command->busy_ns, command->finished_ns - start_ns);
}

void stream_finished(struct core *core, struct command *command)
{
	struct stream *stream = command->stream;

	if (command->moved) {
		move_finished(core, command);
		return;
	}
	if (command->state == COMMAND_FOLLOWS) {
		wait_finished(core, command);
		return;
	}
	list_remove(&command->flight_link);
	begin_released(stream, &command->device);
	if (command->served)
		swap_served(core, command);
	else
		usage_count(core, command, grant_finished(core, command));
	stream->device_ns += command->device.busy_ns;
	stream->finished_ns = command->device.finished_ns;
	if (command->function && !command->error)
		function_measured(command);
	else if (command->graph && !command->error)
		graph_measured(command);
	else if (command->device.kind == DEVICE_COPY && !command->error)
		copy_measured(command);
	if (!list_empty(&core->streams.barriers))
		pass_barriers(core);
	if (core->residency.draining_ns || core->memory.shared_leaving)
		evict_drained(core);
	if (command->queued_ns)
		trace_piece(command);
	if (command->in_pieces) { /* it is still the first in `queued` */
		command->state = COMMAND_QUEUED;
		command_next_piece(command);
		stream_ready(core, stream);
		return;
	}
	finish_command(core, stream, command);
}

/* ---- passing ---- */

/* For whoever has the lock, or gets it. */
static void add_done(struct core *core, struct command *command)
{
	struct command *head = __atomic_load_n(&core->done, __ATOMIC_RELAXED);

	do
		command->done_next = head;
	while (!__atomic_compare_exchange_n(
		&core->done, &head, command, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
}

static void command_done(struct device_command *device, int error)
{
	struct command *command = container_of(device, struct command, device);
	struct core *core = command->core;
	bool more_done =
		device->more_done; /* the thread that has the lock may take the command at once */

	command->error = error;
	add_done(core, command);
	if (!more_done && !pthread_mutex_trylock(&core->lock))
		core_unlock(core);
}

/* Not at once: one stream's completion releases another's, through however many. */
void stream_released(struct core *core, struct command *command)
{
	list_remove(&command->flight_link);
	add_done(core, command);
}

static void submit_command(struct core *core, struct stream *stream, struct command *command)
{
	if (!command->in_pieces) {
		list_remove(&command->link);
		list_append(&stream->passed, &command->link);
	}
	stream->row = command->device.kind == DEVICE_LAUNCH && command->device.launch.more;
	command->state = COMMAND_SUBMITTED;
	command->sequence = ++core->streams.submitted;
	list_append(&core->streams.flight, &command->flight_link);
	command->device.done = command_done;
	residency_note(core, command);
	grant_submitted(core, command);
	command->device.started_ns = 0;
	command->device.timed = stream->timed;
	stream->timed = false;
	limit_submitted(core, command);
	core->ops->submit(stream->queue, &command->device);
	if (core->ops->follow && !command->in_pieces)
		timeline_look_again(core, stream->timeline, command->value);
}

void stream_submit_served(struct core *core, struct command *command)
{
	command->state = COMMAND_SUBMITTED;
	command->sequence = ++core->streams.submitted;
	command->device.done = command_done;
	list_append(&core->streams.flight, &command->flight_link);
}

void stream_submit_move(struct core *core, struct device_queue *queue, struct command *command)
{
	command->device.done = command_done;
	core->ops->submit(queue, &command->device);
	if (core->ops->poll) /* it comes from a job: nobody may be looking at the device */
		service_wake(core);
}

/* Passes a command that needs no device, or does not need it any more. Once the session is broken nothing is
 * submitted, although earlier commands may still be on the device. */
static bool pass_command(
	struct core *core, struct stream *stream, struct command *command, int error)
{
	command->error = error;
	if (error && breaks_session(command))
		core_fail(core, error, command->device.fault_address);
	command->state = COMMAND_PASSED;
	command->behind = !list_empty(&stream->passed);
	if (command->queued_ns)
		trace_command(core, command);
	list_remove(&command->link);
	list_append(&stream->passed, &command->link);
	complete_front(core, stream);
	return true;
}

bool stream_wait_in(struct list *place, struct stream *stream)
{
	list_remove(&stream->link);
	list_append(place, &stream->link);
	return false;
}

/* Fences of the stream itself hold by its order. */
static bool is_fenced(struct core *core, const struct command *command)
{
	struct command *fence;

	list_for_each (fence, &core->streams.fences, fence_link) {
		if (fence->fence_number >= command->fence_number)
			return false;
		if (fence->stream != command->stream)
			return true;
	}
	return false;
}

/* The last of the stream's commands that is on the device; NULL: none is, or more than stamps has passed since. */
static const struct command *last_there(const struct stream *stream)
{
	const struct list *link = stream->passed.prev;

	for (unsigned i = 0; i < STAMPS_BEHIND && link != &stream->passed; i++, link = link->prev) {
		const struct command *command = list_entry(link, struct command, link);
		if (command->state != COMMAND_PASSED)
			return command->state == COMMAND_SUBMITTED ? command : NULL;
	}
	return NULL;
}

/* Whether all that is awaited is on the device, and nothing behind it in its stream, which might wait for ours. */
static bool is_last_there(
	const struct core *core, const struct stream *stream, const struct record_wait *wait)
{
	const struct stream *awaited = core->streams.by_timeline[wait->awaited];
	const struct command *next, *last;

	if (!awaited || awaited == stream ||
		core->streams.posted[wait->awaited] < wait->awaited_value)
		return false;
	next = list_first(&awaited->queued, struct command, link);
	last = last_there(awaited);
	return last && last->value <= wait->awaited_value &&
	       (!next || next->value > wait->awaited_value);
}

static bool pass_to_follow(
	struct core *core, struct stream *stream, struct command *command, uint32_t awaited)
{
	command->state = COMMAND_FOLLOWS;
	list_remove(&command->link);
	list_append(&stream->passed, &command->link);
	list_append(&core->streams.followers[awaited], &command->flight_link);
	return true;
}

static bool try_wait(struct core *core, struct stream *stream, struct command *command)
{
	const struct record_wait *wait = command->request.wait;
	uint64_t reached;

	if (wait->awaited >= SESSION_TIMELINES || wait->reserved)
		return pass_command(core, stream, command, -EINVAL);
	reached = wait->awaited ? core->streams.completed[wait->awaited]
				: __atomic_load_n(
					  &core->segment->header.host_completed, __ATOMIC_ACQUIRE);
	if (reached >= wait->awaited_value)
		return pass_command(core, stream, command, 0);
	if (core->ops->follow && grant_may_follow(core) && is_last_there(core, stream, wait) &&
		core->ops->follow(stream->queue, core->streams.by_timeline[wait->awaited]->queue))
		return pass_to_follow(core, stream, command, wait->awaited);
	return stream_wait_in(&core->streams.waiters[wait->awaited], stream);
}

/* A copy behind a launch that is paused would keep its copy engine, and the memory that it names, until the launch
 * goes on. That may wait for another session, which waits for the engine or the memory. */
static bool might_stand_behind_pause(
	const struct core *core, const struct stream *stream, const struct command *command)
{
	const struct command *before;

	if (!grants_can_pause(core) || command->resource == RESOURCE_COMPUTE)
		return false;
	list_for_each (before, &stream->passed, link)
		if (before->state == COMMAND_SUBMITTED && before->device.kind != DEVICE_COPY)
			return true;
	return false;
}

static bool try_stamp(struct core *core, struct stream *stream, struct command *command)
{
	stream->timed |= !list_empty(&stream->passed);
	return pass_command(core, stream, command,
		command->request.stamp->stamp < SESSION_STAMPS ? 0 : -EINVAL);
}

static bool try_event(struct core *core, struct stream *stream, struct command *command)
{
	return event_passes(core, command) && pass_command(core, stream, command, command->error);
}

static bool try_device(struct core *core, struct stream *stream, struct command *command);

/* Each record of a stream, how it passes, and for the device: what fills in command->device. */
#define PASSES(X)                                                                                  \
	X(RECORD_COPY, try_device, command_prepare_copy)                                           \
	X(RECORD_WRITE, try_device, command_prepare_write)                                         \
	X(RECORD_FILL, try_device, command_prepare_fill)                                           \
	X(RECORD_LAUNCH, try_device, command_prepare_launch)                                       \
	X(RECORD_GRAPH_LAUNCH, try_device, command_prepare_graph)                                  \
	X(RECORD_WAIT, try_wait, NULL)                                                             \
	X(RECORD_STAMP, try_stamp, NULL)                                                           \
	X(RECORD_EVENT_WAIT, try_event, NULL)

static const struct {
	bool (*try)(struct core *core, struct stream *stream, struct command *command);
	int (*prepare)(struct command *command);
} passes[RECORD_OPCODE_END] = {
#define PASS(name, try, prepare) [name] = {try, prepare},
	PASSES(PASS)
#undef PASS
};

_Static_assert(RECORDS_ARE_IN(PASSES, STREAM), "no record of a stream is without a way to pass");

static bool try_device(struct core *core, struct stream *stream, struct command *command)
{
	int error = passes[command->request.header->opcode].prepare(command);

	if (error)
		return pass_command(core, stream, command, error < 0 ? error : 0);
	if (might_stand_behind_pause(core, stream, command)) {
		stream->ordered = true;
		return false;
	}
	if ((context_is_closed(core) || !residency_settled(&core->residency)) &&
		!residency_admits(core, stream, command))
		return false;
	if (!grant_admits(core, command->resource, stream, command->estimate_ns))
		return stream_wait_in(&core->grants.resources[command->resource].blocked, stream);
	submit_command(core, stream, command);
	return !command->in_pieces;
}

/* Lets the stream's first command pass. False: it cannot, and the stream is where it waits. */
static bool try_pass(struct core *core, struct stream *stream, struct command *command)
{
	if (command->state == COMMAND_SUBMITTED) /* a piece of it is on the device */
		return false;
	if (command->error)
		return pass_command(core, stream, command, command->error);
	if (core->error)
		return pass_command(core, stream, command, core->error);
	if (!list_empty(&core->streams.fences) && is_fenced(core, command))
		return stream_wait_in(&core->streams.fenced, stream);
	return passes[command->request.header->opcode].try(core, stream, command);
}

/* Room on the device goes to the streams that wait for it, one after another. One that waits behind its own
 * commands keeps no other out. */
static struct stream *first_admitted(struct core *core, unsigned which)
{
	struct stream *stream;

	list_for_each (stream, &core->grants.resources[which].blocked, link) {
		const struct command *command = list_first(&stream->queued, struct command, link);

		if (grant_admits(core, which, stream, command->estimate_ns))
			return stream;
		/* The grant was given back meanwhile: the streams may wait elsewhere now. */
		if (!stream->on_device[which] || core->grants.resources[which].state != GRANT_HELD)
			break;
	}
	return NULL;
}

static bool unblock_streams(struct core *core)
{
	bool any = false;

	for (unsigned i = 0; i < RESOURCES; i++) {
		struct stream *stream;

		residency_submit_moves(core, i); /* which a copy may have made room for */
		stream = first_admitted(core, i);
		if (stream)
			stream_ready(core, stream);
		any |= stream != NULL;
	}
	return any;
}

void streams_dispatch(struct core *core)
{
	struct stream *stream;
	struct command *command;

	do {
		while ((stream = list_first(&core->streams.ready, struct stream, link))) {
			list_remove(&stream->link);
			while ((command = list_first(&stream->queued, struct command, link)))
				if (!try_pass(core, stream, command))
					break;
			stream_settle(core, stream);
		}
	} while (unblock_streams(core));
}

void streams_host_progress(struct core *core)
{
	uint64_t reached = __atomic_load_n(&core->segment->header.host_completed, __ATOMIC_ACQUIRE);
	struct stream *stream, *next;

	list_for_each_safe (stream, next, &core->streams.waiters[0], link) {
		struct command *first = list_first(&stream->queued, struct command, link);
		if (first->request.wait->awaited_value <= reached)
			stream_ready(core, stream);
	}
}
