/* SPDX-License-Identifier: MIT
 *
 * See shm.h: memory that CUDA programs pass on as handles, IPC or exported ones. It is a transient segment, found by its
 * token: made so, or an object that has become one where it is. A session holds it until it has it mapped, and maps it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>

#include "base/cleanup.h"
#include "gdev/error.h"
#include "worker/command.h"
#include "worker/core.h"
#include "worker/memory/shm.h"

/* Shared memory that the session holds without having it anywhere. */
struct hold {
	struct list link;
	struct control_shm description;
	uint32_t count;
};

static struct hold *find_hold(struct core *core, uint32_t id)
{
	struct hold *hold;

	list_for_each (hold, &core->memory.holds, link)
		if (hold->description.id == id)
			return hold;
	return NULL;
}

/* gdevd has counted one attachment more. */
static int add_hold(struct core *core, const struct control_shm *segment)
{
	struct hold *hold = find_hold(core, segment->id);

	if (!hold) {
		hold = calloc(1, sizeof *hold);
		if (!hold)
			return -ENOMEM;
		hold->description = *segment;
		list_append(&core->memory.holds, &hold->link);
	}
	hold->count++;
	return 0;
}

/* With the lock: the job is done, and the session holds what it has got. */
static void answer_shared(struct command *command, int status, const struct control_shm *segment)
{
	struct reply_shared reply = {0};

	if (status >= 0) {
		reply.id = segment->id;
		reply.bytes = segment->bytes;
		memcpy(reply.token, segment->token, sizeof reply.token);
	}
	command_answer(command, min_of(status, 0), &reply, status >= 0 ? sizeof reply : 0);
}

static void hold_and_answer(struct command *command, int status, const struct control_shm *segment)
{
	struct core *core = command->core;
	bool held = status >= 0;

	core_lock(core);
	if (held)
		status = add_hold(core, segment);
	answer_shared(command, status, segment);
	core_unlock(core);
	if (held && status)
		shared_detach(core, segment->id);
}

/* A transient segment that gdevd makes for `bytes`; status as of shared_call(). */
static int get_transient(struct core *core, uint64_t bytes, struct control_shm *segment)
{
	struct control_shm message = shared_message(SHM_COMMAND_GET, 0);
	int status;

	message.key = IPC_PRIVATE;
	message.flags = CONTROL_SHM_TRANSIENT | 0600;
	message.size = message.bytes = bytes;
	status = shared_call(core, &message, segment, NULL, NULL);
	return status == 0 ? -GDEV_E_PROTOCOL : status;
}

static void create_job(struct job *job)
{
	struct command *command = container_of(job, struct command, job);
	uint64_t bytes = align_up(command->request.shared->bytes, DEVICE_CHUNK_MIN);
	struct control_shm segment;
	int status = get_transient(command->core, bytes, &segment);

	if (status == 1)
		status = shared_make(command->core, &segment, bytes);
	hold_and_answer(command, status, &segment);
}

void shared_create(struct command *command)
{
	uint64_t bytes = command->request.shared->bytes;

	if (!bytes || bytes > command->core->session.arena_bytes)
		command_answer(command, -EINVAL, NULL, 0);
	else
		service_job(command->core, LANE_LONG, &command->job, create_job);
}

/* An object that had no room on the device cannot be shared. */
static bool is_resident(const struct range *range)
{
	for (size_t i = 0; i < range->piece_count; i++)
		if (range->pieces[i].state != PIECE_RESIDENT)
			return false;
	return true;
}

/* Hands the object's chunks to gdevd. With the lock, an entry is there before gdevd may give orders for it. */
static int hand_out(
	struct core *core, struct range *range, struct control_shm *segment, struct shared **shared)
{
	int status = get_transient(core, range->bytes, segment);

	if (status != 1)
		return status;
	core_lock(core);
	*shared = shared_create_entry(core, segment->id);
	core_unlock(core);
	status = *shared ? shared_back(core, range, segment) : -ENOMEM;
	if (status)
		shared_abandon(core, segment);
	return status;
}

/* The chunks stay where they are; what in-flight commands do to them goes on. */
static void export_job(struct job *job)
{
	struct command *command = container_of(job, struct command, job);
	struct range *range = command->range;
	struct core *core = command->core;
	struct shared *shared = NULL;
	struct control_shm segment;
	int status = hand_out(core, range, &segment, &shared);

	core_lock(core);
	range->stays = false;
	if (!status) {
		memory_hand_over(core, range->bytes);
		range->kind = RANGE_SHARED;
		range->shared = shared;
		shared->range = range;
		shared->description = segment;
		shared->exported = true;
	}
	range->exporting = false;
	answer_shared(command, status, &segment);
	if (!status)
		shared_settle(core, shared, SHARED_HERE);
	else if (shared)
		shared_remove(core, shared);
	memory_unpin(core, range);
	core_unlock(core);
}

void shared_export(struct command *command)
{
	uint64_t address = command->request.shared->address;
	struct range *range = memory_find(command->core, address, 1);

	if (!range || range->address != address ||
		(range->kind != RANGE_DEVICE && !shared_is_export(range))) {
		command_answer(command, -EINVAL, NULL, 0);
	} else if (range->kind == RANGE_SHARED) {
		answer_shared(command, 0, &range->shared->description);
	} else if (!residency_keep(command->core, range)) {
		/* The object is brought in first. */
		list_append(&command->core->residency.exports, &command->link);
	} else if (!is_resident(range)) {
		range->stays = false;
		command_answer(command, -ENOMEM, NULL, 0);
	} else if (range->exporting) { /* twice at once: no client of ours does it */
		command_answer(command, -EAGAIN, NULL, 0);
	} else {
		range->exporting = true;
		command->range = range;
		memory_pin(range);
		service_job(command->core, LANE_CALLS, &command->job, export_job);
	}
}

void shared_not_exported(struct command *command, int error)
{
	struct range *range = memory_find(command->core, command->request.shared->address, 1);

	if (range && !range->exporting)
		range->stays = false;
	command_answer(command, error, NULL, 0);
}

/* Tells gdevd which segment a record names. */
static int call_by_token(
	struct command *command, enum control_shm_command what, struct control_shm *segment)
{
	const struct record_shared *record = command->request.shared;
	struct control_shm message = shared_message(what, record->id);

	memcpy(message.token, record->token, sizeof message.token);
	return shared_call(command->core, &message, segment, NULL, NULL);
}

static void hold_job(struct job *job)
{
	struct command *command = container_of(job, struct command, job);
	struct control_shm segment;
	int status = call_by_token(command, SHM_COMMAND_HOLD, &segment);

	hold_and_answer(command, status, &segment);
}

void shared_hold(struct command *command)
{
	service_job(command->core, LANE_CALLS, &command->job, hold_job);
}

static void publish_job(struct job *job)
{
	struct command *command = container_of(job, struct command, job);
	struct control_shm segment;
	int status = call_by_token(command, SHM_COMMAND_PUBLISH, &segment);

	core_lock(command->core);
	answer_shared(command, status, &segment);
	core_unlock(command->core);
}

void shared_publish(struct command *command)
{
	service_job(command->core, LANE_CALLS, &command->job, publish_job);
}

void shared_drop(struct command *command)
{
	struct core *core = command->core;
	uint32_t id = command->request.shared->id;
	const struct control_shm message = shared_message(SHM_COMMAND_DETACH, id);
	struct hold *hold = find_hold(core, id);

	if (!hold) {
		command_answer(command, -EINVAL, NULL, 0);
		return;
	}
	control_send(core, &message, NULL, 0);
	if (!--hold->count) {
		list_remove(&hold->link);
		free(hold);
	}
	command_answer(command, 0, NULL, 0);
}

static void map_job(struct job *job)
{
	struct command *command = container_of(job, struct command, job);
	const struct record_shared *record = command->request.shared;
	struct control_shm message = shared_message(SHM_COMMAND_ATTACH, record->id), segment = {0};
	int error;

	message.flags = CONTROL_SHM_TRANSIENT | (record->flags & SHM_RDONLY);
	memcpy(message.token, record->token, sizeof message.token);
	error = shared_attach(command->core, &message, record->address, &segment);
	core_lock(command->core);
	answer_shared(command, error, &segment);
	core_unlock(command->core);
}

void shared_map(struct command *command)
{
	if (command->request.shared->address % ARENA_ALIGN)
		command_answer(command, -EINVAL, NULL, 0);
	else
		service_job(command->core, LANE_LONG, &command->job, map_job);
}

bool shared_is_export(const struct range *range)
{
	return range->kind == RANGE_SHARED && range->shared && range->shared->exported;
}

int shared_check_mapping(const struct shared *shared)
{
	if (shared->place == SHARED_MAPPED) /* for good */
		return -EINVAL;
	return shared->place == SHARED_HERE && !shared->order && !shared->lost ? 0 : -EAGAIN;
}

void shared_finish(struct core *core)
{
	struct hold *hold, *next;

	list_for_each_safe (hold, next, &core->memory.holds, link)
		free(hold);
}

/* ---- a new gdevd ---- */

void shared_register_holds(struct core *core)
{
	struct hold *hold;

	list_for_each (hold, &core->memory.holds, link) {
		struct control_shm message = shared_message(SHM_COMMAND_HOLD, hold->description.id);
		memcpy(message.token, hold->description.token, sizeof message.token);
		for (uint32_t i = 0; i < hold->count; i++)
			control_send(core, &message, NULL, 0);
	}
}
