/* SPDX-License-Identifier: MIT
 *
 * Swap space: host memory up to `host_swap`, and when that is used up files up to `file_swap`. Accounts for both are
 * chains as those of device memory (memory.h); what a worker has been charged is its own until it gives it back (RETURN). That
 * includes slots in memory which it keeps without using them: others that need the room have them given back
 * (EVICT_SLOTS) before anything goes to a file. Where the device cannot use files, a session that must use its memory from the
 * host needs a slot in memory: then others move what they have in theirs to files (EVICT_MOVE).
 *
 * A session has a file of its own, without a name: no session can read another's. The file is gone when gdevd and the
 * worker have closed it, so none is left behind.
 */
#ifndef GDEV_GDEVD_SWAP_H
#define GDEV_GDEVD_SWAP_H

#include <stdbool.h>
#include <stdint.h>

#include "gdevd/memory/memory.h"
#include "gdevd/memory/residency.h"

struct ledger_session;

/* The machine's, for all devices. */
struct swap {
	struct memory_account pools[SWAP_POOLS];
	struct deadline files; /* swap files are looked at then */
};

/* Of a worker. */
struct worker_swap {
	int fd;                 /* of its file; -1: none yet */
	uint64_t promise_bytes; /* it waits for so much, and asked with */
	uint32_t promise_serial;
	uint64_t slot_bytes; /* the same for one slot in memory */
	uint32_t slot_serial;
	uint64_t asked_bytes;      /* of slots that it was to give back, */
	uint64_t asked_from_bytes; /* when it had been charged so much memory */
	enum giving says;          /* of host swap */
};

void swap_init(struct daemon *daemon);
/* The directory must take files without a name. 0, or -errno. */
int swap_check(const struct daemon *daemon);

/* Charges the worker's next object, or what is to leave: in memory, else in its file. -EAGAIN: others give back slots
 * that they do not use, and residency_balance() is called then; -ENOMEM. */
int swap_charge(struct worker *worker, uint64_t bytes, enum swap_pool *pool);
/* The same for one slot. -EAGAIN, for SLOT_IN_MEMORY alone: others give slots back that they do not use, or move what
 * is in theirs to files. */
int swap_charge_slot(
	struct worker *worker, uint64_t bytes, enum slot_place place, enum swap_pool *pool);
/* The same for something that has accounts of its own, below those of the virtual GPU. */
int swap_charge_accounts(struct daemon *daemon, struct memory_account *accounts, uint64_t bytes,
	enum swap_pool *pool);
/* Memory alone, up to `bytes` in all: what there is, and others give the rest to `asks`. -EAGAIN: they are asked to, and
 * what there was stays charged; -ENOMEM: nobody will. */
int swap_charge_memory(const struct worker *asks, struct memory_account *account, uint64_t bytes);
/* Which file the worker's swap file is, for the next gdevd. */
void swap_write_down(const struct worker *worker, struct ledger_session *record);
/* After a restart: takes over the descriptor of the swap file that the worker brings; NULL: it brings none. -EINVAL: that
 * is not the file which the session was given. */
int swap_restore(struct worker *worker, const struct ledger_session *record, int *fd);
/* A file without a name. -errno. */
int swap_file_open(const struct daemon *daemon);
/* What can be charged at most, when all slots that are not used have been given back. */
uint64_t swap_room(const struct daemon *daemon);
/* The most that one pool has room for now. */
uint64_t swap_largest(const struct daemon *daemon);
/* Whether somebody is giving slots back, or is going and has some, or some is being freed. */
bool swap_comes(const struct daemon *daemon);
/* Whether it gave anything back since it was told to (EVICT_SLOTS). */
bool swap_has_given(const struct worker *worker);

/* Of what it is charged: kept without being used; taken by objects. */
uint64_t swap_kept(const struct worker *worker);
uint64_t swap_used(const struct worker *worker);
/* Of a virtual GPU, segments included. */
uint64_t swap_used_by(const struct vgpu *vgpu);

#endif
