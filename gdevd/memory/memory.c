/* SPDX-License-Identifier: MIT
 *
 * See memory.h.
 */
#include "gdevd/memory/memory.h"

#include <errno.h>
#include <stdbool.h>

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

int memory_claim(struct memory_account *account, uint64_t bytes, uint64_t most_bytes)
{
	if (account->used_bytes > most_bytes || bytes > most_bytes - account->used_bytes)
		return -EINVAL;
	memory_charge_held(account, bytes);
	return 0;
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

bool memory_is_in(const struct memory_account *account, const struct memory_account *chain)
{
	while (chain && chain != account)
		chain = chain->parent;
	return chain != NULL;
}

/* Accounts that are in both chains have the bytes already, and keep them, also when they are over their limits. */
static bool has_room_for(
	const struct memory_account *from, const struct memory_account *to, uint64_t bytes)
{
	for (; to && !memory_is_in(to, from); to = to->parent)
		if (bytes > memory_room(to))
			return false;
	return true;
}

int memory_move(struct memory_account *from, struct memory_account *to, uint64_t bytes)
{
	if (bytes > from->used_bytes)
		return -EINVAL;
	if (!has_room_for(from, to, bytes))
		return -ENOMEM;
	memory_return(from, bytes);
	memory_charge_held(to, bytes);
	return 0;
}

int memory_reparent(struct memory_account *account, struct memory_account *parent)
{
	uint64_t bytes = account->used_bytes;

	if (!has_room_for(account->parent, parent, bytes))
		return -ENOMEM;
	if (account->parent)
		memory_return(account->parent, bytes);
	memory_charge_held(parent, bytes);
	account->parent = parent;
	return 0;
}

void memory_rehang(struct memory_account *account, const struct memory_account *from,
	struct memory_account *to)
{
	uint64_t bytes = account->used_bytes;

	if (account->parent != from)
		return;
	memory_return(account, bytes);
	account->parent = to;
	memory_charge_held(account, bytes);
}
