/* SPDX-License-Identifier: MIT
 *
 * Which entities are of one process, and which of them have the resource because another of them was granted it.
 */
#include "gdevd/sched/queue.h"

void sched_entity_join(struct sched_entity *entity, struct sched_entity *other)
{
	list_insert(&other->gang, &entity->gang);
}

bool gang_has(const struct sched_entity *entity, const struct sched_entity *other)
{
	const struct sched_entity *one;

	list_for_each (one, &entity->gang, gang)
		if (one == other)
			return true;
	return false;
}

bool gang_is_passing(const struct sched_entity *entity)
{
	struct sched_node *node;

	list_for_each (node, &entity->group->members.waiting, wait) {
		const struct sched_entity *other = container_of(node, struct sched_entity, node);

		if (other != entity && !gang_has(entity, other))
			return true;
	}
	return false;
}

struct sched_entity *gang_first_along(const struct sched_entity *holder)
{
	struct sched_entity *entity;

	list_for_each (entity, &holder->gang, gang)
		if (entity->along)
			return entity;
	return NULL;
}

void gang_set_along(struct sched_entity *entity, bool along)
{
	if (entity->along != along)
		entity->group->along += along ? 1 : -1u;
	entity->along = along;
}
