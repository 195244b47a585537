/* SPDX-License-Identifier: MIT
 *
 * PTask's token bucket (PTask, section 5.3), not work conserving: a node has a budget B, pays from it
 * what it used (t, of which a running average is kept), and is kept away from the resource from when B is
 * negative until it is positive. Every period T each B grows by q = T = alpha * min(t), up to
 * Bmax = n / sum(n) * sum(t), where n is the node's weight: the nice value's, or the group's share.
 */
#include "gdevd/sched/sched.h"

#include "base/clock.h"

enum { ALPHA_PCT };

#define USERS_NS NS_PER_S /* a node that has not used the resource for so long is not in the sums */

struct token_node {
	int64_t budget_ns;
	uint64_t time_ns; /* t; 0: it has not used the resource yet */
	uint64_t at_ns;   /* of its last use */
	bool blocked;
};

struct token_queue {
	uint64_t replenished_ns;
};

_Static_assert(sizeof(struct token_node) <= SCHED_NODE_BYTES, "fits");
_Static_assert(sizeof(struct token_queue) <= SCHED_QUEUE_BYTES, "fits");

struct sums {
	uint64_t period_ns, time_ns, weight;
};

static struct token_node *token(struct sched_node *node)
{
	return (struct token_node *)node->private;
}

static bool uses(const struct sched_queue *queue, struct sched_node *node, uint64_t now_ns)
{
	return token(node)->time_ns && (!list_empty(&node->wait) || queue->holder == node ||
					       now_ns - token(node)->at_ns < USERS_NS);
}

static struct sums sum_up(struct sched_queue *queue, uint64_t now_ns)
{
	struct sums sums = {.period_ns = UINT64_MAX};
	struct sched_node *node;

	list_for_each (node, &queue->nodes, link) {
		if (!uses(queue, node, now_ns))
			continue;
		sums.time_ns += token(node)->time_ns;
		sums.weight += node->weight;
		if (token(node)->time_ns < sums.period_ns)
			sums.period_ns = token(node)->time_ns;
	}
	sums.period_ns = sums.period_ns / 100 * (uint64_t)queue->settings[ALPHA_PCT];
	if (!sums.weight || sums.period_ns < NS_PER_US)
		sums.period_ns = NS_PER_US;
	return sums;
}

static void replenish(struct sched_queue *queue, const struct sums *sums, uint64_t now_ns)
{
	struct token_queue *own = (struct token_queue *)queue->private;
	uint64_t periods = (now_ns - own->replenished_ns) / sums->period_ns;
	struct sched_node *node;

	own->replenished_ns += periods * sums->period_ns;
	list_for_each (node, &queue->nodes, link) {
		struct token_node *it = token(node);
		double part = sums->weight ? (double)node->weight / (double)sums->weight : 1;
		int64_t most_ns = (int64_t)(part * (double)sums->time_ns);

		it->budget_ns += (int64_t)(periods * sums->period_ns);
		if (it->budget_ns > most_ns)
			it->budget_ns = most_ns;
		if (it->budget_ns > 0 || !it->time_ns)
			it->blocked = false;
	}
}

static struct sched_node *token_pick(struct sched_queue *queue, uint64_t now_ns, uint64_t *again_ns)
{
	struct token_queue *own = (struct token_queue *)queue->private;
	struct sums sums = sum_up(queue, now_ns);
	struct sched_node *node;

	replenish(queue, &sums, now_ns);
	list_for_each (node, &queue->waiting, wait) {
		uint64_t missing, at_ns;

		if (!token(node)->blocked)
			return node;
		missing = (uint64_t)-token(node)->budget_ns / sums.period_ns + 1;
		at_ns = own->replenished_ns + missing * sums.period_ns;
		if (at_ns < *again_ns)
			*again_ns = at_ns;
	}
	return NULL;
}

static void token_charge(struct sched_queue *queue, struct sched_node *node, uint64_t used_ns,
	uint64_t contended_ns, uint64_t now_ns)
{
	struct token_node *own = token(node);
	struct sums sums = sum_up(queue, now_ns);

	replenish(queue, &sums, now_ns);
	/* A hold that nobody contended may have lasted for minutes: what it took from others counts. */
	used_ns = contended_ns;
	if (!used_ns)
		return;
	own->budget_ns -= (int64_t)used_ns;
	own->time_ns = own->time_ns ? (7 * own->time_ns + used_ns) / 8 : used_ns;
	own->at_ns = now_ns;
	if (own->budget_ns < 0)
		own->blocked = true;
}

const struct sched_policy sched_token = {
	.name = "token",
	.settings = {[ALPHA_PCT] = {"alpha_pct", 100}},
	.pick = token_pick,
	.charge = token_charge,
};
