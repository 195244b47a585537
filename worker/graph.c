/* SPDX-License-Identifier: MIT
 *
 * See graph.h. What a graph's nodes are is a list of parts: of those that the device has, and of those that are being
 * collected. Parts keep the modules of their functions; when others have taken their place, or the graph is gone, until what
 * is in flight then is done: a kernel that runs may have launched them.
 */
#include "worker/graph.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "gdev/error.h"
#include "worker/command.h"
#include "worker/core.h"
#include "worker/module.h"

struct node {
	struct function *function; /* of a launch */
	struct device_node device;
	_Alignas(8) uint8_t bytes[]; /* the record's tail, which `device` points into */
};

struct parts {
	struct node **nodes;
	uint32_t count, capacity;
	uint64_t bytes;
	struct barrier flight; /* when they are dropped */
};

struct graph {
	struct core *core;
	uint32_t handle;
	bool from_device;
	uint64_t device_handle;
	struct device_graph *device; /* NULL: it had no END yet */
	struct parts *parts;         /* that the device has */
	struct parts *next;          /* that are collected, or being handed over */
	bool ending;                 /* being handed over */
	unsigned launches;           /* commands not destroyed */
	unsigned uses;               /* the same, jobs, and `flight` */
	bool destroyed;
	struct barrier flight;
	struct job job; /* the last thing that happens to it */
	struct launch_time time;
};

/* ---- parts ---- */

/* With the lock; with modules that are there. */
static void free_parts(struct parts *parts)
{
	for (uint32_t i = 0; parts && i < parts->count; i++) {
		if (parts->nodes[i]->function)
			module_put(parts->nodes[i]->function->module);
		free(parts->nodes[i]);
	}
	if (parts)
		free(parts->nodes);
	free(parts);
}

static void parts_flight_over(struct barrier *barrier)
{
	free_parts(container_of(barrier, struct parts, flight));
}

static void drop_parts(struct core *core, struct parts *parts)
{
	if (!parts)
		return;
	parts->flight.passed = parts_flight_over;
	barrier_start(core, &parts->flight);
}

static bool can_be_copied(struct core *core, uint64_t address, uint64_t span, bool written)
{
	const struct range *range = span ? memory_find(core, address, span) : NULL;

	return range && range->kind != RANGE_STAGING && range->kind != RANGE_ARRAY &&
	       !(written && range->read_only);
}

static int read_copy(struct core *core, const struct request *request, struct device_copy *copy)
{
	const struct record_copy *record = request->copy;

	if (!can_be_copied(core, record->destination, request->destination_span, true) ||
		!can_be_copied(core, record->source, request->source_span, false))
		return -EINVAL;
	*copy = (struct device_copy){
		.direction = COPY_WITHIN,
		.destination = record->destination,
		.source = record->source,
		.width = record->width,
		.height = record->height,
		.depth = record->depth,
		.destination_pitch = record->destination_pitch,
		.source_pitch = record->source_pitch,
		.destination_slice = record->destination_slice,
		.source_slice = record->source_slice,
	};
	return 0;
}

static int read_fill(struct core *core, const struct request *request, struct device_fill *fill)
{
	const struct record_fill *record = request->fill;

	if (!can_be_copied(core, record->destination, request->destination_span, true))
		return -EINVAL;
	*fill = (struct device_fill){
		.destination = record->destination,
		.width = record->width,
		.height = record->height,
		.pitch = record->pitch,
		.element_bytes = record->element_bytes,
		.value = record->value,
	};
	return 0;
}

/* What the node does; request: the record in it. */
static int read_node(struct core *core, struct node *node, const struct request *request)
{
	int error;

	switch (request->header->opcode) {
	case RECORD_COPY:
		node->device.kind = DEVICE_COPY;
		return read_copy(core, request, &node->device.copy);
	case RECORD_FILL:
		node->device.kind = DEVICE_FILL;
		return read_fill(core, request, &node->device.fill);
	default:
		node->device.kind = DEVICE_LAUNCH;
		error = function_take(core, request->launch, &node->function);
		if (!error)
			launch_from_record(request, node->function, &node->device.launch);
		return error;
	}
}

static bool come_before(const struct device_node *node, uint32_t number)
{
	for (uint32_t i = 0; i < node->dependency_count; i++)
		if (node->dependencies[i] >= number)
			return false;
	return true;
}

static int make_node(struct command *command, uint32_t number, struct node **made)
{
	const struct record_graph_node *record = command->request.node;
	size_t length = command->length - sizeof *record;
	struct node *node = calloc(1, sizeof *node + length);
	const struct record_header *does;
	struct request request;
	int error;

	if (!node)
		return -ENOMEM;
	memcpy(node->bytes, record + 1, length);
	node->device.dependencies = (const uint32_t *)node->bytes;
	node->device.dependency_count = record->dependencies;
	does = (const void *)(node->bytes + align_up(record->dependencies * sizeof(uint32_t), 8));
	error = decode_record(does, does->length, &request);
	if (!error && !come_before(&node->device, number))
		error = -EINVAL;
	if (!error)
		error = read_node(command->core, node, &request);
	if (error)
		free(node);
	else
		*made = node;
	return error;
}

static int make_room(struct parts *parts, size_t length)
{
	struct node **nodes;

	if (parts->count == RECORD_GRAPH_NODES_MAX ||
		length > RECORD_GRAPH_BYTES_MAX - parts->bytes)
		return -GDEV_E_OUT_OF_RESOURCES;
	if (parts->count < parts->capacity)
		return 0;
	nodes = realloc(parts->nodes, (2 * parts->capacity + 16) * sizeof *nodes);
	if (!nodes)
		return -ENOMEM;
	parts->nodes = nodes;
	parts->capacity = 2 * parts->capacity + 16;
	return 0;
}

/* ---- life ---- */

static void destroy_job(struct job *job)
{
	struct graph *graph = container_of(job, struct graph, job);
	struct core *core = graph->core;

	if (graph->device)
		core->ops->graph_destroy(graph->device);
	core_lock(core);
	drop_parts(core, graph->parts);
	free_parts(graph->next);
	free(graph);
	core_unlock(core);
}

static void graph_put(struct graph *graph)
{
	if (!--graph->uses && graph->destroyed)
		service_job(graph->core, LANE_LONG, &graph->job, destroy_job);
}

static void flight_over(struct barrier *barrier)
{
	graph_put(container_of(barrier, struct graph, flight));
}

static int create_graph(struct core *core, const struct record_graph *record, struct graph **made)
{
	struct graph *graph;
	int error;

	if (!core->ops->graph_set)
		return -ENOTSUP;
	graph = calloc(1, sizeof *graph);
	if (!graph)
		return -ENOMEM;
	graph->core = core;
	graph->from_device = record->from_device;
	graph->device_handle = record->handle;
	error = table_add(&core->graphs, graph, &graph->handle);
	if (error)
		free(graph);
	else
		*made = graph;
	return error;
}

void graph_begin(struct command *command)
{
	const struct record_graph *record = command->request.graph;
	struct core *core = command->core;
	struct graph *graph = table_find(&core->graphs, record->graph);
	struct parts *parts = calloc(1, sizeof *parts);
	struct reply_graph reply = {0};
	int error = parts ? 0 : -ENOMEM;

	if (!error && record->graph && !graph)
		error = -GDEV_E_INVALID_HANDLE;
	if (!error && graph && graph->ending)
		error = -EBUSY;
	if (!error && !graph)
		error = create_graph(core, record, &graph);
	if (error) {
		free(parts);
		command_answer(command, error, NULL, 0);
		return;
	}
	free_parts(graph->next);
	graph->next = parts;
	reply.graph = graph->handle;
	command_answer(command, 0, &reply, sizeof reply);
}

void graph_node(struct command *command)
{
	struct core *core = command->core;
	struct graph *graph = table_find(&core->graphs, command->request.node->graph);
	struct node *node = NULL;
	int error = 0;

	if (!graph)
		error = -GDEV_E_INVALID_HANDLE;
	else if (!graph->next || graph->ending)
		error = -EINVAL;
	if (!error)
		error = make_room(graph->next, command->length);
	if (!error)
		error = make_node(command, graph->next->count, &node);
	if (node) {
		graph->next->nodes[graph->next->count++] = node;
		graph->next->bytes += command->length;
	}
	command_answer(command, error, NULL, 0);
}

static int hand_over(struct graph *graph)
{
	struct parts *parts = graph->next;
	autofree struct device_node *nodes = calloc(parts->count, sizeof *nodes);
	struct core *core = graph->core;

	if (!nodes)
		return -ENOMEM;
	for (uint32_t i = 0; i < parts->count; i++)
		nodes[i] = parts->nodes[i]->device;
	return core->ops->graph_set(core->space, &graph->device, graph->from_device, nodes,
		parts->count, &graph->device_handle);
}

static void end_job(struct job *job)
{
	struct command *command = container_of(job, struct command, job);
	struct graph *graph = command->graph;
	struct core *core = command->core;
	struct reply_graph reply = {.graph = graph->handle};
	int error = hand_over(graph);

	core_lock(core);
	graph->ending = false;
	if (!error) {
		drop_parts(core, graph->parts);
		graph->parts = steal_pointer(&graph->next);
		graph->time = (struct launch_time){0};
	}
	reply.handle = graph->device_handle;
	command_answer(command, error, &reply, error ? 0 : sizeof reply);
	core_unlock(core);
}

void graph_end(struct command *command)
{
	struct graph *graph = table_find(&command->core->graphs, command->request.graph->graph);
	int error = 0;

	if (!graph)
		error = -GDEV_E_INVALID_HANDLE;
	else if (graph->ending || graph->launches)
		error = -EBUSY;
	else if (!graph->next || !graph->next->count)
		error = -EINVAL;
	if (error) {
		command_answer(command, error, NULL, 0);
		return;
	}
	graph->ending = true;
	graph->uses++;
	command->graph = graph;
	service_job(command->core, LANE_LONG, &command->job, end_job);
}

void graph_destroy(struct command *command)
{
	struct core *core = command->core;
	struct graph *graph = table_find(&core->graphs, command->request.handle->handle);

	if (graph) {
		table_remove(&core->graphs, graph->handle);
		graph->destroyed = true;
		graph->uses++;
		graph->flight.passed = flight_over;
		barrier_start(core, &graph->flight);
	}
	command_answer(command, graph ? 0 : -GDEV_E_INVALID_HANDLE, NULL, 0);
}

/* Nothing runs any more. */
void graphs_finish(struct core *core)
{
	for (uint32_t i = 0; i < core->graphs.count; i++) {
		struct graph *graph = core->graphs.slots[i].object;

		if (!graph)
			continue;
		if (graph->device)
			core->ops->graph_destroy(graph->device);
		free_parts(graph->parts);
		free_parts(graph->next);
		free(graph);
	}
	table_finish(&core->graphs);
}

/* ---- launches ---- */

int graph_take(struct command *command)
{
	const struct record_graph_launch *record = command->request.graph_launch;
	struct graph *graph = table_find(&command->core->graphs, record->graph);

	if (!graph)
		return -GDEV_E_INVALID_HANDLE;
	if (!graph->device || graph->ending)
		return -EINVAL;
	graph->launches++;
	graph->uses++;
	command->graph = graph;
	return 0;
}

void graph_leave(struct command *command)
{
	struct graph *graph = command->graph;

	if (command->request.header->opcode == RECORD_GRAPH_LAUNCH)
		graph->launches--;
	graph_put(graph);
}

int command_prepare_graph(struct command *command)
{
	command->device.kind = DEVICE_LAUNCH;
	command->device.launch = (struct device_launch){
		.graph = command->graph->device,
		.upload = command->request.graph_launch->upload,
	};
	launch_estimate(command, &command->graph->time);
	return 0;
}

void graph_measured(const struct command *command)
{
	if (!command->device.launch.upload)
		launch_measured(command, &command->graph->time);
}
