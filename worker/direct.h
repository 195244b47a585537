/* SPDX-License-Identifier: MIT
 *
 * Direct copies: the client copies to and from device memory itself, as proto/session.h says. We allow it
 * in a direction while we hold the grant for it. So a client alone needs no worker to copy; one among others asks for
 * its turn with a record, goes on by itself, and is told to stop when the turn is over.
 *
 * What the client says it did is added to what the session has used. That is the client's word, and a turn that others
 * wait for must not be free: we look now and then whether the client is copying, and it pays at least for a part of the
 * time in which it was seen to.
 *
 * Before memory is taken away that the client may have mapped (range->lent), all direct copies are stopped. A client
 * that does not stop is not waited for: what it writes from then on is lost, and is nobody's but its own. The generation has
 * changed before, by which it knows.
 */
#ifndef GDEV_WORKER_DIRECT_H
#define GDEV_WORKER_DIRECT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "proto/session.h"

struct core;

#define DIRECT_STOP_NS (100ull * 1000 * 1000) /* so long a client is waited for */
#define DIRECT_LOOK_NS (200ull * 1000)        /* at least, between two looks at whether it copies */

struct direct_stop {
	struct list link;
	uint64_t deadline_ns;
	/* With the lock: no direct copy is under way any more, or it is not waited for, and none begins until direct_resume(). */
	void (*stopped)(struct core *core, struct direct_stop *stop);
};

struct direct {
	unsigned stops;       /* without their direct_resume() */
	struct list stopping; /* those whose client is still copying */
	uint64_t generation;
	/* The client's words, as we last saw them; when that was, and when to look again (0: not). */
	uint64_t bytes[SESSION_DIRECTIONS], ns[SESSION_DIRECTIONS];
	uint64_t counted_at_ns, look_again_ns;
	uint64_t uncounted_ns[SESSION_DIRECTIONS]; /* that have passed, of which it said nothing */
	/* Since the first look in a turn: what it said, what it pays at least, and what it has paid. When it was last
	 * looked at, since when it was at it whenever it was, and how long until the next look. */
	struct direct_bill {
		uint64_t said_ns, least_ns, charged_ns, looked_at_ns, busy_since_ns, pause_ns;
	} bills[SESSION_DIRECTIONS];
};

/* All with the lock. */
void direct_init(struct core *core);
/* Says to the client what it may do as things are now. */
void direct_update(struct core *core);
/* Whether the client is not copying; only if it is not allowed to is that more than a hint. */
bool direct_is_out(struct core *core, enum device_resource which);
/* Adds what the client has copied to what the session has used. */
void direct_count(struct core *core);
/* In a turn that others wait for: when to look again at a client that is copying; 0: it is not. If it has copied since
 * the last look, the resource is idle from now on at the earliest. Each look takes a processor from somebody, on a small
 * machine from the client. */
uint64_t direct_look(struct core *core, enum device_resource which, uint64_t now_ns);
/* Calls stop->stopped, perhaps before it returns. */
void direct_stop(struct core *core, struct direct_stop *stop);
/* Ends a stop; call direct_moved() before when memory that was lent is not there any more, or not the same. */
void direct_resume(struct core *core);
/* What was lent has to be asked for again. */
void direct_moved(struct core *core);
/* The client has written our eventfd. */
void direct_progress(struct core *core);
/* Returns when to look again, or UINT64_MAX. */
uint64_t direct_tick(struct core *core, uint64_t now_ns);

#endif
