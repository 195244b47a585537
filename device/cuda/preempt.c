/* SPDX-License-Identifier: MIT
 *
 * Kernels that leave the device between blocks, on hardware: the second half of device/preempt, between the worker, which
 * submits commands and asks for a pause, and the issuer (issue.c), which knows of neither.
 *
 * What goes to the issuer are pieces. A launch of a kernel that was rewritten is cut into slices, of so many blocks as
 * can leave in a short time, and each slice is a piece; any other command is one. Of slices only so many are with the
 * driver at a time as can leave together: the rest waits here.
 *
 * A pause. Generations number the times between pauses: a slice has that in which it was issued. To stop them, the generation is
 * written to the word, by a stream of its own. Blocks that begin from then on note their index and leave; so the slices
 * end. What was not rewritten runs to its end. When nothing is on the compute unit, it is quiet. The blocks that left
 * are launched again afterwards, from a list of their indices. Nobody resets the word: what is issued later has the next generation.
 *
 * Order. A slice may follow anything in its stream: if a launch before it is stopped, it is stopped, too, since the word
 * stays. Any other command follows a rewritten launch only when that is done to its last block.
 *
 * Locks. preempt->lock guards all of it. The issuer's are taken inside it, and done() is called without it.
 */
#include "device/cuda/cuda.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "device/preempt/preempt.h"

#define LEFT_WORDS (256u << 10) /* blocks that are with the driver at a time */
#define SLICE_BLOCKS (LEFT_WORDS / 4)
/* A wave is as many blocks as the device holds at once. To begin, to see the word and to leave takes one 1.5 us. */
#define SLICE_WAVES 32
#define WAVES_MAX 48 /* of all slices that are with the driver, … */
#define PIECES_LEAST                                                                               \
	2 /* … but so many may always be there, lest the device wait for the host between them */
#define PIECES_MAX 64
#define PIECES_OF_ONE 2 /* of a launch */
#define WHOLE_MAX 16    /* commands of the compute unit that are none, likewise */

static const char word_ptx[] = ".version 6.0\n"
			       ".target sm_70\n"
			       ".address_size 64\n"
			       ".visible .global .align 8 .u64 gdev_word;\n";

enum state {
	RUNNING,
	STOPPING, /* nothing is issued; what is with the driver comes to its end */
	QUIET,
};

struct preempt {
	pthread_mutex_t lock;
	enum state state;
	bool wanted;                  /* a pause is */
	uint64_t generation, stopped; /* of what is issued; up to which the word says to leave */
	struct list queues;           /* those with tickets, struct device_queue.waiting_link */
	struct list pieces;           /* slices with the driver, by `left_at` */
	unsigned piece_count, waves, wholes;
	/* The context's. */
	CUmodule module;
	CUdeviceptr word, left_address;
	uint32_t *left; /* zeros, but for the notes of slices that are with the driver */
	CUstream stream;
};

struct piece {
	struct device_command command; /* the issuer's */
	struct list link;              /* preempt->pieces, of slices */
	struct ticket *ticket;
	bool issued;
	uint32_t left_at, blocks;
	uint64_t generation;
	unsigned waves;
	uint8_t *params; /* of slices */
};

/* A command of the worker's. */
struct ticket {
	struct list link; /* queue->tickets */
	struct device_command *command;
	struct device_function *second; /* NULL: it goes as it is */
	uint32_t blocks, next;          /* of the grid; the first that has not been issued yet */
	uint32_t *rest;                 /* indices, plus one, of those that have left */
	uint32_t rest_count, rest_room;
	unsigned issued; /* pieces that are with the driver */
	bool begun;
	int error;
	uint64_t busy_ns;
	struct piece pieces[PIECES_OF_ONE];
	_Alignas(16) uint8_t params[]; /* of each piece */
};

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
	function->wave =
		max_of(cuda_function_occupancy(function, threads, launch->shared_bytes), 1u) *
		device->multiprocessors;
	return function->wave;
}

/* Where so many words of `left` are free: an index, and in *before what they come before in the list. */
static bool find_room(struct preempt *p, uint32_t blocks, uint32_t *at, struct list **before)
{
	struct piece *piece;

	*at = 0;
	list_for_each (piece, &p->pieces, link) {
		if (piece->left_at - *at >= blocks) {
			*before = &piece->link;
			return true;
		}
		*at = piece->left_at + piece->blocks;
	}
	*before = &p->pieces;
	return LEFT_WORDS - *at >= blocks;
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

/* What it launches: of the rest first, from the front of `left`. */
static void fill_slice(struct preempt *p, struct piece *piece, bool rest)
{
	struct ticket *ticket = piece->ticket;
	struct device_launch *launch = &piece->command.launch;
	const struct device_launch *whole = &ticket->command->launch;
	uint32_t offset = ticket->second->hidden_offset;
	struct preempt_launch hidden = {
		.word = p->word,
		.left = p->left_address + piece->left_at * sizeof *p->left,
		.first = rest ? PREEMPT_LISTED : ticket->next,
		.generation = p->generation,
		.grid = {whole->grid[0], whole->grid[1], whole->grid[2]},
	};

	if (whole->param_bytes)
		memcpy(piece->params, whole->params, min_of(whole->param_bytes, offset));
	memcpy(piece->params + offset, &hidden, sizeof hidden);
	piece->command = *ticket->command;
	launch->function = ticket->second;
	launch->params = piece->params;
	launch->param_bytes = offset + (uint32_t)sizeof hidden;
	launch->grid[0] = piece->blocks;
	launch->grid[1] = launch->grid[2] = 1;
	launch->more = false;
	if (rest) {
		ticket->rest_count -= piece->blocks;
		memcpy(p->left + piece->left_at, ticket->rest + ticket->rest_count,
			piece->blocks * sizeof *p->left);
	} else {
		ticket->next += piece->blocks;
	}
	piece->generation = p->generation;
}

/* False: there is no room for it now. */
static bool issue_slice(struct preempt *p, struct device_queue *queue, struct ticket *ticket)
{
	struct device *device = queue->space->device;
	bool rest = ticket->rest_count;
	uint32_t wave = wave_of(device, ticket->second, &ticket->command->launch);
	uint32_t blocks = rest ? ticket->rest_count : ticket->blocks - ticket->next, at;
	struct piece *piece = free_piece(ticket);
	struct list *before;
	unsigned waves;

	blocks = min_of(blocks, min_of((uint64_t)wave * SLICE_WAVES, SLICE_BLOCKS));
	waves = 1 + blocks / wave;
	if (p->piece_count >= PIECES_LEAST &&
		(p->waves + waves > WAVES_MAX || p->piece_count == PIECES_MAX))
		return false;
	if (!piece || !find_room(p, blocks, &at, &before))
		return false;
	piece->left_at = at;
	piece->blocks = blocks;
	piece->waves = waves;
	fill_slice(p, piece, rest);
	list_append(before, &piece->link);
	p->piece_count++;
	p->waves += waves;
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
	return ticket->next == ticket->blocks && !ticket->rest_count;
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
	return !p->piece_count && !p->wholes;
}

/* What is issued from here on heeds the next word. */
static void go_on(struct preempt *p)
{
	p->state = RUNNING;
	p->generation = p->stopped + 1;
	pump(p);
}

/* ---- done ---- */

static bool make_room(struct ticket *ticket, uint32_t more)
{
	uint32_t room = ticket->rest_count + more;
	void *grown;

	if (room <= ticket->rest_room)
		return true;
	grown = realloc(ticket->rest, room * sizeof *ticket->rest);
	if (!grown)
		return false;
	ticket->rest = grown;
	ticket->rest_room = room;
	return true;
}

/* Takes the notes of the blocks that have left, none of which runs any more. -ENOMEM. */
static int take_left(struct preempt *p, struct piece *piece)
{
	struct ticket *ticket = piece->ticket;
	uint32_t *left = p->left + piece->left_at;
	bool room = make_room(ticket, piece->blocks);

	for (uint32_t b = 0; b < piece->blocks && room; b++)
		if (left[b] && left[b] <= ticket->blocks) /* else the program has written there */
			ticket->rest[ticket->rest_count++] = left[b];
	memset(left, 0, piece->blocks * sizeof *left);
	return room ? 0 : -ENOMEM;
}

static void account(struct preempt *p, struct piece *piece, int error)
{
	struct ticket *ticket = piece->ticket;

	ticket->issued--;
	piece->issued = false;
	if (is_slice(ticket)) {
		list_remove(&piece->link);
		p->piece_count--;
		p->waves -= piece->waves;
		if (!error && piece->generation <= p->stopped)
			error = take_left(p, piece);
	} else if (ticket->command->kind != DEVICE_COPY) {
		p->wholes--;
	}
	if (error && !ticket->error)
		ticket->error = error;
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
	list_remove(&ticket->link);
}

/* The poller's. */
static void piece_done(struct device_command *done, int error)
{
	struct piece *piece = container_of(done, struct piece, command);
	struct device_queue *queue = done->queue;
	struct device *device = queue->space->device;
	struct preempt *p = device->preempt;
	struct ticket *ticket = piece->ticket, *over = NULL;
	bool quiet = false;

	pthread_mutex_lock(&p->lock);
	ticket->busy_ns += done->busy_ns;
	account(p, piece, error);
	if (!ticket->issued && is_issued(ticket)) {
		over = ticket;
		finish(ticket, done);
		if (list_empty(&queue->tickets))
			list_remove(&queue->waiting_link);
	}
	if (p->state == STOPPING && is_empty(p)) {
		p->state = QUIET;
		quiet = p->wanted;
		if (!quiet)
			go_on(p);
	} else {
		pump(p);
	}
	pthread_mutex_unlock(&p->lock);
	if (over) {
		over->command->done(over->command, over->error);
		free(over->rest);
		free(over);
	}
	if (quiet)
		device->host->quiet(device->host->owner);
}

/* ---- what the worker calls ---- */

/* Along y and z; the driver refuses a launch of more, as it would not if it got the blocks as a row. */
#define GRID_YZ_MAX 0xffff

/* NULL: the launch goes as it is. */
static struct device_function *second_of(const struct device_command *command)
{
	const struct device_launch *launch = &command->launch;
	struct device_function *second;

	if (command->kind != DEVICE_LAUNCH || launch->cooperative || launch->cluster[0] ||
		launch->grid[1] > GRID_YZ_MAX || launch->grid[2] > GRID_YZ_MAX ||
		blocks_of(launch->grid) >= PREEMPT_LISTED)
		return NULL;
	second = __atomic_load_n(&launch->function->second, __ATOMIC_ACQUIRE);
	return second && threads_of(launch) <= second->max_threads ? second : NULL;
}

static struct ticket *ticket_create(struct device_command *command)
{
	struct device_function *second = second_of(command);
	size_t param_bytes = second ? second->hidden_offset + sizeof(struct preempt_launch) : 0;
	struct ticket *ticket;

	param_bytes = (param_bytes + 15) & ~(size_t)15;
	ticket = calloc(1, sizeof *ticket + PIECES_OF_ONE * param_bytes);
	if (!ticket)
		return NULL;
	ticket->command = command;
	ticket->second = second;
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
		p->state = is_empty(p) ? QUIET : STOPPING;
		if (p->piece_count && !driver->cuStreamWriteValue64(p->stream, p->word,
					      p->generation, CU_STREAM_WRITE_VALUE_DEFAULT))
			p->stopped = p->generation;
	} else if (!pause && p->state == QUIET) {
		go_on(p);
	}
	quiet = p->state == QUIET;
	pthread_mutex_unlock(&p->lock);
	return quiet;
}

/* ---- the context's ---- */

static CUresult make_word(struct device *device, struct preempt *p)
{
	const struct driver *driver = device->driver;
	autofree void *code = NULL;
	size_t bytes;
	CUresult result = jit_link(driver, word_ptx, NULL, &code, &bytes);

	if (!result)
		result = driver->cuModuleLoadDataEx(&p->module, code, 0, NULL, NULL);
	if (!result)
		result = driver->cuModuleGetGlobal(&p->word, &bytes, p->module, "gdev_word");
	if (!result)
		result = driver->cuMemHostAlloc((void **)&p->left, LEFT_WORDS * sizeof *p->left,
			CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
	if (!result)
		memset(p->left, 0, LEFT_WORDS * sizeof *p->left);
	if (!result)
		result = driver->cuMemHostGetDevicePointer(&p->left_address, p->left, 0);
	if (!result) /* it is to pass what waits in other streams, and has no channel in common with them */
		result = driver->cuStreamCreateWithPriority(&p->stream, CU_STREAM_NON_BLOCKING, -5);
	return result;
}

int preempt_context_open(struct device *device)
{
	struct preempt *p = device->preempt;
	CUresult result;

	if (!p)
		return 0;
	result = make_word(device, p);
	if (result)
		preempt_context_close(device);
	return driver_error(result);
}

void preempt_context_close(struct device *device)
{
	const struct driver *driver = device->driver;
	struct preempt *p = device->preempt;

	if (!p)
		return;
	if (p->stream)
		driver->cuStreamDestroy(steal_pointer(&p->stream));
	if (p->left)
		driver->cuMemFreeHost(steal_pointer(&p->left));
	if (p->module)
		driver->cuModuleUnload(steal_pointer(&p->module));
}

int cuda_preempt(struct device_space *space)
{
	struct device *device = space->device;
	struct preempt *p;
	int error;

	if (device->preempt) /* of a session that did not come to be */
		return 0;
	p = calloc(1, sizeof *p);
	if (!p)
		return -ENOMEM;
	pthread_mutex_init(&p->lock, NULL);
	list_init(&p->queues);
	list_init(&p->pieces);
	p->generation = 1;
	device->preempt = p;
	device_enter(device);
	error = preempt_context_open(device);
	if (error)
		preempt_destroy(device);
	return error;
}

void preempt_destroy(struct device *device)
{
	struct preempt *p = steal_pointer(&device->preempt);

	if (p)
		pthread_mutex_destroy(&p->lock);
	free(p);
}
