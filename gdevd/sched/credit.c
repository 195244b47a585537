/* SPDX-License-Identifier: MIT
 *
 * Credit: Xen's scheduler as the Gdev paper used it (section 5.2). Nodes stand in a queue; the first that
 * wants the resource has it; one that has used up its credit goes to the end. It presumes that work can be
 * preempted and is constantly there, and fails where kernels are long: BAND says how.
 */
#include "gdevd/sched/credit.h"

#include "base/clock.h"

#define INTERVAL_NS NS_PER_S
#define PERIODS_MAX 64 /* that are gone through one by one; what came before makes no difference */

static void replenish_node(
	struct sched_queue *queue, struct sched_node *node, uint64_t period_ns, double passed_ns)
{
	struct credit_node *own = credit_node(node);
	int64_t limit_ns = (int64_t)period_ns;

	own->credit_ns += (int64_t)((double)period_ns * sched_fraction(queue, node));
	if (own->credit_ns > limit_ns || own->credit_ns < -limit_ns)
		own->credit_ns = 0;
	own->utilization = (double)own->used_ns / passed_ns;
}

void credit_replenish(struct sched_queue *queue, uint64_t now_ns)
{
	uint64_t period_ns = (uint64_t)queue->settings[CREDIT_PERIOD_US] * NS_PER_US;
	struct credit_queue *own = credit_queue(queue);
	struct sched_node *node;

	if (!period_ns)
		period_ns = 1;
	if (now_ns - own->replenished_ns > PERIODS_MAX * period_ns)
		own->replenished_ns = now_ns - PERIODS_MAX * period_ns;
	while (now_ns - own->replenished_ns >= period_ns) {
		own->replenished_ns += period_ns;
		if (own->replenished_ns - own->interval_ns > 2 * INTERVAL_NS)
			own->interval_ns = own->replenished_ns - period_ns;
		list_for_each (node, &queue->nodes, link)
			replenish_node(queue, node, period_ns,
				(double)(own->replenished_ns - own->interval_ns));
		if (own->replenished_ns - own->interval_ns < INTERVAL_NS)
			continue;
		own->interval_ns = own->replenished_ns;
		list_for_each (node, &queue->nodes, link)
			credit_node(node)->used_ns = 0;
	}
}

void credit_charge(struct sched_queue *queue, struct sched_node *node, uint64_t used_ns,
	uint64_t contended_ns, uint64_t now_ns)
{
	credit_replenish(queue, now_ns);
	credit_node(node)->credit_ns -= (int64_t)used_ns;
	credit_node(node)->used_ns += used_ns;
	credit_queue(queue)->completed = true;
}

void credit_move_to_tail(struct sched_queue *queue, struct sched_node *node)
{
	list_remove(&node->link);
	list_append(&queue->nodes, &node->link);
}

struct sched_node *credit_head(struct sched_queue *queue)
{
	struct sched_node *node;

	list_for_each (node, &queue->nodes, link)
		if (!list_empty(&node->wait))
			return node;
	return NULL;
}

static struct sched_node *credit_pick(
	struct sched_queue *queue, uint64_t now_ns, uint64_t *again_ns)
{
	struct credit_queue *own = credit_queue(queue);

	credit_replenish(queue, now_ns);
	if (own->completed && queue->last && credit_node(queue->last)->credit_ns <= 0)
		credit_move_to_tail(queue, queue->last);
	own->completed = false;
	return credit_head(queue);
}

const struct sched_policy sched_credit = {
	.name = "credit",
	.groups_only = true,
	.settings = {[CREDIT_PERIOD_US] = {"period_us", 30000}},
	.pick = credit_pick,
	.charge = credit_charge,
};
