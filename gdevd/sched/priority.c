/* SPDX-License-Identifier: MIT
 *
 * Strict priority: the virtual GPU's, plus what the nice value of the caller gives. A node that is higher makes
 * the holder leave at once; equals take turns. None starves: a node that has waited for `starvation_ms` is
 * next whatever its priority, and keeps the resource for a quantum; but such quanta are a quarter of that
 * time apart, so that many who starve together do not turn the order around.
 */
#include "gdevd/sched/sched.h"

#include "base/clock.h"

enum { STARVATION_MS };

struct priority_queue {
	bool rescued; /* the holder was starving */
	uint64_t rescued_ns;
};

_Static_assert(sizeof(struct priority_queue) <= SCHED_QUEUE_BYTES, "fits");

static struct priority_queue *own(struct sched_queue *queue)
{
	return (struct priority_queue *)queue->private;
}

/* When it is next whatever its priority. */
static uint64_t starves_ns(struct sched_queue *queue, const struct sched_node *node)
{
	uint64_t patience_ns = (uint64_t)queue->settings[STARVATION_MS] * NS_PER_MS;
	uint64_t starves_ns = node->waiting_since_ns + patience_ns;
	uint64_t free_ns = own(queue)->rescued_ns + patience_ns / 4;

	return starves_ns > free_ns ? starves_ns : free_ns;
}

static struct sched_node *highest(const struct sched_queue *queue)
{
	struct sched_node *node, *best = sched_first(queue);

	list_for_each (node, &queue->waiting, wait)
		if (sched_rank(node) > sched_rank(best))
			best = node;
	return best;
}

/* NULL while another node starves: whether that one is rescued is decided when the resource is free. */
static struct sched_node *priority_next(struct sched_queue *queue, uint64_t now_ns)
{
	struct sched_node *node = sched_first(queue), *best = highest(queue);

	return sched_rank(node) < sched_rank(best) && starves_ns(queue, node) <= now_ns ? NULL
											: best;
}

static struct sched_node *priority_pick(
	struct sched_queue *queue, uint64_t now_ns, uint64_t *again_ns)
{
	struct sched_node *node = sched_first(queue), *best = highest(queue);

	own(queue)->rescued =
		sched_rank(node) < sched_rank(best) && starves_ns(queue, node) <= now_ns;
	if (!own(queue)->rescued)
		return best;
	own(queue)->rescued_ns = now_ns;
	return node;
}

static uint64_t priority_until(struct sched_queue *queue, uint64_t now_ns)
{
	uint64_t quantum_ends_ns = queue->granted_ns + queue->quantum_ns, until_ns = UINT64_MAX;
	struct sched_node *node;

	list_for_each (node, &queue->waiting, wait) {
		uint64_t its_ns = quantum_ends_ns;

		if (sched_rank(node) > sched_rank(queue->holder) && !own(queue)->rescued)
			its_ns = now_ns;
		else if (sched_rank(node) < sched_rank(queue->holder) &&
			 starves_ns(queue, node) > its_ns)
			its_ns = starves_ns(queue, node);
		if (its_ns < until_ns)
			until_ns = its_ns;
	}
	return until_ns;
}

const struct sched_policy sched_priority = {
	.name = "priority",
	.settings = {[STARVATION_MS] = {"starvation_ms", 500}},
	.pick = priority_pick,
	.next = priority_next,
	.until = priority_until,
};
