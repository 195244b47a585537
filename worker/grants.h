/* SPDX-License-Identifier: MIT
 *
 * The right to use the units of the device, and the window of work on each.
 *
 * A grant is asked for when the first command needs it, and kept until gdevd revokes it. The window
 * bounds what is on the device at any time, so that a grant can be given back soon: two commands,
 * or window_ns of estimated time, whichever is more.
 */
#ifndef GDEV_WORKER_GRANTS_H
#define GDEV_WORKER_GRANTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "proto/control.h"

struct command;
struct core;

enum grant_state {
	GRANT_NONE,
	GRANT_ASKED,
	GRANT_HELD,
	GRANT_DRAINING, /* revoked: RELEASE when nothing is on the device */
};

struct resource {
	enum grant_state state;
	unsigned in_flight;
	uint64_t in_flight_ns;  /* estimated */
	uint64_t used_ns;       /* since the grant */
	uint64_t idle_since_ns; /* nothing queued or in flight */
	uint64_t held_since_ns; /* the grant */
	bool noted;             /* for a trace, that it is held */
	struct list blocked;    /* streams whose first command needs it */
};

struct grants {
	struct resource resources[RESOURCES];
	uint64_t estimate_ns; /* atomic: sum of in_flight_ns */
	unsigned in_flight;   /* commands on the device; atomic */
};

/* All with the lock. */
void grants_init(struct core *core);
/* Whether a command may go to the device now. If not, its stream is to wait in resource->blocked, and
 * the grant has been asked for. */
bool grant_admits(struct core *core, enum control_resource which, uint64_t estimate_ns);
/* Whether we hold it, and nobody else wants it. */
bool grant_is_uncontended(struct core *core, enum control_resource which);
void grant_submitted(struct core *core, struct command *command);
void grant_finished(struct core *core, struct command *command);
/* From gdevd. */
void grant_given(struct core *core, uint32_t which);
void grant_revoked(struct core *core, uint32_t which);
/* gdevd is gone; a new one is there. */
void grants_lost(struct core *core);
void grants_registered(struct core *core);
/* The client may have ended its direct copies. */
void grants_direct_progress(struct core *core);
/* For REVOKE_WHEN_IDLE. Returns when to look again, or UINT64_MAX. */
uint64_t grants_tick(struct core *core, uint64_t now_ns);

#endif
