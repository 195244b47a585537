/* SPDX-License-Identifier: MIT
 *
 * Closes descriptors of memory and files on a thread, one set after another; users take turns. Dropping the last reference to a memfd or a
 * file without a name frees its pages, which takes time in proportion to its size; the daemon's own thread must not spend it.
 *
 * For what gdevd or its workers made. Closing a stranger's descriptor may take for ever: porters.h.
 */
#ifndef GDEV_GDEVD_CLOSER_H
#define GDEV_GDEVD_CLOSER_H

#include <stddef.h>
#include <uv.h>

#include "base/list.h"

/* What a user has to be closed, in order. */
struct closer_queue {
	struct list waiting; /* struct closing */
	struct list turn;    /* in the closer's round, while something waits */
};

struct closing {
	struct list link;  /* closer_queue.waiting */
	struct user *user; /* holds the descriptors until they are closed; NULL: nobody */
	/* In the loop's thread, when all are closed. Frees what the closing is part of. */
	void (*closed)(struct closing *closing);
	size_t count;
	int *fds; /* of those that are -1 there is nothing to close */
};

/* There is one closer. Its loop runs until it has closed all; without a loop descriptors are closed at once. */
void closer_init(uv_loop_t *loop);
void closer_queue_init(struct closer_queue *queue);
/* The users are freed. What waits is closed yet, while the loop runs. */
void closer_stop(void);

/* `closing` is filled in, and stays where it is until closed() is called, which is not before this returns. */
void closer_add(struct closing *closing);

/* Takes the descriptors over, and sets them to -1. */
void closer_close(struct user *user, int *fds, size_t count);

#endif
