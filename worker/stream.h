/* SPDX-License-Identifier: MIT
 *
 * Streams: queues of commands, and the rules by which commands leave them for the device.
 *
 * A command waits in stream->queued until it is first there and nothing blocks it; then it passes, to
 * the device or (waits, stamps) at once, into stream->passed. Commands complete from the front of
 * `passed`, so a timeline counts in order whatever order the device finishes in.
 *
 * Where the device can wait by itself, a WAIT for what is on it passes before that is done, and what comes next goes to
 * the device behind it (FOLLOWS). Only for what is there already, in the same turn, and the last of its stream there: so
 * what has been submitted comes to its end without what has not.
 *
 * A stream whose first command cannot pass is in exactly one place, by stream->link:
 *   streams.ready              it may pass: to be looked at
 *   streams.waiters[timeline]  a WAIT for a timeline of the session (0: for host_completed)
 *   streams.fenced             a fence of another stream is not complete
 *   grants.resource[].blocked  no grant, or the window is full
 *   residency.waiting          it needs memory that is being brought in, or the session is suspended
 *   nowhere                    empty; `ordered`; an EVENT_WAIT that gdevd will answer; a copy whose next piece
 *                              follows when the one on the device is done
 */
#ifndef GDEV_WORKER_STREAM_H
#define GDEV_WORKER_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "proto/control.h"
#include "proto/session.h"
#include "worker/service.h"

struct command;
struct record_stream;

struct stream {
	uint32_t timeline;
	bool bound;       /* to a part of the multiprocessors */
	bool closing;     /* destroyed by the client; freed when empty */
	struct list link; /* see above */
	struct list queued, passed;
	struct device_queue *queue;
	unsigned on_device[RESOURCES]; /* its commands there: grants.c */
	bool row;                      /* more launches follow the last that was submitted */
	bool ordered;                  /* its first command waits for all before it to be done */
	bool timed;                    /* its last one was a STAMP behind what is on the device */
	uint64_t finished_ns;          /* when its last command on the device ended */
	uint64_t released_ns; /* … or what it followed there; nothing behind that began before */
	uint64_t device_ns;
};

/* Called when everything that was on the device at its start is done. */
struct barrier {
	struct list link;
	uint64_t sequence;
	void (*passed)(struct barrier *barrier);
};

struct streams {
	struct stream *by_timeline[SESSION_TIMELINES];
	uint64_t posted[SESSION_TIMELINES];    /* the last value that a record carried */
	uint64_t completed[SESSION_TIMELINES]; /* what we have published */
	struct list waiters[SESSION_TIMELINES];
	struct list followers[SESSION_TIMELINES]; /* WAITs for it that are FOLLOWS */
	struct list ready, fenced;
	struct list fences; /* fences that are not complete, oldest first */
	uint64_t fence_count;
	struct list flight; /* commands on the device, oldest first */
	struct list gone;   /* streams whose queues are to be destroyed */
	struct job gone_job;
	bool clearing; /* it waits or runs */
	uint64_t submitted;
	struct list barriers; /* by sequence */
	unsigned busy;        /* streams that have commands */
};

void streams_init(struct core *core);
/* Frees streams and what is queued in them. */
void streams_finish(struct core *core);

/* All with the lock. */
/* Of its record, as record.h has it. Lets the lock go meanwhile, as executors may (core.h). */
int stream_create(struct core *core, const struct record_stream *wanted);
int stream_destroy(struct core *core, uint32_t timeline);
/* Takes the command. `error`: it is malformed, and completes with that when its turn comes. */
void stream_push(struct core *core, struct command *command, int error);
/* Lets pass whatever can. */
void streams_dispatch(struct core *core);
/* The stream's first command may pass now. */
void stream_ready(struct core *core, struct stream *stream);
/* All streams, wherever they wait. */
void streams_ready_all(struct core *core);
/* The device has finished this one (command->error is set), or what it FOLLOWS is complete. */
void stream_finished(struct core *core, struct command *command);
/* Of a command that FOLLOWS: stream_finished(), when the lock is let go. */
void stream_released(struct core *core, struct command *command);
/* The client has run more host functions. */
void streams_host_progress(struct core *core);

/* Puts the stream where its first command waits. False, for the caller to return. */
bool stream_wait_in(struct list *place, struct stream *stream);
/* A command that host swap serves is in flight from here on. */
void stream_submit_served(struct core *core, struct command *command);
/* A move goes to a queue of the session's memory. */
void stream_submit_move(struct core *core, struct device_queue *queue, struct command *command);

/* Calls barrier->passed, with the lock, when all commands now on the device are done; at once if none
 * is. */
void barrier_start(struct core *core, struct barrier *barrier);

/* timeline.c: publishes `value`, wakes the client if it waits for it, and streams and sessions that do. */
void timeline_complete(struct core *core, uint32_t timeline, uint64_t value);
/* Streams whose WAIT for no more than the value this may end. */
void timeline_look_again(struct core *core, uint32_t timeline, uint64_t value);
/* Releases everything that waits for a value that has been posted, with `error`. */
void timelines_release(struct core *core, int error);
void timeline_error(struct core *core, uint32_t timeline, int error);

#endif
