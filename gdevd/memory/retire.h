/* SPDX-License-Identifier: MIT
 *
 * Contexts of idle sessions are given back (docs/memory.md, rule 13): those of the sessions that have been idle for
 * longest when others need the room, after a second; all of them after `retire_after`. A worker carries that out
 * (EVICT with EVICT_RETIRE), and asks for the room again (ROOM) when its program goes on.
 */
#ifndef GDEV_GDEVD_RETIRE_H
#define GDEV_GDEVD_RETIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "gdevd/deadlines.h"

struct device;
struct session;
struct vgpu;
struct worker;

/* Of a device. */
struct retire {
	struct deadline deadline;
	bool pressed; /* others wait for room that idle contexts may give soon */
	/* A context could not be made again: no more are given back until then. */
	uint64_t broken_until_ns;
};

/* Of a worker. */
struct worker_retire {
	uint64_t not_before_ns; /* it did not give its context back the last time, */
	uint64_t refused_ns;    /* and had been active last at that time */
};

void retire_init(struct device *device);
/* A session may have become idle, or be so no longer. */
void retire_look(struct device *device);
/* Has contexts given back for `bytes`, of sessions other than that of `asks`, and of that virtual GPU (NULL: of any).
 * How much will come. */
uint64_t retire_send_for(
	struct device *device, const struct worker *asks, const struct vgpu *vgpu, uint64_t bytes);
/* Whether somebody is idle, but not for long enough. */
bool retire_may_come(const struct device *device, const struct vgpu *vgpu);
/* The worker has carried out an order of this kind. */
void retire_done(struct worker *worker, bool retired);
/* The session is about to end: whether its context was lost says whether others may be given back. */
void retire_session_finish(const struct session *session);

bool retire_is_retired(const struct worker *worker);
/* "open", "retired" or "wanted". */
const char *retire_state(const struct worker *worker);
/* A sentence on why it was not given back; NULL: nothing is in the way. */
const char *retire_keeper(const struct worker *worker);
/* For how long there has been nothing to do. */
uint64_t retire_idle_ns(const struct worker *worker);

#endif
