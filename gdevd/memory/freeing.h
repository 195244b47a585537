/* SPDX-License-Identifier: MIT
 *
 * Memory that is being freed: gdevd closes its descriptors on a thread (closer.h), and what they were charged to gets the
 * charge back when they are closed. Until then it counts as coming, so that nobody else is made to leave for it.
 */
#ifndef GDEV_GDEVD_FREEING_H
#define GDEV_GDEVD_FREEING_H

#include <stdint.h>

#include "gdevd/closer.h"
#include "gdevd/memory/memory.h"

struct daemon;

/* Takes the descriptors over, of which some may be -1, and sets them to that. NULL: they are closed already. */
struct freeing *freeing_begin(struct daemon *daemon, struct user *user, int *fds, size_t count);
/* All that the account has is returned when `freeing` ends; at once if that is NULL. Thrice at most. */
void freeing_charge(struct freeing *freeing, struct memory_account *account);
/* shm_freed() is called with the segment's number when it ends. */
void freeing_tell(struct freeing *freeing, uint32_t segment);

/* What will come back to the account, which has others below it. */
uint64_t freeing_coming(const struct daemon *daemon, const struct memory_account *account);
/* What is charged below the one account is from now on below the other. */
void freeing_move(
	struct daemon *daemon, const struct memory_account *from, struct memory_account *to);
/* The accounts are no more. */
void freeing_stop(struct daemon *daemon);

#endif
