/* SPDX-License-Identifier: MIT
 *
 * How a session reaches its worker. Everything above knows only this table: there is shared memory (shm.c), and a virtual
 * machine's device (vm.c); a worker linked into the process would be another. What they have in common is the session
 * segment (proto/session.h), in which completion is seen. A transport is written as these two are: docs/vm.md says what
 * it needs.
 *
 * Every operation may be called from any thread. Once the worker is gone, all of them return what it said
 * last (transport_error), or -GDEV_E_SESSION_LOST.
 */
#ifndef GDEV_LIB_TRANSPORT_H
#define GDEV_LIB_TRANSPORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "gdev/error.h"
#include "gdev/session.h"
#include "proto/device.h"
#include "proto/record.h"
#include "proto/session.h"
#include "proto/timing.h"

#define FOREVER UINT64_MAX

/* As gdev_fence.timeline: not a timeline, but the ring; reached when its head is at `value`. */
#define POINT_RING UINT32_MAX

struct transport;

/* `count` rows of `width` bytes, on both sides a pitch apart. */
struct transport_rows {
	uint64_t device, host, width, count;
	uint64_t device_pitch, host_pitch;
};

struct transport_ops {
	const char *name;

	/* Required. Gives room for one record of `length` bytes, a multiple of 8, and holds the sender's
	 * lock until commit. May block while the ring is full. */
	int (*begin)(struct transport *transport, uint32_t length, void **record);
	/* Required. Publishes the record, gives the lock back and wakes the worker if it sleeps. */
	void (*commit)(struct transport *transport);

	/* Required. A record may follow soon: the worker had better wake up now. */
	void (*rouse)(struct transport *transport);

	/* Required. Tells the worker to look at header.host_completed. */
	void (*kick)(struct transport *transport);

	/* Required. Waits until one of `count` points is reached: its index. -GDEV_E_NOT_READY when
	 * deadline_ns (CLOCK_MONOTONIC, FOREVER for none) passes, -ECANCELED when *cancel (may be NULL)
	 * became true and somebody called cancel(). */
	int (*wait)(struct transport *transport, const struct gdev_fence *points, unsigned count,
		uint64_t deadline_ns, const atomic_bool *cancel);
	/* Required. Makes waits look at their cancel words. */
	void (*cancel)(struct transport *transport);

	/* One of the next two is required.
	 * PEER_HOST_ADD; the descriptor stays the caller's. */
	int (*host_add)(struct transport *transport, uint64_t address, uint64_t bytes, int fd,
		uint64_t offset);
	/* Maps new page-locked memory, zeroed, at `address` of terms.store, here and in the worker. RECORD_MEMORY_FREE ends it
	 * there. */
	int (*host_map)(struct transport *transport, uint64_t address, uint64_t bytes);

	/* Optional. PEER_RANGE_ADD. */
	int (*range_add)(struct transport *transport, uint64_t address, uint64_t bytes);

	/* One of the next two is required.
	 * PEER_IMAGE; the descriptor stays the caller's. */
	int (*image_add)(struct transport *transport, uint64_t bytes, int fd, uint64_t *number);
	/* The same for bytes anywhere in the process. */
	int (*image_copy)(
		struct transport *transport, const void *image, uint64_t bytes, uint64_t *number);

	/* Required with image_copy. What the compiler said of the last module that was loaded with a log: at most `bytes`,
	 * VM_LOG_BYTES_MAX or less, and zeros. */
	int (*log_copy)(struct transport *transport, char *log, uint64_t bytes);

	/* Optional. Copies rows between device memory and memory of the process that is not page-locked: there is no
	 * staging memory then. It is done when it returns; what comes before it on its stream has been waited for, and what is
	 * submitted later finds it done. */
	int (*copy)(struct transport *transport, enum copy_direction direction,
		const struct transport_rows *rows);
	/* Optional. PEER_DEVICE_MAP, or PEER_DEVICE_MAP_REVOCABLE: calls `map` for each piece, with what is
	 * before it. */
	int (*device_map)(struct transport *transport, uint64_t address, uint64_t bytes,
		bool revocable, int (*map)(void *of, uint64_t offset, uint64_t bytes, int fd),
		void *of);

	/* Required. Called in a forked child, where only the calling thread lives and nothing of the
	 * segment is mapped: closes descriptors and touches nothing else. */
	void (*forget)(struct transport *transport);
	/* Required. Ends the session at the worker's side. Nobody else is in the transport. */
	void (*destroy)(struct transport *transport);
};

struct transport {
	const struct transport_ops *ops;
	struct session_segment *segment;
	atomic_bool lost;
	bool forgotten; /* in a forked child: the segment is not mapped; set before `lost` */
	_Atomic uint64_t spin_ns; /* how long wait() spins before it sleeps */
	atomic_uint sleepers;     /* threads that sleep in wait() without a deadline */
};

static inline bool transport_reached(
	const struct transport *transport, const struct gdev_fence *point)
{
	const struct session_segment *segment = transport->segment;
	const uint64_t *word = point->timeline == POINT_RING
				       ? &segment->header.ring_head
				       : &segment->timelines[point->timeline].completed;

	return __atomic_load_n(word, __ATOMIC_ACQUIRE) >= point->value;
}

/* Why nothing goes any more, when `lost` is set: a worker that gives its session up says why in the
 * segment, which outlives it. */
static inline int transport_error(const struct transport *transport)
{
	int error = 0;

	if (!transport->forgotten)
		error = __atomic_load_n(&transport->segment->header.error, __ATOMIC_ACQUIRE);
	return error < 0 ? error : -GDEV_E_SESSION_LOST;
}

/* The end of the session, which follows, is wanted. */
static inline void transport_leave(struct transport *transport)
{
	if (!transport->forgotten)
		__atomic_store_n(&transport->segment->header.leaves, 1, __ATOMIC_RELAXED);
}

/* Whether the other side lays a segment out as this library knows it. */
static inline bool transport_segment_is_ours(const struct session_segment *segment)
{
	const struct session_header *header = &segment->header;

	return header->magic == SESSION_MAGIC && header->version == SESSION_VERSION_MAX &&
	       header->timeline_offset == offsetof(struct session_segment, timelines) &&
	       header->reply_offset == offsetof(struct session_segment, replies) &&
	       header->stamp_offset == offsetof(struct session_segment, stamps) &&
	       header->ring_offset == offsetof(struct session_segment, ring) &&
	       header->ring_bytes == SESSION_RING_BYTES &&
	       header->output_offset == offsetof(struct session_segment, output) &&
	       header->output_bytes == SESSION_OUTPUT_BYTES;
}

#define SPIN_NS_DEFAULT 50000

/* How long a client looks before it sleeps: as the other side would like it. */
static inline uint64_t transport_spin_ns(const struct session_segment *segment)
{
	uint32_t look_us = segment->header.look_us;

	return look_us ? min_of(look_us * NS_PER_US, LOOK_NS_MAX) : SPIN_NS_DEFAULT;
}

/* What a client of gdevd has after WELCOME; owned by the transport once created. */
struct shm_connection {
	int control, segment, staging, wake_worker, wake_client, peer;
};

/* Takes the descriptors on success. `arena` is reserved already; the staging memory is mapped at its
 * base. */
int transport_shm_create(struct shm_connection *connection, uint64_t arena_base,
	uint64_t staging_bytes, struct transport **transport);

/* What a process that sleeps on more than this session polls: the eventfd that the worker writes, and the socket that hangs
 * up with it. They stay the transport's, which is one of shm. */
void transport_shm_sockets(struct transport *transport, int *wake_client, int *peer);

#endif
