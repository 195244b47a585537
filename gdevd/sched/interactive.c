/* SPDX-License-Identifier: MIT
 *
 * Interactive: nodes are classed by what they do, as the thesis on GPU virtualization has it for guests (section 6.1). A
 * batch node computes whenever it can, and what counts is when all of it is done: such nodes have the resource one after
 * another, in long turns. An interactive node computes for a moment and then pauses, and what counts is how soon it is
 * served: it goes first, and a batch node that holds the resource leaves at once.
 *
 * A program that waits for each of its kernels pauses for a moment between two: in its turn the resource is kept free for it,
 * up to wait_us.
 *
 * The class is measured. A burst is the device time that a node uses from when it wants the resource until it pauses.
 * A node is interactive if its bursts take burst_ms at most, and duty_pct at most of the time that bursts and pauses take
 * together. A node that has not paused twice yet is a batch node.
 *
 * Classes decide when a node is served, and not how much it gets. A node's virtual time is what it used while others waited,
 * divided by its weight. An interactive node goes first only while its virtual time is ahead of none of the others' by more
 * than a quantum; one that uses more than its part waits as a batch node does, and that with the least virtual time is next.
 */
#include "gdevd/sched/sched.h"

#include <math.h>

#include "base/cleanup.h"
#include "base/clock.h"

enum { BURST_MS, DUTY_PCT, TURN_MS, WAIT_US };

#define PAUSES_KNOWN 2

struct interactive_node {
	double time; /* virtual */
	bool active; /* waits or holds */
	unsigned pauses;
	uint64_t paused_ns;         /* since when, if it is not active */
	uint64_t burst_ns, turn_ns; /* used in this burst, and, while others waited, in this turn */
	uint64_t busy_ns, pause_ns; /* averages */
};

_Static_assert(sizeof(struct interactive_node) <= SCHED_NODE_BYTES, "fits");

static struct interactive_node *own(struct sched_node *node)
{
	return (struct interactive_node *)node->private;
}

static uint64_t average(uint64_t before, uint64_t now)
{
	return (3 * before + now) / 4;
}

static uint64_t turn_ns(const struct sched_queue *queue)
{
	return (uint64_t)queue->settings[TURN_MS] * NS_PER_MS;
}

static bool is_interactive(const struct sched_queue *queue, struct sched_node *node)
{
	const struct interactive_node *it = own(node);
	uint64_t duty_pct = (uint64_t)queue->settings[DUTY_PCT];

	return it->pauses >= PAUSES_KNOWN &&
	       max_of(it->busy_ns, it->burst_ns) <=
		       (uint64_t)queue->settings[BURST_MS] * NS_PER_MS &&
	       100 * it->busy_ns <= duty_pct * (it->busy_ns + it->pause_ns);
}

/* The least virtual time of the nodes that wait or hold, but for `except`; INFINITY: there are none. */
static double least_time(struct sched_queue *queue, const struct sched_node *except)
{
	struct sched_node *node;
	double least = INFINITY;

	list_for_each (node, &queue->nodes, link)
		if (node != except && own(node)->active && own(node)->time < least)
			least = own(node)->time;
	return least;
}

static bool goes_first(struct sched_queue *queue, struct sched_node *node)
{
	return is_interactive(queue, node) &&
	       own(node)->time <=
		       least_time(queue, node) + (double)queue->quantum_ns / node->weight;
}

/* A batch node has begun a turn, which interactive nodes interrupt and do not end. */
static bool has_turn(const struct sched_queue *queue, struct sched_node *node)
{
	return own(node)->turn_ns && own(node)->turn_ns < turn_ns(queue);
}

static unsigned rank(struct sched_queue *queue, struct sched_node *node)
{
	return goes_first(queue, node) ? 2 : has_turn(queue, node) ? 1 : 0;
}

/* The highest in rank, and of these the least in virtual time. */
static struct sched_node *first_to_go(struct sched_queue *queue)
{
	struct sched_node *node, *best = NULL;
	unsigned highest = 0;

	list_for_each (node, &queue->waiting, wait) {
		unsigned its = rank(queue, node);

		if (best &&
			(its < highest || (its == highest && own(node)->time >= own(best)->time)))
			continue;
		best = node;
		highest = its;
	}
	return best;
}

/* Until when the resource is kept free for a batch node that pauses in its turn; 0: it is not. */
static uint64_t kept_until_ns(struct sched_queue *queue, uint64_t now_ns)
{
	uint64_t wait_ns = (uint64_t)queue->settings[WAIT_US] * NS_PER_US;
	struct sched_node *node;

	list_for_each (node, &queue->nodes, link) {
		const struct interactive_node *it = own(node);

		if (!it->active && it->pauses >= PAUSES_KNOWN && has_turn(queue, node) &&
			it->pause_ns <= min_of(wait_ns, it->busy_ns) &&
			!is_interactive(queue, node) && now_ns < it->paused_ns + wait_ns)
			return it->paused_ns + wait_ns;
	}
	return 0;
}

static struct sched_node *interactive_next(struct sched_queue *queue, uint64_t now_ns)
{
	struct sched_node *best = first_to_go(queue);

	return rank(queue, best) < 2 && kept_until_ns(queue, now_ns) ? NULL : best;
}

static struct sched_node *interactive_pick(
	struct sched_queue *queue, uint64_t now_ns, uint64_t *again_ns)
{
	struct sched_node *best = interactive_next(queue, now_ns);

	if (!best)
		*again_ns = kept_until_ns(queue, now_ns);
	return best;
}

/* A node is owed nothing for the time in which it did not want the resource. */
static void interactive_arrive(struct sched_queue *queue, struct sched_node *node, uint64_t now_ns)
{
	struct interactive_node *it = own(node);
	double least = least_time(queue, node);
	uint64_t pause_ns = now_ns - it->paused_ns;

	if (it->active)
		return;
	it->active = true;
	if (has_turn(queue, node)) /* for which others may have waited */
		it->turn_ns += pause_ns;
	if (it->time < least && least != INFINITY)
		it->time = least;
	if (it->pauses)
		it->pause_ns = it->pauses > 1 ? average(it->pause_ns, pause_ns) : pause_ns;
}

static void interactive_pause(struct sched_queue *queue, struct sched_node *node, uint64_t now_ns)
{
	struct interactive_node *it = own(node);

	if (!it->active)
		return;
	it->active = false;
	it->busy_ns = it->pauses ? average(it->busy_ns, it->burst_ns) : it->burst_ns;
	it->pauses += it->pauses < PAUSES_KNOWN;
	it->paused_ns = now_ns;
	it->burst_ns = 0;
}

static void interactive_charge(struct sched_queue *queue, struct sched_node *node, uint64_t used_ns,
	uint64_t contended_ns, uint64_t now_ns)
{
	struct interactive_node *it = own(node);

	it->time += (double)contended_ns / node->weight;
	it->burst_ns += used_ns;
	it->turn_ns = it->turn_ns < turn_ns(queue) ? it->turn_ns + contended_ns : contended_ns;
}

/* How much of the resource it is ahead stays as it was. */
static void interactive_weigh(
	struct sched_queue *queue, struct sched_node *node, unsigned old, uint64_t now_ns)
{
	double least = least_time(queue, node);

	if (own(node)->time > least)
		own(node)->time = least + (own(node)->time - least) * old / node->weight;
}

static uint64_t interactive_until(struct sched_queue *queue, uint64_t now_ns)
{
	struct sched_node *node, *holder = queue->holder;
	double stay_ns = (double)turn_ns(queue), least = INFINITY;
	uint64_t since_ns = queue->contended_since_ns - queue->contended_ns;
	bool first = goes_first(queue, holder);

	if (list_empty(&queue->waiting))
		return UINT64_MAX;
	list_for_each (node, &queue->waiting, wait) {
		if (!first && goes_first(queue, node))
			return now_ns;
		if (own(node)->time < least)
			least = own(node)->time;
	}
	if (first)
		return since_ns + queue->quantum_ns;
	if (has_turn(queue, holder))
		stay_ns -= (double)own(holder)->turn_ns;
	/* One with a large share, or that was interrupted, catches up. */
	if ((least - own(holder)->time) * holder->weight > stay_ns)
		stay_ns = (least - own(holder)->time) * holder->weight;
	return since_ns + (uint64_t)stay_ns;
}

const struct sched_policy sched_interactive = {
	.name = "interactive",
	.settings =
		{
			[BURST_MS] = {"burst_ms", 20},
			[DUTY_PCT] = {"duty_pct", 50},
			[TURN_MS] = {"turn_ms", 20},
			[WAIT_US] = {"wait_us", 500},
		},
	.arrive = interactive_arrive,
	.pause = interactive_pause,
	.pick = interactive_pick,
	.next = interactive_next,
	.until = interactive_until,
	.charge = interactive_charge,
	.weigh = interactive_weigh,
};
