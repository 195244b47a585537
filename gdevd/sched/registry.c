/* SPDX-License-Identifier: MIT
 *
 * The policies there are. A new one is its file and its line here.
 */
#include "gdevd/sched/sched.h"

#include <string.h>

#define POLICIES(X)                                                                                \
	X(null)                                                                                    \
	X(fifo)                                                                                    \
	X(priority)                                                                                \
	X(credit)                                                                                  \
	X(band)                                                                                    \
	X(token)                                                                                   \
	X(effective)                                                                               \
	X(interactive)                                                                             \
	X(fair)

#define DECLARE(name) extern const struct sched_policy sched_##name;
POLICIES(DECLARE)

#define ENTRY(name) &sched_##name,
static const struct sched_policy *const policies[] = {POLICIES(ENTRY) NULL};

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
