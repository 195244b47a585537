/* SPDX-License-Identifier: MIT
 *
 * Credits and measured utilization, which Credit and BAND both keep (Gdev, section 5.2): every period a
 * node earns its part of the period and pays for what it uses. Credit that grows beyond a period's
 * length either way is void, as in Gdev. Utilization is measured over intervals of a second, and looked at
 * once a period.
 */
#ifndef GDEV_GDEVD_SCHED_CREDIT_H
#define GDEV_GDEVD_SCHED_CREDIT_H

#include "gdevd/sched/sched.h"

struct credit_node {
	int64_t credit_ns;
	uint64_t used_ns;   /* in this interval */
	double utilization; /* 0 to 1, as of the last period */
};

struct credit_queue {
	uint64_t replenished_ns, interval_ns; /* begin of the period, and of the interval */
	bool completed;                       /* somebody left, and nobody was picked since */
	uint64_t waits_from_ns,
		waits_until_ns; /* BAND's wait for short ones; 0: it does not wait */
};

_Static_assert(sizeof(struct credit_node) <= SCHED_NODE_BYTES, "fits");
_Static_assert(sizeof(struct credit_queue) <= SCHED_QUEUE_BYTES, "fits");

static inline struct credit_node *credit_node(struct sched_node *node)
{
	return (struct credit_node *)node->private;
}

static inline struct credit_queue *credit_queue(struct sched_queue *queue)
{
	return (struct credit_queue *)queue->private;
}

/* Of either policy: its first setting. */
enum { CREDIT_PERIOD_US };

/* Does what has been due since it was last called. */
void credit_replenish(struct sched_queue *queue, uint64_t now_ns);
void credit_charge(struct sched_queue *queue, struct sched_node *node, uint64_t used_ns,
	uint64_t contended_ns, uint64_t now_ns);
/* move_to_queue_tail() of Figure 2. */
void credit_move_to_tail(struct sched_queue *queue, struct sched_node *node);
/* get_queue_head() of Figure 2: the first node that wants the resource; NULL: none. */
struct sched_node *credit_head(struct sched_queue *queue);

#endif
