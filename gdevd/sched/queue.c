/* SPDX-License-Identifier: MIT
 *
 * See queue.h.
 */
#include "gdevd/sched/queue.h"

#include <errno.h>
#include <string.h>

static void take_policy(struct sched_queue *queue, const struct sched_policy *policy)
{
	queue->policy = policy;
	for (unsigned i = 0; i < SCHED_SETTINGS; i++)
		queue->settings[i] = policy->settings[i].value;
	if (policy->init)
		policy->init(queue);
}

void queue_init(struct sched_queue *queue, struct sched *sched, const struct sched_policy *policy,
	uint64_t quantum_ns, uint64_t switch_ns, unsigned whole)
{
	memset(queue, 0, sizeof *queue);
	queue->sched = sched;
	queue->quantum_ns = quantum_ns;
	queue->switch_ns = switch_ns;
	queue->whole = whole;
	list_init(&queue->nodes);
	list_init(&queue->waiting);
	take_policy(queue, policy);
}

void queue_change(struct sched_queue *queue, const struct sched_policy *policy, uint64_t now_ns)
{
	struct sched_node *node;

	memset(queue->private, 0, sizeof queue->private);
	list_for_each (node, &queue->nodes, link)
		memset(node->private, 0, sizeof node->private);
	take_policy(queue, policy);
	if (!policy->arrive)
		return;
	if (queue->holder)
		policy->arrive(queue, queue->holder, now_ns);
	list_for_each (node, &queue->waiting, wait)
		policy->arrive(queue, node, now_ns);
}

int sched_queue_set(struct sched_queue *queue, const char *name, int64_t value)
{
	const struct sched_setting *settings = queue->policy->settings;

	for (unsigned i = 0; i < SCHED_SETTINGS && settings[i].name; i++) {
		if (!strcmp(settings[i].name, name)) {
			queue->settings[i] = value;
			return 0;
		}
	}
	return -ENOENT;
}

void node_init(struct sched_queue *queue, struct sched_node *node, unsigned weight)
{
	memset(node, 0, sizeof *node);
	node->weight = weight;
	list_init(&node->wait);
	list_append(&queue->nodes, &node->link);
}

void node_weigh(
	struct sched_queue *queue, struct sched_node *node, unsigned weight, uint64_t now_ns)
{
	unsigned old = node->weight;

	node->weight = weight;
	if (old != weight && queue->policy->weigh)
		queue->policy->weigh(queue, node, old, now_ns);
}

/* Whether somebody waits for the holder has changed, perhaps. */
static void note_contention(struct sched_queue *queue, uint64_t now_ns)
{
	bool contended = queue->holder && !list_empty(&queue->waiting);

	if (contended && !queue->contended)
		queue->contended_since_ns = now_ns;
	if (!contended && queue->contended)
		queue->contended_ns += now_ns - queue->contended_since_ns;
	queue->contended = contended;
}

void node_wait(struct sched_queue *queue, struct sched_node *node, uint64_t now_ns)
{
	node->waiting_since_ns = now_ns;
	list_append(&queue->waiting, &node->wait);
	note_contention(queue, now_ns);
	if (queue->policy->arrive)
		queue->policy->arrive(queue, node, now_ns);
}

void node_take(struct sched_queue *queue, struct sched_node *node, uint64_t now_ns)
{
	list_remove(&node->wait);
	note_contention(queue, now_ns);
}

void node_pause(struct sched_queue *queue, struct sched_node *node, uint64_t now_ns)
{
	list_remove(&node->wait);
	note_contention(queue, now_ns);
	if (queue->policy->pause)
		queue->policy->pause(queue, node, now_ns);
}

void node_hold(
	struct sched_queue *queue, struct sched_node *node, uint64_t chosen_ns, uint64_t now_ns)
{
	list_remove(&node->wait);
	queue->holder = queue->last = node;
	queue->granted_ns = now_ns;
	queue->chosen_ns = chosen_ns;
	queue->contended_ns = 0;
	queue->contended = false;
	note_contention(queue, now_ns);
}

void node_charge(struct sched_queue *queue, struct sched_node *node, uint64_t used_ns,
	uint64_t contended_ns, uint64_t now_ns)
{
	node->used_ns += used_ns;
	if (contended_ns > used_ns)
		contended_ns = used_ns;
	if (queue->policy->charge)
		queue->policy->charge(queue, node, used_ns, contended_ns, now_ns);
}

void node_finish(struct sched_queue *queue, struct sched_node *node)
{
	list_remove(&node->link);
	if (queue->last == node)
		queue->last = NULL;
}

uint64_t queue_until(struct sched_queue *queue, uint64_t now_ns)
{
	if (queue->policy->until)
		return queue->policy->until(queue, now_ns);
	return list_empty(&queue->waiting) ? UINT64_MAX : queue->granted_ns + queue->quantum_ns;
}

double sched_fraction(const struct sched_queue *queue, const struct sched_node *node)
{
	const struct sched_node *other;
	uint64_t sum = 0;

	list_for_each (other, &queue->nodes, link)
		sum += other->weight;
	if (sum < queue->whole)
		sum = queue->whole;
	return (double)node->weight / (double)sum;
}

uint64_t sched_contended_ns(const struct sched_queue *queue, uint64_t now_ns)
{
	return queue->contended_ns + (queue->contended ? now_ns - queue->contended_since_ns : 0);
}

uint64_t sched_taken_ns(const struct sched_queue *queue, uint64_t now_ns)
{
	struct sched *sched = queue->sched;
	uint64_t held_ns = queue->holder ? now_ns - queue->granted_ns : 0, used_ns;

	if (!held_ns || !sched->ops->used_ns)
		return held_ns;
	used_ns = sched->ops->used_ns(sched, sched->holder, now_ns);
	return used_ns < held_ns && used_ns + queue->switch_ns < held_ns
		       ? used_ns + queue->switch_ns
		       : held_ns;
}

struct sched_node *sched_first(const struct sched_queue *queue)
{
	return list_first(&queue->waiting, struct sched_node, wait);
}
