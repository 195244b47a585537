/* SPDX-License-Identifier: MIT
 *
 * How long a kernel may run, where the virtual GPU has such a limit. Looked after by the service's timer,
 * while launches are on the device: nothing is measured where nothing is limited.
 *
 * What ran too long cannot be stopped from outside of a device: the session ends with it, and the process
 * exits. Its client has been told before, in the segment, which it keeps.
 */
#ifndef GDEV_WORKER_LIMIT_H
#define GDEV_WORKER_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

struct command;
struct core;

struct limit {
	uint64_t limit_ns; /* 0: none; constant after core_attach */
	bool armed;        /* a look is due: limit_tick will be called */
	uint64_t sequence; /* of the launch that was the oldest at the last look */
	uint64_t since_ns; /* the first look at which it was */
	bool is_near;      /* a launch has run for half of it, and the client is told */
};

/* All with the lock. A launch goes to the device. */
void limit_submitted(struct core *core, const struct command *command);
/* Ends the session when a launch has been on the device for too long. Returns when to look again, or
 * UINT64_MAX. */
uint64_t limit_tick(struct core *core, uint64_t now_ns);

#endif
