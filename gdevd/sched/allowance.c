/* SPDX-License-Identifier: MIT
 *
 * What a strict group may use by now: it grows with the time, by the group's share, and is never more than a quantum.
 */
#include "gdevd/sched/queue.h"

static double strict_fraction(const struct sched_group *group)
{
	return group->node.weight >= 100 ? 1 : group->node.weight / 100.0;
}

static int64_t enough_ns(const struct sched_group *group)
{
	return (int64_t)group->members.quantum_ns / 2;
}

void allowance_update(struct sched_group *group, uint64_t now_ns)
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

void allowance_spend(struct sched_group *group, uint64_t used_ns, uint64_t now_ns)
{
	if (!group->strict)
		return;
	allowance_update(group, now_ns);
	group->allowance_ns -= (int64_t)used_ns;
	if (group->allowance_ns < enough_ns(group) / 4)
		group->spent = true;
}

uint64_t allowance_ready_ns(const struct sched_group *group)
{
	if (!group->strict || !group->spent)
		return 0;
	return group->allowance_at_ns + 1 +
	       (uint64_t)((double)(enough_ns(group) - group->allowance_ns) /
			  strict_fraction(group));
}
