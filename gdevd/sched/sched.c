/* SPDX-License-Identifier: MIT
 *
 * See sched.h. Every event ends in settle_sched(), which grants a free resource, tells a holder what it has to
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

/* Whose turn it is: the group whose entity was granted the resource. That may have left it to others of its gang. */
static struct sched_group *turn_of(const struct sched *sched)
{
	return group_of(sched->groups.holder);
}

/* When a group that wants the resource may contend for it; not later than `now_ns`: at once. */
static uint64_t group_ready_ns(const struct sched_group *group)
{
	return max_of(group->not_before_ns, allowance_ready_ns(group));
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
	else if (!wants && group->along)
		node_take(groups, &group->node, now_ns);
	else if (!wants && (stops || node_waits(&group->node)))
		node_pause(groups, &group->node, now_ns);
}

/* ---- gangs ---- */

/* Whether an entity that wants the resource has it at once, as another of its gang holds it. */
static bool may_go_along(const struct sched_entity *entity)
{
	const struct sched *sched = entity->group->sched;

	return sched->holder && sched->revoked != REVOKE_NOW && !sched->parted &&
	       !entity->group->strict && gang_has(entity, sched->holder) &&
	       !gang_is_passing(entity);
}

/* The entity waits, or held until now and wants the resource again: it has the resource with the holder. */
static void go_along(struct sched_entity *entity, uint64_t now_ns)
{
	struct sched_group *group = entity->group;

	node_take(&group->members, &entity->node, now_ns);
	entity->state = ENTITY_HOLDING;
	gang_set_along(entity, true);
	entity->granted_ns = now_ns;
	group_update(group, false, now_ns);
	group->sched->ops->grant(group->sched, entity);
}

/* The holder has just been granted the resource: those of its gang that wait go along. */
static void bring_gang(struct sched *sched, uint64_t now_ns)
{
	struct sched_entity *entity;

	list_for_each (entity, &sched->holder->gang, gang)
		if (entity->state == ENTITY_WAITING && may_go_along(entity))
			go_along(entity, now_ns);
}

/* ---- the arbiter ---- */

static void give_turn(struct sched *sched, struct sched_group *group, struct sched_entity *entity,
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
	sched->parted = false;
	sched->ops->grant(sched, entity);
	bring_gang(sched, now_ns);
}

/* The entity to which a holder handed over has the resource, whatever the policy would say now. */
static void give_to_heir(struct sched *sched, uint64_t now_ns)
{
	struct sched_group *group = sched->heir->group;

	if (!node_waits(&group->node))
		node_wait(&sched->groups, &group->node, now_ns);
	give_turn(sched, group, sched->heir, sched->handed_ns, now_ns);
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
			give_turn(sched, group, entity_of(member), now_ns, now_ns);
			return UINT64_MAX;
		}
		node_pause(groups, node, now_ns);
	}
	return again_ns;
}

/* When the turn is over for the sake of others of its group. If the one that was granted it is gone, they wait for
 * others of its gang: no longer than a quantum. */
static uint64_t members_until(struct sched *sched, uint64_t now_ns)
{
	struct sched_queue *members = &turn_of(sched)->members;

	if (members->holder)
		return queue_until(members, now_ns);
	return list_empty(&members->waiting) ? UINT64_MAX : sched->granted_ns + members->quantum_ns;
}

static uint64_t holder_until(struct sched *sched, uint64_t now_ns)
{
	struct sched_group *group = turn_of(sched);
	uint64_t until_ns =
		min_of(queue_until(&sched->groups, now_ns), members_until(sched, now_ns));
	uint64_t since_ns = sched->revoked == REVOKE_NONE ? now_ns : sched->revoked_ns;

	if (group->strict)
		until_ns = min_of(until_ns, sched->granted_ns + (uint64_t)group->allowance_ns);
	return max_of(until_ns, min_of(sched->kept_until_ns, since_ns + SCHED_KEPT_NS));
}

/* Prepares, of each group that waits, the entity that has waited for longest: a policy says only when it must which
 * is next. */
static void prepare_waiting(struct sched *sched)
{
	unsigned left = PREPARED_MAX;
	struct sched_node *node, *member;

	list_for_each (node, &sched->groups.nodes, link) {
		struct sched_group *group = group_of(node);

		member = sched_first(&group->members);
		if (member && left && (node_waits(node) || turn_of(sched) == group)) {
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
	struct sched_group *group = turn_of(sched);
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
static void name_follower(struct sched *sched, uint64_t now_ns)
{
	struct sched_entity *entity;

	if (!sched->ops->name || sched->handed_ns)
		return;
	/* The device is not the holder's alone to hand over, if others go along. */
	entity = gang_first_along(sched->holder) ? NULL : follower(sched, now_ns);
	if (entity == sched->named)
		return;
	if (sched->ops->name(sched, entity))
		sched->named = entity;
	else
		sched->handed_ns = now_ns;
}

static void revoke_holder(struct sched *sched, enum worker_revoke how, uint64_t now_ns)
{
	struct sched_entity *entity;

	sched->revoked = how;
	sched->revoked_ns = now_ns;
	if (how == REVOKE_NOW)
		name_follower(sched, now_ns);
	sched->ops->revoke(sched, sched->holder, how);
	list_for_each (entity, &sched->holder->gang, gang)
		if (entity->along)
			sched->ops->revoke(sched, entity, how);
	if (how == REVOKE_NOW && !sched->named && sched->ops->prepare)
		prepare_waiting(sched);
}

/* Tells the holder that others wait, or that its time is over. Returns when to look again. */
static uint64_t press_holder(struct sched *sched, uint64_t now_ns)
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
		name_follower(sched, now_ns);
	}
	return sched->revoked_ns + SCHED_OVERDUE_NS;
}

static void settle_sched(struct sched *sched, uint64_t now_ns)
{
	struct sched_node *node;
	uint64_t next_ns = UINT64_MAX;

	list_for_each (node, &sched->groups.nodes, link)
		group_update(group_of(node), false, now_ns);
	if (!sched->holder)
		next_ns = give_next(sched, now_ns);
	if (sched->holder)
		next_ns = press_holder(sched, now_ns);
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
	settle_sched(group->sched, now_ns);
}

void sched_group_remove(struct sched_group *group)
{
	node_finish(&group->sched->groups, &group->node);
}

void sched_entity_add(struct sched_group *group, struct sched_entity *entity)
{
	memset(entity, 0, sizeof *entity);
	entity->group = group;
	list_init(&entity->gang);
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
	settle_sched(entity->group->sched, now_ns);
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
	if (entity->state == ENTITY_WAITING && may_go_along(entity)) {
		group_update(entity->group, false, now_ns);
		go_along(entity, now_ns);
	}
	settle_sched(sched, now_ns);
}

/* Whether the holder has handed over to the entity that was named. If it has not, the name is withdrawn, so that it
 * cannot any more. */
static bool has_handed(struct sched *sched, uint64_t now_ns)
{
	if (sched->named && !sched->handed_ns && !sched->ops->name(sched, NULL))
		sched->handed_ns = now_ns;
	return sched->named && sched->handed_ns;
}

/* An entity of the group has left; it had the resource, or not. */
static void group_leaves(struct sched_group *group, bool held, uint64_t now_ns)
{
	group_update(group, held && group->sched->groups.holder != &group->node, now_ns);
}

/* The entity does not hold the resource any more; settle_sched() decides which is next. */
static void end_turn(struct sched *sched, uint64_t now_ns)
{
	sched->heir = has_handed(sched, now_ns) ? sched->named : NULL;
	sched->named = NULL;
	turn_of(sched)->members.holder = NULL;
	sched->groups.holder = NULL;
	sched->holder = NULL;
}

/* The holder leaves. If others of its gang go along, one of them is the holder in its place, and the turn goes on; if
 * not, the turn is over for its group. */
static void leave_to_gang(struct sched *sched, uint64_t now_ns)
{
	struct sched_group *turn = turn_of(sched), *group = sched->holder->group;
	struct sched_entity *next = gang_first_along(sched->holder);

	if (turn->members.holder == &sched->holder->node)
		turn->members.holder = NULL;
	if (next) {
		sched->holder = next;
		return;
	}
	end_turn(sched, now_ns);
	if (turn != group)
		group_update(turn, true, now_ns);
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
	if (entity->along) /* since it was granted the resource itself */
		return min_of(sched_contended_ns(&sched->groups, now_ns),
			       now_ns - entity->granted_ns) /
		       LEAST_PART;
	return max_of(sched_contended_ns(&sched->groups, now_ns),
		       sched_contended_ns(&entity->group->members, now_ns)) /
	       LEAST_PART;
}

static void charge_entity(struct sched_entity *entity, uint64_t used_ns, uint64_t now_ns)
{
	struct sched_group *group = entity->group;
	struct sched_queue *groups = &group->sched->groups, *members = &group->members;
	uint64_t held_ns = now_ns - entity->granted_ns, strict_ns = now_ns - group->strict_since_ns;
	uint64_t groups_ns, members_ns; /* while others waited */

	/* Nobody can have used it for longer than it was given; a worker that says so is wrong. */
	used_ns = min_of(used_ns, held_ns);
	groups_ns = members_ns = used_ns;
	if (entity->along) {
		groups_ns = sched_contended_ns(groups, now_ns);
		members_ns = list_empty(&members->waiting) ? 0 : used_ns;
	} else if (group->sched->holder == entity) {
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
	bool held = sched->holder == entity, along;

	charge_entity(entity, used_ns, now_ns);
	entity->granted_ns = now_ns;
	if (entity->state == ENTITY_WAITING)
		return;
	held |= entity->along;
	gang_set_along(entity, false);
	if (sched->holder == entity)
		leave_to_gang(sched, now_ns);
	wants |= entity->again;
	entity->again = false;
	entity->state = ENTITY_IDLE;
	along = wants && may_go_along(entity);
	if (wants && sched->groups.policy->everyone)
		share_with_everyone(entity, now_ns);
	else if (wants && !along)
		wait_for(entity, now_ns);
	else if (held && !along)
		node_pause(&group->members, &entity->node, now_ns);
	if (along)
		go_along(entity, now_ns);
	group_leaves(group, held, now_ns);
	settle_sched(sched, now_ns);
}

/* Whether another node has, or wants, what is arbitrated by the queue. */
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
	settle_sched(group->sched, now_ns);
}

/* The group whose turn it is may go: the turn is the present holder's group's. */
static void pass_turn(struct sched *sched, uint64_t now_ns)
{
	struct sched_node *from = sched->groups.holder, *to = &sched->holder->group->node;

	if (!node_waits(to))
		node_wait(&sched->groups, to, now_ns);
	node_hold(&sched->groups, to, sched->groups.chosen_ns, now_ns);
	node_pause(&sched->groups, from, now_ns);
}

void sched_entity_remove(struct sched_entity *entity, uint64_t now_ns)
{
	struct sched_group *group = entity->group;
	struct sched *sched = group->sched;
	bool held = sched->holder == entity || entity->along;

	if (entity == sched->named) {
		has_handed(sched, now_ns);
		sched->named = NULL;
		sched->handed_ns = 0;
	}
	gang_set_along(entity, false);
	if (sched->holder == entity)
		leave_to_gang(sched, now_ns);
	if (held || entity->state == ENTITY_WAITING)
		node_pause(&group->members, &entity->node, now_ns);
	list_remove(&entity->gang);
	entity->state = ENTITY_IDLE;
	entity->again = false;
	node_finish(&group->members, &entity->node);
	if (list_empty(&group->members.nodes) && sched->groups.holder == &group->node)
		pass_turn(sched, now_ns);
	group_leaves(group, held, now_ns);
	settle_sched(sched, now_ns);
}

/* The entity has not left in time. Others have waited for it since `from_ns`. */
static void pass_over(struct sched_entity *entity, uint64_t from_ns, uint64_t now_ns)
{
	gang_set_along(entity, false);
	entity->state = ENTITY_OVERDUE;
	entity->overdue_from_ns = from_ns;
	entity->passed_over_ns = now_ns;
	node_pause(&entity->group->members, &entity->node, now_ns);
	group_leaves(entity->group, true, now_ns);
}

static void give_up_on(struct sched *sched, uint64_t now_ns)
{
	struct sched_entity *holder = sched->holder, *entity;
	uint64_t kept_ns = max_of(sched_contended_ns(&sched->groups, now_ns),
		sched_contended_ns(&turn_of(sched)->members, now_ns));

	while ((entity = gang_first_along(holder)))
		pass_over(entity, now_ns, now_ns);
	if (holder->along)
		kept_ns = min_of(kept_ns, now_ns - holder->granted_ns);
	leave_to_gang(sched, now_ns);
	pass_over(holder, now_ns - kept_ns, now_ns);
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
	struct sched_entity *entity;

	while (sched->holder && (entity = gang_first_along(sched->holder)))
		gang_set_along(entity, false);
	if (sched->holder) {
		gang_set_along(sched->holder, false);
		end_turn(sched, now_ns);
	}
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
	settle_sched(sched, now_ns);
}

void sched_group_set_policy(
	struct sched_group *group, const struct sched_policy *policy, uint64_t now_ns)
{
	if (policy == group->members.policy)
		return;
	queue_change(&group->members, policy, now_ns);
	group->not_before_ns = 0; /* the other one's reason */
	settle_sched(group->sched, now_ns);
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
	settle_sched(sched, now_ns);
}

void sched_tick(struct sched *sched, uint64_t now_ns)
{
	if (sched->holder && sched->revoked == REVOKE_NOW &&
		now_ns - sched->revoked_ns >= SCHED_OVERDUE_NS)
		give_up_on(sched, now_ns);
	settle_sched(sched, now_ns);
}

void sched_keep(struct sched_entity *entity, uint64_t until_ns)
{
	struct sched *sched = entity->group->sched;

	if (sched->holder == entity && until_ns > sched->kept_until_ns)
		sched->kept_until_ns = until_ns;
}

enum worker_revoke sched_told(const struct sched_entity *entity)
{
	const struct sched *sched = entity->group->sched;

	return sched->holder == entity || entity->along ? sched->revoked : REVOKE_NONE;
}

void sched_part(struct sched *sched)
{
	struct sched_entity *entity;

	if (!sched->holder || sched->parted)
		return;
	sched->parted = true;
	list_for_each (entity, &sched->holder->gang, gang)
		if (entity->along && sched->revoked != REVOKE_NOW)
			sched->ops->revoke(sched, entity, REVOKE_NOW);
}

bool sched_is_contended(const struct sched *sched)
{
	return sched->holder &&
	       (sched->groups.contended || !list_empty(&turn_of(sched)->members.waiting));
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
