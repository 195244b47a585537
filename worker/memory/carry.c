/* SPDX-License-Identifier: MIT
 *
 * A warm worker copies a segment out, or brings it in (gdevd/memory/shm_carry.c). It has no client yet, so it
 * makes an address space for this alone, and takes it down again: afterwards it is as it was. There is one such order
 * at a time, and nothing else to do: one job does all of it.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "worker/core.h"
#include "worker/memory/shm.h"

struct carry {
	struct job job;
	struct core *core;
	struct control_shm segment;
	struct range range;
	int fd;
	void *copy; /* the host copy, mapped; NULL */
	bool mapped;
	struct device_queue *queue;
	bool in;
};

/* The copy of one piece. */
struct carried {
	struct device_command command;
	int error;
	bool done;
};

/* As large as a client's, and where clients have theirs: NVIDIA's driver does not give every small one the addresses that
 * it is asked for. */
static int make_space(struct core *core, struct carry *carry)
{
	int error = core->ops->space_create(core->device, &core->space);

	if (error)
		return error;
	error = -EADDRINUSE;
	for (unsigned i = 0; i < ARENA_BASES && error == -EADDRINUSE; i++) {
		carry->range.address = ARENA_DEFAULT_BASE + i * ARENA_DEFAULT_BYTES;
		error = core->ops->space_reserve(
			core->space, carry->range.address, ARENA_DEFAULT_BYTES);
	}
	return error;
}

static int prepare_pieces(struct core *core, struct carry *carry)
{
	struct control_shm segment = carry->segment;
	struct control_shm message = shared_message(SHM_COMMAND_RESTORE, segment.id);
	int error = make_space(core, carry);

	if (error)
		return error;
	error = carry->in ? shared_make_pieces(core, segment.bytes, &carry->range)
			  : shared_fetch(core, &message, &segment, &carry->range, NULL);
	if (!error)
		error = memory_map_pieces(core, &carry->range);
	carry->mapped = !error;
	if (!error)
		error = shared_map_copy(core, carry->fd, carry->range.bytes, &carry->copy);
	return error ? error : core->ops->queue_create(core->space, 0, &carry->queue);
}

static void piece_copied(struct device_command *command, int error)
{
	struct carried *carried = container_of(command, struct carried, command);

	carried->error = error;
	__atomic_store_n(&carried->done, true, __ATOMIC_RELEASE);
}

/* Nobody else asks the device: the worker has nothing in flight that it knows of. */
static void await_moves(struct core *core, const struct carried *carried)
{
	while (!__atomic_load_n(&carried->done, __ATOMIC_ACQUIRE)) {
		bool any = core->ops->work && core->ops->work(core->device);
		any |= core->ops->poll && core->ops->poll(core->device);
		if (!any)
			sched_yield();
	}
}

static int copy_piece(struct core *core, const struct carry *carry, const struct piece *piece)
{
	uint64_t device = carry->range.address + piece->offset;
	uint64_t host = (uintptr_t)carry->copy + piece->offset;
	struct carried carried = {.command = {.kind = DEVICE_COPY, .done = piece_copied}};

	carried.command.copy = (struct device_copy){
		.direction = carry->in ? COPY_TO_DEVICE : COPY_FROM_DEVICE,
		.source = carry->in ? host : device,
		.destination = carry->in ? device : host,
		.width = piece->bytes,
		.height = 1,
		.depth = 1,
	};

	core->ops->submit(carry->queue, &carried.command);
	await_moves(core, &carried);
	return carried.error;
}

static void clean_up(struct core *core, struct carry *carry)
{
	if (carry->queue)
		core->ops->queue_destroy(carry->queue);
	shared_unmap_copy(core, carry->copy, carry->range.bytes);
	if (carry->mapped)
		memory_unmap_pieces(core, &carry->range, carry->range.piece_count);
	memory_drop_pieces(core, &carry->range);
	if (core->space)
		core->ops->space_destroy(core->space);
	core->space = NULL;
	free(carry->range.pieces);
	close(carry->fd);
}

static void carry_job(struct job *job)
{
	struct carry *carry = container_of(job, struct carry, job);
	struct control_shm message =
		shared_message((enum control_shm_command)carry->segment.command, carry->segment.id);
	struct core *core = carry->core;
	int error = prepare_pieces(core, carry);

	for (size_t i = 0; i < carry->range.piece_count && !error; i++)
		error = copy_piece(core, carry, &carry->range.pieces[i]);
	if (!error && carry->in)
		error = shared_back(core, &carry->range, &carry->segment);
	message.header.status = error;
	clean_up(core, carry);
	free(carry);
	core_lock(core);
	core->memory.carrying = false;
	control_send(core, &message, NULL, 0);
	core_unlock(core);
}

/* There is one at a time, and it is on the device. */
static bool can_carry(const struct core *core, const struct control_shm *order)
{
	return !core->memory.carrying &&
	       shared_size_is_sane(core, order, core->device_info.memory_bytes);
}

void shared_carry(struct core *core, const struct control_shm *order, int *fd)
{
	struct carry *carry = can_carry(core, order) ? calloc(1, sizeof *carry) : NULL;

	if (!carry) {
		shared_say(core, order->id, (enum control_shm_command)order->command, -ENOMEM);
		return;
	}
	core->memory.carrying = true;
	carry->core = core;
	carry->segment = *order;
	carry->range.kind = RANGE_SHARED;
	carry->range.bytes = order->bytes;
	carry->in = order->command == SHM_COMMAND_CARRY;
	carry->range.read_only = !carry->in;
	carry->fd = steal_fd(fd);
	/* The bounds of what gdevd says of chunks, until a client has an arena. */
	core->session.arena_bytes = order->bytes;
	service_job(core, LANE_ORDERS, &carry->job, carry_job);
}
