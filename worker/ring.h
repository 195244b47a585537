/* SPDX-License-Identifier: MIT
 *
 * The ring, from the worker's side. Only the poller reads it.
 */
#ifndef GDEV_WORKER_RING_H
#define GDEV_WORKER_RING_H

#include <stdbool.h>

struct core;

/* Takes some records, if there are any, and executes or queues them. Whether there were any. A ring that
 * makes no sense ends the session. */
bool ring_read(struct core *core);
/* Whether there are records, which ring_read may have to leave there for now (context.h). With the lock. */
bool ring_has_records(struct core *core);
/* Whether ring_read would find something. Any thread. */
bool ring_waits(struct core *core);
/* The poller goes: says so to the client. False: there is something in the ring after all, and the ring
 * is AWAKE as before. */
bool ring_sleep(struct core *core);
void ring_awake(struct core *core);

#endif
