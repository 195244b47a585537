/* SPDX-License-Identifier: MIT
 *
 * Device time: how long at least one command of the session was on a unit of the device. What runs at
 * once counts once, whatever order it ends in; time in which commands are in flight and the device has
 * not begun (it compiles, say) does not count. Nor does the part of it in which the device, where that is made of
 * threads, had no processors (ops->presence).
 */
#ifndef GDEV_WORKER_BUSY_H
#define GDEV_WORKER_BUSY_H

#include <stdint.h>

#include "device/ops.h"

struct command;
struct core;

/* All that was before floor_ns is counted; and, since something came into flight again, all from from_ns to
 * until_ns (0: nothing yet). Times of the device. */
struct busy {
	uint64_t floor_ns, from_ns, until_ns;
	struct device_presence seen; /* what of it is in the charges so far */
};

/* When something was last seen to end. */
static inline uint64_t busy_ended_ns(const struct busy *busy)
{
	return busy->until_ns > busy->floor_ns ? busy->until_ns : busy->floor_ns;
}

/* With the lock. Both add what has not been counted to the resource's used_ns, and return it. */
/* The command, which is not in streams.flight any more, is done. */
uint64_t busy_add(struct core *core, const struct command *command);
/* A pause: what has run of the commands in flight. The rest counts from a new floor on. */
uint64_t busy_pause(struct core *core, uint32_t which);
/* Nothing is in flight. */
void busy_end(struct busy *busy);

#endif
