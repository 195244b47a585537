/* SPDX-License-Identifier: MIT
 *
 * BAND, bandwidth-aware non-preemptive device scheduling: Figure 2 of the Gdev paper. It is Credit with
 * two changes. A node that has used up its credit goes to the end only when its utilization exceeds its
 * bandwidth too. And before a node whose utilization exceeds its bandwidth gets the resource after
 * another, the resource is kept free for a moment, so that one with short kernels may come back.
 *
 * The figure's on_completion() is pick() after a node left; its on_arrival(), which dispatches the node that
 * comes while none is current, is pick() while the policy waits. When the node that left wants the resource
 * again at once (it has more work queued), that is an arrival too.
 */
#include "gdevd/sched/credit.h"

#include "base/clock.h"

enum { WAIT_US = CREDIT_PERIOD_US + 1 };

static bool over_bandwidth(const struct sched_queue *queue, struct sched_node *node)
{
	return credit_node(node)->utilization > sched_fraction(queue, node);
}

/* on_arrival() while the resource is kept free: the node that has come since, or is there again. */
static struct sched_node *arrived(struct sched_queue *queue)
{
	struct sched_node *node = list_entry(queue->waiting.prev, struct sched_node, wait);

	return node->waiting_since_ns >= credit_queue(queue)->waits_from_ns ? node : NULL;
}

/* on_completion(), up to wait_for_short(). */
static void complete(struct sched_queue *queue, uint64_t now_ns)
{
	struct credit_queue *own = credit_queue(queue);
	struct sched_node *node = queue->last, *next;

	if (node && credit_node(node)->credit_ns < 0 && over_bandwidth(queue, node))
		credit_move_to_tail(queue, node);
	next = credit_head(queue);
	if (next && next != node && over_bandwidth(queue, next)) {
		own->waits_from_ns = now_ns;
		own->waits_until_ns = now_ns + (uint64_t)queue->settings[WAIT_US] * NS_PER_US;
	}
}

static struct sched_node *band_pick(struct sched_queue *queue, uint64_t now_ns, uint64_t *again_ns)
{
	struct credit_queue *own = credit_queue(queue);
	struct sched_node *next = NULL;

	credit_replenish(queue, now_ns);
	if (own->completed)
		complete(queue, now_ns);
	own->completed = false;
	if (own->waits_until_ns)
		next = arrived(queue);
	if (!next && now_ns < own->waits_until_ns) {
		*again_ns = own->waits_until_ns;
		return NULL;
	}
	own->waits_until_ns = 0;
	return next ? next : credit_head(queue);
}

const struct sched_policy sched_band = {
	.name = "band",
	.groups_only = true,
	.settings = {[CREDIT_PERIOD_US] = {"period_us", 30000}, [WAIT_US] = {"wait_us", 500}},
	.pick = band_pick,
	.charge = credit_charge,
};
