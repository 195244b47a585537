/* SPDX-License-Identifier: MIT
 *
 * The device's context: given back while the session is idle, and had again when it is needed (docs/memory.md,
 * rule 13). gdevd decides when; the backend does it, and keeps all that has a name.
 *
 *   OPEN -> LEAVING -> CLOSING -> RETIRED -> ASKING -> OPENING -> OPEN
 *      ^________|
 *
 * While it is not OPEN or LEAVING it is closed: no record is read and nothing of the client's is received, so
 * that whatever needs the device waits in the ring. That something is there opens it again.
 */
#ifndef GDEV_WORKER_CONTEXT_H
#define GDEV_WORKER_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/control.h"
#include "worker/service.h"

enum context_state {
	CONTEXT_OPEN,
	CONTEXT_LEAVING, /* the objects leave the device; a record that comes meanwhile calls it off */
	CONTEXT_CLOSING, /* a job gives it back */
	CONTEXT_RETIRED,
	CONTEXT_ASKING,  /* gdevd, for the memory */
	CONTEXT_OPENING, /* a job makes it again */
};

struct context {
	enum context_state state; /* atomic, written with the lock */
	bool wanted;              /* atomic, likewise. CLOSING: by the client already */
	bool peer_waits; /* a message of the client's is there, and the socket is not watched */
	/* Threads that read the ring or serve the peer socket, for which it is kept. */
	unsigned users;
	uint64_t bytes;        /* of device memory that it takes; constant */
	uint64_t module_bytes; /* closed: what modules take beside that */
	uint64_t since_ns;     /* ASKING, OPENING: since when */
	uint64_t retry_at_ns;  /* RETIRED: there was no memory after all; 0: nobody needs it */
	unsigned tries;
	struct control_request request;
	struct job job;
};

/* The device is open. */
void context_init(struct core *core);

/* Any thread. */
bool context_is_closed(const struct core *core);
/* Whether the context is closed, and nobody has said yet that it is needed. */
bool context_may_be_wanted(const struct core *core);

/* All with the lock. */

/* Something of the client's is to be done. False: not now; the context is being opened, and service_wake() follows. */
bool context_use(struct core *core);
/* A thread is about to serve the peer socket. False: not now, as for context_use(); the socket will be watched again.
 * `gone`: the socket's end alone is to be read, which needs no context. */
bool context_enter_peer(struct core *core, bool gone);
void context_leave_peer(struct core *core);
/* The context is closed, and a command needs it. */
void context_want(struct core *core);
/* gdevd's order begins; false: something keeps it, or it is in use. */
bool context_begin_retiring(struct core *core);
/* The objects have left, or (`failed`) could not. True: EVICTED is said later. */
bool context_left(struct core *core, bool failed);
/* For a gdevd that is new: what it holds of the device's memory. */
uint64_t context_held_bytes(const struct core *core);
/* When to look again, or UINT64_MAX. */
uint64_t context_tick(struct core *core, uint64_t now_ns);

#endif
