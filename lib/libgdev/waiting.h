/* SPDX-License-Identifier: MIT
 *
 * Waiting for points of the session segment (see waiting.c).
 */
#ifndef GDEV_LIB_WAITING_H
#define GDEV_LIB_WAITING_H

#include <pthread.h>

#include "base/list.h"
#include "lib/libgdev/transport.h"

struct waiting {
	struct transport *transport;
	int wake_fd;                  /* an eventfd that the worker writes */
	int peer_fd;                  /* a socket that hangs up when the worker dies */
	_Atomic uint64_t recent_ns;   /* how long waits took lately, */
	_Atomic uint64_t last_ns;     /* how long the last one did, */
	_Atomic uint64_t differed_ns; /* and how much that was more or less than the one before */
	bool few_processors;

	pthread_mutex_t lock; /* guards what follows, and the want words of the segment */
	struct list waiters;
	bool polling; /* one of the waiters is in poll() for all */
};

int waiting_init(struct waiting *waiting, struct transport *transport, int wake_fd, int peer_fd);
void waiting_finish(struct waiting *waiting);

/* As transport_ops.wait and .cancel. */
int waiting_wait(struct waiting *waiting, const struct gdev_fence *points, unsigned count,
	uint64_t deadline_ns, const atomic_bool *cancel);
void waiting_cancel(struct waiting *waiting);

#endif
