/* SPDX-License-Identifier: MIT
 *
 * For whom a ptask works (section 5.1), as the kernel has it: the nice values of the threads that pushed what it consumes, and
 * of those that wait for what comes of it. The most urgent of them counts. So nobody's work gets urgent by being done in a graph
 * of somebody else's, and what an urgent thread waits for is not held up because a patient one pushed it.
 *
 * A datablock remembers who pushed it, and what is made of it inherits that. Who waits is a matter of channels; what follows for
 * the ptasks before them is found out when the next one is picked. Only schedules that look at priorities pay for any of it, and
 * graphs that have a name: of these gdevd hears for which process each command is, and takes that one's nice value for the
 * session's (gdevd/nice.c).
 */
#include <errno.h>
#include <sys/resource.h>

#include "lib/ptask/internal.h"

bool proxies_count(const struct gdev_graph *graph)
{
	return graph->schedule == GDEV_SCHEDULE_PRIORITY ||
	       graph->schedule == GDEV_SCHEDULE_DATA_AWARE || graph->publication;
}

static int proxy_of(int32_t thread, int otherwise)
{
	int nice;

	errno = 0;
	nice = getpriority(PRIO_PROCESS, (id_t)thread);
	return errno ? otherwise : -nice;
}

struct whom whom_calls(void)
{
	return (struct whom){proxy_of(0, 0), 0};
}

struct whom whom_is(int32_t process, int was)
{
	return (struct whom){proxy_of(process, was), process};
}

struct whom more_urgent(struct whom one, struct whom two)
{
	return two.proxy > one.proxy ? two : one;
}

void block_pushed_by(struct gdev_datablock *block, struct whom whom)
{
	block->whom = block->pushed ? more_urgent(block->whom, whom) : whom;
	block->pushed = true;
}

/* ---- who waits ---- */

void channel_await(struct gdev_channel *channel, struct whom whom)
{
	channel->waiter = channel->waiters++ ? more_urgent(channel->waiter, whom) : whom;
	channel->graph->waits_changed = true;
}

void channel_await_no_more(struct gdev_channel *channel)
{
	channel->waiters--;
	channel->graph->waits_changed = true;
}

/* Whether it was awaited by nobody as urgent. */
static bool lift(struct gdev_ptask *ptask, struct whom whom)
{
	if (ptask->awaited && ptask->awaiter.proxy >= whom.proxy)
		return false;
	ptask->awaited = true;
	ptask->awaiter = whom;
	return true;
}

/* All that the ptask's output is made of. */
static void lift_upstream(struct gdev_ptask *ptask, struct whom whom)
{
	struct gdev_ptask *next = lift(ptask, whom) ? ptask : NULL;
	const struct gdev_port *port;

	ptask->below = NULL;
	while ((ptask = next)) {
		next = ptask->below;
		list_for_each (port, &ptask->inputs, link) {
			struct gdev_port *from = port->channel ? port->channel->from : NULL;
			if (from && lift(from->ptask, whom)) {
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
			lift_upstream(channel->from->ptask, channel->waiter);
}

/* ---- ptasks ---- */

/* Of what it consumes: false: there is nothing of that. */
static bool who_pushed(const struct gdev_ptask *ptask, struct whom *whom)
{
	const struct gdev_port *port;
	bool any = false;

	list_for_each (port, &ptask->inputs, link)
		if (port->block && port->kind != GDEV_PORT_STICKY) {
			*whom = any ? more_urgent(*whom, port->block->whom) : port->block->whom;
			any = true;
		}
	return any;
}

void ptask_hand_on(struct gdev_ptask *ptask)
{
	struct whom whom = {0};
	struct gdev_port *port;

	who_pushed(ptask, &whom);
	list_for_each (port, &ptask->outputs, link)
		if (port->block)
			port->block->whom = whom;
}

static struct whom whom_of(struct gdev_ptask *ptask)
{
	struct whom whom = {0};
	bool any = who_pushed(ptask, &whom);

	if (ptask->graph->waits_changed)
		find_awaited(ptask->graph);
	if (!ptask->awaited)
		return whom;
	return any ? more_urgent(whom, ptask->awaiter) : ptask->awaiter;
}

int ptask_proxy(struct gdev_ptask *ptask)
{
	int both;

	return __builtin_add_overflow(ptask->proxy, whom_of(ptask).proxy, &both) ? ptask->proxy
										 : both;
}

int32_t ptask_submits(struct gdev_ptask *ptask)
{
	return gdev_submit_for(ptask->graph->publication ? whom_of(ptask).process : 0);
}
