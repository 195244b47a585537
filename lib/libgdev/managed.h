/* SPDX-License-Identifier: MIT
 *
 * Managed memory on a device whose memory the process cannot map (managed.c), and faults of the process (fault.c).
 */
#ifndef GDEV_LIB_MANAGED_H
#define GDEV_LIB_MANAGED_H

#include <stdatomic.h>

#include "lib/libgdev/internal.h"

/* ---- managed.c ---- */

/* A touch gives up when for so long nothing that it waits for has moved on: a kernel perhaps waits for the touch. */
#define TOUCH_NS_DEFAULT (60 * NS_PER_S)

/* Gives the object, which the worker has, its pages in the process. memory.change is held, and let go meanwhile. */
int managed_create(struct gdev_session *session, struct object *object);
/* Takes them away. Likewise. */
int managed_destroy(struct gdev_session *session, struct object *object);
/* The same, of an object of a session that ends, or that has none. */
void managed_forget(struct object *object);
/* The session is about to end: none of its pages is opened any more. */
void managed_finish(struct gdev_session *session);
/* In a forked child, which has none of the pages. */
void managed_after_fork(void);

/* As managed_enter() where the session has such memory. */
int managed_give(struct gdev_session *session, uint64_t address, uint64_t bytes);
void managed_release(struct gdev_session *session);

/* From here to managed_leave() the managed memory among the bytes is on the device: a command that is sent between them
 * finds it there. They are of any memory. 1; 0: there is none among them, and nothing to leave; or an error, likewise.
 * Nothing that may wait for the program comes between them, because a touch waits for managed_leave(). */
static inline int managed_enter(struct gdev_session *session, uint64_t address, uint64_t bytes)
{
	return atomic_load_explicit(&session->managed.objects, memory_order_relaxed)
		       ? managed_give(session, address, bytes)
		       : 0;
}

static inline void managed_leave(struct gdev_session *session, int entered)
{
	if (entered > 0)
		managed_release(session);
}

/* A host function has returned: what it has touched is on the device for the commands that were submitted before. */
void managed_settle(struct gdev_session *session);

/* Opens the page at `address` to the calling thread, which has touched it, or is about to: waits for the session's
 * commands, and brings it back. -EFAULT: it is no managed memory; -EDEADLK: they came to no end. */
int managed_touch(uint64_t address, bool write);

/* ---- fault.c ---- */

/* From here on faults come to managed_touch() first, and then to whoever had them before. Called again before pages are
 * closed, because the program may have set a handler meanwhile. One thread at a time. */
void faults_watch(void);
/* From here on system calls open what they are given, if the program was started with libgdev-io.so (io.c). */
void faults_watch_calls(void);

#endif
