/* SPDX-License-Identifier: MIT
 *
 * Running a graph: what is checked when it is complete, and which lane each ptask has.
 */
#include <errno.h>

#include "lib/ptask/elsewhere.h"

#define MULTIPROCESSORS_A_LANE 2

/* ---- checks ---- */

/* NULL: all have one. */
static const struct gdev_port *port_without_channel(const struct gdev_ptask *ptask)
{
	const struct gdev_port *port;

	list_for_each (port, &ptask->inputs, link)
		if (!port->channel)
			return port;
	list_for_each (port, &ptask->outputs, link)
		if (list_empty(&port->channels))
			return port;
	return NULL;
}

static int check_channels(const struct gdev_ptask *ptask)
{
	const struct gdev_port *port = port_without_channel(ptask);

	/* Another user keeps nobody from running the graph. */
	if (!port || ptask->opener == BY_STRANGER)
		return 0;
	return graph_complain(ptask->graph, -EPIPE, "ptask %s, port %s: no channel %s", ptask->name,
		port->name,
		port->kind == GDEV_PORT_OUTPUT ? "takes what it gives" : "brings it anything");
}

/* Another user's ptask that is not connected has ended. */
static void end_loose(struct gdev_graph *graph)
{
	struct gdev_ptask *ptask;

	list_for_each (ptask, &graph->ptasks, link)
		if (ptask->opener == BY_STRANGER && port_without_channel(ptask))
			elsewhere_leave(ptask);
}

/* Otherwise it would be invoked without end. */
static bool has_trigger(const struct gdev_ptask *ptask)
{
	const struct gdev_port *port;

	list_for_each (port, &ptask->inputs, link)
		if (port->kind == GDEV_PORT_INPUT)
			return true;
	return ptask->callback && !ptask->input_count && ptask->output_count;
}

static bool has_space(const struct gdev_ptask *ptask)
{
	const struct gdev_port *port;

	list_for_each (port, &ptask->inputs, link)
		if (port->binding == GDEV_BIND_GLOBAL)
			return true;
	return ptask->grid_set || ptask->output_count;
}

#define INFERRED_THREADS 256 /* of a block (invoke.c) */

/* Whether a device whose function this is can hold a block. */
static bool holds_block(const struct gdev_ptask *ptask, const struct gdev_function *function)
{
	const struct gdev_function_info *info = gdev_function_info(function);
	uint64_t threads = ptask->block_set ? 1 : INFERRED_THREADS;

	for (unsigned i = 0; i < 3 && ptask->block_set && threads <= info->max_threads; i++)
		threads *= ptask->threads[i];
	return threads <= info->max_threads &&
	       ptask->shared_bytes <= info->max_dynamic_shared_bytes;
}

/* remove_unfit of Figure 9: it runs on devices that have code for it, and hold its blocks. */
static int remove_unfit(struct gdev_ptask *ptask)
{
	bool any = false;

	for (unsigned i = 0; i < ptask->graph->device_count; i++) {
		ptask->fits[i] = ptask->functions[i] && holds_block(ptask, ptask->functions[i]);
		any |= ptask->fits[i];
	}
	return any ? 0
		   : graph_complain(ptask->graph, -GDEV_E_INVALID_LAUNCH,
			     "ptask %s: a block of it is more than any device holds", ptask->name);
}

int ptask_check(struct gdev_ptask *ptask)
{
	if (!has_trigger(ptask))
		return graph_complain(ptask->graph, -EINVAL,
			"ptask %s: it has no input port, but sticky ones, that says when to run",
			ptask->name);
	if (!ptask->info)
		return 0;
	for (unsigned i = 0; i < ptask->info->param_count; i++)
		if (!ptask->bound[i])
			return graph_complain(ptask->graph, -EINVAL,
				"ptask %s: parameter %u of the function has no port and no argument",
				ptask->name, i);
	if (!has_space(ptask))
		return graph_complain(ptask->graph, -EINVAL,
			"ptask %s: nothing says its iteration space; set its geometry",
			ptask->name);
	return remove_unfit(ptask);
}

/* ---- lanes ---- */

/* A ptask goes on in the lane of one that feeds it, if no other does already: a chain is in one lane, and needs no waits. */
static struct gdev_ptask *lane_giver(const struct gdev_ptask *ptask)
{
	const struct gdev_port *port;

	list_for_each (port, &ptask->inputs, link) {
		const struct gdev_port *from = port->channel ? port->channel->from : NULL;
		if (from && !from->ptask->lane_given)
			return from->ptask;
	}
	return NULL;
}

static void count_feeds(struct gdev_ptask *ptask)
{
	const struct gdev_port *port;

	list_remove(&ptask->work); /* what was pushed already has touched it */
	ptask->feeds = 0;
	list_for_each (port, &ptask->inputs, link)
		ptask->feeds += port->channel && port->channel->from;
	if (!ptask->feeds)
		ptask_touch(ptask);
}

/* Kernels of several lanes that find too few multiprocessors cost more than the same one after the other: the threads of a
 * software device wake each other up. */
static unsigned lanes_for_ptasks(const struct gdev_graph *graph)
{
	unsigned most = 1;

	if (graph->lanes_wanted)
		return graph->lanes_wanted;
	for (unsigned i = 0; i < graph->device_count; i++)
		most = max_of(most, graph->devices[i].multiprocessors / MULTIPROCESSORS_A_LANE);
	return min_of(most, (unsigned)GDEV_GRAPH_LANES_MAX);
}

/* Unless the program says how many lanes there are, or the device is one whose memory it reaches by itself. */
static bool may_be_narrow(const struct gdev_graph *graph)
{
	bool may = !graph->lanes_wanted;

	for (unsigned i = 0; i < graph->device_count; i++)
		may &= !graph->devices[i].direct;
	return may;
}

/* In an order in which each comes after those that feed it. */
static int give_lanes(struct gdev_graph *graph)
{
	struct gdev_channel *channel;
	struct gdev_ptask *ptask;
	struct gdev_port *port;
	unsigned next = 0, count = lanes_for_ptasks(graph);
	int error = 0;

	graph->adapts = graph->narrow = may_be_narrow(graph);
	graph->ptask_lanes = count;
	for (unsigned i = 0; i < graph->device_count && !error && graph->narrow; i++)
		error = lane_create(graph, i * LANES_A_DEVICE + LANE_FIRST);
	list_for_each (ptask, &graph->ptasks, link)
		count_feeds(ptask);
	while (!error && (ptask = list_first(&graph->work, struct gdev_ptask, work))) {
		struct gdev_ptask *giver = lane_giver(ptask);
		list_remove(&ptask->work);
		ptask->lane = giver ? giver->lane : LANE_FIRST + next++ % count;
		if (giver)
			giver->lane_given = true;
		for (unsigned i = 0; i < graph->device_count && !error && ptask->info; i++)
			error = lane_create(graph, i * LANES_A_DEVICE + ptask->lane);
		list_for_each (port, &ptask->outputs, link)
			list_for_each (channel, &port->channels, from_link)
				if (channel->to && !--channel->to->ptask->feeds)
					ptask_touch(channel->to->ptask);
	}
	return error;
}

int gdev_graph_run(struct gdev_graph *graph)
{
	struct gdev_ptask *ptask;
	int error;

	if (graph->remote)
		return remote_run(graph);
	error = graph_enter(graph);
	if (error)
		return error;
	parts_drop_drafts(graph);
	if (graph->running)
		error = graph_complain(graph, -EBUSY, "graph %s: it runs already", graph->name);
	list_for_each (ptask, &graph->ptasks, link)
		if (!error)
			error = check_channels(ptask);
	list_for_each (ptask, &graph->ptasks, link)
		if (!error)
			error = ptask_check(ptask);
	if (!error)
		error = give_lanes(graph);
	if (!error) {
		graph->running = true;
		end_loose(graph);
		graph_changed(graph); /* gdev_channel_find() waits for it */
		list_for_each (ptask, &graph->ptasks, link)
			ptask_touch(ptask);
		graph_flow(graph);
		if (!list_empty(&graph->feeds))
			host_wake(graph);
		error = graph->error;
	}
	graph_leave(graph);
	return error;
}
