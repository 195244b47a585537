/* SPDX-License-Identifier: MIT
 *
 * Accounts of device memory: how much each worker, segment, virtual GPU and device holds. Accounts form a chain: a worker's or a shared segment's account
 * is charged to its virtual GPU's, and that one to its device's. A charge goes to the whole chain or
 * to none of it, so that an account's use is always the sum of those below it, exactly.
 * Pure bookkeeping; the memory itself is the workers'.
 */
#ifndef GDEV_GDEVD_MEMORY_H
#define GDEV_GDEVD_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

struct memory_account {
	struct memory_account *parent;
	uint64_t limit_bytes; /* UINT64_MAX: the parent's alone */
	uint64_t used_bytes, peak_bytes;
};

void memory_init(
	struct memory_account *account, struct memory_account *parent, uint64_t limit_bytes);

/* 0, or -ENOMEM when some account of the chain would exceed its limit: then nothing is charged. */
int memory_charge(struct memory_account *account, uint64_t bytes);
/* Charges what is held already, whatever the limits say. */
void memory_charge_held(struct memory_account *account, uint64_t bytes);
/* The same for what a session says that it holds which was there before this gdevd: nothing can be taken back from
 * it. -EINVAL: the account would have more than it can have; then nothing is charged. */
int memory_claim(struct memory_account *account, uint64_t bytes, uint64_t most_bytes);
/* -EINVAL when the account does not hold that much: then nothing is returned. */
int memory_return(struct memory_account *account, uint64_t bytes);

/* Whether the account is one of the chain that begins with `chain`. */
bool memory_is_in(const struct memory_account *account, const struct memory_account *chain);
/* Moves a charge between two accounts, as memory_return() and memory_charge() would, but what is
 * above both never sees it leave. -EINVAL, -ENOMEM. */
int memory_move(struct memory_account *from, struct memory_account *to, uint64_t bytes);

/* Hangs the account with all it holds below another parent. -ENOMEM: it stays where it is. */
int memory_reparent(struct memory_account *account, struct memory_account *parent);

/* If the account is right below `from`, hangs it below `to`, whatever the limits are. */
void memory_rehang(struct memory_account *account, const struct memory_account *from,
	struct memory_account *to);

/* What this account's own limit leaves; 0 when that was lowered below the use. */
uint64_t memory_room(const struct memory_account *account);
/* What a charge may be at most now. */
uint64_t memory_free(const struct memory_account *account);
/* What the account may hold at most: the least limit of its chain. */
uint64_t memory_total(const struct memory_account *account);

#endif
