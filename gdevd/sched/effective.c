/* SPDX-License-Identifier: MIT
 *
 * PTask's effective priority (PTask, Figure 9): the node with the highest static priority plus boosts is next. The
 * boosts come from how much a node's present wait, its decayed average wait, its average time on the
 * device, and its proxy priority (the nice value of the thread that it works for) differ from the average of
 * the nodes that wait. Times are counted in turns, of the length that these have just now. Where a turn
 * weighs more than priorities differ, nodes never overtake each other, and priorities would say nothing; where it weighs
 * less, as in quanta turns that end early would, the highest go first nearly always. The weights are in hundredths: of a
 * priority level a turn, and for the proxy priority of a level a level. That of the time on the device is negative: short
 * ones go first. That of the average wait is the largest: with turns of equal length nodes that take turns wait equally
 * long, and a small boost would never change their order.
 */
#include "gdevd/sched/sched.h"

#include "base/cleanup.h"

enum { WAIT_WEIGHT, AVERAGE_WAIT_WEIGHT, DEVICE_WEIGHT, PROXY_WEIGHT }; /* W_0 to W_3 */

struct effective_node {
	double average_wait_ns, average_device_ns;
};

_Static_assert(sizeof(struct effective_node) <= SCHED_NODE_BYTES, "fits");

static struct effective_node *effective(struct sched_node *node)
{
	return (struct effective_node *)node->private;
}

struct effective_queue {
	double turn_ns; /* how long a contended hold is, with the handover, on average; 0: not known */
};

_Static_assert(sizeof(struct effective_queue) <= SCHED_QUEUE_BYTES, "fits");

static double *turn_of(struct sched_queue *queue)
{
	return &((struct effective_queue *)queue->private)->turn_ns;
}

/* What the figure calls last_cwait, avg_wait, avg_gpu and proxy_prio. */
static void measure(struct sched_node *node, double turn_ns, uint64_t now_ns, double *measures)
{
	measures[WAIT_WEIGHT] = (double)(now_ns - node->waiting_since_ns) / turn_ns;
	measures[AVERAGE_WAIT_WEIGHT] = effective(node)->average_wait_ns / turn_ns;
	measures[DEVICE_WEIGHT] = effective(node)->average_device_ns / turn_ns;
	measures[PROXY_WEIGHT] = -node->nice;
}

static struct sched_node *effective_pick(
	struct sched_queue *queue, uint64_t now_ns, uint64_t *again_ns)
{
	double averages[SCHED_SETTINGS] = {0}, measures[SCHED_SETTINGS], highest = 0, waited_ns;
	double a_turn_ns = *turn_of(queue) ? *turn_of(queue) : (double)queue->quantum_ns;
	struct sched_node *node, *best = NULL;
	unsigned count = 0;

	list_for_each (node, &queue->waiting, wait) {
		measure(node, a_turn_ns, now_ns, measures);
		for (unsigned i = 0; i < SCHED_SETTINGS; i++)
			averages[i] += measures[i];
		count++;
	}
	list_for_each (node, &queue->waiting, wait) {
		double priority = node->priority;

		measure(node, a_turn_ns, now_ns, measures);
		for (unsigned i = 0; i < SCHED_SETTINGS; i++)
			priority += (double)queue->settings[i] / 100 *
				    (measures[i] - averages[i] / count);
		if (!best || priority > highest) {
			best = node;
			highest = priority;
		}
	}
	waited_ns = (double)(now_ns - best->waiting_since_ns);
	effective(best)->average_wait_ns += (waited_ns - effective(best)->average_wait_ns) / 8;
	return best;
}

static void effective_charge(struct sched_queue *queue, struct sched_node *node, uint64_t used_ns,
	uint64_t contended_ns, uint64_t now_ns)
{
	double turn_ns = (double)(sched_contended_ns(queue, now_ns) + queue->switch_ns);

	/* A hold that nobody contended may have lasted for minutes, and says nothing. */
	if (!contended_ns)
		return;
	effective(node)->average_device_ns +=
		((double)contended_ns - effective(node)->average_device_ns) / 8;
	*turn_of(queue) += *turn_of(queue) ? (turn_ns - *turn_of(queue)) / 8 : turn_ns;
}

const struct sched_policy sched_effective = {
	.name = "effective",
	.settings =
		{
			[WAIT_WEIGHT] = {"wait_weight", 150},
			[AVERAGE_WAIT_WEIGHT] = {"average_wait_weight", 240},
			[DEVICE_WEIGHT] = {"device_weight", -200},
			[PROXY_WEIGHT] = {"proxy_weight", 100},
		},
	.pick = effective_pick,
	.charge = effective_charge,
};
