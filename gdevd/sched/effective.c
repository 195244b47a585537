/* SPDX-License-Identifier: MIT
 *
 * PTask's effective priority (PTask, Figure 9): the node with the highest static priority plus boosts is next. The
 * boosts come from how much a node's present wait, its decayed average wait, its average time on the
 * device, and its proxy priority (the nice value of the thread that it works for) differ from the average of
 * the nodes that wait. Times are counted in turns of these nodes: where a turn weighs more than priorities differ, nodes never
 * overtake each other, and priorities would say nothing. The weights are in hundredths: of a priority level a turn, and for the proxy
 * priority of a level a level. That of the time on the device is negative: short ones go first. That of the average wait is the
 * largest: with turns of equal length nodes that take turns wait equally long, and a small boost would never change their order.
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

/* How long a turn is, of those that wait. */
static double turn_ns(const struct sched_queue *queue)
{
	struct sched_node *node;
	double sum_ns = 0;
	unsigned count = 0;

	list_for_each (node, &queue->waiting, wait) {
		sum_ns += effective(node)->average_device_ns;
		count++;
	}
	return max_of((double)queue->quantum_ns, sum_ns / count);
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
	double a_turn_ns = turn_ns(queue);
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
	/* A hold that nobody contended may have lasted for minutes, and says nothing. */
	if (contended_ns)
		effective(node)->average_device_ns +=
			((double)contended_ns - effective(node)->average_device_ns) / 8;
}

extern const struct sched_policy sched_effective; /* registry.c */
const struct sched_policy sched_effective = {
	.name = "effective",
	.settings =
		{
			[WAIT_WEIGHT] = {"wait_weight", 150},
			[AVERAGE_WAIT_WEIGHT] = {"average_wait_weight", 200},
			[DEVICE_WEIGHT] = {"device_weight", -150},
			[PROXY_WEIGHT] = {"proxy_weight", 100},
		},
	.pick = effective_pick,
	.charge = effective_charge,
};
