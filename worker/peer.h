/* SPDX-License-Identifier: MIT
 *
 * The socket to the client: memory that comes as descriptors, and the news of its death.
 */
#ifndef GDEV_WORKER_PEER_H
#define GDEV_WORKER_PEER_H

struct core;

/* Unlocked, by the one thread that got the event. */
void peer_readable(struct core *core);

#endif
