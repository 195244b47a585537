/* SPDX-License-Identifier: MIT
 *
 * FIFO: first come, first served; a node whose quantum ends goes to the back. With quanta of equal length
 * that is round robin among the nodes that always want the resource. The simplest policy there can be, and
 * the one to read before writing another.
 */
#include "gdevd/sched/sched.h"

static struct sched_node *fifo_pick(struct sched_queue *queue, uint64_t now_ns, uint64_t *again_ns)
{
	return sched_first(queue);
}

static struct sched_node *fifo_next(struct sched_queue *queue, uint64_t now_ns)
{
	return sched_first(queue);
}

const struct sched_policy sched_fifo = {
	.name = "fifo",
	.pick = fifo_pick,
	.next = fifo_next,
};
