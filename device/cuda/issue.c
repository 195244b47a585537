/* SPDX-License-Identifier: MIT
 *
 * Commands become the driver's: by the thread that submits, by the issuing thread, or by the poller.
 *
 * The device is to report what is done: behind a batch of commands the issuer puts a write of how many have been issued
 * to the queue's word, a mark. (A write behind every launch would cost a fifth of the launch rate, and the device 2 us
 * each. One that follows another soon waits until the device has come to that.) What comes after a pause is preceded by
 * a write of its own, since the hardware may have to come back from another context first, whose time is not ours.
 * Launches that wait in the issuer's list go to the driver several at a time (batch.c).
 *
 * Who submits has the worker's lock, and is brief: making a graph, and what the driver refuses to do with one call, are
 * the issuing thread's.
 */
#include "device/cuda/cuda.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "gdev/error.h"

#define MARK_EVERY 16
/* Of commands that follow each other: the device waits 2 us for a mark. */
#define MARK_NS (160 * NS_PER_US)
/* After it the device may have been another's; the write costs 0.7 us. */
#define PAUSE_NS (200 * NS_PER_US)
#define BURST_SHORT 3                    /* it is over before the issuing thread would be awake */
#define GATHERED_MAX 64                  /* more than that is the issuing thread's */
#define HOLD_NS (20 * NS_PER_US)         /* how long the rest of a row is waited for */
#define ISSUER_SPIN_NS (100 * NS_PER_US) /* how long the issuing thread waits before it sleeps */

/* For so many commands. The issuer's to ask, or when nobody issues. */
static bool has_room(struct device_queue *queue, unsigned count)
{
	if (queue->room_until - queue->issued < count)
		queue->room_until = atomic_load(&queue->completed) + QUEUE_COMMANDS;
	return queue->room_until - queue->issued >= count;
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
	queue_list(queue);
	result = device->driver->cuStreamWriteValue64(queue->stream,
		device->words_address + queue->word * sizeof(uint64_t), queue->issued,
		CU_STREAM_WRITE_VALUE_DEFAULT);
	if (result)
		space_break(queue->space, driver_error(result));
}

/* Behind the last command for now. Where the device has a mark before it yet, and not much between them, a mark can wait
 * until that one has been reached (issuer_mark_behind()). */
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
	queue_list(queue);
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

/* Several launches of a queue as one. */
static enum issued issue_batch(struct device *device, const struct batch *batch, bool brief)
{
	struct device_queue *queue = batch->commands[0]->queue;
	unsigned count = batch->count;
	enum issued issued;
	uint64_t now_ns;

	if (!has_room(queue, count) || space_error(queue->space))
		return ISSUE_REFUSED;
	device_enter(device);
	now_ns = clock_now_ns();
	mark_start(device, queue, count, now_ns);
	for (unsigned i = 0; i < count; i++) {
		device_command_start(batch->commands[i], now_ns);
		batch->commands[i]->error = 0;
	}
	issued = batch_launch(queue, batch, brief);
	if (issued == ISSUE_DONE)
		add_issued(queue, batch->commands, count);
	else
		device->issued -= count;
	return issued;
}

/* False: it would take long. */
static bool issue_one(struct device *device, struct device_command *command, bool brief)
{
	struct device_queue *queue = command->queue;
	CUresult result = CUDA_SUCCESS;
	uint64_t now_ns;

	device_enter(device);
	while (!has_room(queue, 1)) {
		if (brief)
			return false;
		sched_yield();
	}
	now_ns = clock_now_ns();
	device_command_start(command, now_ns);
	mark_start(device, queue, 1, now_ns);
	if (space_error(queue->space))
		command->error = -GDEV_E_SESSION_LOST;
	else if (!command_issue(queue->space, queue->stream, command, brief, &result)) {
		device->issued--;
		return false;
	} else
		command->error = driver_error(result);
	add_issued(queue, &command, 1);
	return true;
}

/* Both queues may be gone if what they had is done: then there is nothing to wait for. Without the wait nothing may follow. */
static void issue_follow(struct device *device, struct follow *follow)
{
	struct device_queue *queue = follow->command.queue, *awaited = follow->awaited;
	CUresult result = CUDA_SUCCESS;

	if (atomic_load(&awaited->completed) != awaited->issued) {
		device_enter(device);
		mark(awaited);
		if (device->issuer.unmarked == awaited)
			device->issuer.unmarked = NULL;
		result = device->driver->cuStreamWaitValue64(queue->stream,
			device->words_address + awaited->word * sizeof(uint64_t), awaited->issued,
			CU_STREAM_WAIT_VALUE_GEQ);
	}
	if (result)
		space_break(queue->space, -GDEV_E_SESSION_LOST);
	queue_put(queue);
	queue_put(awaited);
	free(follow);
}

/* Issues the first of the chain, or as many as can go as one. The rest; all, if that would take long. */
static struct device_command *issue_first(
	struct device *device, struct device_command *first, bool brief)
{
	struct device_command *rest;
	struct batch batch;

	if (first->timed) {
		device_enter(device);
		mark(first->queue);
	}
	/* What has been issued is not ours any more. */
	if (device->batches && batch_gather(first, &batch)) {
		rest = batch.commands[batch.count - 1]->next;
		switch (issue_batch(device, &batch, brief)) {
		case ISSUE_DONE:
			return rest;
		case ISSUE_TAKES_LONG:
			return first;
		case ISSUE_REFUSED:
			break;
		}
	}
	rest = first->next;
	if (rest)
		prefetch(rest);
	return issue_one(device, first, brief) ? rest : first;
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

/* What take() gave, or the end of it, for the issuing thread. */
static void leave(struct issuer *issuer, struct device_command *first)
{
	struct device_command **end = &first->next;

	while (*end)
		end = &(*end)->next;
	*end = issuer->first;
	if (issuer->last == &issuer->first)
		issuer->last = end;
	if (issuer->held == &issuer->first)
		issuer->held = end;
	issuer->first = first;
	atomic_store_explicit(&issuer->pending, true, memory_order_relaxed);
	if (issuer->asleep)
		pthread_cond_signal(&issuer->wake);
}

/* Issues a chain, but for a mark behind the last command. What is left because it would take long, or NULL. */
static struct device_command *issue_chain(
	struct device *device, struct device_command *command, bool brief)
{
	struct issuer *issuer = &device->issuer;

	while (command) {
		struct device_queue *queue = command->queue, *before = issuer->unmarked;
		struct device_command *rest;
		if (command->kind == DEVICE_OWN) {
			rest = command->next;
			issue_follow(device, container_of(command, struct follow, command));
			command = rest;
			continue;
		}
		rest = issue_first(device, command, brief);
		if (rest == command)
			return command;
		if (before && before != queue)
			mark_last(before);
		command = rest;
	}
	return NULL;
}

/* Issues what is there, with a mark behind the last command on each queue. Called with issuer->lock,
 * which it lets go meanwhile. `brief`: what takes long is left to the issuing thread. */
static void issue_all(struct device *device, bool brief)
{
	struct issuer *issuer = &device->issuer;
	struct device_command *command = NULL;

	issuer->issuing = true;
	while (!command && (command = take(issuer))) {
		pthread_mutex_unlock(&issuer->lock);
		command = issue_chain(device, command, brief);
		if (!command && issuer->unmarked && !atomic_load(&issuer->pending))
			mark_last(steal_pointer(&issuer->unmarked));
		pthread_mutex_lock(&issuer->lock);
	}
	issuer->issuing = false;
	if (command)
		leave(issuer, command);
}

static void *issuer_main(void *argument)
{
	struct device *device = argument;
	struct issuer *issuer = &device->issuer;
	uint64_t busy_ns = clock_now_ns();

	pthread_mutex_lock(&issuer->lock);
	while (!issuer->stopping) {
		if (may_go(issuer) && !issuer->issuing) {
			issue_all(device, false);
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
	if (queue->space->device->preempt)
		preempt_submit(queue, command);
	else
		issuer_submit(queue, command);
}

void issuer_submit(struct device_queue *queue, struct device_command *command)
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
			issue_all(device, true);
	}
	pthread_mutex_unlock(&issuer->lock);
}

/* A stopped launch leaves its stream and comes again: its place there is not its end. */
bool cuda_follow(struct device_queue *queue, struct device_queue *awaited)
{
	struct follow *follow = queue->space->device->preempt ? NULL : calloc(1, sizeof *follow);

	if (!follow)
		return false;
	follow->command.kind = DEVICE_OWN;
	follow->awaited = awaited;
	atomic_fetch_add(&queue->references, 1);
	atomic_fetch_add(&awaited->references, 1);
	issuer_submit(queue, &follow->command);
	return true;
}

/* ---- what the poller does for it ---- */

void issuer_end_hold(struct device *device)
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

void issuer_mark_behind(struct device *device, struct device_queue *queue)
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

void issuer_gather(struct device *device)
{
	struct issuer *issuer = &device->issuer;

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

void issuer_issue_gathered(struct device *device)
{
	struct issuer *issuer = &device->issuer;

	pthread_mutex_lock(&issuer->lock);
	issuer->gathering = false;
	if (may_go(issuer) && !issuer->issuing) {
		if (has_room_for_all(issuer))
			issue_all(device, false);
		else
			pthread_cond_signal(&issuer->wake);
	}
	pthread_mutex_unlock(&issuer->lock);
}
