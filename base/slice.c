/* SPDX-License-Identifier: MIT
 *
 * See slice.h.
 */
#include "base/slice.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As the kernel has it (sched_setattr(2)); C libraries of today do not declare it. */
struct attributes {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime_ns, deadline_ns, period_ns; /* SCHED_OTHER: runtime is the slice */
};

void slice_set(uint64_t slice_ns)
{
	struct attributes attributes = {.size = sizeof attributes};

	if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) ||
		attributes.policy != SCHED_OTHER)
		return;
	attributes.size = sizeof attributes;
	attributes.runtime_ns = slice_ns;
	syscall(SYS_sched_setattr, 0, &attributes, 0);
}
