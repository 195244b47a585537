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

/* ---- inputs ---- */

static int fill_variable(struct gdev_ptask *ptask, struct gdev_port *port)
{
	struct gdev_graph *graph = ptask->graph;
	struct gdev_datablock *block = port->block;
	struct variable *variable = port->variable;
	struct gdev_copy copy;
	int error;

	if (variable->holds == block->id)
		return lane_follow(graph, ptask->lane, variable->written);
	if (block->bytes > variable->bytes)
		return -EPROTOTYPE;
	error = block_on_device(block, ptask->lane);
	if (!error)
		error = used_follow(graph, ptask->lane, variable->used);
	if (error || !block->bytes)
		return error;
	copy = gdev_copy_linear(variable->address, block->device->address, block->bytes);
	error = gdev_copy_async(graph->lanes[ptask->lane].stream, &copy);
	if (error)
		return error;
	variable->holds = block->id;
	variable->written = lane_end(graph, ptask->lane);
	variable->used[ptask->lane] = variable->written.value;
	block_used(block, variable->written);
	return 0;
}

static int fill_input(struct gdev_ptask *ptask, struct gdev_port *port)
{
	struct gdev_datablock *block = port->block;
	uint64_t records = block->records;
	int error = 0;

	if (port->count.size)
		set_parameter(ptask, port->count, &records);
	if (port->binding == GDEV_BIND_SCALAR)
		set_parameter(ptask, port->parameter, block->host);
	if (port->binding == GDEV_BIND_CONSTANT)
		return fill_variable(ptask, port);
	if (port->binding != GDEV_BIND_GLOBAL)
		return 0;
	error = block_on_device(block, ptask->lane);
	if (!error)
		set_parameter(ptask, port->parameter, &block->device->address);
	return error;
}

/* ---- outputs ---- */

static int copy_contents(
	struct gdev_ptask *ptask, struct gdev_datablock *to, struct gdev_datablock *from)
{
	struct gdev_copy copy =
		gdev_copy_linear(to->device->address, from->device->address, from->bytes);
	int error;

	if (!from->bytes)
		return 0;
	error = gdev_copy_async(ptask->graph->lanes[ptask->lane].stream, &copy);
	if (!error)
		block_used(from, lane_end(ptask->graph, ptask->lane));
	return error;
}

/* What is changed in place is a datablock of its own. It takes the buffer over if nobody else has the one before. */
static int change_in_place(struct gdev_ptask *ptask, struct gdev_port *port)
{
	struct gdev_graph *graph = ptask->graph;
	struct gdev_datablock *from = port->in_out->block, *made;
	int error = block_create(graph, from->tmpl, from->records, &made);

	if (error)
		return error;
	port->block = made;
	if (atomic_load(&from->refs) == 1) {
		error = used_follow(graph, ptask->lane, from->device->used);
		made->device = steal_pointer(&from->device);
		from->device_current = false;
		return error;
	}
	error = buffer_take(graph, made->bytes, ptask->lane, &made->device);
	return error ? error : copy_contents(ptask, made, from);
}

static int make_output(struct gdev_ptask *ptask, struct gdev_port *port)
{
	uint64_t records = port->tmpl ? shape_elements(&port->tmpl->shape) : 0;
	int error;

	if (port->in_out) {
		error = change_in_place(ptask, port);
	} else {
		if (port->size)
			memcpy(&records, port->size->block->host, sizeof records);
		error = block_create(ptask->graph, port->tmpl, records, &port->block);
		if (error == -EINVAL)
			error = -EPROTOTYPE; /* more than the template has */
		if (!error)
			error = buffer_take(ptask->graph, port->block->bytes, ptask->lane,
				&port->block->device);
	}
	if (error)
		return error;
	if (port->count.size)
		set_parameter(ptask, port->count, &port->block->records);
	set_parameter(ptask, port->parameter, &port->block->device->address);
	return 0;
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
	struct gdev_port *port;

	list_for_each (port, &ptask->inputs, link) {
		if (port->binding == GDEV_BIND_GLOBAL && port->block->device)
			block_used(port->block, point);
		if (port->variable)
			port->variable->used[point.lane] = point.value;
	}
	list_for_each (port, &ptask->outputs, link) {
		port->block->written = point;
		port->block->device_current = true;
		block_used(port->block, point);
	}
}

static int invoke(struct gdev_ptask *ptask)
{
	struct gdev_launch launch = {
		.function = ptask->function,
		.shared_bytes = ptask->shared_bytes,
		.params = ptask->params,
		.param_bytes = ptask->info->param_bytes,
	};
	struct gdev_port *port;
	bool empty;
	int error = 0;

	list_for_each (port, &ptask->inputs, link)
		if (!error)
			error = fill_input(ptask, port);
	list_for_each (port, &ptask->outputs, link)
		if (!error)
			error = make_output(ptask, port);
	if (!error)
		error = infer_geometry(ptask, &launch, &empty);
	if (!error && !empty)
		error = gdev_launch_async(ptask->graph->lanes[ptask->lane].stream, &launch);
	if (error)
		return error;
	ptask->last = lane_end(ptask->graph, ptask->lane);
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

void ptask_invoke(struct gdev_ptask *ptask)
{
	int error = 0;

	if (is_skipped(ptask))
		skip(ptask);
	else
		error = invoke(ptask);
	if (error)
		graph_fail(ptask->graph, error, ptask);
	else
		ptask_consume(ptask);
}
