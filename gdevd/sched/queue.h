/* SPDX-License-Identifier: MIT
 *
 * What the arbiter does to a queue and its nodes, groups or entities: book-keeping, and telling the policy. What it asks of
 * gangs and of strict groups.
 */
#ifndef GDEV_GDEVD_SCHED_QUEUE_H
#define GDEV_GDEVD_SCHED_QUEUE_H

#include "gdevd/sched/sched.h"

void queue_init(struct sched_queue *queue, struct sched *sched, const struct sched_policy *policy,
	uint64_t quantum_ns, uint64_t switch_ns, unsigned whole);
/* The nodes that want the resource arrive anew. */
void queue_change(struct sched_queue *queue, const struct sched_policy *policy, uint64_t now_ns);
/* When the holder's turn is over; UINT64_MAX: nobody waits for that. */
uint64_t queue_until(struct sched_queue *queue, uint64_t now_ns);

void node_init(struct sched_queue *queue, struct sched_node *node, unsigned weight);
void node_finish(struct sched_queue *queue, struct sched_node *node);
void node_weigh(
	struct sched_queue *queue, struct sched_node *node, unsigned weight, uint64_t now_ns);
static inline bool node_waits(const struct sched_node *node)
{
	return !list_empty(&node->wait);
}

void node_wait(struct sched_queue *queue, struct sched_node *node, uint64_t now_ns);
/* The node waits no more, and wants the resource still. To the policy that is no pause. */
void node_take(struct sched_queue *queue, struct sched_node *node, uint64_t now_ns);
void node_pause(struct sched_queue *queue, struct sched_node *node, uint64_t now_ns);
void node_hold(
	struct sched_queue *queue, struct sched_node *node, uint64_t chosen_ns, uint64_t now_ns);
/* contended_ns: of it, while others waited. */
void node_charge(struct sched_queue *queue, struct sched_node *node, uint64_t used_ns,
	uint64_t contended_ns, uint64_t now_ns);

/* gang.c. Whether `other` is another one of the entity's gang. */
bool gang_has(const struct sched_entity *entity, const struct sched_entity *other);
/* Whether another process waits in the entity's group. Going along would pass it, and spend what the group is owed. */
bool gang_is_passing(const struct sched_entity *entity);
/* Of the holder's gang, without itself; NULL: none goes along. */
struct sched_entity *gang_first_along(const struct sched_entity *holder);
void gang_set_along(struct sched_entity *entity, bool along);

/* allowance.c */
void allowance_update(struct sched_group *group, uint64_t now_ns);
void allowance_spend(struct sched_group *group, uint64_t used_ns, uint64_t now_ns);
/* When a group that has spent it may contend again; not later than now: at once. */
uint64_t allowance_ready_ns(const struct sched_group *group);

#endif
