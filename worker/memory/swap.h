/* SPDX-License-Identifier: MIT
 *
 * Swap space: where chunks are while they are not on the device. A slot is memory of the worker's, as large as
 * its chunk, with its pages there and registered with the device from the beginning. What has been used is
 * kept for the next. When host memory for swap is used up a slot is a part of the session's swap file, which gdevd has
 * made: what goes there, or comes from there, passes through a buffer, one in each direction.
 *
 * The account: gdevd has charged us `charged` bytes of each pool; `made` of them are slots. What neither an object that
 * is not on the device needs, nor one that is to leave, nor a slot that is kept, goes back at once. Always: made <=
 * charged. What is charged may lie in two pools of which neither has room for the next slot: then gdevd charges us for
 * that slot anew, and what is not needed any more goes back. A slot that is larger than the largest chunk, for an array, is in
 * memory.
 *
 * A slot is filled by the session alone, and a worker has one session, so nobody can read another's.
 */
#ifndef GDEV_WORKER_SWAP_H
#define GDEV_WORKER_SWAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "proto/control.h"
#include "worker/service.h"

struct swap_buffer {
	void *base; /* of DEVICE_CHUNK_MAX bytes, registered; NULL: not made yet */
	bool lent;
};

struct swap_slot {
	struct list link;      /* swap.free, swap.gone */
	struct list by_offset; /* swap.filed */
	enum swap_pool pool;
	void *base;                 /* in the file: the buffer that it has, or NULL */
	struct swap_buffer *buffer; /* in the file */
	uint64_t bytes, offset;     /* offset: in the file */
};

/* With the lock. */
struct swap {
	struct list free; /* slots that are kept */
	uint64_t free_bytes;
	uint64_t trim_at_ns; /* those too many are given back then */
	uint64_t charged[SWAP_POOLS], made[SWAP_POOLS];
	uint64_t exchanged_bytes;   /* of the file, for as much memory that goes back soon */
	struct control_evict order; /* EVICT_SLOTS, while it is being carried out */
	struct job give_job;
	bool giving;
	int fd;            /* of the swap file; -1: we have none */
	bool unmappable;   /* and the device cannot be given its pages */
	struct list filed; /* slots in the file, by offset */
	struct list gone;  /* and those whose blocks are to be given back */
	struct job punch_job;
	bool punching;
	struct swap_buffer out, in;
};

void swap_init(struct core *core);
void swap_finish(struct core *core);

/* Unlocked, may block: in a job. -ENOMEM: the host has no more memory; -ENOSPC: nor has the disk. The contents are
 * whatever this session left there, or zeros. */
int swap_get(struct core *core, uint64_t bytes, struct swap_slot **slot);
/* The same, for what we have been charged nothing for. */
int swap_get_anew(struct core *core, uint64_t bytes, struct swap_slot **slot);
/* With the lock: it is free for the next. */
void swap_put(struct core *core, struct swap_slot *slot);

/* With the lock: what is charged and not needed goes back. */
void swap_settle(struct core *core);
/* With the lock: EVICT_SLOTS. */
void swap_give(struct core *core, const struct control_evict *order);
/* With the lock: takes the descriptor of the swap file, unless we have it. */
void swap_take_file(struct core *core, int *fd);

/* Unlocked: bytes of the slot, wherever it is. -errno. */
int swap_read(
	struct core *core, const struct swap_slot *slot, uint64_t at, void *to, uint64_t bytes);
int swap_write(struct core *core, const struct swap_slot *slot, uint64_t at, const void *from,
	uint64_t bytes);
/* Unlocked: makes the buffer, if it is not there. */
int swap_make_buffer(struct core *core, struct swap_buffer *buffer);
/* With the lock: gives the buffer to a slot of the file. False: another has it. */
bool swap_lend(struct swap_buffer *buffer, struct swap_slot *slot);
void swap_release(struct swap_slot *slot);
/* Unlocked: gives free slots back to the host until `limit` bytes are left. */
void swap_trim(struct core *core, uint64_t limit);

/* Unlocked. The slot's memory moves to an address of the arena that has no chunk, for commands to use it there. */
int swap_map(struct core *core, struct swap_slot *slot, uint64_t address);
/* Unlocked, in a job: makes a slot of the file one in memory, with what is in it. -ENOMEM: there is no room for it. */
int swap_to_memory(struct core *core, struct swap_slot **slot);
/* Unlocked, in a job: the other way round. -ENOMEM, -ENOSPC: then it is where it was. Nobody else knows the slot. */
int swap_to_file(struct core *core, struct swap_slot **slot);
/* Unlocked, in a job: up to so much memory, and no more than a slot's, that has been charged for what has no slot yet is
 * given back, and the file charged for it. Returns how much. */
uint64_t swap_charge_to_file(struct core *core, uint64_t bytes);
/* Unlocked. Gives such a slot back to the host, and the address to the arena. */
void swap_unmap(struct core *core, struct swap_slot *slot);

#endif
