/* SPDX-License-Identifier: MIT
 *
 * See command.h: the life of a command, and the answers to immediate ones.
 */
#include "worker/command.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "worker/core.h"
#include "worker/event.h"
#include "worker/module.h"

#define SMALL_BYTES 512 /* a launch with some forty parameters */
#define SMALL_KEPT_MAX 4096

static struct command *take_small(struct core *core)
{
	struct command *command;

	if (list_empty(&core->free_commands))
		return malloc(sizeof *command + SMALL_BYTES);
	command = list_first(&core->free_commands, struct command, link);
	list_remove(&command->link);
	core->free_command_count--;
	return command;
}

struct command *command_create(struct core *core, size_t length)
{
	bool small = length <= SMALL_BYTES;
	struct command *command = small ? take_small(core) : malloc(sizeof *command + length);

	if (!command)
		return NULL;
	memset(command, 0, sizeof *command);
	command->core = core;
	command->capacity = small ? SMALL_BYTES : (uint32_t)length;
	command->length = (uint32_t)length;
	list_init(&command->link);
	list_init(&command->fence_link);
	list_init(&command->flight_link);
	core->pending_bytes += sizeof *command + command->capacity;
	return command;
}

void command_destroy(struct command *command)
{
	struct core *core = command->core;

	if (command->wait)
		event_abandon(command);
	if (command->function)
		function_put(core, command->function);
	core->pending_bytes -= sizeof *command + command->capacity;
	if (core->pending_bytes < PENDING_BYTES_MAX / 2 &&
		__atomic_load_n(&core->ring_held, __ATOMIC_RELAXED)) {
		__atomic_store_n(&core->ring_held, false, __ATOMIC_RELAXED);
		service_wake(core);
	}
	list_remove(&command->link);
	if (command->capacity != SMALL_BYTES || core->free_command_count >= SMALL_KEPT_MAX) {
		free(command);
		return;
	}
	list_insert(&core->free_commands, &command->link);
	core->free_command_count++;
}

void *command_payload(struct command *command)
{
	return command->core->segment->replies[command->timeline].payload;
}

void command_answer_in_place(struct command *command, int status, size_t length)
{
	struct core *core = command->core;
	struct session_reply *reply = &core->segment->replies[command->timeline];

	__atomic_store_n(&reply->status, status, __ATOMIC_RELAXED);
	__atomic_store_n(&reply->length, (uint32_t)length, __ATOMIC_RELAXED);
	timeline_complete(core, command->timeline, command->value);
	command_destroy(command);
}

void command_answer(struct command *command, int status, const void *payload, size_t length)
{
	if (length)
		memcpy(command_payload(command), payload, length);
	command_answer_in_place(command, status, length);
}
