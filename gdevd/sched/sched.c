/* SPDX-License-Identifier: MIT
 *
 * See sched.h. Every event ends in settle(), which grants a free resource, tells a holder what it has to
 * know, and computes when to be called again.
 *
 * A node waits, or holds, or neither. A group waits while one of its entities does, unless it holds, has
 * spent its allowance, or its own policy has nobody for now: group_update() is the one place that knows.
 */
#include "gdevd/sched/sched.h"

#include <string.h>

#include "base/cleanup.h"
#include "gdevd/sched/queue.h"

#define PREPARED_MAX 3 /* more would look for a grant in vain */
/* A holder pays for at least this part of the time for which it keeps others waiting. What it used is its worker's
 * word, and the worker may be in its client's hands. It does not pay for all of that time: the device is idle between
 * kernels that a program waits for, and an honest worker uses at least so much of its turns. A holder that is overdue
 * pays for all of it, until it was passed over. */
#define LEAST_PART 2

/* ---- groups ---- */

static struct sched_group *group_of(struct sched_node *node)
{
	return container_of(node, struct sched_group, node);
}

static struct sched_entity *entity_of(struct sched_node *node)
{
	return container_of(node, struct sched_entity, node);
}

static double strict_fraction(const struct sched_group *group)
{
	return group->node.weight >= 100 ? 1 : group->node.weight / 100.0;
}

static int64_t enough_ns(const struct sched_group *group)
{
	return (int64_t)group->members.quantum_ns / 2;
}

static void allowance_update(struct sched_group *group, uint64_t now_ns)
{
	uint64_t passed_ns = now_ns - group->allowance_at_ns;
	double allowance_ns =
		(double)group->allowance_ns + (double)passed_ns * strict_fraction(group);

	if (allowance_ns > (double)group->members.quantum_ns)
		allowance_ns = (double)group->members.quantum_ns;
	group->allowance_ns = (int64_t)allowance_ns;
	group->allowance_at_ns = now_ns;
	/* Not at its first nanosecond of allowance: its turns would be as short. */
	if (group->allowance_ns >= enough_ns(group))
		group->spent = false;
}

static void allowance_spend(struct sched_group *group, uint64_t used_ns, uint64_t now_ns)
{
	if (!group->strict)
		return;
	allowance_update(group, now_ns);
	group->allowance_ns -= (int64_t)used_ns;
	if (group->allowance_ns < enough_ns(group) / 4)
		group->spent = true;
}

/* When a group that wants the resource may contend for it; not later than `now_ns`: at once. */
static uint64_t group_ready_ns(const struct sched_group *group)
{
	uint64_t ready_ns = group->not_before_ns, allowed_ns;

	if (group->strict && group->spent) {
		allowed_ns = group->allowance_at_ns + 1 +
			     (uint64_t)((double)(enough_ns(group) - group->allowance_ns) /
					strict_fraction(group));
		if (allowed_ns > ready_ns)
			ready_ns = allowed_ns;
	}
	return ready_ns;
}

static int best_nice(const struct sched_group *group)
{
	const struct sched_node *node;
	int best = group->members.holder ? group->members.holder->nice : 19;

	list_for_each (node, &group->members.waiting, wait)
		if (node->nice < best)
			best = node->nice;
	return best;
}

/* Lets the group wait, or stop waiting, for what its entities want. `stops`: it has held until now. */
static void group_update(struct sched_group *group, bool stops, uint64_t now_ns)
{
	struct sched_queue *groups = &group->sched->groups;
	bool wants = !list_empty(&group->members.waiting) && groups->holder != &group->node;

	if (group->strict)
		allowance_update(group, now_ns);
	group->node.nice = best_nice(group);
	if (wants && group_ready_ns(group) > now_ns)
		wants = false;
	if (wants && !node_waits(&group->node))
		node_wait(groups, &group->node, now_ns);
	else if (!wants && (stops || node_waits(&group->node)))
		node_pause(groups, &group->node, now_ns);
}

/* ---- the arbiter ---- */

static void give(struct sched *sched, struct sched_group *group, struct sched_entity *entity,
	uint64_t chosen_ns, uint64_t now_ns)
{
	node_hold(&sched->groups, &group->node, chosen_ns, now_ns);
	node_hold(&group->members, &entity->node, chosen_ns, now_ns);
	entity->state = ENTITY_HOLDING;
	entity->granted_ns = now_ns;
	sched->holder = entity;
	sched->granted_ns = now_ns;
	sched->kept_until_ns = 0;
	sched->revoked = REVOKE_NONE;
	sched->named = sched->heir = NULL;
	sched->handed_ns = 0;
	sched->ops->grant(sched, entity);
}

/* The entity to which a holder handed over has the resource, whatever the policy would say now. */
static void give_to_heir(struct sched *sched, uint64_t now_ns)
{
	struct sched_group *group = sched->heir->group;

	if (!node_waits(&group->node))
		node_wait(&sched->groups, &group->node, now_ns);
	give(sched, group, sched->heir, sched->handed_ns, now_ns);
}

/* Gives the free resource to the next, if there is one. Returns when to try again. */
static uint64_t give_next(struct sched *sched, uint64_t now_ns)
{
	struct sched_queue *groups = &sched->groups;
	uint64_t again_ns = UINT64_MAX;

	if (sched->heir) {
		give_to_heir(sched, now_ns);
		return UINT64_MAX;
	}
	while (!list_empty(&groups->waiting)) {
		struct sched_node *node = groups->policy->pick(groups, now_ns, &again_ns), *member;
		struct sched_group *group;

		if (!node)
			return again_ns;
		again_ns = UINT64_MAX;
		group = group_of(node);
		group->not_before_ns = UINT64_MAX;
		member =
			group->members.policy->pick(&group->members, now_ns, &group->not_before_ns);
		if (member) {
			group->not_before_ns = 0;
			give(sched, group, entity_of(member), now_ns, now_ns);
			return UINT64_MAX;
		}
		node_pause(groups, node, now_ns);
	}
	return again_ns;
}

static uint64_t holder_until(struct sched *sched, uint64_t now_ns)
{
	struct sched_group *group = sched->holder->group;
	uint64_t groups_ns = queue_until(&sched->groups, now_ns);
	uint64_t members_ns = queue_until(&group->members, now_ns);
	uint64_t until_ns = groups_ns < members_ns ? groups_ns : members_ns;
	uint64_t allowed_ns = sched->granted_ns + (uint64_t)group->allowance_ns;
	uint64_t since_ns = sched->revoked == REVOKE_NONE ? now_ns : sched->revoked_ns;
	uint64_t kept_until_ns = sched->kept_until_ns;

	if (kept_until_ns > since_ns + SCHED_KEPT_NS)
		kept_until_ns = since_ns + SCHED_KEPT_NS;
	if (group->strict && allowed_ns < until_ns)
		until_ns = allowed_ns;
	if (until_ns < kept_until_ns)
		until_ns = kept_until_ns;
	return until_ns;
}

/* Prepares, of each group that waits, the entity that has waited for longest: a policy says only when it must which
 * is next. */
static void prepare(struct sched *sched)
{
	unsigned left = PREPARED_MAX;
	struct sched_node *node, *member;

	list_for_each (node, &sched->groups.nodes, link) {
		struct sched_group *group = group_of(node);

		member = sched_first(&group->members);
		if (member && left && (node_waits(node) || sched->holder->group == group)) {
			sched->ops->prepare(sched, entity_of(member));
			left--;
		}
	}
}

static struct sched_node *policy_next(struct sched_queue *queue, uint64_t now_ns)
{
	if (list_empty(&queue->waiting) || !queue->policy->next)
		return NULL;
	return queue->policy->next(queue, now_ns);
}

/* The entity that follows the holder, which is to leave; NULL: that is not certain. Where others of the holder's
 * group wait and other groups too, it depends on what the holder will have used, unless the time of the group is
 * over. */
static struct sched_entity *follower(struct sched *sched, uint64_t now_ns)
{
	struct sched_group *group = sched->holder->group;
	bool inside = !list_empty(&group->members.waiting);
	struct sched_node *node;

	if (!list_empty(&sched->groups.waiting)) {
		if (inside && queue_until(&sched->groups, now_ns) > now_ns)
			return NULL;
		node = policy_next(&sched->groups, now_ns);
		if (!node)
			return NULL;
		group = group_of(node);
	} else if (group->strict) { /* it may have spent what it may use */
		return NULL;
	}
	node = policy_next(&group->members, now_ns);
	return node ? entity_of(node) : NULL;
}

/* Lets the holder know which entity follows it, as things are. */
static void name(struct sched *sched, uint64_t now_ns)
{
	struct sched_entity *entity;

	if (!sched->ops->name || sched->handed_ns)
		return;
	entity = follower(sched, now_ns);
	if (entity == sched->named)
		return;
	if (sched->ops->name(sched, entity))
		sched->named = entity;
	else
		sched->handed_ns = now_ns;
}

static void revoke_holder(struct sched *sched, enum worker_revoke how, uint64_t now_ns)
{
	sched->revoked = how;
	sched->revoked_ns = now_ns;
	if (how == REVOKE_NOW)
		name(sched, now_ns);
	sched->ops->revoke(sched, sched->holder, how);
	if (how == REVOKE_NOW && !sched->named && sched->ops->prepare)
		prepare(sched);
}

/* Tells the holder that others wait, or that its time is over. Returns when to look again. */
static uint64_t press(struct sched *sched, uint64_t now_ns)
{
	uint64_t until_ns;

	if (sched->revoked != REVOKE_NOW) {
		until_ns = holder_until(sched, now_ns);
		if (until_ns > now_ns) {
			if (sched->revoked == REVOKE_NONE && sched_is_contended(sched))
				revoke_holder(sched, REVOKE_WHEN_IDLE, now_ns);
			return until_ns;
		}
		revoke_holder(sched, REVOKE_NOW, now_ns);
	} else {
		name(sched, now_ns);
	}
	return sched->revoked_ns + SCHED_OVERDUE_NS;
}

static void settle(struct sched *sched, uint64_t now_ns)
{
	struct sched_node *node;
	uint64_t next_ns = UINT64_MAX;

	list_for_each (node, &sched->groups.nodes, link)
		group_update(group_of(node), false, now_ns);
	if (!sched->holder)
		next_ns = give_next(sched, now_ns);
	if (sched->holder)
		next_ns = press(sched, now_ns);
	list_for_each (node, &sched->groups.nodes, link) {
		struct sched_group *group = group_of(node);
		uint64_t ready_ns = group_ready_ns(group);

		/* Entities that contend or hold have been ready. */
		if (ready_ns > now_ns && ready_ns < next_ns && !list_empty(&group->members.waiting))
			next_ns = ready_ns;
	}
	sched->next_ns = next_ns;
}

void sched_init(struct sched *sched, const struct sched_policy *policy, const struct sched_ops *ops,
	uint64_t quantum_ns, uint64_t switch_ns)
{
	memset(sched, 0, sizeof *sched);
	sched->ops = ops;
	sched->next_ns = UINT64_MAX;
	queue_init(&sched->groups, sched, policy, quantum_ns, switch_ns, 100);
}

void sched_group_add(struct sched *sched, struct sched_group *group,
	const struct sched_policy *policy, unsigned share_pct, int priority, bool strict,
	uint64_t now_ns)
{
	memset(group, 0, sizeof *group);
	group->sched = sched;
	node_init(&sched->groups, &group->node, share_pct ? share_pct : 1);
	queue_init(&group->members, sched, policy, sched->groups.quantum_ns,
		sched->groups.switch_ns, 0);
	group->node.priority = priority;
	group->strict = strict;
	group->allowance_ns = (int64_t)sched->groups.quantum_ns;
	group->allowance_at_ns = now_ns;
}

void sched_group_change(
	struct sched_group *group, unsigned share_pct, int priority, bool strict, uint64_t now_ns)
{
	allowance_update(group, now_ns);
	node_weigh(&group->sched->groups, &group->node, share_pct ? share_pct : 1, now_ns);
	group->node.priority = priority;
	if (strict && !group->strict)
		group->strict_since_ns = now_ns;
	group->strict = strict;
	settle(group->sched, now_ns);
}

void sched_group_remove(struct sched_group *group)
{
	node_finish(&group->sched->groups, &group->node);
}

void sched_entity_add(struct sched_group *group, struct sched_entity *entity)
{
	memset(entity, 0, sizeof *entity);
	entity->group = group;
	node_init(&group->members, &entity->node, sched_weight(0));
}

static void wait_for(struct sched_entity *entity, uint64_t now_ns)
{
	struct sched_group *group = entity->group;

	entity->state = ENTITY_WAITING;
	group->not_before_ns = 0;
	node_wait(&group->members, &entity->node, now_ns);
}

static void share_with_everyone(struct sched_entity *entity, uint64_t now_ns)
{
	entity->state = ENTITY_HOLDING;
	entity->granted_ns = now_ns;
	entity->node.grants++;
	entity->group->node.grants++;
	entity->group->sched->ops->grant(entity->group->sched, entity);
}

static void set_nice(struct sched_entity *entity, int nice, uint64_t now_ns)
{
	if (entity->node.nice == nice)
		return;
	entity->node.nice = nice;
	node_weigh(&entity->group->members, &entity->node, sched_weight(nice), now_ns);
}

void sched_renice(struct sched_entity *entity, int nice, uint64_t now_ns)
{
	set_nice(entity, nice, now_ns);
	settle(entity->group->sched, now_ns);
}

void sched_acquire(struct sched_entity *entity, int nice, uint64_t now_ns)
{
	struct sched *sched = entity->group->sched;

	set_nice(entity, nice, now_ns);
	if (entity->state == ENTITY_OVERDUE)
		entity->again = true;
	if (entity->state == ENTITY_IDLE && sched->groups.policy->everyone)
		share_with_everyone(entity, now_ns);
	else if (entity->state == ENTITY_IDLE)
		wait_for(entity, now_ns);
	settle(sched, now_ns);
}

/* Whether the holder has handed over to the entity that was named. If it has not, the name is withdrawn, so that it
 * cannot any more. */
static bool has_handed(struct sched *sched, uint64_t now_ns)
{
	if (sched->named && !sched->handed_ns && !sched->ops->name(sched, NULL))
		sched->handed_ns = now_ns;
	return sched->named && sched->handed_ns;
}

/* The entity does not hold the resource any more; settle() decides which is next. */
static void leave(struct sched *sched, uint64_t now_ns)
{
	sched->heir = has_handed(sched, now_ns) ? sched->named : NULL;
	sched->named = NULL;
	sched->groups.holder = NULL;
	sched->holder->group->members.holder = NULL;
	sched->holder = NULL;
}

/* How much of what a holder used, which leaves, it used while others waited: the same part of it as of all time that
 * it held, but for the handover. An entity that came in the middle of the hold is owed for what it missed until then;
 * if the holder paid for that as well, it would count twice. */
static uint64_t contended_use_ns(
	const struct sched_queue *queue, uint64_t used_ns, uint64_t held_ns, uint64_t now_ns)
{
	uint64_t contended_ns = sched_contended_ns(queue, now_ns);
	uint64_t whole_ns = held_ns - (held_ns < queue->switch_ns ? held_ns : queue->switch_ns);

	if (used_ns >= whole_ns || contended_ns >= whole_ns)
		return contended_ns;
	return max_of((uint64_t)((double)used_ns * (double)contended_ns / (double)whole_ns),
		contended_ns / LEAST_PART);
}

uint64_t sched_least_ns(const struct sched_entity *entity, uint64_t now_ns)
{
	const struct sched *sched = entity->group->sched;

	if (entity->state == ENTITY_OVERDUE)
		return entity->passed_over_ns - entity->overdue_from_ns;
	if (sched->holder != entity)
		return 0;
	return max_of(sched_contended_ns(&sched->groups, now_ns),
		       sched_contended_ns(&entity->group->members, now_ns)) /
	       LEAST_PART;
}

static void charge(struct sched_entity *entity, uint64_t used_ns, uint64_t now_ns)
{
	struct sched_group *group = entity->group;
	struct sched_queue *groups = &group->sched->groups, *members = &group->members;
	uint64_t held_ns = now_ns - entity->granted_ns, strict_ns = now_ns - group->strict_since_ns;
	uint64_t groups_ns, members_ns; /* while others waited */

	/* Nobody can have used it for longer than it was given; a worker that says so is wrong. */
	used_ns = min_of(used_ns, held_ns);
	groups_ns = members_ns = used_ns;
	if (group->sched->holder == entity) {
		groups_ns = contended_use_ns(groups, used_ns, held_ns, now_ns);
		members_ns = contended_use_ns(members, used_ns, held_ns, now_ns);
	} else if (entity->state == ENTITY_OVERDUE) {
		groups_ns = members_ns = now_ns - entity->overdue_from_ns;
	}
	used_ns = max_of(used_ns, sched_least_ns(entity, now_ns));
	/* What the holder used before its group became strict does not count. */
	allowance_spend(group, min_of(used_ns, strict_ns), now_ns);
	node_charge(groups, &group->node, used_ns, groups_ns, now_ns);
	node_charge(members, &entity->node, used_ns, members_ns, now_ns);
}

void sched_release(struct sched_entity *entity, uint64_t used_ns, bool wants, uint64_t now_ns)
{
	struct sched_group *group = entity->group;
	struct sched *sched = group->sched;
	bool held = sched->holder == entity;

	charge(entity, used_ns, now_ns);
	entity->granted_ns = now_ns;
	if (entity->state == ENTITY_WAITING)
		return;
	if (held)
		leave(sched, now_ns);
	wants |= entity->again;
	entity->again = false;
	entity->state = ENTITY_IDLE;
	if (wants && sched->groups.policy->everyone)
		share_with_everyone(entity, now_ns);
	else if (wants)
		wait_for(entity, now_ns);
	else if (held)
		node_pause(&group->members, &entity->node, now_ns);
	group_update(group, held, now_ns);
	settle(sched, now_ns);
}

/* Somebody else has, or wants, what is arbitrated by the queue. */
static bool wanted_by_others(const struct sched_queue *queue, const struct sched_node *node)
{
	const struct sched_node *other;

	if (queue->holder && queue->holder != node)
		return true;
	list_for_each (other, &queue->waiting, wait)
		if (other != node)
			return true;
	return false;
}

void sched_charge(struct sched_entity *entity, uint64_t used_ns, uint64_t now_ns)
{
	struct sched_group *group = entity->group;
	struct sched_queue *groups = &group->sched->groups, *members = &group->members;

	allowance_spend(group, used_ns, now_ns);
	node_charge(groups, &group->node, used_ns,
		wanted_by_others(groups, &group->node) ? used_ns : 0, now_ns);
	node_charge(members, &entity->node, used_ns,
		wanted_by_others(members, &entity->node) ? used_ns : 0, now_ns);
	settle(group->sched, now_ns);
}

void sched_entity_remove(struct sched_entity *entity, uint64_t now_ns)
{
	struct sched_group *group = entity->group;
	struct sched *sched = group->sched;
	bool held = sched->holder == entity;

	if (entity == sched->named) {
		has_handed(sched, now_ns);
		sched->named = NULL;
		sched->handed_ns = 0;
	}
	if (held)
		leave(sched, now_ns);
	if (held || entity->state == ENTITY_WAITING)
		node_pause(&group->members, &entity->node, now_ns);
	entity->state = ENTITY_IDLE;
	entity->again = false;
	node_finish(&group->members, &entity->node);
	group_update(group, held, now_ns);
	settle(sched, now_ns);
}

static void give_up_on(struct sched *sched, uint64_t now_ns)
{
	struct sched_entity *holder = sched->holder;
	struct sched_queue *members = &holder->group->members;
	uint64_t groups_ns = sched_contended_ns(&sched->groups, now_ns);
	uint64_t members_ns = sched_contended_ns(members, now_ns);

	holder->state = ENTITY_OVERDUE;
	holder->overdue_from_ns = now_ns - max_of(groups_ns, members_ns);
	holder->passed_over_ns = now_ns;
	leave(sched, now_ns);
	node_pause(members, &holder->node, now_ns);
	group_update(holder->group, true, now_ns);
}

/* Everyone has had the resource; from now on one at a time has it. */
static void take_back(struct sched *sched, uint64_t now_ns)
{
	struct sched_node *node, *member;

	list_for_each (node, &sched->groups.nodes, link) {
		list_for_each (member, &group_of(node)->members.nodes, link) {
			struct sched_entity *entity = entity_of(member);

			if (entity->state != ENTITY_HOLDING)
				continue;
			entity->state = ENTITY_OVERDUE;
			entity->overdue_from_ns = entity->passed_over_ns = now_ns;
			sched->ops->revoke(sched, entity, REVOKE_NOW);
		}
	}
}

/* From now on everyone has the resource, the present holder among them. */
static void give_to_all(struct sched *sched, uint64_t now_ns)
{
	struct sched_node *node, *member;

	if (sched->holder)
		leave(sched, now_ns);
	sched->heir = NULL; /* it is one of all */
	list_for_each (node, &sched->groups.nodes, link) {
		struct sched_group *group = group_of(node);

		while ((member = sched_first(&group->members))) {
			node_pause(&group->members, member, now_ns);
			share_with_everyone(entity_of(member), now_ns);
		}
	}
}

void sched_set_policy(struct sched *sched, const struct sched_policy *policy, uint64_t now_ns)
{
	bool everyone = sched->groups.policy->everyone;

	if (policy == sched->groups.policy)
		return;
	queue_change(&sched->groups, policy, now_ns);
	if (everyone && !policy->everyone)
		take_back(sched, now_ns);
	if (!everyone && policy->everyone)
		give_to_all(sched, now_ns);
	settle(sched, now_ns);
}

void sched_group_set_policy(
	struct sched_group *group, const struct sched_policy *policy, uint64_t now_ns)
{
	if (policy == group->members.policy)
		return;
	queue_change(&group->members, policy, now_ns);
	group->not_before_ns = 0; /* the other one's reason */
	settle(group->sched, now_ns);
}

void sched_set_times(struct sched *sched, uint64_t quantum_ns, uint64_t switch_ns, uint64_t now_ns)
{
	struct sched_node *node;

	if (quantum_ns == sched->groups.quantum_ns && switch_ns == sched->groups.switch_ns)
		return;
	sched->groups.quantum_ns = quantum_ns;
	sched->groups.switch_ns = switch_ns;
	list_for_each (node, &sched->groups.nodes, link) {
		allowance_update(group_of(node), now_ns);
		group_of(node)->members.quantum_ns = quantum_ns;
		group_of(node)->members.switch_ns = switch_ns;
	}
	settle(sched, now_ns);
}

void sched_tick(struct sched *sched, uint64_t now_ns)
{
	if (sched->holder && sched->revoked == REVOKE_NOW &&
		now_ns - sched->revoked_ns >= SCHED_OVERDUE_NS)
		give_up_on(sched, now_ns);
	settle(sched, now_ns);
}

void sched_keep(struct sched_entity *entity, uint64_t until_ns)
{
	struct sched *sched = entity->group->sched;

	if (sched->holder == entity && until_ns > sched->kept_until_ns)
		sched->kept_until_ns = until_ns;
}

bool sched_is_contended(const struct sched *sched)
{
	return sched->holder &&
	       (sched->groups.contended || sched->holder->group->members.contended);
}

bool sched_outranks(const struct sched_entity *entity, const struct sched_entity *other)
{
	const struct sched_node *one = &entity->group->node, *two = &other->group->node;

	if (entity->group == other->group)
		return entity->node.nice < other->node.nice;
	return one->priority - entity->node.nice > two->priority - other->node.nice;
}

uint64_t sched_next_ns(const struct sched *sched)
{
	return sched->next_ns;
}
