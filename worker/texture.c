/* SPDX-License-Identifier: MIT
 *
 * Arrays, textures and surfaces of devices that make them (docs/textures.md). An array is a range of addresses in which
 * copies find its elements, and device memory that is paid for before the device takes it, for the most that it can be. If
 * the device can take the memory from under it, that leaves and comes back as one piece; else it stays on the device as long
 * as the array lives. The device keeps the list of textures and surfaces; what the client says of them is checked there.
 */
#include "worker/command.h"

#include <errno.h>
#include <stdlib.h>

#include "gdev/error.h"
#include "worker/core.h"
#include "worker/module.h"

/* ---- arrays ---- */

/* The chunk is all of the array's memory. */
static int make_piece(struct core *core, struct range *range, struct device_chunk *chunk)
{
	struct piece *piece = calloc(1, sizeof *piece);

	if (!piece) {
		core->ops->unmap(core->space, range->address, chunk);
		core->ops->chunk_destroy(chunk);
		core->ops->array_destroy(range->array);
		return -ENOMEM;
	}
	piece->range = range;
	piece->chunk = chunk;
	piece->bytes = range->array_bytes;
	piece->state = PIECE_RESIDENT;
	list_init(&piece->link);
	range->pieces = piece;
	return 0;
}

static void created(struct core *core, struct range *range)
{
	if (range->pieces) {
		range->piece_count = 1;
		range->array_bytes = 0;
	}
	range->launches = core->residency.launches;
	range->copied_at = ++core->residency.copies;
	range->ready = true;
}

static void create_job(struct job *job)
{
	struct command *command = container_of(job, struct command, job);
	const struct record_array *record = command->request.array;
	struct core *core = command->core;
	struct range *range = command->range;
	struct device_chunk *chunk = NULL;
	int error = core->ops->array_create(
		core->space, range->address, &record->shape, &range->array, &chunk);

	if (!error && chunk)
		error = make_piece(core, range, chunk);
	core_lock(core);
	if (error) {
		memory_uncharge(core, range->array_bytes);
		memory_remove(core, range);
	} else {
		created(core, range);
	}
	command_answer(command, error, NULL, 0);
	core_unlock(core);
}

void array_create(struct command *command)
{
	const struct record_array *record = command->request.array;
	struct core *core = command->core;
	int error = -ENOTSUP;

	if (core->ops->array_create)
		error = memory_insert(
			core, RANGE_ARRAY, record->address, record->bytes, &command->range);
	if (error) {
		command_answer(command, error, NULL, 0);
		return;
	}
	command->range->array_bytes = core->ops->array_bytes(&record->shape);
	memory_pay(command, command->range->array_bytes, create_job);
}

/* ---- textures and surfaces ---- */

static void create_texture_job(struct job *job)
{
	struct command *command = container_of(job, struct command, job);
	struct core *core = command->core;
	struct reply_texture reply = {0};
	int error = core->ops->texture_create(
		core->space, &command->request.texture->words, &reply.handle);

	core_lock(core);
	command_answer(command, error, &reply, error ? 0 : sizeof reply);
	core_unlock(core);
}

void texture_create(struct command *command)
{
	if (!command->core->ops->texture_create)
		command_answer(command, -ENOTSUP, NULL, 0);
	else
		service_job(command->core, LANE_CALLS, &command->job, create_texture_job);
}

static void destroy_texture_job(struct job *job)
{
	struct command *command = container_of(job, struct command, job);
	const struct record_texture_destroy *record = command->request.texture_destroy;
	struct core *core = command->core;
	int error = core->ops->texture_destroy(core->space, record->handle, record->surface);

	core_lock(core);
	command_answer(command, error, NULL, 0);
	core_unlock(core);
}

static void flight_over(struct barrier *barrier)
{
	struct command *command = container_of(barrier, struct command, barrier);

	service_job(command->core, LANE_CALLS, &command->job, destroy_texture_job);
}

void texture_destroy(struct command *command)
{
	if (!command->core->ops->texture_destroy) {
		command_answer(command, -ENOTSUP, NULL, 0);
		return;
	}
	command->barrier.passed = flight_over;
	barrier_start(command->core, &command->barrier);
}

/* The device is asked without the lock. The module stays: records alone unload it, and none is read meanwhile. */
void reference_set(struct command *command)
{
	const struct record_reference *record = command->request.reference;
	struct core *core = command->core;
	struct module *module = table_find(&core->modules, record->module);
	int error = -ENOTSUP;

	if (!module) {
		error = -GDEV_E_INVALID_HANDLE;
	} else if (core->ops->reference_set) {
		core_unlock(core);
		error = core->ops->reference_set(
			module->device, command->request.tail, &record->words, record->bind);
		core_lock(core);
	}
	command_answer(command, error, NULL, 0);
}
