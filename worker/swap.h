/* SPDX-License-Identifier: MIT
 *
 * Host swap: where chunks are while they are not on the device. A slot is memory of the worker's, as large as
 * its chunk, with its pages there and registered with the device from the beginning. What has been used is
 * kept for the next.
 *
 * A slot is filled by the session alone, and a worker has one session, so nobody can read another's.
 */
#ifndef GDEV_WORKER_SWAP_H
#define GDEV_WORKER_SWAP_H

#include <stdint.h>

#include "base/list.h"

struct core;

struct swap_slot {
	struct list link; /* swap.free */
	void *base;
	uint64_t bytes;
};

struct swap {
	struct list free; /* struct swap_slot; the lock's, as free_bytes */
	uint64_t free_bytes;
	uint64_t trim_at_ns; /* those too many are given back then; the lock's */
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

/* Unlocked. The slot's memory moves to an address of the arena that has no chunk, for commands to use it there. */
int swap_map(struct core *core, struct swap_slot *slot, uint64_t address);
/* Unlocked. Gives such a slot back to the host, and the address to the arena. */
void swap_unmap(struct core *core, struct swap_slot *slot);

#endif
