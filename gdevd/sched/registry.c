/* SPDX-License-Identifier: MIT
 *
 * The policies there are, in the order in which they are listed. A new one is its file, its declaration in sched.h, and its
 * place here.
 */
#include "gdevd/sched/sched.h"

#include <string.h>

static const struct sched_policy *const policies[] = {&sched_null, &sched_fifo, &sched_priority,
	&sched_credit, &sched_band, &sched_token, &sched_effective, &sched_interactive, &sched_fair,
	NULL};

const struct sched_policy *sched_policy_at(unsigned index)
{
	return index < sizeof policies / sizeof policies[0] ? policies[index] : NULL;
}

const struct sched_policy *sched_policy_find(const char *name)
{
	for (unsigned i = 0; policies[i]; i++)
		if (!strcmp(policies[i]->name, name))
			return policies[i];
	return NULL;
}

const struct sched_policy *sched_policy_members(const struct sched_policy *policy)
{
	return policy->groups_only ? &sched_fair : policy;
}
