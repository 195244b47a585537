/* SPDX-License-Identifier: MIT
 *
 * Kernels that leave the device between blocks, on hardware: the second half of device/preempt, between the worker, which
 * submits commands and asks for a pause, and the issuer (issue.c), which knows of neither.
 *
 * What goes to the issuer are pieces. A launch of a kernel that was rewritten is cut into slices, of so many blocks as
 * can leave in a short time, and each slice is a piece; any other command is one. Of slices only so many are with the
 * driver at a time as can leave together: the rest waits here.
 *
 * A queue has a counter in device memory, in which the blocks of its slices count themselves (device/preempt/preempt.h): its
 * slices run one behind the other, so that each knows from which number on the counter's are its own.
 *
 * A pause. Generations number the times between pauses: a slice has that in which it was issued. To stop the slices, the
 * generation is written to the counter of each queue that has some, by a stream of its own. Blocks that begin from then on
 * leave; so the slices end. What was not rewritten runs to its end. Behind the slices a kernel tells how many blocks have
 * left: when the pause is over, launches go on with these. When nothing is on the compute unit, it is quiet.
 *
 * In the middle of a block. A kernel with barriers in loops, of which all blocks can be on the device at once, goes as one piece,
 * which is the whole grid, and that again as often as blocks of it have left. It has a part of its module's PREEMPT_KEPT from its
 * first launch on until it is done. Where there is no room in that, it goes in slices.
 *
 * Order. A slice may follow anything in its stream: if a launch before it is stopped, it is stopped, too, since both count by
 * one counter. Any other command follows a rewritten launch only when that is done to its last block.
 *
 * Locks. preempt->lock guards all of it. The issuer's are taken inside it, and done() is called without it.
 */
#include "device/cuda/preempt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"

/* To begin, to count and to leave takes a block 0.85 ns, as all count in one place, and a wave, as many blocks as the device holds
 * at once, 0.7 us (one H200). */
#define BLOCK_LEAVES_PS 850
#define WAVE_LEAVES_NS 700
#define SLICE_LEAVES_NS (35 * NS_PER_US)
#define LEAVES_NS_MAX (70 * NS_PER_US) /* all slices that are with the driver, … */
#define PIECES_LEAST                                                                               \
	2 /* … but so many may always be there, lest the device wait for the host between them */
#define PIECES_MAX 64
#define WHOLE_MAX 16 /* commands of the compute unit that are none, likewise */

/* ---- how many blocks ---- */

static uint64_t blocks_of(const uint32_t grid[3])
{
	return (uint64_t)grid[0] * grid[1] * grid[2];
}

static uint32_t threads_of(const struct device_launch *launch)
{
	return launch->block[0] * launch->block[1] * launch->block[2];
}

/* Blocks that the device holds at once. Asked once for a shape. */
static uint32_t wave_of(
	struct device *device, struct device_function *function, const struct device_launch *launch)
{
	uint32_t threads = threads_of(launch);
	uint64_t shape = (uint64_t)threads << 32 | launch->shared_bytes;

	if (function->wave && function->wave_shape == shape)
		return function->wave;
	function->wave_shape = shape;
	function->wave = max_of(cuda_function_occupancy(function, threads,
					preempt_shared_bytes(launch->shared_bytes)),
				 1u) *
			 device->multiprocessors;
	return function->wave;
}

/* As many blocks as leave in the time; of a wave of so many. */
static uint64_t blocks_leave(uint64_t ns, uint32_t wave)
{
	return max_of(min_of(ns * 1000 / BLOCK_LEAVES_PS, ns * wave / WAVE_LEAVES_NS), (uint64_t)1);
}

static uint64_t leave_ns(uint64_t blocks, uint32_t wave)
{
	return max_of(blocks * BLOCK_LEAVES_PS / 1000, blocks * WAVE_LEAVES_NS / wave);
}

/* ---- issuing; with the lock ---- */

static struct piece *free_piece(struct ticket *ticket)
{
	for (unsigned i = 0; i < PIECES_OF_ONE; i++)
		if (!ticket->pieces[i].issued)
			return &ticket->pieces[i];
	return NULL;
}

static void piece_done(struct device_command *command, int error);

static void issue(struct device_queue *queue, struct piece *piece)
{
	struct ticket *ticket = piece->ticket;

	if (!ticket->begun)
		device_command_start(ticket->command, clock_now_ns());
	ticket->begun = true;
	ticket->issued++;
	piece->issued = true;
	piece->command.done = piece_done;
	piece->command.started_ns = 0;
	issuer_submit(queue, &piece->command);
}

static bool is_slice(const struct ticket *ticket)
{
	return ticket->second != NULL;
}

/* The queue's among the counters, or among those of what has left. */
static CUdeviceptr counter_of(CUdeviceptr counters, const struct device_queue *queue)
{
	return counters + (CUdeviceptr)queue->word * COUNTER_BYTES;
}

static void fill_piece(struct piece *piece, struct device_function *function, const void *hidden,
	size_t hidden_bytes)
{
	struct device_launch *launch = &piece->command.launch;
	const struct device_launch *whole = &piece->ticket->command->launch;
	uint32_t offset = function->hidden_offset;

	if (whole->param_bytes)
		memcpy(piece->params, whole->params, min_of(whole->param_bytes, offset));
	memcpy(piece->params + offset, hidden, hidden_bytes);
	piece->command = *piece->ticket->command;
	launch->function = function;
	launch->params = piece->params;
	launch->param_bytes = offset + (uint32_t)hidden_bytes;
	launch->shared_bytes = preempt_shared_bytes(whole->shared_bytes);
	launch->more = false;
}

/* The next `blocks` of the launch. */
static void fill_slice(
	struct preempt *p, struct device_queue *queue, struct piece *piece, uint32_t blocks)
{
	struct ticket *ticket = piece->ticket;
	const uint32_t *grid = ticket->command->launch.grid;
	uint32_t *begun = &p->counts[queue->word].begun;
	struct preempt_launch hidden = {
		.counter = counter_of(p->counters, queue),
		.left = counter_of(p->lefts, queue),
		.base = *begun - ticket->next,
		.generation = p->generation,
		.grid = {grid[0], grid[1], grid[2]},
	};

	fill_piece(piece, ticket->second, &hidden, sizeof hidden);
	memcpy(piece->command.launch.grid, (uint32_t[3]){blocks, 1, 1}, sizeof hidden.grid);
	*begun += blocks;
	ticket->next += blocks;
}

/* ---- in the middle of a block; with the lock ---- */

/* So many bytes of the module's that no other ticket has. */
static bool find_part(const struct preempt *p, struct ticket *ticket, uint64_t bytes)
{
	const struct device_module *module = ticket->third->module;
	const struct ticket *other;
	uint64_t offset = 0;
	bool moved;

	if (bytes > module->rewritten->kept_bytes)
		return false;
	do {
		moved = false;
		list_for_each (other, &p->keepers, keeping) {
			if (other->third->module != module || other->offset >= offset + bytes ||
				offset >= other->offset + other->bytes)
				continue;
			offset = other->offset + other->bytes;
			moved = true;
		}
	} while (moved);
	ticket->offset = offset;
	return offset <= module->rewritten->kept_bytes - bytes;
}

static uint64_t block_bytes(const struct ticket *ticket)
{
	const struct device_launch *launch = &ticket->command->launch;

	return preempt_block_bytes(ticket->third->made, threads_of(launch), launch->shared_bytes);
}

/* Before its first launch: from then on it goes one way. */
static void choose_way(struct preempt *p, struct device_queue *queue, struct ticket *ticket)
{
	const struct device_launch *launch = &ticket->command->launch;
	uint64_t bytes;

	if (!ticket->third || ticket->bytes)
		return;
	bytes = preempt_states_bytes(ticket->blocks) + ticket->blocks * block_bytes(ticket);
	if (ticket->blocks > wave_of(queue->space->device, ticket->third, launch) ||
		!find_part(p, ticket, bytes)) {
		ticket->third = NULL;
		return;
	}
	ticket->bytes = bytes;
	list_append(&p->keepers, &ticket->keeping);
}

/* All of the grid: the blocks that have left before go on. */
static void fill_whole(struct preempt *p, struct device_queue *queue, struct piece *piece)
{
	struct ticket *ticket = piece->ticket;
	struct preempt_loops_launch hidden = {
		.counter = counter_of(p->counters, queue),
		.left = counter_of(p->lefts, queue),
		.generation = p->generation,
		.again = ticket->again,
		.offset = ticket->offset,
		.states_bytes = preempt_states_bytes(ticket->blocks),
		.block_bytes = (uint32_t)block_bytes(ticket),
		.left_before = ticket->generation,
	};

	fill_piece(piece, ticket->third, &hidden, sizeof hidden);
	ticket->next = ticket->blocks;
	ticket->generation = p->generation;
	ticket->again = true;
}

/* False: there is no room for it now. */
static bool issue_slice(struct preempt *p, struct device_queue *queue, struct ticket *ticket)
{
	struct device_function *function;
	struct piece *piece = free_piece(ticket);
	uint64_t blocks, leaves_ns;
	uint32_t wave;

	choose_way(p, queue, ticket);
	function = ticket->third ? ticket->third : ticket->second;
	wave = wave_of(queue->space->device, function, &ticket->command->launch);
	blocks = ticket->third ? ticket->blocks
			       : min_of(ticket->blocks - ticket->next,
					 blocks_leave(SLICE_LEAVES_NS, wave));
	leaves_ns = leave_ns(blocks, wave);

	if (p->piece_count >= PIECES_LEAST &&
		(p->leaves_ns + leaves_ns > LEAVES_NS_MAX || p->piece_count == PIECES_MAX))
		return false;
	if (!piece)
		return false;
	piece->leaves_ns = leaves_ns;
	if (ticket->third)
		fill_whole(p, queue, piece);
	else
		fill_slice(p, queue, piece, (uint32_t)blocks);
	p->piece_count++;
	p->leaves_ns += leaves_ns;
	issue(queue, piece);
	return true;
}

static bool issue_whole(struct preempt *p, struct device_queue *queue, struct ticket *ticket)
{
	bool computes = ticket->command->kind != DEVICE_COPY;

	if (computes && p->wholes == WHOLE_MAX)
		return false;
	p->wholes += computes;
	ticket->pieces[0].command = *ticket->command;
	issue(queue, &ticket->pieces[0]);
	return true;
}

static bool is_issued(const struct ticket *ticket)
{
	if (ticket->error)
		return true;
	if (!is_slice(ticket))
		return ticket->begun;
	return ticket->next == ticket->blocks;
}

/* Issues the next piece of the queue. False: it may not go now, or there is none. */
static bool issue_next(struct preempt *p, struct device_queue *queue)
{
	bool behind_slices = false;
	struct ticket *ticket;

	list_for_each (ticket, &queue->tickets, link) {
		if (is_issued(ticket)) {
			behind_slices |= is_slice(ticket);
			continue;
		}
		if (p->state != RUNNING && ticket->command->kind != DEVICE_COPY)
			return false;
		if (is_slice(ticket))
			return issue_slice(p, queue, ticket);
		return !behind_slices && issue_whole(p, queue, ticket);
	}
	return false;
}

/* Issues what may go: a piece of each queue in turn. */
static void pump(struct preempt *p)
{
	struct device_queue *queue;
	bool issued;

	do {
		issued = false;
		list_for_each (queue, &p->queues, waiting_link) {
			issued = issue_next(p, queue);
			if (!issued)
				continue;
			list_remove(&queue->waiting_link);
			list_append(&p->queues, &queue->waiting_link);
			break;
		}
	} while (issued);
}

static bool is_empty(const struct preempt *p)
{
	return !p->piece_count && !p->wholes && !p->tells;
}

/* What is issued from here on heeds the next generation. */
static void go_on(struct preempt *p)
{
	p->state = RUNNING;
	p->generation = p->stopped + 1;
	pump(p);
}

/* ---- done ---- */

/* The driver may refuse a slice or what tells of them, which it does not where the launch itself would have been good. Then the
 * counters are not what the queue's other slices take them for. */
static void lose_count(struct device_queue *queue, int error)
{
	if (error)
		space_break(queue->space, error);
}

static void account(struct preempt *p, struct piece *piece, int error)
{
	struct ticket *ticket = piece->ticket;

	ticket->issued--;
	piece->issued = false;
	if (is_slice(ticket)) {
		p->piece_count--;
		p->leaves_ns -= piece->leaves_ns;
		lose_count(ticket->command->queue, error);
	} else if (ticket->command->kind != DEVICE_COPY) {
		p->wholes--;
	}
	if (error && !ticket->error)
		ticket->error = error;
}

/* So many blocks have left: the last ones of what was issued. What a program may have written to the counter does it no good: no
 * launch loses more blocks than it had. */
static void take_back(struct device_queue *queue, uint32_t left, int error)
{
	struct ticket *ticket;
	uint64_t stay = 0;

	list_for_each (ticket, &queue->tickets, link)
		stay += ticket->next;
	stay -= min_of(stay, left);
	list_for_each (ticket, &queue->tickets, link) {
		ticket->next = (uint32_t)min_of(ticket->next, stay);
		stay -= ticket->next;
		if (error && is_slice(ticket) && ticket->begun && !ticket->error)
			ticket->error = error;
	}
}

static bool is_over(const struct device_queue *queue, const struct ticket *ticket)
{
	if (is_slice(ticket) && queue->telling) /* blocks may have left */
		return false;
	return !ticket->issued && is_issued(ticket);
}

/* The ticket's command is done: takes it off, and fills in what the worker is told. */
static void finish(struct ticket *ticket, const struct device_command *last)
{
	struct device_command *command = ticket->command;

	if (last->started_ns && !is_slice(ticket))
		device_command_start(command, last->started_ns);
	command->finished_ns = last->finished_ns;
	command->busy_ns = ticket->busy_ns;
	command->fault_address = last->fault_address;
	command->more_done = false;
	if (ticket->bytes)
		list_remove(&ticket->keeping);
	list_remove(&ticket->link);
}

/* Takes off what is over, oldest first, to be given back without the lock. */
static void collect_over(
	struct device_queue *queue, const struct device_command *last, struct list *over)
{
	struct ticket *ticket, *after;

	list_for_each_safe (ticket, after, &queue->tickets, link) {
		if (!is_over(queue, ticket))
			continue;
		finish(ticket, last);
		list_append(over, &ticket->link);
	}
	if (list_empty(&queue->tickets))
		list_remove(&queue->waiting_link);
}

/* Something is not with the driver any more. Whether it is quiet now, as somebody wants it to be. */
static bool go_on_or_stay(struct preempt *p)
{
	if (p->state != STOPPING || !is_empty(p)) {
		pump(p);
		return false;
	}
	p->state = QUIET;
	if (!p->wanted)
		go_on(p);
	return p->wanted;
}

static void give_back(struct device *device, struct list *over, bool quiet)
{
	struct ticket *ticket, *after;

	list_for_each_safe (ticket, after, over, link) {
		list_remove(&ticket->link);
		ticket->command->done(ticket->command, ticket->error);
		free(ticket);
	}
	if (quiet)
		device->host->quiet(device->host->owner);
}

/* The poller's, as tell_done(). */
static void piece_done(struct device_command *done, int error)
{
	struct piece *piece = container_of(done, struct piece, command);
	struct device_queue *queue = done->queue;
	struct device *device = queue->space->device;
	struct preempt *p = device->preempt;
	struct list over;
	bool quiet;

	list_init(&over);
	pthread_mutex_lock(&p->lock);
	piece->ticket->busy_ns += done->busy_ns;
	account(p, piece, error);
	collect_over(queue, done, &over);
	quiet = go_on_or_stay(p);
	pthread_mutex_unlock(&p->lock);
	give_back(device, &over, quiet);
}

/* How many blocks have left of the queue's slices that were stopped. */
static void tell_done(struct device_command *done, int error)
{
	struct device_queue *queue = done->queue;
	struct device *device = queue->space->device;
	struct preempt *p = device->preempt;
	uint32_t *left = &p->counts[queue->word].left, told;
	struct list over;
	bool quiet;

	list_init(&over);
	pthread_mutex_lock(&p->lock);
	told = __atomic_load_n(&p->told[queue->word], __ATOMIC_ACQUIRE);
	lose_count(queue, error);
	take_back(queue, told - *left, error);
	*left = told;
	queue->telling = false;
	p->tells--;
	collect_over(queue, done, &over);
	quiet = go_on_or_stay(p);
	pthread_mutex_unlock(&p->lock);
	give_back(device, &over, quiet);
}

/* ---- stopping ---- */

static bool has_slices(const struct device_queue *queue)
{
	const struct ticket *ticket;

	list_for_each (ticket, &queue->tickets, link)
		if (is_slice(ticket) && ticket->issued)
			return true;
	return false;
}

static void ask_to_tell(struct preempt *p, struct device_queue *queue)
{
	CUdeviceptr *params = queue->tell_params;

	params[0] = counter_of(p->lefts, queue);
	params[1] = p->told_address + queue->word * sizeof *p->told;
	queue->telling = true;
	p->tells++;
	queue->tell = (struct device_command){.kind = DEVICE_LAUNCH,
		.done = tell_done,
		.launch = {.function = p->tell,
			.grid = {1, 1, 1},
			.block = {1, 1, 1},
			.params = params,
			.param_bytes = 2 * sizeof *params}};
	issuer_submit(queue, &queue->tell);
}

/* A counter that cannot be written is not: then the blocks run to their end. */
static void stop(struct preempt *p, const struct driver *driver)
{
	struct device_queue *queue;

	p->state = STOPPING;
	p->stopped = p->generation;
	list_for_each (queue, &p->queues, waiting_link)
		if (has_slices(queue))
			driver->cuStreamWriteValue32(p->stream, counter_of(p->counters, queue),
				p->stopped, CU_STREAM_WRITE_VALUE_DEFAULT);
	list_for_each (queue, &p->queues, waiting_link)
		if (has_slices(queue))
			ask_to_tell(p, queue);
}

/* ---- what the worker calls ---- */

/* The driver refuses a launch of more, as it would not if it got the blocks as a row, in slices. */
#define GRID_X_MAX INT32_MAX
#define GRID_YZ_MAX 0xffff

static bool may_be_other(const struct device_command *command)
{
	const struct device_launch *launch = &command->launch;

	return command->kind == DEVICE_LAUNCH && !launch->cooperative && !launch->cluster[0] &&
	       launch->grid[0] <= GRID_X_MAX && launch->grid[1] <= GRID_YZ_MAX &&
	       launch->grid[2] <= GRID_YZ_MAX && blocks_of(launch->grid) < UINT32_MAX;
}

/* NULL: there is none that the launch can be of. */
static struct device_function *usable(
	struct device_function *const *made, const struct device_launch *launch)
{
	struct device_function *other = __atomic_load_n(made, __ATOMIC_ACQUIRE);

	return other && threads_of(launch) <= other->max_threads &&
			       launch->shared_bytes <= other->max_shared &&
			       preempt_shared_bytes(launch->shared_bytes) <= other->max_shared
		       ? other
		       : NULL;
}

static struct ticket *ticket_create(struct device_command *command)
{
	const struct device_launch *launch = &command->launch;
	struct device_function *second =
		may_be_other(command) ? usable(&launch->function->second, launch) : NULL;
	size_t param_bytes =
		second ? second->hidden_offset + sizeof(struct preempt_loops_launch) : 0;
	struct ticket *ticket;

	param_bytes = (param_bytes + 15) & ~(size_t)15;
	ticket = calloc(1, sizeof *ticket + PIECES_OF_ONE * param_bytes);
	if (!ticket)
		return NULL;
	ticket->command = command;
	ticket->second = second;
	ticket->third = second ? usable(&launch->function->third, launch) : NULL;
	ticket->blocks = second ? (uint32_t)blocks_of(command->launch.grid) : 0;
	for (unsigned i = 0; i < PIECES_OF_ONE; i++) {
		ticket->pieces[i].ticket = ticket;
		ticket->pieces[i].params = ticket->params + i * param_bytes;
	}
	return ticket;
}

void preempt_submit(struct device_queue *queue, struct device_command *command)
{
	struct preempt *p = queue->space->device->preempt;
	struct ticket *ticket = ticket_create(command);

	command->queue = queue;
	if (!ticket) { /* nobody can be told in here: the issuer will say that nothing goes any more */
		space_break(queue->space, -ENOMEM);
		issuer_submit(queue, command);
		return;
	}
	pthread_mutex_lock(&p->lock);
	if (list_empty(&queue->tickets))
		list_append(&p->queues, &queue->waiting_link);
	list_append(&queue->tickets, &ticket->link);
	pump(p);
	pthread_mutex_unlock(&p->lock);
}

bool cuda_pause(struct device *device, bool pause)
{
	const struct driver *driver = device_enter(device);
	struct preempt *p = device->preempt;
	bool quiet;

	pthread_mutex_lock(&p->lock);
	p->wanted = pause;
	if (pause && p->state == RUNNING) {
		if (is_empty(p))
			p->state = QUIET;
		else
			stop(p, driver);
	} else if (!pause && p->state == QUIET) {
		go_on(p);
	}
	quiet = p->state == QUIET;
	pthread_mutex_unlock(&p->lock);
	return quiet;
}
