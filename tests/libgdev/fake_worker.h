/* SPDX-License-Identifier: MIT
 *
 * A worker for tests of the library: a thread of the test's own process that speaks the session segment
 * and the peer socket. Its device is the arena itself, which both see: allocating makes memory of it, and
 * copies are memcpy. It executes records in stream order, and does what it is told to do wrong.
 *
 * Linked instead of connect.c: every session that the test opens gets a fake worker of its own.
 */
#ifndef TESTS_LIBGDEV_FAKE_WORKER_H
#define TESTS_LIBGDEV_FAKE_WORKER_H

#include <pthread.h>
#include <stdatomic.h>

#include "gdev/session.h"
#include "proto/record.h"
#include "proto/session.h"

#define FAKE_PENDING_MAX 4096
#define FAKE_OBJECTS_MAX 64

struct fake_worker {
	pthread_t thread;
	struct session_segment *segment;
	int wake_worker, wake_client, peer;
	uint64_t arena_base, head;
	uint8_t *pending[FAKE_PENDING_MAX]; /* records that are not executed yet, oldest first */
	unsigned pending_count;
	struct {
		uint64_t address, bytes;
		int fd;              /* move_lock: who lends it must not find it closed */
	} objects[FAKE_OBJECTS_MAX]; /* of device memory */
	pthread_mutex_t move_lock;
	unsigned object_count;

	/* What the test tells it. */
	atomic_bool deaf;     /* does not look at the ring */
	atomic_bool held;     /* takes records and executes none of streams */
	atomic_bool full;     /* an allocation waits as long as that is so */
	atomic_bool clings;   /* freeing waits as long as that is so */
	atomic_ulong room;    /* bytes of device memory; 0: any number */
	atomic_int fail_with; /* the next stream record fails with this, and its timeline says so */
	atomic_int reply_with;    /* the next reply has this status */
	atomic_uint reply_length; /* and this length */
	atomic_int lends_with;    /* the status of PEER_DEVICE_MAP_REVOCABLE */
	atomic_uint moves;        /* fake_worker_move() */
	atomic_bool stop;

	/* What the test asks. */
	atomic_uint launches, wakes, records, lent, kicks;
};

/* Of the next session that is opened: session_header.look_us. */
extern uint32_t fake_worker_look_us;
/* While it is not NULL, openings of that virtual GPU wait, as for a gdevd that does not answer. */
extern _Atomic(const char *) fake_worker_slow;
/* Of the session that was opened last. */
extern struct fake_worker *fake_worker;

/* Dies as a killed worker does: nothing is answered any more, and its descriptors are closed. To be done
 * before the session is closed. */
void fake_worker_kill(struct fake_worker *worker);
/* Puts other memory, of zeros, in the place of an object's, and says so. No copy is under way. */
void fake_worker_move(struct fake_worker *worker, uint64_t address);
/* Makes it look again after a word above was changed. */
void fake_worker_poke(struct fake_worker *worker);
/* After the session was closed. */
void fake_worker_free(struct fake_worker *worker);

#endif
