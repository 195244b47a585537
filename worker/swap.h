/* SPDX-License-Identifier: MIT
 *
 * Host swap: where chunks are while they are not on the device. A slot is as large as its chunk, a part of
 * one memfd of the worker's, with its pages there and registered with the device from the beginning. What
 * has been used is kept for the next: making 1 GiB of slots takes the better part of a second.
 *
 * A slot is filled by the session alone, and a worker has one session, so nobody can read another's.
 */
#ifndef GDEV_WORKER_SWAP_H
#define GDEV_WORKER_SWAP_H

#include <pthread.h>
#include <stdint.h>

#include "base/list.h"

struct core;

struct swap_slot {
	struct list link; /* swap.free */
	void *base;
	uint64_t offset, bytes;
};

struct swap {
	struct list free; /* struct swap_slot; the lock's, as free_bytes */
	uint64_t free_bytes;
	uint64_t trim_at_ns;       /* those too many are given back then; the lock's */
	pthread_mutex_t grow_lock; /* a leaf; guards what follows */
	int fd;                    /* -1: not made yet */
	uint64_t end;
};

void swap_init(struct core *core);
void swap_finish(struct core *core);

/* Unlocked, may block. -ENOMEM: the host has no more memory. The contents are whatever this session left
 * there, or zeros. */
int swap_get(struct core *core, uint64_t bytes, struct swap_slot **slot);
/* With the lock: it is free for the next. */
void swap_put(struct core *core, struct swap_slot *slot);
/* Unlocked: gives free slots back to the host until `limit` bytes are left. */
void swap_trim(struct core *core, uint64_t limit);

/* Unlocked. Lets commands use the slot's memory at an address of the arena that has no chunk. */
int swap_map(struct core *core, struct swap_slot *slot, uint64_t address);
void swap_unmap(struct core *core, struct swap_slot *slot, uint64_t address);

#endif
