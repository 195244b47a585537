/* SPDX-License-Identifier: MIT
 *
 * The client's side of the ring of a session segment (proto/session.h), the same for every transport: room for a record,
 * and publishing it. Inline, because a launch is little more than this.
 */
#ifndef GDEV_LIB_SENDER_H
#define GDEV_LIB_SENDER_H

#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "base/cleanup.h"
#include "lib/libgdev/transport.h"
#include "lib/libgdev/waiting.h"

struct sender {
	struct waiting *waiting;
	struct transport *transport;
	pthread_mutex_t lock; /* guards the rest, and the writing side of the ring */
	uint64_t tail;        /* as published */
	uint64_t next_tail;   /* what commit publishes */
	uint64_t head_seen;   /* the worker's head, as of the last look */
};

static inline void sender_init(
	struct sender *sender, struct transport *transport, struct waiting *waiting)
{
	pthread_mutexattr_t adaptive;

	*sender = (struct sender){.waiting = waiting, .transport = transport};
	pthread_mutexattr_init(&adaptive);
	pthread_mutexattr_settype(&adaptive, PTHREAD_MUTEX_ADAPTIVE_NP);
	pthread_mutex_init(&sender->lock, &adaptive);
	pthread_mutexattr_destroy(&adaptive);
}

static inline void sender_finish(struct sender *sender)
{
	pthread_mutex_destroy(&sender->lock);
}

static inline int sender_wait_for_room(struct sender *sender, uint64_t tail)
{
	struct gdev_fence room = {.timeline = POINT_RING, .value = tail - SESSION_RING_BYTES};
	int which;

	if (tail - sender->head_seen <= SESSION_RING_BYTES)
		return 0;
	which = waiting_wait(sender->waiting, &room, 1, FOREVER, NULL);
	sender->head_seen =
		__atomic_load_n(&sender->transport->segment->header.ring_head, __ATOMIC_ACQUIRE);
	return min_of(which, 0);
}

/* What is left before the end of the ring is skipped when the record does not fit there. */
static inline uint32_t sender_skip(uint64_t tail, uint32_t length)
{
	uint32_t offset = (uint32_t)(tail & (SESSION_RING_BYTES - 1));
	uint32_t left = SESSION_RING_BYTES - offset;

	return length <= left ? 0 : left;
}

/* As transport_ops.begin. */
static inline int sender_begin(struct sender *sender, uint32_t length, void **record)
{
	uint8_t *ring = sender->transport->segment->ring;
	uint32_t skipped;
	int error;

	if (atomic_load_explicit(&sender->transport->lost, memory_order_relaxed))
		return transport_error(sender->transport);
	pthread_mutex_lock(&sender->lock);
	skipped = sender_skip(sender->tail, length);
	error = sender_wait_for_room(sender, sender->tail + skipped + length);
	if (error) {
		pthread_mutex_unlock(&sender->lock);
		return error;
	}
	if (skipped) {
		struct record_header pad = {.opcode = RECORD_PAD, .length = skipped};
		memcpy(ring + (sender->tail & (SESSION_RING_BYTES - 1)), &pad,
			offsetof(struct record_header, timeline));
	}
	sender->next_tail = sender->tail + skipped + length;
	*record = ring + ((sender->tail + skipped) & (SESSION_RING_BYTES - 1));
	return 0;
}

/* Publishes the record and gives the lock back. */
static inline void sender_commit(struct sender *sender)
{
	sender->tail = sender->next_tail;
	__atomic_store_n(
		&sender->transport->segment->header.ring_tail, sender->tail, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&sender->lock);
}

/* Whether nobody at the other side looks at the ring: the caller wakes it up then. */
static inline bool sender_must_wake(struct transport *transport)
{
	uint32_t *state = &transport->segment->header.worker_state;

	/* The store of the tail comes before the look at the state. */
	atomic_thread_fence(memory_order_seq_cst);
	return __atomic_load_n(state, __ATOMIC_RELAXED) == SESSION_WORKER_ASLEEP &&
	       __atomic_exchange_n(state, SESSION_WORKER_AWAKE, __ATOMIC_SEQ_CST) ==
		       SESSION_WORKER_ASLEEP;
}

#endif
