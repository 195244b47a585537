/* SPDX-License-Identifier: MIT
 *
 * What a worker can no longer do once it serves a client. See docs/security.md and sandbox.c.
 */
#ifndef GDEV_WORKER_SANDBOX_H
#define GDEV_WORKER_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* For all threads of the process, for good. uid, gid -1: stay who we are. `driver`: a vendor's
 * driver is in the process and needs its files and ioctl. `more_bytes`: of memory of its own the process gets so much at most
 * beyond what it has now; UINT64_MAX: no limit. 0 or -errno. */
int sandbox_enter(uid_t uid, gid_t gid, bool driver, uint64_t more_bytes);

#endif
