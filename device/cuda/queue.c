/* SPDX-License-Identifier: MIT
 *
 * Queues of the NVIDIA backend, and how their commands come back done.
 *
 * Completion. A queue has a word in page-locked memory, where the device writes how many of its commands are done, a
 * batch at a time (issue.c). The poller reads the words; no thread sleeps in the driver.
 *
 * Failure. A kernel that faults never reaches the write behind it; so a queue that has not moved for
 * CHECK_NS is asked for its error, which then ends everything in the space.
 *
 * Time. Commands done together share the time since the later of their issue and the unit's last
 * completion: device time as the host sees it.
 */
#include "device/cuda/cuda.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define CHECK_NS (500 * NS_PER_US)

void queue_list(struct device_queue *queue)
{
	struct device *device = queue->space->device;
	struct device_queue *head = atomic_load(&device->newly_busy);

	if (atomic_exchange(&queue->listed, true))
		return;
	do
		queue->next_listed = head;
	while (!atomic_compare_exchange_weak(&device->newly_busy, &head, queue));
}

/* Takes over the queues that have become busy. With poll_lock. */
static void collect_busy(struct device *device)
{
	struct device_queue *queue;

	if (!atomic_load_explicit(&device->newly_busy, memory_order_relaxed))
		return;
	queue = atomic_exchange(&device->newly_busy, NULL);
	for (; queue; queue = queue->next_listed) {
		list_append(&device->busy, &queue->link);
	}
}

int cuda_queue_create(struct device_space *space, int priority, struct device_queue **out)
{
	struct device *device = space->device;
	struct device_queue *queue = aligned_alloc(CACHE_LINE, sizeof *queue);
	int error;

	if (!queue)
		return -ENOMEM;
	memset(queue, 0, sizeof *queue);
	queue->references = 1;
	queue->room_until = QUEUE_COMMANDS;
	queue->space = space;
	queue->priority = priority;
	device_enter(device);
	error = queue_open_stream(queue);
	if (error)
		goto err_free;
	list_init(&queue->link);
	list_init(&queue->tickets);
	list_init(&queue->waiting_link);
	pthread_mutex_lock(&device->lock);
	error = device->free_word_count ? 0 : -ENOSPC;
	if (!error) {
		queue->word = device->free_words[--device->free_word_count];
		atomic_store(&device->words[queue->word], 0);
	}
	pthread_mutex_unlock(&device->lock);
	if (error)
		goto err_stream;
	pthread_mutex_lock(&space->lock);
	list_append(&space->queues, &queue->space_link);
	pthread_mutex_unlock(&space->lock);
	*out = queue;
	return 0;
err_stream:
	queue_close_stream(queue);
err_free:
	free(queue);
	return error;
}

void queue_put(struct device_queue *queue)
{
	if (atomic_fetch_sub(&queue->references, 1) == 1)
		free(queue);
}

void queue_unlist(struct device_queue *queue)
{
	struct device *device = queue->space->device;

	pthread_mutex_lock(&device->poll_lock);
	collect_busy(device); /* it may still be on its way to the list */
	list_remove(&queue->link);
	atomic_store(&queue->listed, false);
	pthread_mutex_unlock(&device->poll_lock);
}

void cuda_queue_destroy(struct device_queue *queue)
{
	struct device *device = queue->space->device;

	queue_unlist(queue);
	pthread_mutex_lock(&queue->space->lock);
	list_remove(&queue->space_link);
	pthread_mutex_unlock(&queue->space->lock);
	batches_leave_queue(queue);
	if (queue->stream) {
		device_enter(device);
		queue_close_stream(queue);
	}
	pthread_mutex_lock(&device->lock);
	device->free_words[device->free_word_count++] = queue->word;
	pthread_mutex_unlock(&device->lock);
	queue_put(queue);
}

/* ---- completion ---- */

static enum device_resource unit_of(const struct device_command *command)
{
	return command->kind == DEVICE_COPY ? copy_resource(command->copy.direction)
					    : RESOURCE_COMPUTE;
}

/* How many of the queue's commands are done. */
static uint64_t count_done(struct device *device, struct device_queue *queue, uint64_t now_ns)
{
	uint64_t marked = atomic_load_explicit(&queue->marked, memory_order_acquire);
	uint64_t reported = atomic_load_explicit(&device->words[queue->word], memory_order_acquire);

	if (marked != queue->seen) {
		queue->seen = marked;
		queue->progress_ns = now_ns;
	}
	if (reported == atomic_load(&queue->completed) && reported != marked &&
		now_ns - queue->progress_ns > CHECK_NS) {
		CUresult result = device->driver->cuStreamQuery(queue->stream);
		queue->progress_ns = now_ns;
		if (result && result != CUDA_ERROR_NOT_READY)
			space_break(queue->space, driver_error(result));
	}
	return space_error(queue->space) ? marked : reported;
}

/* Slower at once, faster by and by. */
static void pace(struct device_queue *queue, uint64_t each_ns)
{
	uint64_t pace_ns = atomic_load_explicit(&queue->pace_ns, memory_order_relaxed);

	pace_ns = max_of(max_of(each_ns, (uint64_t)1), (3 * pace_ns + each_ns) / 4);
	atomic_store_explicit(&queue->pace_ns, pace_ns, memory_order_relaxed);
}

/* When a command ended that was seen to be done together with others: each took `each_ns` of the time from since_ns on. */
static uint64_t ended_ns(
	const struct device_command *command, uint64_t since_ns, uint64_t each_ns, uint64_t now_ns)
{
	return min_of(max_of(command->started_ns, since_ns) + each_ns, now_ns);
}

/* Gives back the commands up to the `done`th. */
static void finish(struct device *device, struct device_queue *queue, uint64_t done)
{
	uint64_t completed = atomic_load_explicit(&queue->completed, memory_order_relaxed);
	struct device_command *command = queue->flight[completed % QUEUE_COMMANDS];
	uint64_t now = clock_now_ns(), count = done - completed, since, each_ns;
	int error = space_error(queue->space);
	enum device_resource unit = unit_of(command);
	bool gathers = count > 1 && queue->pace_ns > BURST_NS &&
		       (done != atomic_load(&queue->marked) || atomic_load(&queue->behind));

	since = max_of(command->started_ns, device->unit_free_ns[unit]);
	since = max_of(since, device->started_ns);
	device->unit_free_ns[unit] = now;
	each_ns = now > since ? (now - since) / count : 0;
	pace(queue, each_ns);
	atomic_store_explicit(&device->completed,
		atomic_load_explicit(&device->completed, memory_order_relaxed) + count,
		memory_order_relaxed);
	if (gathers)
		issuer_gather(device);
	while (completed < done) {
		command = queue->flight[completed++ % QUEUE_COMMANDS];
		device_command_start(command, max_of(command->started_ns, device->started_ns));
		command->finished_ns =
			completed < done ? ended_ns(command, since, each_ns, now) : now;
		command->busy_ns = each_ns;
		since = max_of(since, command->finished_ns);
		command->fault_address = 0;
		command->more_done = completed < done;
		atomic_store_explicit(&queue->completed, completed, memory_order_release);
		command->done(command, error ? error : command->error);
	}
	if (gathers)
		issuer_issue_gathered(device);
}

static bool is_idle(struct device_queue *queue)
{
	return atomic_load(&queue->completed) == atomic_load(&queue->marked) &&
	       !atomic_load(&queue->behind);
}

/* Takes the queue off the list when it is empty. With poll_lock. */
static void unlist_idle(struct device_queue *queue)
{
	if (!is_idle(queue))
		return;
	list_remove(&queue->link);
	atomic_store(&queue->listed, false);
	if (!is_idle(queue))
		queue_list(queue);
}

/* Whether the device has come to the newest start. Not before we looked last. */
static void look_for_start(struct device *device, uint64_t now_ns)
{
	uint64_t starts = atomic_load_explicit(&device->starts, memory_order_relaxed);

	if (device->started != starts &&
		atomic_load_explicit(&device->words[START_WORD], memory_order_acquire) == starts) {
		device->started = starts;
		device->started_ns = device->polled_ns;
	}
	device->polled_ns = now_ns;
}

bool cuda_poll(struct device *device)
{
	struct device_queue *queue, *after;
	uint64_t now_ns = clock_now_ns(), done = 0;
	struct device_queue *ready = NULL;

	if (atomic_load_explicit(&device->issuer.holds, memory_order_relaxed))
		issuer_end_hold(device);
	device_enter(device);
	pthread_mutex_lock(&device->poll_lock);
	if (!device->words) { /* there is no context just now */
		pthread_mutex_unlock(&device->poll_lock);
		return false;
	}
	look_for_start(device, now_ns);
	collect_busy(device);
	list_for_each_safe (queue, after, &device->busy, link) {
		done = count_done(device, queue, now_ns);
		if (done != atomic_load(&queue->completed)) {
			ready = queue;
			break;
		}
		if (atomic_load(&queue->behind) && done == atomic_load(&queue->marked))
			issuer_mark_behind(device, queue);
		unlist_idle(queue);
	}
	if (ready) { /* the others come first the next time */
		queue->progress_ns = now_ns;
		list_remove(&queue->link);
		list_append(&device->busy, &queue->link);
	}
	pthread_mutex_unlock(&device->poll_lock);
	if (!ready)
		return false;
	if (atomic_load(&ready->space->prints)) {
		device->driver->cuStreamSynchronize(ready->stream);
		print_flush(device);
	}
	finish(device, ready, done);
	return true;
}
