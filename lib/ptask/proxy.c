/* SPDX-License-Identifier: MIT
 *
 * For whom a ptask works (section 5.1), as the kernel has it: the nice values of the threads that pushed what it consumes, and
 * of those that wait for what comes of it. The most urgent of them counts. So nobody's work gets urgent by being done in a graph
 * of somebody else's, and what an urgent thread waits for is not held up because a patient one pushed it.
 *
 * A datablock remembers who pushed it, and what is made of it inherits that. Who waits is a matter of channels; what follows for
 * the ptasks before them is found out when the next one is picked. Only schedules that look at priorities pay for any of it.
 */
#include <errno.h>
#include <sys/resource.h>

#include "lib/ptask/internal.h"

bool proxies_count(const struct gdev_graph *graph)
{
	return graph->schedule == GDEV_SCHEDULE_PRIORITY ||
	       graph->schedule == GDEV_SCHEDULE_DATA_AWARE;
}

int proxy_of(int32_t thread, int otherwise)
{
	int nice;

	errno = 0;
	nice = getpriority(PRIO_PROCESS, (id_t)thread);
	return errno ? otherwise : -nice;
}

void block_pushed_by(struct gdev_datablock *block, int proxy)
{
	block->proxy = block->pushed ? max_of(block->proxy, proxy) : proxy;
	block->pushed = true;
}

/* ---- who waits ---- */

void channel_await(struct gdev_channel *channel, int proxy)
{
	channel->waiter_proxy = channel->waiters++ ? max_of(channel->waiter_proxy, proxy) : proxy;
	channel->graph->waits_changed = true;
}

void channel_await_no_more(struct gdev_channel *channel)
{
	channel->waiters--;
	channel->graph->waits_changed = true;
}

/* Whether it was awaited by nobody as urgent. */
static bool lift(struct gdev_ptask *ptask, int proxy)
{
	if (ptask->awaited && ptask->awaited_proxy >= proxy)
		return false;
	ptask->awaited = true;
	ptask->awaited_proxy = proxy;
	return true;
}

/* All that the ptask's output is made of. */
static void lift_upstream(struct gdev_ptask *ptask, int proxy)
{
	struct gdev_ptask *next = lift(ptask, proxy) ? ptask : NULL;
	const struct gdev_port *port;

	ptask->below = NULL;
	while ((ptask = next)) {
		next = ptask->below;
		list_for_each (port, &ptask->inputs, link) {
			struct gdev_port *from = port->channel ? port->channel->from : NULL;
			if (from && lift(from->ptask, proxy)) {
				from->ptask->below = next;
				next = from->ptask;
			}
		}
	}
}

static void find_awaited(struct gdev_graph *graph)
{
	struct gdev_channel *channel;
	struct gdev_ptask *ptask;

	graph->waits_changed = false;
	list_for_each (ptask, &graph->ptasks, link)
		ptask->awaited = false;
	list_for_each (channel, &graph->channels, link)
		if (channel->waiters && channel->from)
			lift_upstream(channel->from->ptask, channel->waiter_proxy);
}

/* ---- ptasks ---- */

/* Of what it consumes: false: there is nothing of that. */
static bool consumed_proxy(const struct gdev_ptask *ptask, int *proxy)
{
	const struct gdev_port *port;
	bool any = false;

	list_for_each (port, &ptask->inputs, link)
		if (port->block && port->kind != GDEV_PORT_STICKY) {
			*proxy = any ? max_of(*proxy, port->block->proxy) : port->block->proxy;
			any = true;
		}
	return any;
}

void ptask_hand_on(struct gdev_ptask *ptask)
{
	struct gdev_port *port;
	int proxy = 0;

	consumed_proxy(ptask, &proxy);
	list_for_each (port, &ptask->outputs, link)
		if (port->block)
			port->block->proxy = proxy;
}

int ptask_proxy(struct gdev_ptask *ptask)
{
	int proxy = 0, both;
	bool any = consumed_proxy(ptask, &proxy);

	if (ptask->graph->waits_changed)
		find_awaited(ptask->graph);
	if (ptask->awaited)
		proxy = any ? max_of(proxy, ptask->awaited_proxy) : ptask->awaited_proxy;
	return __builtin_add_overflow(ptask->proxy, proxy, &both) ? ptask->proxy : both;
}
