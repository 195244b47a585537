/* SPDX-License-Identifier: MIT
 *
 * Deadlines: things that happen at a time unless they are cancelled before. All of the daemon's
 * timers are these, over one timer of the kernel's, so that objects own no timer handles that outlive them
 * and an idle daemon has no timer running. Not libuv's timers: they are late by up to a millisecond, and the
 * arbiters wait for half of one.
 */
#ifndef GDEV_GDEVD_DEADLINES_H
#define GDEV_GDEVD_DEADLINES_H

#include <stdint.h>
#include <uv.h>

#include "base/list.h"

struct deadlines {
	uv_poll_t poll;
	int fd;              /* timerfd */
	uint64_t armed_ns;   /* when it fires; UINT64_MAX: it does not */
	struct list pending; /* struct deadline, soonest first */
};

struct deadline {
	struct list link;
	uint64_t at_ns; /* clock_now_ns() */
	void (*expired)(struct deadline *deadline, uint64_t now_ns);
};

int deadlines_init(struct deadlines *deadlines, uv_loop_t *loop);
void deadlines_finish(struct deadlines *deadlines);

void deadline_init(
	struct deadline *deadline, void (*expired)(struct deadline *deadline, uint64_t now_ns));
/* Sets it, or sets it anew. UINT64_MAX cancels. */
void deadline_set(struct deadlines *deadlines, struct deadline *deadline, uint64_t at_ns);
/* Harmless when it is not set. The timer may fire once for nothing. */
void deadline_cancel(struct deadline *deadline);

#endif
