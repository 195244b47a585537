/* SPDX-License-Identifier: MIT
 *
 * Which entities are of one process, and which of them have the resource because another of them was granted it.
 */
#ifndef GDEV_GDEVD_SCHED_GANG_H
#define GDEV_GDEVD_SCHED_GANG_H

#include "gdevd/sched/sched.h"

/* Whether `other` is another one of the entity's gang. */
bool gang_has(const struct sched_entity *entity, const struct sched_entity *other);
/* Whether another process waits in the entity's group. Going along would pass it, and spend what the group is owed. */
bool gang_is_passing(const struct sched_entity *entity);
/* Of the holder's gang, without itself; NULL: none goes along. */
struct sched_entity *gang_first_along(const struct sched_entity *holder);
void gang_set_along(struct sched_entity *entity, bool along);

#endif
