/* SPDX-License-Identifier: MIT
 *
 * What a strict group may use by now: it grows with the time, by the group's share, and is never more than a quantum.
 */
#ifndef GDEV_GDEVD_SCHED_ALLOWANCE_H
#define GDEV_GDEVD_SCHED_ALLOWANCE_H

#include "gdevd/sched/sched.h"

void allowance_update(struct sched_group *group, uint64_t now_ns);
void allowance_spend(struct sched_group *group, uint64_t used_ns, uint64_t now_ns);
/* When a group that has spent it may contend again; not later than now: at once. */
uint64_t allowance_ready_ns(const struct sched_group *group);

#endif
