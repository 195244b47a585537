/* SPDX-License-Identifier: MIT
 *
 * See memory.h.
 */
#include "gdevd/memory/memory.h"

#include <errno.h>

#include "base/cleanup.h"

void memory_init(
	struct memory_account *account, struct memory_account *parent, uint64_t limit_bytes)
{
	*account = (struct memory_account){.parent = parent, .limit_bytes = limit_bytes};
}

uint64_t memory_room(const struct memory_account *account)
{
	/* A limit may have been lowered below the use. */
	return account->limit_bytes > account->used_bytes
		       ? account->limit_bytes - account->used_bytes
		       : 0;
}

uint64_t memory_free(const struct memory_account *account)
{
	uint64_t least = UINT64_MAX;

	for (; account; account = account->parent)
		least = min_of(least, memory_room(account));
	return least;
}

uint64_t memory_total(const struct memory_account *account)
{
	uint64_t least = UINT64_MAX;

	for (; account; account = account->parent)
		least = min_of(least, account->limit_bytes);
	return least;
}

void memory_charge_held(struct memory_account *account, uint64_t bytes)
{
	for (; account; account = account->parent) {
		account->used_bytes += bytes;
		account->peak_bytes = max_of(account->peak_bytes, account->used_bytes);
	}
}

int memory_charge(struct memory_account *account, uint64_t bytes)
{
	if (bytes > memory_free(account))
		return -ENOMEM;
	memory_charge_held(account, bytes);
	return 0;
}

int memory_return(struct memory_account *account, uint64_t bytes)
{
	if (bytes > account->used_bytes)
		return -EINVAL;
	for (; account; account = account->parent)
		account->used_bytes -= bytes;
	return 0;
}

int memory_move(struct memory_account *from, struct memory_account *to, uint64_t bytes)
{
	int error;

	if (memory_return(from, bytes))
		return -EINVAL;
	/* Between the two nothing else can be charged: the way back cannot fail but by a limit that
	 * was lowered, and the use goes back to what it was. */
	error = memory_charge(to, bytes);
	if (error)
		for (; from; from = from->parent)
			from->used_bytes += bytes;
	return error;
}

int memory_reparent(struct memory_account *account, struct memory_account *parent)
{
	struct memory_account *old = account->parent;
	uint64_t bytes = account->used_bytes;
	int error = 0;

	if (old)
		memory_return(old, bytes);
	if (parent)
		error = memory_charge(parent, bytes);
	if (error) {
		for (; old; old = old->parent)
			old->used_bytes += bytes;
		return error;
	}
	account->parent = parent;
	return 0;
}
