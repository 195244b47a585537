/* SPDX-License-Identifier: MIT
 *
 * Queues of the NVIDIA backend: commands become the driver's, and come back done.
 *
 * Completion. A queue has a word in page-locked memory, and behind a batch of commands the issuer puts a
 * write of how many have been issued: a mark. (A write behind every launch would cost a fifth of the launch rate, and
 * the device 2 us each. One that follows another soon waits until the device has come to that.)
 * Launches that wait in the issuer's list go to the driver several at a time (batch.c).
 * The poller reads the words; no thread sleeps in the driver.
 *
 * Failure. A kernel that faults never reaches the write behind it; so a queue that has not moved for
 * CHECK_NS is asked for its error, which then ends everything in the space.
 *
 * Time. Commands done together share the time since the later of their issue and the unit's last
 * completion: device time as the host sees it. What comes after a pause is preceded by a write of its own,
 * since the hardware may have to come back from another context first, whose time is not ours.
 */
#include "device/cuda/cuda.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "gdev/error.h"

#define MARK_EVERY 16
#define MARK_NS                                                                                    \
	(160 * NS_PER_US) /* of commands that follow each other: the device waits 2 us for a mark */
#define CHECK_NS (500 * NS_PER_US)
#define PAUSE_NS                                                                                   \
	(200 * NS_PER_US) /* after it the device may have been another's; the write costs 0.7 us */
#define BURST_NS (6 * NS_PER_US)         /* commands that follow each other faster are a burst */
#define BURST_SHORT 3                    /* it is over before the issuing thread would be awake */
#define GATHERED_MAX 64                  /* more than that is the issuing thread's */
#define HOLD_NS (20 * NS_PER_US)         /* how long the rest of a row is waited for */
#define ISSUER_SPIN_NS (100 * NS_PER_US) /* how long the issuing thread waits before it sleeps */

static void collect_busy(struct device *device);

int cuda_queue_create(struct device_space *space, int priority, struct device_queue **out)
{
	struct device *device = space->device;
	const struct driver *driver = device_enter(device);
	struct device_queue *queue = aligned_alloc(CACHE_LINE, sizeof *queue);
	int error;

	if (!queue)
		return -ENOMEM;
	memset(queue, 0, sizeof *queue);
	queue->room_until = QUEUE_COMMANDS;
	error = driver_error(driver->cuStreamCreateWithPriority(
		&queue->stream, CU_STREAM_NON_BLOCKING, priority));
	if (error)
		goto err_free;
	queue->space = space;
	queue->priority = priority;
	list_init(&queue->link);
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
	driver->cuStreamDestroy(queue->stream);
err_free:
	free(queue);
	return error;
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
	if (queue->stream)
		device_enter(device)->cuStreamDestroy(queue->stream);
	pthread_mutex_lock(&device->lock);
	device->free_words[device->free_word_count++] = queue->word;
	pthread_mutex_unlock(&device->lock);
	free(queue);
}

/* ---- commands ---- */

static CUresult launch(const struct driver *driver, CUstream stream, const struct device_launch *l)
{
	size_t param_bytes = l->param_bytes;
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)l->params,
		CU_LAUNCH_PARAM_BUFFER_SIZE, &param_bytes, CU_LAUNCH_PARAM_END};
	struct launch_config config;

	if (l->shared_bytes || l->cooperative || l->cluster[0]) {
		CUresult result = cuda_launch_config(l, &config, stream);
		if (result)
			return result;
	}
	if (l->cooperative || l->cluster[0])
		return driver->cuLaunchKernelEx(&config.config, l->function->handle, NULL, extra);
	return driver->cuLaunchKernel(l->function->handle, l->grid[0], l->grid[1], l->grid[2],
		l->block[0], l->block[1], l->block[2], l->shared_bytes, stream, NULL, extra);
}

static void set_side(uint64_t address, bool device, CUmemorytype *type, CUdeviceptr *on_device,
	const void **on_host)
{
	*type = device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
	if (device)
		*on_device = address;
	else
		*on_host = (const void *)address;
}

/* The driver counts a plane in rows, and has a largest pitch. */
static bool planes_fit(const struct device_copy *c)
{
	uint64_t source = c->height > 1 ? c->source_pitch : c->source_slice;
	uint64_t destination = c->height > 1 ? c->destination_pitch : c->destination_slice;

	return c->depth == 1 ||
	       (source && destination && source <= INT32_MAX && destination <= INT32_MAX &&
		       !(c->source_slice % source) && !(c->destination_slice % destination));
}

static CUresult copy(const struct driver *driver, CUstream stream, const struct device_copy *c);

static CUresult copy_planes(
	const struct driver *driver, CUstream stream, const struct device_copy *whole)
{
	struct device_copy plane = *whole;
	CUresult result = CUDA_SUCCESS;

	plane.depth = 1;
	for (uint64_t z = 0; z < whole->depth && !result; z++) {
		result = copy(driver, stream, &plane);
		plane.source += whole->source_slice;
		plane.destination += whole->destination_slice;
	}
	return result;
}

static CUresult copy(const struct driver *driver, CUstream stream, const struct device_copy *c)
{
	CUDA_MEMCPY3D copy3d = {.WidthInBytes = c->width,
		.Height = c->height,
		.Depth = c->depth,
		.srcPitch = c->source_pitch,
		.dstPitch = c->destination_pitch};
	const void *to_host = NULL;

	if (c->height == 1 && c->depth == 1)
		return driver->cuMemcpyAsync(c->destination, c->source, c->width, stream);
	if (!planes_fit(c))
		return copy_planes(driver, stream, c);
	if (c->height == 1) { /* planes of one row are rows */
		copy3d.srcPitch = c->source_slice;
		copy3d.dstPitch = c->destination_slice;
		copy3d.Height = c->depth;
		copy3d.Depth = 1;
	} else if (c->depth > 1) {
		copy3d.srcHeight = c->source_slice / c->source_pitch;
		copy3d.dstHeight = c->destination_slice / c->destination_pitch;
	}
	set_side(c->source, c->direction != DEVICE_TO_DEVICE, &copy3d.srcMemoryType,
		&copy3d.srcDevice, &copy3d.srcHost);
	set_side(c->destination, c->direction != DEVICE_FROM_DEVICE, &copy3d.dstMemoryType,
		&copy3d.dstDevice, &to_host);
	copy3d.dstHost = (void *)to_host;
	return driver->cuMemcpy3DAsync(&copy3d, stream);
}

static CUresult fill(const struct driver *driver, CUstream stream, const struct device_fill *f)
{
	switch (f->element_bytes) {
	case 1:
		return driver->cuMemsetD2D8Async(f->destination, f->pitch, (unsigned char)f->value,
			f->width, f->height, stream);
	case 2:
		return driver->cuMemsetD2D16Async(f->destination, f->pitch,
			(unsigned short)f->value, f->width, f->height, stream);
	default:
		return driver->cuMemsetD2D32Async(
			f->destination, f->pitch, f->value, f->width, f->height, stream);
	}
}

/* The driver refuses a copy or fill that reaches from one registration of host memory into another, or into memory of
 * the device. All of them begin and end at multiples of DEVICE_CHUNK_MIN: what was refused is cut there. */
static uint64_t to_boundary(uint64_t address)
{
	return DEVICE_CHUNK_MIN - address % DEVICE_CHUNK_MIN;
}

static CUresult copy_row_in_parts(const struct driver *driver, CUstream stream,
	uint64_t destination, uint64_t source, uint64_t bytes)
{
	CUresult result = CUDA_SUCCESS;

	for (uint64_t done = 0, part; done < bytes && !result; done += part) {
		part = min_of(to_boundary(destination + done), to_boundary(source + done));
		part = min_of(part, bytes - done);
		result = driver->cuMemcpyAsync(destination + done, source + done, part, stream);
	}
	return result;
}

static CUresult copy_in_parts(
	const struct driver *driver, CUstream stream, const struct device_copy *c)
{
	CUresult result = CUDA_SUCCESS;

	for (uint64_t z = 0; z < c->depth; z++)
		for (uint64_t y = 0; y < c->height && !result; y++)
			result = copy_row_in_parts(driver, stream,
				c->destination + z * c->destination_slice +
					y * c->destination_pitch,
				c->source + z * c->source_slice + y * c->source_pitch, c->width);
	return result;
}

/* An element lies on one side of a boundary. */
static CUresult fill_in_parts(
	const struct driver *driver, CUstream stream, const struct device_fill *f)
{
	struct device_fill part = *f;
	CUresult result = CUDA_SUCCESS;

	part.height = 1;
	for (uint64_t y = 0; y < f->height; y++)
		for (uint64_t x = 0; x < f->width && !result; x += part.width) {
			part.destination = f->destination + y * f->pitch + x * f->element_bytes;
			part.width = min_of(
				f->width - x, to_boundary(part.destination) / f->element_bytes);
			result = fill(driver, stream, &part);
		}
	return result;
}

static CUresult issue(const struct driver *driver, CUstream stream, const struct device_command *c)
{
	CUresult result;

	switch (c->kind) {
	case DEVICE_LAUNCH:
		return launch(driver, stream, &c->launch);
	case DEVICE_COPY:
		result = copy(driver, stream, &c->copy);
		return result == CUDA_ERROR_INVALID_VALUE ? copy_in_parts(driver, stream, &c->copy)
							  : result;
	default:
		result = fill(driver, stream, &c->fill);
		return result == CUDA_ERROR_INVALID_VALUE ? fill_in_parts(driver, stream, &c->fill)
							  : result;
	}
}

/* ---- issuing ---- */

static int space_error(const struct device_space *space)
{
	return atomic_load_explicit(&space->error, memory_order_relaxed);
}

/* The first error stays. */
static void break_space(struct device_space *space, int error)
{
	int none = 0;

	atomic_compare_exchange_strong(&space->error, &none, error);
}

/* For so many commands. The issuer's to ask, or when nobody issues. */
static bool has_room(struct device_queue *queue, unsigned count)
{
	if (queue->room_until - queue->issued < count)
		queue->room_until = atomic_load(&queue->completed) + QUEUE_COMMANDS;
	return queue->room_until - queue->issued >= count;
}

static void list_queue(struct device *device, struct device_queue *queue)
{
	struct device_queue *head = atomic_load(&device->newly_busy);

	if (atomic_exchange(&queue->listed, true))
		return;
	do
		queue->next_listed = head;
	while (!atomic_compare_exchange_weak(&device->newly_busy, &head, queue));
}

/* Gives what has been issued to the poller, and sees to it that the device will report it. */
static void mark(struct device_queue *queue)
{
	struct device *device = queue->space->device;
	CUresult result;

	if (atomic_load_explicit(&queue->marked, memory_order_relaxed) == queue->issued)
		return;
	atomic_store_explicit(&queue->behind, false, memory_order_relaxed);
	atomic_store_explicit(&queue->marked, queue->issued, memory_order_release);
	list_queue(device, queue);
	result = device->driver->cuStreamWriteValue64(queue->stream,
		device->words_address + queue->word * sizeof(uint64_t), queue->issued,
		CU_STREAM_WRITE_VALUE_DEFAULT);
	if (result)
		break_space(queue->space, driver_error(result));
}

/* Behind the last command for now. Where the device has a mark before it yet, and not much between them, a mark can wait
 * until that one has been reached (mark_behind()). */
static void mark_last(struct device_queue *queue)
{
	uint64_t marked = atomic_load_explicit(&queue->marked, memory_order_relaxed);
	uint64_t pace_ns = atomic_load_explicit(&queue->pace_ns, memory_order_relaxed);

	if (!pace_ns || (queue->issued - marked) * pace_ns > MARK_NS ||
		atomic_load(&queue->completed) == marked) {
		mark(queue);
		return;
	}
	if (queue->issued == marked)
		return;
	atomic_store(&queue->behind, true);
	list_queue(queue->space->device, queue);
}

/* The poller is to learn when the device comes to the `count` that follow, if nothing is on it. */
static void mark_start(
	struct device *device, struct device_queue *queue, unsigned count, uint64_t now_ns)
{
	uint64_t before_ns = device->issued_ns, before = device->issued, number;

	device->issued += count;
	device->issued_ns = now_ns;
	if (now_ns - before_ns < PAUSE_NS ||
		atomic_load_explicit(&device->completed, memory_order_relaxed) != before)
		return;
	number = atomic_load_explicit(&device->starts, memory_order_relaxed) + 1;
	if (!device->driver->cuStreamWriteValue64(queue->stream,
		    device->words_address + START_WORD * sizeof(uint64_t), number,
		    CU_STREAM_WRITE_VALUE_DEFAULT))
		atomic_store_explicit(&device->starts, number, memory_order_relaxed);
}

/* Another thread has written it: its lines come while the driver is busy with the one before. */
static void prefetch(const struct device_command *command)
{
	__builtin_prefetch(command, 1);
	__builtin_prefetch((const char *)command + CACHE_LINE, 1);
	__builtin_prefetch((const char *)command + 2 * CACHE_LINE, 1);
}

static void add_issued(
	struct device_queue *queue, struct device_command *const commands[], unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		queue->flight[queue->issued++ % QUEUE_COMMANDS] = commands[i];
	queue->space->device->issuer.unmarked = queue;
	if (queue->issued - atomic_load_explicit(&queue->marked, memory_order_relaxed) >=
		MARK_EVERY) {
		queue->space->device->issuer.unmarked = NULL;
		mark(queue);
	}
}

/* Several launches of a queue as one. False: nothing has been issued. */
static bool issue_batch(struct device *device, const struct batch *batch)
{
	struct device_queue *queue = batch->commands[0]->queue;
	unsigned count = batch->count;
	uint64_t now_ns;

	if (!has_room(queue, count) || space_error(queue->space))
		return false;
	device_enter(device);
	now_ns = clock_now_ns();
	mark_start(device, queue, count, now_ns);
	for (unsigned i = 0; i < count; i++) {
		device_command_start(batch->commands[i], now_ns);
		batch->commands[i]->error = 0;
	}
	if (!batch_launch(queue, batch)) {
		device->issued -= count;
		return false;
	}
	add_issued(queue, batch->commands, count);
	return true;
}

static void issue_command(struct device *device, struct device_command *command)
{
	struct device_queue *queue = command->queue;
	const struct driver *driver = device_enter(device);
	uint64_t now_ns;

	while (!has_room(queue, 1))
		sched_yield();
	now_ns = clock_now_ns();
	device_command_start(command, now_ns);
	mark_start(device, queue, 1, now_ns);
	command->error = space_error(queue->space)
				 ? -GDEV_E_SESSION_LOST
				 : driver_error(issue(driver, queue->stream, command));
	add_issued(queue, &command, 1);
}

/* Issues the first of the chain, or as many as can go as one. The rest. */
static struct device_command *issue_first(struct device *device, struct device_command *first)
{
	struct device_command *rest;
	struct batch batch;

	/* What has been issued is not ours any more. */
	if (device->batches && batch_gather(first, &batch)) {
		rest = batch.commands[batch.count - 1]->next;
		if (issue_batch(device, &batch))
			return rest;
	}
	rest = first->next;
	if (rest)
		prefetch(rest);
	issue_command(device, first);
	return rest;
}

/* Whether there is something to issue now. With issuer->lock, as the next two. */
static bool may_go(const struct issuer *issuer)
{
	return issuer->first && issuer->held != &issuer->first && !issuer->gathering;
}

/* Takes it off the list. NULL: there is none. */
static struct device_command *take(struct issuer *issuer)
{
	struct device_command *taken = issuer->first;

	atomic_store_explicit(&issuer->pending, false, memory_order_relaxed);
	if (!may_go(issuer))
		return NULL;
	if (!issuer->held) {
		issuer->first = NULL;
		issuer->last = &issuer->first;
		return taken;
	}
	issuer->first = *issuer->held;
	*issuer->held = NULL;
	issuer->held = &issuer->first;
	return taken;
}

/* What is there waits no more. */
static void release(struct issuer *issuer)
{
	issuer->held = NULL;
	atomic_store_explicit(&issuer->holds, false, memory_order_relaxed);
	atomic_store_explicit(&issuer->pending, true, memory_order_relaxed);
}

/* Issues what is there, with a mark behind the last command on each queue. Called with issuer->lock,
 * which it lets go meanwhile. */
static void issue_all(struct device *device)
{
	struct issuer *issuer = &device->issuer;
	struct device_command *command;

	issuer->issuing = true;
	while ((command = take(issuer))) {
		pthread_mutex_unlock(&issuer->lock);
		while (command) {
			struct device_queue *queue = command->queue, *before = issuer->unmarked;
			command = issue_first(device, command);
			if (before && before != queue)
				mark_last(before);
		}
		if (issuer->unmarked && !atomic_load(&issuer->pending))
			mark_last(steal_pointer(&issuer->unmarked));
		pthread_mutex_lock(&issuer->lock);
	}
	issuer->issuing = false;
}

static void *issuer_main(void *argument)
{
	struct device *device = argument;
	struct issuer *issuer = &device->issuer;
	uint64_t busy_ns = clock_now_ns();

	pthread_mutex_lock(&issuer->lock);
	while (!issuer->stopping) {
		if (may_go(issuer) && !issuer->issuing) {
			issue_all(device);
			busy_ns = clock_now_ns();
		}
		if (clock_now_ns() - busy_ns > ISSUER_SPIN_NS) {
			issuer->asleep = true;
			pthread_cond_wait(&issuer->wake, &issuer->lock);
			issuer->asleep = false;
			busy_ns = clock_now_ns();
			continue;
		}
		pthread_mutex_unlock(&issuer->lock);
		for (int i = 0; i < 100 && !atomic_load(&issuer->pending); i++)
			cpu_relax();
		pthread_mutex_lock(&issuer->lock);
	}
	pthread_mutex_unlock(&issuer->lock);
	return NULL;
}

int issuer_start(struct device *device)
{
	struct issuer *issuer = &device->issuer;
	sigset_t all, before;
	int error;

	pthread_mutex_init(&issuer->lock, NULL);
	pthread_cond_init(&issuer->wake, NULL);
	issuer->last = &issuer->first;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = -pthread_create(&issuer->thread, NULL, issuer_main, device);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}

void issuer_stop(struct device *device)
{
	struct issuer *issuer = &device->issuer;

	pthread_mutex_lock(&issuer->lock);
	issuer->stopping = true;
	pthread_cond_signal(&issuer->wake);
	pthread_mutex_unlock(&issuer->lock);
	pthread_join(issuer->thread, NULL);
	pthread_cond_destroy(&issuer->wake);
	pthread_mutex_destroy(&issuer->lock);
}

/* A row that is on its way goes as one. */
static bool waits_for_more(const struct device *device, const struct device_command *command)
{
	return command->kind == DEVICE_LAUNCH && command->launch.more && device->batches;
}

/* From the link on, unless more than that is held. */
static void hold(struct issuer *issuer, struct device_command **link, uint64_t now_ns)
{
	if (!issuer->held)
		issuer->held = link;
	issuer->held_ns = now_ns;
	atomic_store_explicit(&issuer->holds, true, memory_order_relaxed);
}

void cuda_submit(struct device_queue *queue, struct device_command *command)
{
	struct device *device = queue->space->device;
	struct issuer *issuer = &device->issuer;
	struct device_command **link;
	uint64_t now_ns = clock_now_ns();
	bool here, row;

	command->queue = queue;
	command->next = NULL;
	pthread_mutex_lock(&issuer->lock);
	issuer->burst = now_ns - issuer->submitted_ns < BURST_NS ? issuer->burst + 1 : 0;
	issuer->submitted_ns = now_ns;
	/* A burst, and what it has left, is the issuing thread's; while that wakes up, which takes as long as a
	 * dozen launches, the burst goes on here. The poller must not wait for room that only it can make. */
	here = !issuer->issuing && !issuer->gathering && !may_go(issuer) &&
	       has_room(queue, BATCH_MAX) && (!issuer->burst || issuer->asleep);
	row = issuer->held;
	link = issuer->last;
	*link = command;
	issuer->last = &command->next;
	if (waits_for_more(device, command)) {
		hold(issuer, link, now_ns);
	} else {
		release(issuer);
		if (issuer->asleep && !issuer->gathering &&
			((issuer->burst > BURST_SHORT && !row) || !here))
			pthread_cond_signal(&issuer->wake);
		if (here)
			issue_all(device);
	}
	pthread_mutex_unlock(&issuer->lock);
}

/* The rest of a row has not come. */
static void end_hold(struct device *device)
{
	struct issuer *issuer = &device->issuer;

	pthread_mutex_lock(&issuer->lock);
	if (issuer->held && clock_now_ns() - issuer->held_ns > HOLD_NS) {
		release(issuer);
		if (issuer->asleep)
			pthread_cond_signal(&issuer->wake);
	}
	pthread_mutex_unlock(&issuer->lock);
}

/* ---- completion ---- */

static enum unit unit_of(const struct device_command *command)
{
	if (command->kind != DEVICE_COPY || command->copy.direction == DEVICE_WITHIN)
		return UNIT_COMPUTE;
	return command->copy.direction == DEVICE_TO_DEVICE ? UNIT_TO_DEVICE : UNIT_FROM_DEVICE;
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
			break_space(queue->space, driver_error(result));
	}
	return space_error(queue->space) ? marked : reported;
}

/* What has waited for a mark, now that the device has reached the one before. Not if somebody issues: that one
 * sees to it, or we come again. */
static void mark_behind(struct device *device, struct device_queue *queue)
{
	struct issuer *issuer = &device->issuer;

	if (pthread_mutex_trylock(&issuer->lock))
		return;
	if (!issuer->issuing) {
		issuer->issuing = true;
		pthread_mutex_unlock(&issuer->lock);
		mark(queue);
		pthread_mutex_lock(&issuer->lock);
		issuer->issuing = false;
		if (may_go(issuer)) /* it has been left to us meanwhile */
			pthread_cond_signal(&issuer->wake);
	}
	pthread_mutex_unlock(&issuer->lock);
}

/* What follows several commands that are done at once is issued at once: as one, perhaps (batch.c). Only while the device
 * has more to do; and where launches are shorter than issuing them, the issuing thread begins with the first. */
static void gather(struct issuer *issuer)
{
	pthread_mutex_lock(&issuer->lock);
	issuer->gathering = true;
	pthread_mutex_unlock(&issuer->lock);
}

/* The poller must not wait for room that only it can make. */
static bool has_room_for_all(const struct issuer *issuer)
{
	unsigned left = GATHERED_MAX;

	for (const struct device_command *c = issuer->first; c; c = c->next)
		if (!left-- || !has_room(c->queue, 2 * GATHERED_MAX))
			return false;
	return true;
}

static void issue_gathered(struct device *device)
{
	struct issuer *issuer = &device->issuer;

	pthread_mutex_lock(&issuer->lock);
	issuer->gathering = false;
	if (may_go(issuer) && !issuer->issuing) {
		if (has_room_for_all(issuer))
			issue_all(device);
		else
			pthread_cond_signal(&issuer->wake);
	}
	pthread_mutex_unlock(&issuer->lock);
}

/* Slower at once, faster by and by. */
static void pace(struct device_queue *queue, uint64_t each_ns)
{
	uint64_t pace_ns = atomic_load_explicit(&queue->pace_ns, memory_order_relaxed);

	pace_ns = max_of(max_of(each_ns, (uint64_t)1), (3 * pace_ns + each_ns) / 4);
	atomic_store_explicit(&queue->pace_ns, pace_ns, memory_order_relaxed);
}

/* Gives back the commands up to the `done`th. */
static void finish(struct device *device, struct device_queue *queue, uint64_t done)
{
	uint64_t completed = atomic_load_explicit(&queue->completed, memory_order_relaxed);
	struct device_command *command = queue->flight[completed % QUEUE_COMMANDS];
	uint64_t now = clock_now_ns(), count = done - completed, since;
	int error = space_error(queue->space);
	enum unit unit = unit_of(command);
	bool gathers = count > 1 && queue->pace_ns > BURST_NS &&
		       (done != atomic_load(&queue->marked) || atomic_load(&queue->behind));

	since = max_of(command->started_ns, device->unit_free_ns[unit]);
	since = max_of(since, device->started_ns);
	device->unit_free_ns[unit] = now;
	pace(queue, now > since ? (now - since) / count : 0);
	atomic_store_explicit(&device->completed,
		atomic_load_explicit(&device->completed, memory_order_relaxed) + count,
		memory_order_relaxed);
	if (gathers)
		gather(&device->issuer);
	while (completed < done) {
		command = queue->flight[completed++ % QUEUE_COMMANDS];
		device_command_start(command, max_of(command->started_ns, device->started_ns));
		command->finished_ns = now;
		command->busy_ns = now > since ? (now - since) / count : 0;
		command->fault_address = 0;
		command->more_done = completed < done;
		atomic_store_explicit(&queue->completed, completed, memory_order_release);
		command->done(command, error ? error : command->error);
	}
	if (gathers)
		issue_gathered(device);
}

static bool is_idle(struct device_queue *queue)
{
	return atomic_load(&queue->completed) == atomic_load(&queue->marked) &&
	       !atomic_load(&queue->behind);
}

/* Takes the queue off the list when it is empty. With poll_lock. */
static void unlist_idle(struct device *device, struct device_queue *queue)
{
	if (!is_idle(queue))
		return;
	list_remove(&queue->link);
	atomic_store(&queue->listed, false);
	if (!is_idle(queue))
		list_queue(device, queue);
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
		end_hold(device);
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
			mark_behind(device, queue);
		unlist_idle(device, queue);
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
