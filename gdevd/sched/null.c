/* SPDX-License-Identifier: MIT
 *
 * No arbitration: everyone has the resource at once, and the device does what it does. What the others
 * are measured against. Among the entities of a virtual GPU, of which one has the resource at a time,
 * it is the order of arrival.
 */
#include "gdevd/sched/sched.h"

static struct sched_node *null_pick(struct sched_queue *queue, uint64_t now_ns, uint64_t *again_ns)
{
	return sched_first(queue);
}

const struct sched_policy sched_null = {
	.name = "null",
	.everyone = true,
	.pick = null_pick,
};
