/* SPDX-License-Identifier: MIT
 *
 * The right to use the units of the device, and the window of work on each.
 *
 * A grant is asked for when the first command needs it, and kept until gdevd revokes it. The window
 * bounds what is on the device at any time, so that a grant can be given back soon: two commands,
 * or window_ns of estimated time, whichever is more. What stands behind a command of its own stream does not keep
 * another stream's first one out: then it is three. While others wait for a device that cannot be
 * paused, two long commands are too much: one, or one and a half window_ns. So also from the first command of a turn on,
 * before gdevd has said that others wait. While one of a higher priority may come, which would wait for all that is on
 * the device, that is no more than keeps the device busy: what goes there while it has something of more than 0.1 ms goes when
 * that is about to be done.
 *
 * A device that pauses gives compute back in the middle of a launch: what is in flight then stays
 * so, and goes on with the next grant.
 */
#ifndef GDEV_WORKER_GRANTS_H
#define GDEV_WORKER_GRANTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "worker/busy.h"

struct stream;

enum grant_state {
	GRANT_NONE,
	GRANT_ASKED,
	GRANT_HELD,
	GRANT_DRAINING, /* revoked: RELEASE when nothing is on the device */
};

struct resource {
	enum grant_state state;
	unsigned in_flight;
	unsigned streams;      /* … of so many streams */
	unsigned copies;       /* … of them, which no pause stops */
	uint64_t in_flight_ns; /* estimated, */
	uint64_t doubt_ns;     /* and by how much it may be wrong */
	uint64_t used_ns;      /* since the grant */
	bool paused;           /* compute: the device was told to */
	uint64_t paused_ns;    /* … and it was given back then; 0: not yet */
	struct busy busy;
	uint64_t idle_since_ns;   /* nothing queued or in flight */
	uint64_t held_since_ns;   /* the grant */
	uint64_t drains_since_ns; /* revoked */
	bool noted;               /* for a trace, that it is held */
	bool handed;              /* it came as a turn, and gdevd has not said GRANT yet */
	struct list blocked;      /* streams whose first command needs it */
	uint32_t turn;            /* turns.h: ours, when it comes; 0: none. Atomic */
};

struct grants {
	struct resource resources[RESOURCES];
	uint64_t estimate_ns;      /* atomic: sum of in_flight_ns */
	unsigned in_flight;        /* commands on the device; atomic */
	uint64_t loaded_before_ns; /* residency.loaded_ns when compute was given */
	bool quiet;                /* the device has come to its pause; atomic */
	uint64_t hand_at_ns; /* turns.h: compute is handed over then; 0: not planned. Atomic */
	uint64_t more_at_ns; /* when blocked streams are to look again; 0: not planned. Atomic */
	uint64_t yielded_to; /* turns.h: the word of the session that came last, */
	uint64_t yields_until_ns; /* and until when nothing is begun for it; 0: not in this hold */
	bool left;                /* compute was given back as there was nothing to do; atomic */
	uint32_t seen; /* turns.h: the word of revocation that the poller saw last; atomic */
};

/* All with the lock. */
void grants_init(struct core *core);
/* Whether somebody else wants the resource. */
bool grant_is_contended(struct core *core, enum device_resource which);
/* Whether a command may go to the device now. If not, its stream is to wait in resource->blocked, and
 * the grant has been asked for. `stream`: the command's; NULL: none. */
bool grant_admits(struct core *core, enum device_resource which, const struct stream *stream,
	uint64_t estimate_ns);
/* Whether we hold it, and may begin something. */
bool grant_lasts(struct core *core, enum device_resource which);
/* Whether we hold it, and nobody else wants it. */
bool grant_is_uncontended(struct core *core, enum device_resource which);
/* Whether a command may go to the device to wait there for one that is. */
bool grant_may_follow(struct core *core);
void grant_submitted(struct core *core, struct command *command);
/* What its time on the device adds to the resource's. */
uint64_t grant_finished(struct core *core, struct command *command);
/* When all that is on the device is expected to be done, by what its kind took the last time; 0: there is nothing. */
uint64_t grant_due_ns(struct core *core, enum device_resource which);
/* Unlocked, between pieces of work: looks at the words itself, since on a busy machine the thread that is to
 * read gdevd's message may get no processor before the work is done. */
void grants_look(struct core *core);
/* The poller's; unlocked. Lets more go to the device if the time that was planned for it has come. */
void grants_look_ahead(struct core *core);
/* device_host.quiet; unlocked. */
void grants_quiet(void *owner);
/* Whether that has happened since the last time; gives compute back then. */
bool grants_take_quiet(struct core *core);
/* Whether launches can be stopped in the middle: always, or because the session has chosen it. */
bool grants_can_pause(const struct core *core);
/* Compute was given back, with launches in flight that reach nothing meanwhile. */
bool grants_are_paused(const struct core *core);
/* What the launches need is there again. */
void grants_resume(struct core *core);
/* From gdevd. */
void grant_given(struct core *core, uint32_t which);
/* From the holder before (turns.h); gdevd says GRANT afterwards. */
void grant_handed(struct core *core, uint32_t which);
/* Acts on the word that gdevd has written. */
void grant_obey_word(struct core *core, uint32_t which);
/* gdevd is gone; a new one is there. */
void grants_lost(struct core *core);
void grants_registered(struct core *core);
/* The client may have ended its direct copies. */
void grants_direct_progress(struct core *core);
/* For REVOKE_WHEN_IDLE. Returns when to look again, or UINT64_MAX. */
uint64_t grants_tick(struct core *core, uint64_t now_ns);

#endif
