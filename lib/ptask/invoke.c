/* SPDX-License-Identifier: MIT
 *
 * Invocations of functions: inputs on the device, outputs that have memory, parameters, one launch. Everything is sent behind
 * what it depends on; nothing waits here but for room in the session's ring.
 */
#include <errno.h>
#include <string.h>

#include "lib/ptask/internal.h"

bool is_read_by_host(const struct gdev_port *port)
{
	return port->binding == GDEV_BIND_SCALAR || port->binding == GDEV_BIND_META ||
	       port->binding == GDEV_BIND_PREDICATE;
}

static void set_parameter(struct gdev_ptask *ptask, struct gdev_param parameter, const void *value)
{
	memcpy(ptask->params + parameter.offset, value, parameter.size);
}

/* -EPROTOTYPE: the parameter is too narrow for it. */
static int set_count(struct gdev_port *port, uint64_t records)
{
	if (port->count.size == sizeof(uint32_t) && records > UINT32_MAX)
		return -EPROTOTYPE;
	if (port->count.size)
		set_parameter(port->ptask, port->count, &records);
	return 0;
}

/* ---- inputs ---- */

static int fill_variable(struct gdev_port *port, unsigned lane)
{
	struct gdev_graph *graph = port->ptask->graph;
	struct gdev_datablock *block = port->block;
	struct variable *variable = port->variables[device_of(lane)];
	struct gdev_copy copy;
	int error;

	if (variable->holds == block->id)
		return lane_follow(graph, lane, variable->written);
	if (block->bytes > variable->bytes)
		return -EPROTOTYPE;
	error = block_on_device(block, lane);
	if (!error)
		error = used_follow(graph, lane, variable->used);
	if (error || !block->bytes)
		return error;
	copy = gdev_copy_linear(
		variable->address, block->views[device_of(lane)].buffer->address, block->bytes);
	error = gdev_copy_async(graph->lanes[lane].stream, &copy);
	if (error)
		return error;
	variable->holds = block->id;
	variable->written = lane_end(graph, lane);
	variable->used[lane] = variable->written.value;
	block_used(block, variable->written);
	return 0;
}

static int fill_input(struct gdev_ptask *ptask, struct gdev_port *port, unsigned lane)
{
	struct gdev_datablock *block = port->block;
	int error = set_count(port, block->records);

	if (error)
		return error;
	if (port->binding == GDEV_BIND_SCALAR)
		set_parameter(ptask, port->parameter, block->host);
	if (port->binding == GDEV_BIND_CONSTANT)
		return fill_variable(port, lane);
	if (port->binding != GDEV_BIND_GLOBAL)
		return 0;
	error = block_on_device(block, lane);
	if (!error)
		set_parameter(
			ptask, port->parameter, &block->views[device_of(lane)].buffer->address);
	return error;
}

/* ---- outputs ---- */

static int copy_contents(struct gdev_datablock *to, struct gdev_datablock *from, unsigned lane)
{
	unsigned device = device_of(lane);
	struct gdev_copy copy = gdev_copy_linear(to->views[device].buffer->address,
		from->views[device].buffer->address, from->bytes);
	int error;

	if (!from->bytes)
		return 0;
	error = gdev_copy_async(from->graph->lanes[lane].stream, &copy);
	if (!error)
		block_used(from, lane_end(from->graph, lane));
	return error;
}

/* What is changed in place is a datablock of its own. It takes the buffer over if nobody else has the one before. */
static int change_in_place(struct gdev_port *port, unsigned lane)
{
	struct gdev_graph *graph = port->ptask->graph;
	unsigned device = device_of(lane);
	struct gdev_datablock *from = port->in_out->block, *made;
	int error = block_create(graph, from->tmpl, from->records, &made);

	if (error)
		return error;
	port->block = made;
	if (atomic_load(&from->refs) == 1) {
		made->views[device].buffer = steal_pointer(&from->views[device].buffer);
		from->views[device].current = false;
		return used_follow(graph, lane, made->views[device].buffer->used);
	}
	error = buffer_take(graph, made->bytes, lane, &made->views[device].buffer);
	return error ? error : copy_contents(made, from, lane);
}

static int make_output(struct gdev_ptask *ptask, struct gdev_port *port, unsigned lane)
{
	unsigned device = device_of(lane);
	uint64_t records = port->tmpl ? shape_elements(&port->tmpl->shape) : 0;
	int error;

	if (port->in_out) {
		error = change_in_place(port, lane);
	} else {
		if (port->size)
			memcpy(&records, port->size->block->host, sizeof records);
		error = block_create(ptask->graph, port->tmpl, records, &port->block);
		if (error == -EINVAL)
			error = -EPROTOTYPE; /* more than the template has */
		if (!error)
			error = buffer_take(ptask->graph, port->block->bytes, lane,
				&port->block->views[device].buffer);
	}
	if (error)
		return error;
	set_parameter(ptask, port->parameter, &port->block->views[device].buffer->address);
	return set_count(port, port->block->records);
}

/* ---- the iteration space (4.1.1) ---- */

/* The datablock that says it; NULL: none does. */
static const struct gdev_datablock *space_of(const struct gdev_ptask *ptask)
{
	const struct gdev_port *port;

	list_for_each (port, &ptask->outputs, link)
		return port->block;
	list_for_each (port, &ptask->inputs, link)
		if (port->binding == GDEV_BIND_GLOBAL)
			return port->block;
	return NULL;
}

static void infer_threads(const uint64_t elements[3], uint32_t threads[3])
{
	bool flat = elements[1] == 1 && elements[2] == 1, deep = elements[2] > 1;

	threads[0] = flat ? 256 : deep ? 8 : 16;
	threads[1] = flat ? 1 : deep ? 8 : 16;
	threads[2] = deep ? 4 : 1;
}

/* False: the space is empty. -EINVAL: it is too large for a grid. */
static int infer_geometry(const struct gdev_ptask *ptask, struct gdev_launch *launch, bool *empty)
{
	const struct gdev_datablock *block = ptask->grid_set ? NULL : space_of(ptask);
	uint64_t elements[3] = {0, 1, 1};

	*empty = false;
	memcpy(launch->grid, ptask->grid, sizeof launch->grid);
	memcpy(launch->block, ptask->threads, sizeof launch->block);
	if (ptask->grid_set)
		return 0;
	elements[0] = block->records;
	if (block->tmpl->shape.layout == GDEV_LAYOUT_FIXED)
		memcpy(elements, block->tmpl->shape.count, sizeof elements);
	if (!ptask->block_set)
		infer_threads(elements, launch->block);
	for (unsigned i = 0; i < 3; i++) {
		uint64_t blocks =
			elements[i] / launch->block[i] + !!(elements[i] % launch->block[i]);
		if (blocks > UINT32_MAX)
			return -EINVAL;
		launch->grid[i] = (uint32_t)blocks;
		*empty |= !blocks;
	}
	return 0;
}

/* ---- invoking ---- */

static void note_uses(struct gdev_ptask *ptask)
{
	struct point point = ptask->last;
	unsigned device = device_of(point.lane);
	struct gdev_port *port;

	list_for_each (port, &ptask->inputs, link) {
		if (port->binding == GDEV_BIND_GLOBAL && port->block->views[device].buffer)
			block_used(port->block, point);
		if (port->variables[device])
			port->variables[device]->used[point.lane] = point.value;
	}
	list_for_each (port, &ptask->outputs, link) {
		port->block->made = true;
		port->block->views[device].written = point;
		port->block->views[device].current = true;
		block_used(port->block, point);
	}
}

/* Whether an input that a device has made was on others alone: it came from there, directly or by way of host memory. */
static bool is_moved(const struct gdev_ptask *ptask, unsigned device)
{
	const struct gdev_port *port;

	list_for_each (port, &ptask->inputs, link)
		if (!is_read_by_host(port) && port->block->made &&
			!port->block->views[device].current)
			return true;
	return false;
}

static int invoke(struct gdev_ptask *ptask, unsigned lane)
{
	struct gdev_launch launch = {
		.function = ptask->functions[device_of(lane)],
		.shared_bytes = ptask->shared_bytes,
		.params = ptask->params,
		.param_bytes = ptask->info->param_bytes,
	};
	uint64_t began_ns = span_begin();
	struct gdev_port *port;
	bool empty;
	int error = 0;

	ptask->moved += is_moved(ptask, device_of(lane));
	list_for_each (port, &ptask->inputs, link)
		if (!error)
			error = fill_input(ptask, port, lane);
	list_for_each (port, &ptask->outputs, link)
		if (!error)
			error = make_output(ptask, port, lane);
	if (!error)
		error = infer_geometry(ptask, &launch, &empty);
	if (began_ns)
		gdev_trace_begin(); /* the arrow leads to the kernel, and not to a copy before it */
	if (!error && !empty)
		error = gdev_launch_async(ptask->graph->lanes[lane].stream, &launch);
	span_end(began_ns, "ptask", ptask->name, error);
	if (error)
		return error;
	ptask->last = lane_end(ptask->graph, lane);
	ptask->graph->lanes[lane].launched = ptask->last.value;
	note_uses(ptask);
	ptask->invocations++;
	return 0;
}

/* Whether a predicate port says so (3.3). */
static bool is_skipped(const struct gdev_ptask *ptask)
{
	const struct gdev_port *port;

	list_for_each (port, &ptask->inputs, link) {
		const uint8_t *bytes = port->block->host;
		uint64_t i = 0;
		if (port->binding != GDEV_BIND_PREDICATE)
			continue;
		while (i < port->block->bytes && !bytes[i])
			i++;
		if (i == port->block->bytes)
			return true;
	}
	return false;
}

/* What would have been changed in place goes on as it is. */
static void skip(struct gdev_ptask *ptask)
{
	struct gdev_port *port;

	list_for_each (port, &ptask->outputs, link)
		if (port->in_out) {
			port->block = port->in_out->block;
			gdev_datablock_ref(port->block);
		}
	ptask->skipped++;
}

void ptask_invoke(struct gdev_ptask *ptask, unsigned device)
{
	int32_t before = ptask_submits(ptask);
	int error = 0;

	if (is_skipped(ptask))
		skip(ptask);
	else
		error = invoke(ptask, lane_to_invoke(ptask, device));
	gdev_submit_for(before);
	if (error)
		graph_fail(ptask->graph, error, ptask);
	else
		ptask_consume(ptask);
}
