/* SPDX-License-Identifier: MIT
 *
 * Fair: weighted fair queuing over measured device time, for holders that cannot be preempted.
 *
 * Each node has a virtual time: what it used while others waited, divided by its weight. The node whose is
 * smallest is next. What a node used too much or too little because kernels do not stop at the end
 * of a quantum is still in its virtual time at the next turn, so that errors do not add up: over a window
 * the error is at most about one hold, however long the window.
 *
 * - Turns. A holder keeps the resource until it has caught up with the waiting node of the smallest virtual
 *   time, so that switches are few when weights differ, and for a turn at least: the queue's quantum, or
 *   its part of a round of all, which is so long that its handovers cost no more than `cost_permille` of
 *   it, but no longer than `round_ms`. What it uses after it is told to leave (the window it drains, the kernel
 *   that runs) is made good in the next turns, as all else.
 *   A node that comes after a pause, and is owed, does not wait for a turn: the holder leaves a quantum after
 *   its grant, at once if it has had that. After a short pause, of which there may be many, it has to be owed a
 *   quantum, and the holder leaves when it has held for so long that the handovers are worth it.
 * - Lag. A node's lag is the mean virtual time of those that want the resource minus its own: positive
 *   when it is owed. A node that pauses takes its lag with it, and it grows by what others use beyond
 *   their parts of the time, but not beyond `burst_ms`: a node that works in bursts gets its share of a second,
 *   none saves up more than a burst, and a node that uses less than its part owes nothing to nodes that were away. What
 *   a node was ahead is forgotten when nobody has used the resource for long.
 * - Coming back. A program that launches and waits has nothing queued for a moment after each kernel.
 *   Given to another, the resource is gone for as long as that one's kernels take. So when a node that
 *   is owed has just paused, is known to come back within `wait_us`, and uses the resource for longer
 *   than it pauses, the resource is kept free for it until then. This is BAND's wait for short ones,
 *   but only for one that is known to come, and behind.
 * - Priority says when, weight says how much: a node of higher priority goes first as long as it is not
 *   ahead of its part, and when it arrives behind all others makes a holder of lower priority leave at once.
 *
 * Virtual times are doubles, in nanoseconds a unit of weight.
 */
#include "gdevd/sched/sched.h"

#include <math.h>

#include "base/cleanup.h"
#include "base/clock.h"

enum { WAIT_US, BURST_MS, COST_PERMILLE, ROUND_MS };

/* When a turn ends for a node that is owed, it has lasted as long as so many handovers. */
#define OWED_SWITCHES 50
/* A longer pause counts as this: without a bound the mean would take 50 rounds, instead of 14, to forget an hour. */
#define PAUSE_MAX_NS (100 * NS_PER_MS)
#define FORGET_NS (100 * NS_PER_MS) /* of a resource that nobody uses */

struct use {
	uint64_t served_ns; /* device time ever used by all, */
	uint64_t taken_ns;  /* and with what handovers took */
};

struct fair_node {
	double time;        /* virtual; while it is active */
	double lag_ns;      /* when it paused; in ns of the resource */
	uint64_t paused_ns; /* when, */
	struct use before;  /* and what there had been by then */
	uint64_t pause_ns;  /* how long its pauses last, on average, */
	uint64_t busy_ns;   /* and what it uses between two of them */
	uint64_t burst_ns;  /* used since the last one */
	bool active;        /* wants the resource */
	bool urgent;        /* … and goes before the holder, which leaves */
	bool fresh;         /* … after a pause, and is owed; */
	bool owed;          /* … after a short one, and is owed a quantum */
	bool known;         /* it has paused before */
};

struct fair_queue {
	struct use use; /* without the present hold */
};

_Static_assert(sizeof(struct fair_node) <= SCHED_NODE_BYTES, "fits");
_Static_assert(sizeof(struct fair_queue) <= SCHED_QUEUE_BYTES, "fits");

static struct fair_node *fair(struct sched_node *node)
{
	return (struct fair_node *)node->private;
}

static struct use use_until(const struct sched_queue *queue, uint64_t now_ns)
{
	struct use use = ((const struct fair_queue *)queue->private)->use;
	uint64_t taken_ns = sched_taken_ns(queue, now_ns);

	use.taken_ns += taken_ns;
	use.served_ns += taken_ns - min_of(taken_ns, queue->switch_ns);
	return use;
}

static uint64_t average(uint64_t old_ns, uint64_t new_ns)
{
	return (3 * old_ns + new_ns) / 4;
}

/* How long it takes until everyone has had a turn. */
static uint64_t round_ns(struct sched_queue *queue)
{
	uint64_t permille = (uint64_t)queue->settings[COST_PERMILLE];
	uint64_t most_ns = (uint64_t)queue->settings[ROUND_MS] * NS_PER_MS, cost_ns = 0;
	struct sched_node *node;

	list_for_each (node, &queue->nodes, link)
		if (fair(node)->active)
			cost_ns += queue->switch_ns;
	cost_ns = permille ? cost_ns * 1000 / permille : 0;
	return cost_ns < most_ns ? cost_ns : most_ns;
}

static uint64_t turn_ns(struct sched_queue *queue, const struct sched_node *of)
{
	uint64_t weight = 0, its_ns;
	struct sched_node *node;

	list_for_each (node, &queue->nodes, link)
		if (fair(node)->active || node == of)
			weight += node->weight;
	its_ns = round_ns(queue) * of->weight / weight;
	return its_ns > queue->quantum_ns ? its_ns : queue->quantum_ns;
}

struct mean {
	double time, weight; /* weight 0: nobody is active, and there is no time */
};

/* Its virtual time, with what it has used of the present hold, by the clock. */
static double time_of(struct sched_queue *queue, struct sched_node *node, uint64_t now_ns)
{
	double time = fair(node)->time;

	if (queue->holder == node)
		time += (double)sched_contended_ns(queue, now_ns) / node->weight;
	return time;
}

static struct mean mean_time(
	struct sched_queue *queue, const struct sched_node *without, uint64_t now_ns)
{
	struct mean mean = {0, 0};
	struct sched_node *node;

	list_for_each (node, &queue->nodes, link) {
		if (!fair(node)->active || node == without)
			continue;
		mean.time += time_of(queue, node, now_ns) * node->weight;
		mean.weight += node->weight;
	}
	if (mean.weight > 0)
		mean.time /= mean.weight;
	return mean;
}

/* What others have used beyond their parts of the time while the node paused. */
static double missed_ns(struct sched_queue *queue, struct sched_node *node,
	const struct mean *others, uint64_t now_ns)
{
	const struct fair_node *own = fair(node);
	struct use use = use_until(queue, now_ns);
	double used_ns = (double)use.served_ns - (double)own->before.served_ns;
	double taken_ns = (double)use.taken_ns - (double)own->before.taken_ns;
	double idle_ns = max_of((double)(now_ns - own->paused_ns) - taken_ns, 0.0);
	double part = node->weight / (others->weight + node->weight);

	return max_of(used_ns * part - idle_ns * (1 - part), 0.0);
}

/* A node that pauses saves up no more than this. */
static double most_owed_ns(const struct sched_queue *queue)
{
	return (double)queue->settings[BURST_MS] * NS_PER_MS;
}

/* The virtual time with which a node that pauses would come back among the others. */
static double time_back(struct sched_queue *queue, struct sched_node *node, const struct mean *mean,
	uint64_t now_ns)
{
	const struct fair_node *own = fair(node);
	double weight = node->weight, whole = mean->weight + weight, lag_ns = own->lag_ns;

	if (mean->weight == 0)
		return own->time;
	if (own->known)
		lag_ns += missed_ns(queue, node, mean, now_ns);
	lag_ns = min_of(lag_ns, most_owed_ns(queue));
	/* The node's arrival moves the mean: this is what gives it its lag against the new one. */
	return mean->time - lag_ns / weight * whole / mean->weight;
}

static bool behind_all(struct sched_queue *queue, struct sched_node *node, uint64_t now_ns)
{
	struct sched_node *other;

	list_for_each (other, &queue->nodes, link)
		if (fair(other)->active && time_of(queue, other, now_ns) < fair(node)->time)
			return false;
	return true;
}

/* A node that was ahead of the others when it paused owes them nothing any more when they did not want the resource
 * for long either. Not at once: those that pause in turn would all be ahead. */
static bool is_forgotten(struct sched_queue *queue, const struct fair_node *own, uint64_t now_ns)
{
	double used_ns = (double)use_until(queue, now_ns).served_ns - (double)own->before.served_ns;

	return own->lag_ns < 0 && (double)(now_ns - own->paused_ns) - used_ns > FORGET_NS;
}

static void fair_arrive(struct sched_queue *queue, struct sched_node *node, uint64_t now_ns)
{
	struct fair_node *own = fair(node);
	struct mean mean = mean_time(queue, node, now_ns);
	uint64_t pause_ns = own->active ? 0 : min_of(now_ns - own->paused_ns, PAUSE_MAX_NS);

	if (!own->active) {
		if (is_forgotten(queue, own, now_ns))
			own->lag_ns = 0;
		own->time = time_back(queue, node, &mean, now_ns);
		own->pause_ns = own->known ? average(own->pause_ns, pause_ns) : pause_ns;
		own->active = true;
	}
	mean = mean_time(queue, NULL, now_ns);
	own->fresh = pause_ns >= queue->quantum_ns / 2 && own->time <= mean.time;
	own->owed = pause_ns && (mean.time - own->time) * node->weight >= (double)queue->quantum_ns;
	own->urgent = queue->holder && sched_rank(node) > sched_rank(queue->holder) &&
		      behind_all(queue, node, now_ns);
}

static void fair_pause(struct sched_queue *queue, struct sched_node *node, uint64_t now_ns)
{
	struct fair_node *own = fair(node);
	struct mean mean = mean_time(queue, NULL, now_ns);

	if (!own->active)
		return;
	own->lag_ns = min_of((mean.time - own->time) * node->weight, most_owed_ns(queue));
	own->active = false;
	own->paused_ns = now_ns;
	own->before = use_until(queue, now_ns);
	own->busy_ns = own->known ? average(own->busy_ns, own->burst_ns) : own->burst_ns;
	own->burst_ns = 0;
	own->known = true;
}

/* How much of its lag a node loses that is charged while it pauses: another worked for its sake, or it had been given
 * up on. It was entitled to a part of what was served; a node that has paused before has that part in its lag. */
static double late_charge_ns(
	struct sched_queue *queue, struct sched_node *node, uint64_t contended_ns, uint64_t now_ns)
{
	struct mean others = mean_time(queue, node, now_ns);

	if (fair(node)->known)
		return (double)contended_ns;
	return (double)contended_ns * others.weight / (others.weight + node->weight);
}

static void fair_charge(struct sched_queue *queue, struct sched_node *node, uint64_t used_ns,
	uint64_t contended_ns, uint64_t now_ns)
{
	struct use *use = &((struct fair_queue *)queue->private)->use;
	struct fair_node *own = fair(node);

	use->served_ns += used_ns;
	use->taken_ns += used_ns;
	if (queue->holder == node)
		use->taken_ns += min_of(now_ns - queue->granted_ns, queue->switch_ns);
	own->time += (double)contended_ns / node->weight;
	if (!own->active)
		own->lag_ns -= late_charge_ns(queue, node, contended_ns, now_ns);
	own->burst_ns += used_ns;
}

static void fair_weigh(
	struct sched_queue *queue, struct sched_node *node, unsigned old, uint64_t now_ns)
{
	/* Lag is kept in device time: what a small share used counts no more than it was. */
	struct mean mean = mean_time(queue, node, now_ns);

	if (fair(node)->active && mean.weight > 0)
		fair(node)->time = mean.time + (fair(node)->time - mean.time) * old / node->weight;
}

/* Until when the resource is kept free for the node, which pauses, instead of given to `best`; 0: not. */
static uint64_t worth_waiting_ns(struct sched_queue *queue, struct sched_node *node,
	struct sched_node *best, const struct mean *mean, uint64_t now_ns)
{
	const struct fair_node *own = fair(node);
	uint64_t wait_ns = (uint64_t)queue->settings[WAIT_US] * NS_PER_US;
	double ahead = (double)turn_ns(queue, best) / best->weight;

	if (own->active || !own->known || own->pause_ns > wait_ns || own->busy_ns < own->pause_ns)
		return 0;
	if (now_ns >= own->paused_ns + wait_ns ||
		time_back(queue, node, mean, now_ns) + ahead >= fair(best)->time)
		return 0;
	return own->paused_ns + wait_ns;
}

/* Whether the node's use is within its part: it is not ahead of the least of the nodes that wait by half a turn. */
static bool within_part(struct sched_queue *queue, struct sched_node *node, double least)
{
	return fair(node)->time <= least + (double)turn_ns(queue, node) / 2 / node->weight;
}

/* The one of highest priority that is within its part, and of these the least in virtual time. */
static struct sched_node *first_to_go(struct sched_queue *queue)
{
	struct sched_node *node, *best = NULL;
	double least = INFINITY;

	list_for_each (node, &queue->waiting, wait)
		if (fair(node)->time < least)
			least = fair(node)->time;
	list_for_each (node, &queue->waiting, wait) {
		if (!within_part(queue, node, least))
			continue;
		if (!best || sched_rank(node) > sched_rank(best) ||
			(sched_rank(node) == sched_rank(best) &&
				fair(node)->time < fair(best)->time))
			best = node;
	}
	return best;
}

/* Until when the resource is kept free for a node that is to come back, instead of given to `best`; 0: it is not. */
static uint64_t kept_until_ns(struct sched_queue *queue, struct sched_node *best, uint64_t now_ns)
{
	struct mean mean = mean_time(queue, NULL, now_ns);
	struct sched_node *node;
	uint64_t until_ns = 0;

	list_for_each (node, &queue->nodes, link) {
		uint64_t its_ns = worth_waiting_ns(queue, node, best, &mean, now_ns);

		if (its_ns > until_ns)
			until_ns = its_ns;
	}
	return until_ns;
}

static struct sched_node *fair_next(struct sched_queue *queue, uint64_t now_ns)
{
	struct sched_node *best = first_to_go(queue);

	return kept_until_ns(queue, best, now_ns) ? NULL : best;
}

static struct sched_node *fair_pick(struct sched_queue *queue, uint64_t now_ns, uint64_t *again_ns)
{
	struct sched_node *best = first_to_go(queue);
	uint64_t until_ns = kept_until_ns(queue, best, now_ns);

	if (!until_ns)
		return best;
	*again_ns = until_ns;
	return NULL;
}

/* How long a turn is to last, lest handovers to a node that comes often cost too much. */
static double worth_ns(const struct sched_queue *queue)
{
	return (double)max_of(queue->quantum_ns, OWED_SWITCHES * queue->switch_ns);
}

static uint64_t fair_until(struct sched_queue *queue, uint64_t now_ns)
{
	struct sched_node *node, *holder = queue->holder;
	double stay_ns, least = INFINITY, least_ns = (double)turn_ns(queue, holder);
	uint64_t since_ns;
	bool fresh = false, owed = false;

	if (list_empty(&queue->waiting))
		return UINT64_MAX;
	list_for_each (node, &queue->waiting, wait) {
		/* A node that had a reason to go before an earlier holder, and was not picked, waits as the others
		 * do. */
		bool came = node->waiting_since_ns >= queue->chosen_ns;

		if (came && fair(node)->urgent && sched_rank(node) > sched_rank(holder))
			return now_ns;
		fresh |= came && fair(node)->fresh;
		owed |= came && fair(node)->owed;
		if (fair(node)->time < least)
			least = fair(node)->time;
	}
	if (fresh)
		least_ns = (double)queue->quantum_ns;
	else if (owed && worth_ns(queue) < least_ns)
		least_ns = worth_ns(queue);
	stay_ns = (least - fair(holder)->time) * holder->weight;
	if (stay_ns < least_ns)
		stay_ns = least_ns;
	since_ns = queue->contended_since_ns - queue->contended_ns;
	/* For a node that has been away the quantum counts from the grant on: others did not wait. */
	return (fresh || owed ? queue->granted_ns : since_ns) + (uint64_t)stay_ns;
}

const struct sched_policy sched_fair = {
	.name = "fair",
	.settings =
		{
			[WAIT_US] = {"wait_us", 500},
			[BURST_MS] = {"burst_ms", 25},
			[COST_PERMILLE] = {"cost_permille", 9},
			[ROUND_MS] = {"round_ms", 80},
		},
	.arrive = fair_arrive,
	.pause = fair_pause,
	.pick = fair_pick,
	.next = fair_next,
	.until = fair_until,
	.charge = fair_charge,
	.weigh = fair_weigh,
};
