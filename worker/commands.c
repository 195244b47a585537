/* SPDX-License-Identifier: MIT
 *
 * Immediate records: one table from opcode to what executes it, and the small ones themselves.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "gdev/error.h"
#include "worker/command.h"
#include "worker/core.h"
#include "worker/graph.h"
#include "worker/memory/shm.h"
#include "worker/module.h"
#include "worker/usage.h"

#define WINDOW_NS_MAX NS_PER_S

static void create_stream(struct command *command)
{
	const struct record_stream *record = command->request.stream;

	command_answer(command, stream_create(command->core, record), NULL, 0);
}

static void destroy_stream(struct command *command)
{
	command_answer(
		command, stream_destroy(command->core, command->request.stream->stream), NULL, 0);
}

/* ---- queries ---- */

struct memory_query {
	struct control_request request;
	struct command *command;
};

static void answer_memory(struct command *command, uint64_t free_bytes, uint64_t total_bytes)
{
	const struct memory *memory = &command->core->memory;
	struct reply_memory reply = {
		/* What we hold and do not use is free for the client. */
		.free_bytes = free_bytes + memory->charged_bytes - memory->used_bytes,
		.total_bytes = total_bytes,
	};

	command_answer(command, 0, &reply, sizeof reply);
}

static void answer_memory_alone(struct command *command)
{
	const struct memory *memory = &command->core->memory;
	uint64_t total = memory->limit_bytes;

	answer_memory(command, total - min_of(total, memory->charged_bytes), total);
}

static void memory_answered(struct core *core, struct control_request *request, int status,
	const struct control_header *reply, int *fds, size_t fd_count)
{
	struct memory_query *query = container_of(request, struct memory_query, request);
	const struct control_memory *memory = (const void *)reply;

	if (status || !reply)
		answer_memory_alone(query->command);
	else
		answer_memory(query->command, memory->free_bytes, memory->total_bytes);
	free(query);
}

static void query_memory(struct command *command)
{
	struct memory_query *query = NULL;

	if (control_connected(command->core))
		query = calloc(1, sizeof *query);
	if (!query) {
		answer_memory_alone(command);
		return;
	}
	query->command = command;
	query->request.message.header = (struct control_header){
		sizeof(struct control_header), CONTROL_MEMORY, CONTROL_VERSION, 0, 0};
	query->request.expected = CONTROL_MEMORY_REPLY;
	query->request.answered = memory_answered;
	control_ask(command->core, &query->request);
}

static void query_occupancy(struct command *command)
{
	const struct record_query *record = command->request.query;
	struct core *core = command->core;
	struct function *function = function_find(core, (uint32_t)record->argument);
	struct reply_occupancy reply = {0};

	if (!function || !(record->argument >> 32)) {
		command_answer(command, function ? -EINVAL : -GDEV_E_INVALID_HANDLE, NULL, 0);
		return;
	}
	core_unlock(core);
	reply.blocks = core->ops->function_occupancy(
		function->device, (uint32_t)(record->argument >> 32), record->reserved);
	core_lock(core);
	command_answer(command, 0, &reply, sizeof reply);
}

static void query_usage(struct command *command)
{
	struct reply_usage usage;

	direct_count(command->core);
	usage_report(command->core, &usage);
	command_answer(command, 0, &usage, sizeof usage);
}

static void execute_query(struct command *command)
{
	int32_t properties[DEVICE_PROPERTIES];
	struct core *core = command->core;

	switch (command->request.query->type) {
	case QUERY_MEMORY:
		query_memory(command);
		break;
	case QUERY_PROPERTIES:
		core_properties(core, properties);
		command_answer(command, 0, properties, sizeof properties);
		break;
	case QUERY_OCCUPANCY:
		query_occupancy(command);
		break;
	case QUERY_USAGE:
		query_usage(command);
		break;
	case QUERY_FUNCTION_NAME:
		module_function_name(command);
		break;
	default:
		command_answer(command, -ENOSYS, NULL, 0);
	}
}

static int set_limit(struct core *core, enum device_limit which, uint64_t bytes)
{
	if (!core->ops->limit)
		return -ENOSYS;
	core->ops->limit(core->space, which, bytes);
	return 0;
}

static void execute_tune(struct command *command)
{
	const struct record_query *record = command->request.query;
	struct core *core = command->core;
	uint64_t value = record->argument;
	int error = 0;

	switch (record->type) {
	case TUNE_SPIN_NS:
		__atomic_store_n(
			&core->service.spin_ns, min_of(value, LOOK_NS_MAX), __ATOMIC_RELAXED);
		break;
	case TUNE_WINDOW_NS:
		__atomic_store_n(&core->window_ns, min_of(value, WINDOW_NS_MAX), __ATOMIC_RELAXED);
		break;
	case TUNE_STACK_BYTES:
		error = set_limit(core, DEVICE_LIMIT_STACK, value);
		break;
	case TUNE_HEAP_BYTES:
		error = set_limit(core, DEVICE_LIMIT_HEAP, value);
		break;
	default:
		error = -ENOSYS;
	}
	command_answer(command, error, NULL, 0);
}

/* ---- the table ---- */

/* Each immediate record, what executes it, and whether it still makes sense when the session has failed. */
#define EXECUTORS(X)                                                                               \
	X(RECORD_MEMORY_ALLOC, memory_alloc, false)                                                \
	X(RECORD_MEMORY_FREE, memory_free, true)                                                   \
	X(RECORD_ARRAY_CREATE, array_create, false)                                                \
	X(RECORD_TEXTURE_CREATE, texture_create, false)                                            \
	X(RECORD_TEXTURE_DESTROY, texture_destroy, true)                                           \
	X(RECORD_MODULE_LOAD, module_load, false)                                                  \
	X(RECORD_MODULE_UNLOAD, module_unload, true)                                               \
	X(RECORD_MODULE_PLACE, module_place, false)                                                \
	X(RECORD_REFERENCE_SET, reference_set, false)                                              \
	X(RECORD_FUNCTION_GET, module_function, false)                                             \
	X(RECORD_GLOBAL_GET, module_global, false)                                                 \
	X(RECORD_CLUSTERS, module_clusters, false)                                                 \
	X(RECORD_TENSOR_MAP, module_tensor_map, false)                                             \
	X(RECORD_GRAPH_BEGIN, graph_begin, false)                                                  \
	X(RECORD_GRAPH_NODE, graph_node, false)                                                    \
	X(RECORD_GRAPH_END, graph_end, false)                                                      \
	X(RECORD_GRAPH_DESTROY, graph_destroy, true)                                               \
	X(RECORD_STREAM_CREATE, create_stream, false)                                              \
	X(RECORD_STREAM_DESTROY, destroy_stream, true)                                             \
	X(RECORD_EVENT_SHARE, event_share, false)                                                  \
	X(RECORD_SHM_GET, shm_get, false)                                                          \
	X(RECORD_SHM_ATTACH, shm_attach, false)                                                    \
	X(RECORD_SHM_DETACH, shm_detach, true)                                                     \
	X(RECORD_SHM_CONTROL, shm_control, true)                                                   \
	X(RECORD_SHARED_CREATE, shared_create, false)                                              \
	X(RECORD_SHARED_EXPORT, shared_export, false)                                              \
	X(RECORD_SHARED_HOLD, shared_hold, false)                                                  \
	X(RECORD_SHARED_DROP, shared_drop, true)                                                   \
	X(RECORD_SHARED_MAP, shared_map, false)                                                    \
	X(RECORD_SHARED_PUBLISH, shared_publish, false)                                            \
	X(RECORD_QUERY, execute_query, true)                                                       \
	X(RECORD_TUNE, execute_tune, true)                                                         \
	X(RECORD_CHECK, check_execute, true)

static const struct {
	void (*execute)(struct command *command);
	bool broken;
} executors[RECORD_OPCODE_END] = {
#define EXECUTOR(name, execute, broken) [name] = {execute, broken},
	EXECUTORS(EXECUTOR)
#undef EXECUTOR
};

_Static_assert(RECORDS_ARE_IN(EXECUTORS, IMMEDIATE), "each immediate record is executed");

void command_execute(struct command *command)
{
	uint16_t opcode = command->request.header->opcode;

	if (command->core->error && !executors[opcode].broken)
		command_answer(command, command->core->error, NULL, 0);
	else
		executors[opcode].execute(command);
}
