/* SPDX-License-Identifier: MIT
 *
 * What the files of `gdev trace` share: trace.c (the verb), trace_read.c (out of shared memory), trace_json.c
 * (into a timeline).
 */
#ifndef GDEV_CLI_TRACE_H
#define GDEV_CLI_TRACE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/list.h"
#include "proto/control.h"
#include "proto/trace.h"

enum trace_writing_side { SIDE_CLIENT, SIDE_WORKER, SIDES };

/* A session that is or was traced. */
struct traced {
	struct list link;
	uint64_t session;
	int pid;
	uint32_t uid;
	char vgpu[CONTROL_NAME_MAX], program[32], device[CONTROL_NAME_MAX];
	const struct trace_segment
		*segment;     /* a stranger may write it; NULL: the session has ended */
	uint64_t seen[SIDES]; /* events before this one have been taken, or are lost */
	/* Copies, and their times make sense. Names are where `names` says, or 0. */
	struct trace_event *events[SIDES];
	size_t count[SIDES], capacity[SIDES];
	char *names[SIDES]; /* TRACE_NAMES_BYTES + 1 bytes, the last a NUL; NULL: not read yet */
};

struct trace_set {
	struct list sessions; /* struct traced */
	uint64_t since_ns;    /* what was over before is somebody else's trace */
	size_t count;         /* of events */
	uint64_t dropped;     /* events that were overwritten, or for which we had no memory */
	uint64_t damaged;     /* that made no sense */
};

/* ---- trace_read.c ---- */

/* Of events from now on. */
void trace_set_init(struct trace_set *set);
void trace_set_finish(struct trace_set *set);
/* Takes the descriptor over. 0, or -errno: that session is not there. */
int trace_set_add(struct trace_set *set, const struct control_traced *message, int fd);
/* Takes what is new. */
void trace_set_read(struct trace_set *set);
/* The session has ended: takes the rest of it, and lets go of it. */
void trace_set_end(struct trace_set *set, uint64_t session);
/* All have. */
void trace_set_end_all(struct trace_set *set);
/* Of an event; "" when it has none. Arbitrary bytes but NUL. */
const char *trace_event_name(
	const struct traced *traced, enum trace_writing_side side, const struct trace_event *event);

/* ---- trace_json.c ---- */

/* Writes a set whose sessions have ended as Perfetto's JSON. Sorts the events. 0, or -errno. */
int trace_write_json(struct trace_set *set, FILE *file);

#endif
