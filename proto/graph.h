/* SPDX-License-Identifier: MIT
 *
 * Between the process that owns a named graph (PTask) and one that has opened it, a member. gdevd gives each an end of a
 * SOCK_SEQPACKET pair (control.h, GRAPH_OPEN) and has no part in what follows. The end of file is how each learns of the
 * other's death.
 *
 * On the socket, one request, one answer: JOIN makes the member's memory, FIND opens a channel's end, LOOK says what the graph
 * is made of. Everything else goes through the memory: a struct graph_segment, memory that the member writes and the owner
 * reads, and memory that the owner writes and the member can only read. Each is named as (descriptor, offset, bytes).
 *
 * Datablocks have ids for the two. The member chooses those below GRAPH_IDS for what it gives, in its own memory, and may use one
 * again when it has been told FREED. The owner chooses those from GRAPH_IDS on for what the member has pulled, until DROP.
 *
 * Words. Each is written by one side. A tail is stored (release) after the entries before it; a head after they were copied
 * out. The owner stores `asleep` before it sleeps, and then looks at the tail; the member stores the tail and then looks at
 * `asleep`, both with a full barrier between: one of the two always sees the other. Likewise `waiting`, of the member, which
 * then looks at `changes`, and `changes`, after which the owner looks at `waiting`. Then the eventfd of the other is written. Neither believes what it reads: an entry is copied
 * out once and checked, and a member that breaks a rule is left.
 */
#ifndef GDEV_PROTO_GRAPH_H
#define GDEV_PROTO_GRAPH_H

#include <stddef.h>
#include <stdint.h>

#define GRAPH_VERSION 1
#define GRAPH_NAME_MAX 48
#define GRAPH_TEXT_MAX 512
#define GRAPH_ENDS_MAX 64 /* of channels, that a member opens */
#define GRAPH_IDS 256
#define GRAPH_REQUESTS 256 /* of the ring */
#define GRAPH_ANSWERS 1024 /* as many as can be due: FREED and PULLED and BROUGHT for each id */

/* ---- the socket ---- */

enum graph_message_type {
	GRAPH_JOIN = 1, /* version; answered with descriptors, and the regions */
	GRAPH_FIND,     /* name -> end, and what it is. -EAGAIN: the graph does not run yet */
	GRAPH_LOOK,     /* first -> items from that one on, `count` of them behind the message */
};

struct graph_region {
	uint32_t descriptor; /* its place among those of the message */
	uint32_t reserved;   /* 0 */
	uint64_t offset, bytes;
};

enum { GRAPH_REGION_SEGMENT, GRAPH_REGION_MEMBER, GRAPH_REGION_OWNER, GRAPH_REGIONS };

struct graph_message {
	uint32_t type;   /* enum graph_message_type */
	int32_t status;  /* answers */
	uint32_t serial; /* the answer has the request's */
	uint32_t version;
	union {
		/* JOIN. Descriptors: of the regions (sealed memfds), the eventfd that wakes the owner, that of the member. */
		struct graph_region regions[GRAPH_REGIONS];
		struct {
			char name[2 * GRAPH_NAME_MAX]; /* of a channel, or PTASK.PORT */
			uint32_t end;                  /* its index in graph_segment.ends */
			uint32_t pushes;               /* 1: the member pushes; 0: it pulls */
			uint32_t capacity, layout;     /* enum gdev_layout */
			uint64_t stride, count[3], bytes;
		} find;
		struct {
			uint32_t first, count, total, reserved;
		} look;
	};
};

/* ---- what LOOK says ---- */

enum graph_item_kind { GRAPH_ITEM_GRAPH, GRAPH_ITEM_PTASK, GRAPH_ITEM_CHANNEL };

#define GRAPH_NOBODY UINT32_MAX

struct graph_item {
	uint32_t kind;  /* enum graph_item_kind */
	uint32_t index; /* among those of its kind */
	char name[GRAPH_NAME_MAX];
	union {
		struct {
			uint32_t running, ptasks, channels, members;
			int32_t error;
			uint32_t schedule; /* enum gdev_schedule */
			uint64_t invocations, blocks;
		} graph;
		struct {
			uint32_t state; /* enum gdev_ptask_state */
			uint32_t ended, callback;
			int32_t priority, proxy;
			uint32_t reserved;
			uint64_t invocations, skipped, moved;
		} ptask;
		struct {
			uint32_t from, to; /* ptasks; GRAPH_NOBODY: a process, or a descriptor */
			uint32_t capacity, count, ended, broken, feed, members;
			char from_port[GRAPH_NAME_MAX], to_port[GRAPH_NAME_MAX];
			char tmpl[GRAPH_NAME_MAX];
			uint64_t bytes; /* of a datablock, at most */
		} channel;
	};
};

#define GRAPH_ITEMS_MAX 128 /* of a message */

/* ---- the memory ---- */

enum graph_request_type {
	GRAPH_PUSH =
		1, /* end, id; with GRAPH_GIVES: offset and bytes in the member's memory, which do not change until FREED */
	GRAPH_DROP,  /* id: the member lets go of it */
	GRAPH_PULL,  /* end: one datablock more is wanted */
	GRAPH_BRING, /* id: its contents in the owner's memory */
	GRAPH_END,   /* end: the member pushes, or pulls, no more */
};

enum graph_request_flags {
	GRAPH_GIVES = 1, /* a datablock of the channel's template, new to the owner */
	GRAPH_DROPS = 2, /* and DROP it */
	GRAPH_WANTS = 4, /* PULL: and BRING it */
};

struct graph_request {
	uint16_t type, flags;
	uint32_t end;
	uint32_t id, reserved;
	uint64_t offset, bytes;
};

enum graph_answer_type {
	GRAPH_FREED = 1, /* id */
	GRAPH_PULLED,    /* end, id, bytes; offset as BROUGHT, or GRAPH_NOWHERE */
	GRAPH_BROUGHT,   /* id, status, offset in the owner's memory */
};

#define GRAPH_NOWHERE UINT64_MAX

struct graph_answer {
	uint32_t type, end;
	uint32_t id;
	int32_t status;
	uint64_t offset, bytes;
};

enum graph_end_state { GRAPH_END_OPEN, GRAPH_END_OVER };

struct graph_end {
	uint32_t taken; /* datablocks pushed that have come into the channel, ever */
	uint32_t
		state; /* OVER: nothing more can be pushed, or is to be pulled beyond the answers */
};

struct graph_segment {
	/* The member's. */
	_Alignas(64) uint32_t requests_tail;
	uint32_t answers_head, waiting;
	/* The owner's. */
	_Alignas(64) uint32_t requests_head;
	uint32_t answers_tail, asleep;
	int32_t error;            /* of the graph */
	uint32_t changes;         /* of what the member may wait for: ever */
	char why[GRAPH_TEXT_MAX]; /* before `error` */
	_Alignas(64) struct graph_end ends[GRAPH_ENDS_MAX];
	_Alignas(64) struct graph_request requests[GRAPH_REQUESTS];
	_Alignas(64) struct graph_answer answers[GRAPH_ANSWERS];
};

_Static_assert(sizeof(struct graph_region) == 24, "ABI");
_Static_assert(sizeof(struct graph_message) == 168, "ABI");
_Static_assert(sizeof(struct graph_item) == 240, "ABI");
_Static_assert(sizeof(struct graph_request) == 32, "ABI");
_Static_assert(sizeof(struct graph_answer) == 32, "ABI");
_Static_assert(offsetof(struct graph_segment, requests_head) == 64, "ABI");
_Static_assert(offsetof(struct graph_segment, ends) == 640, "ABI");
_Static_assert(offsetof(struct graph_segment, requests) == 1152, "ABI");
_Static_assert(offsetof(struct graph_segment, answers) == 9344, "ABI");
_Static_assert(sizeof(struct graph_segment) == 42112, "ABI");

#endif
