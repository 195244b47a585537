/* SPDX-License-Identifier: MIT
 *
 * See command.h: the life of a command, and the answers to immediate ones.
 */
#include "worker/command.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "worker/core.h"
#include "worker/event.h"
#include "worker/graph.h"
#include "worker/module.h"

#define SMALL_BYTES 240     /* a launch with some twenty parameters */
#define RECYCLED_MAX 16384  /* a burst this deep does without the allocator; 14 MB */
#define RECYCLED_ALWAYS 256 /* not worth giving back */
#define LOOK_NS NS_PER_S
#define GIVE_BACK_MAX 1024 /* a look, as it has the lock */

static struct command *take_small(struct core *core)
{
	struct recycled_commands *recycled = &core->recycled;
	struct command *command;

	if (!recycled->count)
		return malloc(sizeof *command + SMALL_BYTES);
	command = list_first(&recycled->list, struct command, link);
	list_remove(&command->link);
	recycled->count--;
	recycled->unused = min_of(recycled->unused, recycled->count);
	return command;
}

static void look_later(struct core *core, uint64_t now_ns)
{
	core->recycled.unused = core->recycled.count;
	core->recycled.look_at_ns = now_ns + LOOK_NS;
	service_timer(core, core->recycled.look_at_ns);
}

static void recycle(struct command *command)
{
	struct core *core = command->core;
	struct recycled_commands *recycled = &core->recycled;

	list_insert(&recycled->list, &command->link);
	if (++recycled->count > RECYCLED_ALWAYS && !recycled->look_at_ns)
		look_later(core, clock_now_ns());
}

uint64_t commands_tick(struct core *core, uint64_t now_ns)
{
	struct recycled_commands *recycled = &core->recycled;

	if (!recycled->look_at_ns)
		return UINT64_MAX;
	if (now_ns < recycled->look_at_ns)
		return recycled->look_at_ns;
	recycled->look_at_ns = 0;
	for (unsigned i = min_of(recycled->unused, GIVE_BACK_MAX);
		i && recycled->count > RECYCLED_ALWAYS; i--)
		free(take_small(core));
	if (recycled->count > RECYCLED_ALWAYS)
		look_later(core, now_ns);
	return recycled->look_at_ns ? recycled->look_at_ns : UINT64_MAX;
}

void commands_finish(struct core *core)
{
	while (core->recycled.count)
		free(take_small(core));
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
		module_put(command->function->module);
	if (command->graph)
		graph_leave(command);
	core->pending_bytes -= sizeof *command + command->capacity;
	if (core->pending_bytes < PENDING_BYTES_MAX / 2 &&
		__atomic_load_n(&core->ring_held, __ATOMIC_RELAXED)) {
		__atomic_store_n(&core->ring_held, false, __ATOMIC_RELAXED);
		service_wake(core);
	}
	list_remove(&command->link);
	if (command->capacity == SMALL_BYTES && core->recycled.count < RECYCLED_MAX)
		recycle(command);
	else
		free(command);
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
