/* SPDX-License-Identifier: MIT
 *
 * A control group (cgroups(7)) for each worker. It bounds all memory that the worker takes, also that which no limit of a
 * process counts: files in memory, whose pages the kernel charges to the group of whoever touches them first.
 *
 * The groups are named after their workers' pids, so that the next gdevd finds them, and are children of the group in which
 * gdevd was started. With cgroup v2 a group that has such children has no processes of its own: gdevd first moves itself into
 * one more child. It can only where nobody else's processes are in its group (a unit with Delegate=memory). With cgroup v1
 * gdevd has to be root.
 *
 * Limits outlive gdevd, but where the service manager must take the controller from the groups before it can start gdevd again
 * (gdevd.service.in). A session that comes back then gets a new one, on top of what its worker had, which the kernel no longer
 * counts as the group's.
 *
 * A worker enters its group before its program has done anything, and gets its limit with its client. What it has by then is
 * the driver's, and is granted on top. In the loop's thread nothing is done here but to read and write files of cgroups that
 * no lock is taken for; groups are made, entered and removed on threads.
 */
#ifndef GDEV_GDEVD_WORKER_CGROUP_H
#define GDEV_GDEVD_WORKER_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/paths.h"

struct worker_cgroups {
	char path
		[PATHS_MAX]; /* of the group that workers' groups are children of; "": there are none */
	bool v1;
	char why[128]; /* there are none */
};

/* Where groups can be made, and moves this process where that is needed. `mounts`: the directory of all hierarchies
 * (/sys/fs/cgroup); `own`: the file that says which groups this process is in (/proc/self/cgroup). */
void worker_cgroups_find(struct worker_cgroups *cgroups, const char *mounts, const char *own);

/* On a thread: a group for the process, without a limit, with the process in it. 0 also when the process has ended, or where
 * there are no groups; else -errno. */
int worker_cgroup_enter(const struct worker_cgroups *cgroups, pid_t worker);
/* On a thread: removes the groups in which there is no process, of workers that are gone. */
void worker_cgroups_sweep(const struct worker_cgroups *cgroups);

/* Unless its group has a limit: what the worker has now, and `more_bytes`, is all it may have; as much again in the machine's
 * swap. The kernel ends it when it wants more. 0, or -errno. */
int worker_cgroup_limit(const struct worker_cgroups *cgroups, pid_t worker, uint64_t more_bytes);
/* The kernel has ended a process of that group because it wanted more. */
bool worker_cgroup_ran_out(const struct worker_cgroups *cgroups, pid_t worker);

#endif
