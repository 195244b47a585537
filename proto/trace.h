/* SPDX-License-Identifier: MIT
 *
 * The trace segment of a session: what `gdev trace` reads.
 *
 * One sealed memfd, made by the worker beside the session segment and mapped by the worker and the client.
 * gdevd keeps its descriptor, turns tracing on and off, and hands out descriptors for reading to peers that
 * may have them (control.h: TRACE). It has two rings of events, one written by the client and one by the
 * worker, each with a table of names. Pages that nobody has written take no memory.
 *
 * Writing. A side has one writer at a time (a lock of its process). A ring never fills: a new event replaces the
 * oldest. The writer issues a release fence, writes the event at head % TRACE_EVENTS, and then stores
 * head + 1 with release. Names are written before an event that has them, and never changed.
 *
 * Reading. The event with number n is whole only if n + TRACE_EVENTS > head still holds (after an acquire
 * fence) when it has been copied; the others count as dropped. The reader trusts nothing in here: both sides,
 * and with them everything it reads, may be the work of a hostile client.
 *
 * Times are of CLOCK_MONOTONIC, in nanoseconds.
 */
#ifndef GDEV_PROTO_TRACE_H
#define GDEV_PROTO_TRACE_H

#include <stddef.h>
#include <stdint.h>

#define TRACE_MAGIC 0x72746467u /* "gdtr" */
#define TRACE_VERSION 1
#define TRACE_EVENTS (1u << 16) /* a power of two; of a side */
#define TRACE_NAMES_BYTES (1u << 20)
#define TRACE_NAME_MAX 1024 /* bytes of a name, NUL included; longer ones are cut */

enum trace_kind {
	/* Client: a call of the API, `name`, on thread `detail`. `session`, `timeline` and `value` say the first
	 * command that it sent to a device (value 0: none); status is what it returned. */
	TRACE_CALL = 1,
	/* Worker: a command of a stream, (timeline, value). Read from the ring at queued_ns, on the device
	 * from begin_ns to end_ns (both 0: it never got there). status: 0, or its error. */
	TRACE_LAUNCH = 2, /* name: of the kernel; amount: blocks; detail: threads a block */
	/* amount: bytes; detail: enum copy_direction. Client: one that it did itself (session.h, direct
	 * copies), or a piece of one, on thread `detail`; status: enum copy_direction. */
	TRACE_COPY = 3,
	TRACE_FILL = 4, /* amount: bytes */
	/* Worker: the stream waited for another until end_ns; begin_ns is 0. */
	TRACE_WAIT = 5,
	/* Worker: it holds gdevd's grant for resource `detail` (enum device_resource) from begin_ns to
	 * end_ns. It says so twice: when it gets it (end_ns 0) and when it gives it back. */
	TRACE_GRANT = 6,
	/* Worker: a step of memory management, `detail` (enum trace_swap), for the piece of an object at address
	 * `value`, from begin_ns to end_ns; amount: bytes. Copies: handed to the device at queued_ns at the earliest. */
	TRACE_SWAP = 7,
};

enum trace_swap {
	TRACE_SWAP_ORDER, /* gdevd's order that something leaves is carried out; amount: what has left */
	TRACE_SWAP_SLOT,      /* a slot of host swap is found, or made */
	TRACE_SWAP_OUT,       /* copied to host swap */
	TRACE_SWAP_UNMAP,     /* the chunk is unmapped, */
	TRACE_SWAP_RELEASE,   /* and given back */
	TRACE_SWAP_ROOM,      /* gdevd is asked for room on the device; amount: what it gave */
	TRACE_SWAP_MAKE,      /* a chunk is made, */
	TRACE_SWAP_MAP,       /* and mapped */
	TRACE_SWAP_IN,        /* copied from host swap */
	TRACE_SWAP_TO_FILE,   /* moved from host swap in memory to a file, */
	TRACE_SWAP_TO_MEMORY, /* and from there to memory, where the device can use it */
	TRACE_SWAPS
};

struct trace_event {
	uint64_t begin_ns, end_ns, queued_ns;
	uint64_t value;
	uint64_t amount;
	uint32_t timeline;
	uint32_t session; /* CALL: to whose timeline; else 0 */
	uint32_t name;    /* offset in names; 0: none */
	uint32_t detail;
	int32_t status;
	uint16_t kind; /* enum trace_kind */
	uint16_t reserved;
};

/* Constant from before gdevd has the segment, but `enabled`. */
struct trace_header {
	uint32_t magic, version;
	uint32_t event_bytes, event_count, name_bytes, reserved;
	/* gdevd: somebody traces. The client could write it too, and would trace itself. */
	_Alignas(64) uint32_t enabled;
};

struct trace_side {
	uint64_t head;        /* events ever written */
	uint32_t names_bytes; /* of names that are written; the first byte is a NUL */
	_Alignas(4096) char names[TRACE_NAMES_BYTES];
	struct trace_event events[TRACE_EVENTS];
};

struct trace_segment {
	struct trace_header header;
	_Alignas(4096) struct trace_side client;
	_Alignas(4096) struct trace_side worker;
};

_Static_assert(sizeof(struct trace_event) == 64, "ABI");
_Static_assert(offsetof(struct trace_header, enabled) == 64, "ABI");
_Static_assert(offsetof(struct trace_side, names) == 4096, "ABI");
_Static_assert(offsetof(struct trace_side, events) == 1052672, "ABI");
_Static_assert(offsetof(struct trace_segment, client) == 4096, "ABI");
_Static_assert(offsetof(struct trace_segment, worker) == 5251072, "ABI");
_Static_assert(sizeof(struct trace_segment) == 10498048, "ABI");

#endif
