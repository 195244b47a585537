/* SPDX-License-Identifier: MIT
 *
 * See freeing.h.
 */
#include "gdevd/memory/freeing.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "gdevd/daemon.h"

struct freeing {
	struct list link; /* daemon.freeing */
	struct closing closing;
	struct daemon *daemon; /* NULL: gdevd ends */
	uint32_t segment;      /* that waits for it; 0: none */
	unsigned count;
	struct memory_account accounts[1 + SWAP_POOLS];
	int fds[];
};

static void on_closed(struct closing *closing)
{
	struct freeing *freeing = container_of(closing, struct freeing, closing);
	struct daemon *daemon = freeing->daemon;
	uint32_t segment = freeing->segment;
	struct device *device;

	list_remove(&freeing->link);
	for (unsigned i = 0; i < freeing->count; i++)
		memory_return(&freeing->accounts[i], freeing->accounts[i].used_bytes);
	free(freeing);
	if (!daemon)
		return;
	if (segment)
		shm_freed(daemon, segment);
	residency_balance_all(daemon);
	list_for_each (device, &daemon->devices, link) {
		relief_serve(device);
		workers_adjust(device);
	}
}

struct freeing *freeing_begin(struct daemon *daemon, struct user *user, int *fds, size_t count)
{
	struct freeing *freeing;
	size_t some = 0;

	for (size_t i = 0; i < count; i++)
		some += fds[i] >= 0;
	if (!some)
		return NULL;
	freeing = calloc(1, sizeof *freeing + count * sizeof *fds);
	if (!freeing) {
		fd_close_all(fds, count);
		return NULL;
	}
	freeing->daemon = daemon;
	memcpy(freeing->fds, fds, count * sizeof *fds);
	memset(fds, -1, count * sizeof *fds);
	freeing->closing = (struct closing){
		.user = user, .closed = on_closed, .count = count, .fds = freeing->fds};
	list_append(&daemon->freeing, &freeing->link);
	closer_add(&freeing->closing);
	return freeing;
}

void freeing_charge(struct freeing *freeing, struct memory_account *account)
{
	struct memory_account *own;

	if (!freeing) {
		memory_return(account, account->used_bytes);
		return;
	}
	own = &freeing->accounts[freeing->count++];
	memory_init(own, account->parent, UINT64_MAX);
	memory_move(account, own, account->used_bytes);
}

void freeing_tell(struct freeing *freeing, uint32_t segment)
{
	freeing->segment = segment;
}

uint64_t freeing_coming(const struct daemon *daemon, const struct memory_account *account)
{
	const struct freeing *freeing;
	uint64_t bytes = 0;

	list_for_each (freeing, &daemon->freeing, link)
		for (unsigned i = 0; i < freeing->count; i++)
			if (memory_is_in(account, &freeing->accounts[i]))
				bytes += freeing->accounts[i].used_bytes;
	return bytes;
}

void freeing_move(
	struct daemon *daemon, const struct memory_account *from, struct memory_account *to)
{
	struct freeing *freeing;

	list_for_each (freeing, &daemon->freeing, link)
		for (unsigned i = 0; i < freeing->count; i++)
			memory_rehang(&freeing->accounts[i], from, to);
}

void freeing_stop(struct daemon *daemon)
{
	struct freeing *freeing, *after;

	list_for_each_safe (freeing, after, &daemon->freeing, link) {
		list_remove(&freeing->link);
		freeing->daemon = NULL;
		freeing->count = 0;
	}
}
