/* SPDX-License-Identifier: MIT
 *
 * Events between sessions. A shared event is a place in a small table of the session that shared it; its
 * number is the session's, the place, and a token that makes a guessed or stale number name nothing.
 * Another session waits by asking gdevd (EVENT_WATCH, whose `value` is place and token, on timeline 0),
 * which asks us; we say DONE when the value is reached. A number that names nothing here any more was
 * reached long ago: places are only taken again when they are.
 */
#ifndef GDEV_WORKER_EVENT_H
#define GDEV_WORKER_EVENT_H

#include <stdint.h>

#include "base/list.h"
#include "proto/control.h"

struct command;
struct core;

#define EVENT_SHARES_MAX 4096
#define EVENT_WATCHES_MAX 65536

struct event_share {
	uint32_t timeline;
	uint32_t token; /* 16 bits */
	uint64_t value;
};

struct events {
	struct event_share *shares; /* EVENT_SHARES_MAX, when there are any */
	uint32_t next_share;
	uint32_t token;
	struct list watches; /* what gdevd wants to be told */
	unsigned watch_count;
};

/* All with the lock. */
void events_init(struct core *core);
void events_finish(struct core *core);
void event_share(struct command *command);
/* Whether an EVENT_WAIT may pass (command->error says how it ended); asks gdevd the first time. */
bool event_passes(struct core *core, struct command *command);
/* The command goes: an answer that is still to come finds nobody. */
void event_abandon(struct command *command);
/* From gdevd. */
void event_watch(struct core *core, const struct control_event *message);
/* A timeline has moved. */
void events_progress(struct core *core, uint32_t timeline);
/* gdevd is gone; the sessions that watch ours will ask again. */
void events_lost(struct core *core);
/* Whether all that were shared are reached. */
bool events_all_reached(const struct core *core);

#endif
