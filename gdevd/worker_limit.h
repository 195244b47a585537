/* SPDX-License-Identifier: MIT
 *
 * How much of the machine's memory a worker may take: of its own (RLIMIT_DATA, which the worker sets before it has a client),
 * and in all (worker_cgroup.h).
 */
#ifndef GDEV_GDEVD_WORKER_LIMIT_H
#define GDEV_GDEVD_WORKER_LIMIT_H

#include <stdint.h>

struct daemon;
struct worker;

/* Of its own: what is compiled, stacks, and the session's part of host swap. */
uint64_t worker_own_bytes(const struct daemon *daemon);
/* Page-locked memory, and images of modules, of a session. */
uint64_t worker_host_bytes(const struct daemon *daemon);

/* At gdevd's start, when the limits of swap are known. */
void worker_limits_init(struct daemon *daemon);
/* The worker is about to have a client, or has come back with one. A limit stays, also with the next gdevd: what a worker has
 * once it has a client is not the driver's, and would be granted on top. */
void worker_limit(const struct worker *worker);
/* Its process has ended, or soon will. */
void worker_limits_gone(struct daemon *daemon);

#endif
