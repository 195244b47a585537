/* SPDX-License-Identifier: MIT
 *
 * Between the process that owns a named graph (PTask) and one that has opened it, a member. gdevd gives each an end of a
 * SOCK_SEQPACKET pair (control.h, GRAPH_OPEN) and has no part in what follows. The end of file is how each learns of the
 * other's death.
 *
 * On the socket, one request, one answer: JOIN makes the member's memory, FIND opens a channel's end, LOOK says what the graph
 * is made of, BUILD opens a part of it, before it runs. Everything else goes through the memory: a struct graph_segment, memory
 * that the member writes and the owner reads, and memory that the owner writes and the member can only read. Each is named as
 * (descriptor, offset, bytes).
 *
 * Datablocks have ids for the two. The member chooses those below GRAPH_IDS for what it gives, in its own memory, and may use one
 * again when it has been told FREED. The owner chooses those from GRAPH_IDS on for what the member has pulled, until DROP.
 *
 * Words. Each is written by one side. A tail is stored (release) after the entries before it; a head after they were copied
 * out. The owner stores `asleep` before it sleeps, and then looks at the tail; the member stores the tail and then looks at
 * `asleep`, both with a full barrier between: one of the two always sees the other. Likewise `waiting`, of the member, which
 * then looks at `changes`, and `changes`, after which the owner looks at `waiting`. Then the other one is woken: each has one of a
 * pair of stream sockets, and sends a byte. Neither believes what it reads: an entry is copied out once and checked, and a member that
 * breaks a rule is left.
 */
#ifndef GDEV_PROTO_GRAPH_H
#define GDEV_PROTO_GRAPH_H

#include <stddef.h>
#include <stdint.h>

#define GRAPH_VERSION 3 /* 3: sockets wake */
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
	GRAPH_BUILD, /* an object of the member's part -> its id; `text_bytes` of text behind the message */
};

struct graph_region {
	uint32_t descriptor; /* its place among those of the message */
	uint32_t reserved;   /* 0 */
	uint64_t offset, bytes;
};

enum { GRAPH_REGION_SEGMENT, GRAPH_REGION_MEMBER, GRAPH_REGION_OWNER, GRAPH_REGIONS };

/* A member's part: what it opens in the graph. Objects have ids from 1 on, in the order in which they were opened or found;
 * 0: none. Until GRAPH_BUILD_COMPLETE nobody else sees the part, and without it the part goes with the member, or when the graph
 * runs. `offset` and `bytes` are in the member's memory, and copied out once. An answer with an error is followed by words. */
enum graph_build_what {
	GRAPH_BUILD_MODULE = 1, /* bytes: an image. The text is what the compiler says */
	GRAPH_BUILD_TEMPLATE,   /* name, layout, stride, count */
	GRAPH_BUILD_PTASK, /* name, module; bytes: the function's name. Module 0: it runs in the member's own session */
	GRAPH_BUILD_ARGUMENT, /* ptask, parameter; bytes: the value */
	GRAPH_BUILD_GEOMETRY, /* ptask, grid (zeros: blocks alone), block, shared_bytes */
	GRAPH_BUILD_PORT, /* ptask, name, kind, binding, parameter, tmpl, in_out, size; bytes: a variable's name */
	GRAPH_BUILD_COUNT,   /* port, parameter */
	GRAPH_BUILD_CHANNEL, /* name, from, to, tmpl, capacity, mode, keep -> layout, stride, count */
	GRAPH_BUILD_FIND,    /* name: PTASK.PORT -> a port of what is complete. -ENOENT */
	GRAPH_BUILD_COMPLETE, /* the part is */
	GRAPH_BUILD_PRIORITY, /* ptask, priority, proxy; at any time */
	GRAPH_BUILD_QUERY,    /* ptask -> state, ended, numbers; at any time */
};

#define GRAPH_OBJECTS_MAX 1024        /* of a part */
#define GRAPH_CAPACITY_MAX 1024       /* of a channel of a part */
#define GRAPH_IMAGE_MAX (64ull << 20) /* bytes of a module */
#define GRAPH_WORD_MAX 4096           /* of a function's or variable's name, or of a value */
#define GRAPH_BUILD_TEXT_MAX 4096

struct graph_build {
	uint32_t what, id; /* enum graph_build_what */
	char name[2 * GRAPH_NAME_MAX];
	uint64_t offset, bytes;
	uint32_t module, ptask, port, tmpl, from, to, in_out, size; /* ids */
	uint32_t kind, binding, parameter, shared_bytes;
	uint32_t grid[3], block[3];
	uint32_t layout, capacity, mode, keep;
	uint64_t stride, count[3];
	int32_t priority, proxy;
	uint32_t state, ended;
	uint64_t numbers[3]; /* invocations, skipped, moved */
	uint32_t text_bytes, reserved;
};

struct graph_message {
	uint32_t type;   /* enum graph_message_type */
	int32_t status;  /* answers */
	uint32_t serial; /* the answer has the request's */
	uint32_t version;
	union {
		/* JOIN. Descriptors: of the regions (sealed memfds), the member's socket for waking. */
		struct graph_region regions[GRAPH_REGIONS];
		struct {
			char name[2 * GRAPH_NAME_MAX]; /* of a channel, or PTASK.PORT; */
			uint32_t object; /* or one of its part, by id: a channel, or a port; */
			uint32_t nth; /* of that, which is ELSEWHERE, the channel of this number */
			uint32_t end; /* its index in graph_segment.ends */
			uint32_t pushes;           /* 1: the member pushes; 0: it pulls */
			uint32_t capacity, layout; /* enum gdev_layout */
			uint64_t stride, count[3], bytes;
		} find;
		struct {
			uint32_t first, count, total, reserved;
		} look;
		struct graph_build build;
	};
};

/* The answer to BUILD. */
struct graph_built {
	struct graph_message message;
	char text[GRAPH_BUILD_TEXT_MAX];
};

/* ---- what LOOK says ---- */

enum graph_item_kind { GRAPH_ITEM_GRAPH, GRAPH_ITEM_PTASK, GRAPH_ITEM_CHANNEL };

/* ELSEWHERE: in the session of the process that has contributed it. */
enum graph_kind { GRAPH_KIND_FUNCTION, GRAPH_KIND_HOST, GRAPH_KIND_ELSEWHERE };

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
			uint32_t state;       /* enum gdev_ptask_state */
			uint32_t ended, kind; /* enum graph_kind */
			int32_t priority, proxy;
			uint32_t process; /* that has contributed it; 0: the owner */
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
_Static_assert(sizeof(struct graph_message) == 304, "ABI");
_Static_assert(sizeof(struct graph_item) == 240, "ABI");
_Static_assert(sizeof(struct graph_request) == 32, "ABI");
_Static_assert(sizeof(struct graph_answer) == 32, "ABI");
_Static_assert(offsetof(struct graph_segment, requests_head) == 64, "ABI");
_Static_assert(offsetof(struct graph_segment, ends) == 640, "ABI");
_Static_assert(offsetof(struct graph_segment, requests) == 1152, "ABI");
_Static_assert(offsetof(struct graph_segment, answers) == 9344, "ABI");
_Static_assert(sizeof(struct graph_segment) == 42112, "ABI");

#endif
