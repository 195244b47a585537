/* SPDX-License-Identifier: MIT
 *
 * The session segment: what a client and its worker share.
 *
 * One sealed memfd, created by the worker, mapped by both. It holds a header page, the timelines,
 * the reply slots, the ring that carries records from the client to the worker (record.h), and the
 * bytes that kernels print. Each word below says who writes it; the other side only reads it. The
 * worker trusts nothing in here: a client that writes garbage loses its own session.
 *
 * Addresses. A session has an arena: one range of addresses reserved at the same place in the client
 * and in its worker. Everything a record points to lies in the arena and is the same number on both
 * sides. The client allocates addresses; the worker checks them. Layout of an arena:
 *   base                     staging memory, a second sealed memfd of the worker's
 *   base + staging_bytes     free for the client: device memory, page-locked memory
 *
 * Direct copies. Where a device's memory can be mapped (PEER_DEVICE_MAP_REVOCABLE), the client copies to
 * and from it itself while the worker lets it, without a record, in pieces of SESSION_DIRECT_BYTES at most,
 * when what comes before on its stream is complete. For each direction and piece the client
 *   1. counts `copying` up, and issues a full fence,
 *   2. looks at `allowed` and at `generation`. Unless it is allowed, and the mapping was asked for at this
 *      generation, it goes on with 5 and sends a record instead,
 *   3. copies, and adds to `bytes` and `ns` what it did; when others wait for the direction, without the time in
 *      which the copying thread had no processor,
 *   4. issues a full fence, and looks at `generation` again: where it has changed the copy does not count,
 *   5. counts `copying` down, issues a full fence, and writes the worker's eventfd when not allowed.
 * A worker that wants the client to stop stores 0 in `allowed`, issues a full fence, and waits until
 * `copying` is 0, for some time at most; one that has waited in vain counts `generation` up; one that takes away memory
 * which the client may have mapped does so before it allows copies again. A client that lies here reaches nothing but its own memory:
 * it misses what was taken away, or misleads the account of its own copies.
 *
 * Changelog
 *   1  first version; direct copies came later, in words that were 0: never allowed; and `allowed` was 0 or 1 before it
 *      also told whether others wait; `leaves` and `why` came later, where 0 was
 */
#ifndef GDEV_PROTO_SESSION_H
#define GDEV_PROTO_SESSION_H

#include <stddef.h>
#include <stdint.h>

#include "proto/device.h"

#define SESSION_MAGIC 0x76656467u /* "gdev" */
#define SESSION_VERSION_MIN 1
#define SESSION_VERSION_MAX 1

#define SESSION_TIMELINES                                                                          \
	4096 /* the first SESSION_REPLIES belong to reply slots, the rest to streams */
#define SESSION_REPLIES 32
#define SESSION_REPLY_BYTES 8192
#define SESSION_RING_BYTES (1u << 20)   /* a power of two */
#define SESSION_OUTPUT_BYTES (1u << 20) /* a power of two */
#define SESSION_STAMPS 16384
#define SESSION_WHY_BYTES 512

#define ARENA_ALIGN DEVICE_CHUNK_MIN /* base, size and every device memory object */
#define ARENA_DEFAULT_BASE 0x200000000000ull
#define ARENA_DEFAULT_BYTES (1ull << 40)
/* Where an arena is tried: the default's, and one default's size on each time. */
#define ARENA_BASES 64

/* A timeline counts the completed commands of a stream, or the answers in a reply slot.
 *
 * Waiting: the client stores the value it needs in `want`, issues a full fence, looks at `completed`
 * again, and only then sleeps. The worker stores `completed`, issues a full fence, loads `want`, and
 * wakes the client when 0 < want <= completed. One of the two always sees the other.
 * Several threads waiting on one timeline keep the smallest value in `want`. */
struct session_timeline {
	_Alignas(64) uint64_t completed; /* worker; grows only */
	uint64_t want;                   /* client; 0: nobody sleeps */
	int32_t error;      /* worker; 0 or the last failure (negative) of this stream */
	uint32_t failures;  /* worker; how many there were, stored after `error`; goes round */
	uint64_t device_ns; /* worker; device time of the stream's completed commands */
};

/* A reply belongs to the thread that put its index in a record, until timelines[index] reaches the record's value. */
struct session_reply {
	int32_t status;  /* 0 or negative */
	uint32_t length; /* bytes of payload */
	uint8_t payload[SESSION_REPLY_BYTES - 8];
};

#define SESSION_DIRECTIONS 2 /* COPY_TO_DEVICE and COPY_FROM_DEVICE: the indices of what follows */
#define SESSION_DIRECT_BYTES (4u << 20)

/* What a client may do itself in a direction. */
enum session_leave {
	SESSION_BY_RECORD,
	SESSION_DIRECT,
	SESSION_DIRECT_CONTENDED /* others wait */
};

/* Whether some thread of the worker is looking at the ring.
 * The client publishes `tail`, issues a full fence, and when it then exchanges ASLEEP for AWAKE it
 * must wake the worker. The worker stores ASLEEP, issues a full fence, and looks at `tail` once more
 * before it sleeps. */
enum session_worker_state { SESSION_WORKER_ASLEEP = 0, SESSION_WORKER_AWAKE = 1 };

struct session_header {
	/* Constant from before the client sees the segment. Offsets in bytes from its start. */
	uint32_t magic, version;
	uint64_t segment_bytes;
	uint32_t timeline_offset, timeline_count;
	uint32_t reply_offset, reply_count;
	uint32_t stamp_offset, stamp_count;
	uint32_t ring_offset, ring_bytes;
	uint32_t output_offset, output_bytes;
	uint32_t
		look_us; /* how long a waiting client should look before it sleeps; 0: as it likes */

	_Alignas(64) uint64_t ring_tail; /* client; bytes ever published, a multiple of 8 */
	uint32_t thread; /* client; id of the thread that published last: its nice value counts */
	uint32_t
		leaves; /* client; 1: it closes the session, or its process comes to its end by exit() */
	_Alignas(64) uint64_t ring_head; /* worker; bytes ever consumed */
	uint32_t ring_want;              /* client; 1: wake me when ring_head moves */

	_Alignas(64) uint32_t worker_state; /* both; enum session_worker_state */

	_Alignas(
		64) int32_t error; /* worker; the session's sticky error, 0 or negative; set once */
	uint32_t
		revoked; /* worker; 1: others wait for compute, and this session is told to leave */
	uint64_t fault_address; /* worker; where, for GDEV_E_ILLEGAL_ADDRESS */

	_Alignas(64) uint64_t
		output_tail; /* worker; bytes ever printed; a full ring drops the newest */
	_Alignas(64) uint64_t output_head; /* client; bytes ever taken */

	/* Counts up when the client has run a host function (RECORD_WAIT on timeline 0 waits for it). The
	 * client then writes the worker's eventfd, whatever worker_state is. */
	_Alignas(64) uint64_t host_completed; /* client */

	/* Direct copies: above. */
	_Alignas(64) uint32_t direct_allowed[SESSION_DIRECTIONS]; /* worker; enum session_leave */
	uint64_t direct_generation;                               /* worker */
	uint32_t direct_possible; /* worker; 0: no memory of this device can be mapped */
	_Alignas(64) uint32_t direct_copying[SESSION_DIRECTIONS]; /* client; threads at it */
	uint64_t direct_bytes[SESSION_DIRECTIONS];                /* client; ever */
	uint64_t direct_ns[SESSION_DIRECTIONS];                   /* client; ever */
	/* Why the last command failed of those whose error says too little (a kernel that cannot be compiled): a sentence,
	 * NUL-terminated. Stored before the command is done. */
	_Alignas(64) char why[SESSION_WHY_BYTES]; /* worker */
};

struct session_segment {
	struct session_header header;
	_Alignas(4096) struct session_timeline timelines[SESSION_TIMELINES];
	_Alignas(4096) struct session_reply replies[SESSION_REPLIES];
	_Alignas(4096)
		uint64_t stamps[SESSION_STAMPS]; /* worker; CLOCK_MONOTONIC ns of a RECORD_STAMP */
	_Alignas(4096) uint8_t ring[SESSION_RING_BYTES];
	_Alignas(4096) uint8_t output[SESSION_OUTPUT_BYTES];
};

_Static_assert(sizeof(struct session_timeline) == 64, "ABI");
_Static_assert(sizeof(struct session_reply) == SESSION_REPLY_BYTES, "ABI");
_Static_assert(offsetof(struct session_header, ring_tail) == 64, "ABI");
_Static_assert(offsetof(struct session_header, thread) == 72, "ABI");
_Static_assert(offsetof(struct session_header, leaves) == 76, "ABI");
_Static_assert(offsetof(struct session_header, ring_head) == 128, "ABI");
_Static_assert(offsetof(struct session_header, worker_state) == 192, "ABI");
_Static_assert(offsetof(struct session_header, error) == 256, "ABI");
_Static_assert(offsetof(struct session_header, output_tail) == 320, "ABI");
_Static_assert(offsetof(struct session_header, output_head) == 384, "ABI");
_Static_assert(offsetof(struct session_header, host_completed) == 448, "ABI");
_Static_assert(offsetof(struct session_header, direct_allowed) == 512, "ABI");
_Static_assert(offsetof(struct session_header, direct_copying) == 576, "ABI");
_Static_assert(offsetof(struct session_header, why) == 640, "ABI");
_Static_assert(offsetof(struct session_segment, timelines) == 4096, "ABI");
_Static_assert(offsetof(struct session_segment, replies) == 266240, "ABI");
_Static_assert(offsetof(struct session_segment, stamps) == 528384, "ABI");
_Static_assert(offsetof(struct session_segment, ring) == 659456, "ABI");
_Static_assert(offsetof(struct session_segment, output) == 1708032, "ABI");
_Static_assert(sizeof(struct session_segment) == 2756608, "ABI");

#endif
