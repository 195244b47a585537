/* SPDX-License-Identifier: MIT
 *
 * Flow: which ptask has its inputs, and what follows (section 4.2). Whoever pushes, pulls, or ends a callback touches the
 * ptasks at both ends of what has changed, and lets the graph flow: a step a ptask, in turn, until nothing can go on. A
 * function is sent to the device behind those that make its inputs; nobody waits for it. What needs the host is put on
 * graph->hosts.
 */
#include <errno.h>

#include "lib/ptask/elsewhere.h"

void ptask_touch(struct gdev_ptask *ptask)
{
	if (list_empty(&ptask->work))
		list_append(&ptask->graph->work, &ptask->work);
}

/* ---- ports ---- */

static bool has_room(const struct gdev_channel *channel)
{
	return channel->broken || channel->count < channel->capacity;
}

/* Channels that have room get what is in the output ports. Whether all ports are unoccupied then. */
static bool deliver(struct gdev_ptask *ptask)
{
	struct gdev_channel *channel;
	struct gdev_port *port;
	bool all = true;

	list_for_each (port, &ptask->outputs, link) {
		bool owed = false;
		if (!port->block)
			continue;
		list_for_each (channel, &port->channels, from_link) {
			if (channel->owed && has_room(channel)) {
				channel->owed = false;
				channel_put(channel, port->block);
			}
			owed |= channel->owed;
		}
		all &= !owed;
		if (!owed)
			block_put(steal_pointer(&port->block));
	}
	return all;
}

/* Input ports read from their channels. Whether all are occupied then. What has come through ports without a template may be
 * what no port takes. */
static bool fill(struct gdev_ptask *ptask)
{
	struct gdev_port *port;
	bool all = true;

	list_for_each (port, &ptask->inputs, link) {
		while (port->channel->count && (!port->block || port->kind == GDEV_PORT_STICKY)) {
			struct gdev_datablock *before = port->block;
			port->block = channel_take(port->channel);
			if (before)
				block_put(before);
			if (!template_fits(port->block->tmpl, port->tmpl))
				graph_fail(ptask->graph, -EPROTOTYPE, ptask);
		}
		all &= port->block != NULL;
	}
	return all && !ptask->graph->error;
}

void ptask_consume(struct gdev_ptask *ptask)
{
	struct gdev_channel *channel;
	struct gdev_port *port;

	if (proxies_count(ptask->graph))
		ptask_hand_on(ptask);
	list_for_each (port, &ptask->inputs, link)
		if (port->kind != GDEV_PORT_STICKY)
			block_put(steal_pointer(&port->block));
	list_for_each (port, &ptask->outputs, link)
		if (port->block)
			list_for_each (channel, &port->channels, from_link)
				channel->owed = true;
	ptask_touch(ptask);
}

void ptask_drop_all(struct gdev_ptask *ptask)
{
	struct list *sides[] = {&ptask->inputs, &ptask->outputs};
	struct gdev_port *port;

	for (unsigned i = 0; i < 2; i++)
		list_for_each (port, sides[i], link)
			if (port->block)
				block_put(steal_pointer(&port->block));
}

/* ---- ends ---- */

/* Whether an input port will never be occupied again. */
static bool is_over(const struct gdev_ptask *ptask)
{
	const struct gdev_port *port;

	list_for_each (port, &ptask->inputs, link)
		if (!port->block && port->channel->ended && !port->channel->count)
			return true;
	return false;
}

void ptask_end(struct gdev_ptask *ptask)
{
	struct gdev_channel *channel;
	struct gdev_port *port;

	ptask->ended = true;
	list_for_each (port, &ptask->inputs, link) {
		if (!port->channel)
			continue; /* it has never run */
		port->channel->broken = true;
		channel_drop_all(port->channel);
		if (port->channel->from)
			ptask_touch(port->channel->from->ptask);
		else if (port->channel->feed)
			host_wake(ptask->graph);
	}
	list_for_each (port, &ptask->outputs, link)
		list_for_each (channel, &port->channels, from_link) {
			channel->ended = true;
			if (channel->to)
				ptask_touch(channel->to->ptask);
			else if (channel->feed)
				host_wake(ptask->graph);
		}
	ptask_drop_all(ptask);
	graph_changed(ptask->graph);
}

/* ---- steps ---- */

/* What the runtime itself reads has to be in host memory. */
static bool needs_host(const struct gdev_ptask *ptask)
{
	const struct gdev_port *port;

	if (ptask->callback)
		return true;
	list_for_each (port, &ptask->inputs, link)
		if (is_read_by_host(port) && !port->block->host_current)
			return true;
	return false;
}

void ptask_needs_host(struct gdev_ptask *ptask)
{
	ptask->waits_for_host = true;
	list_append(&ptask->graph->hosts, &ptask->work);
}

/* A source that makes what nobody takes. */
static bool is_in_vain(const struct gdev_ptask *ptask)
{
	const struct gdev_channel *channel;
	const struct gdev_port *port;

	if (ptask->input_count)
		return false;
	list_for_each (port, &ptask->outputs, link)
		list_for_each (channel, &port->channels, from_link)
			if (!channel->broken)
				return false;
	return true;
}

static void step(struct gdev_ptask *ptask)
{
	struct gdev_graph *graph = ptask->graph;
	bool delivered, filled;

	if (ptask->calling || ptask->ended)
		return;
	if (ptask->elsewhere) {
		elsewhere_step(ptask);
		return;
	}
	delivered = deliver(ptask);
	filled = fill(ptask);
	if (is_in_vain(ptask)) {
		ptask_end(ptask);
		return;
	}
	if (delivered && !filled && is_over(ptask))
		ptask_end(ptask);
	if (!delivered || !filled)
		return;
	list_remove(&ptask->work); /* it may have touched itself */
	if (needs_host(ptask))
		ptask_needs_host(ptask);
	else if (schedule_queues(graph))
		schedule_add(ptask);
	else
		ptask_invoke(ptask, 0);
}

/* Whether what is sent to the devices goes without waiting for their workers, which is not done with the lock held; else we
 * shall be told when a worker has taken what there is. */
static bool may_send(struct gdev_graph *graph)
{
	bool may = true;

	for (unsigned i = 0; i < graph->device_count; i++)
		if (gdev_session_is_full(graph->devices[i].session)) {
			host_notice(graph, (struct point){.lane = lane_in(i)}, false);
			host_start(graph);
			may = false;
		}
	return may;
}

void graph_flow(struct gdev_graph *graph)
{
	struct gdev_ptask *ptask;

	if (!graph->running)
		return;
	do
		while (!graph->error && !graph->terminated && !list_empty(&graph->work) &&
			may_send(graph) &&
			(ptask = list_first(&graph->work, struct gdev_ptask, work))) {
			list_remove(&ptask->work);
			step(ptask);
		}
	while (!list_empty(&graph->ready) && may_send(graph) && schedule_next(graph));
	if (!list_empty(&graph->hosts))
		host_wake(graph);
}
