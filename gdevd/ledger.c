/* SPDX-License-Identifier: MIT
 *
 * See ledger.h.
 */
#include "gdevd/ledger.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"

static int write_entry(const struct ledger *ledger, size_t at)
{
	return fd_write_at(ledger->fd, &ledger->entries[at], sizeof *ledger->entries,
		at * sizeof *ledger->entries);
}

static int grow(struct ledger *ledger)
{
	struct ledger_entry *larger =
		reallocarray(ledger->entries, ledger->count + 1, sizeof *larger);

	if (!larger)
		return -ENOMEM;
	memset(&larger[ledger->count++], 0, sizeof *larger);
	ledger->entries = larger;
	return 0;
}

/* The entry of a session; of 0: a free one. */
static struct ledger_entry *find(const struct ledger *ledger, uint64_t session)
{
	for (size_t i = 0; i < ledger->count; i++)
		if (ledger->entries[i].session == session)
			return &ledger->entries[i];
	return NULL;
}

void ledger_init(struct ledger *ledger, int fd)
{
	struct ledger_entry entry;

	*ledger = (struct ledger){.fd = fd};
	while (!fd_read_at(fd, &entry, sizeof entry, ledger->count * sizeof entry) &&
		!grow(ledger)) {
		bool gone = entry.worker <= 0 || (kill(entry.worker, 0) && errno == ESRCH);
		if (!gone)
			ledger->entries[ledger->count - 1] = entry;
	}
}

void ledger_finish(struct ledger *ledger)
{
	free(ledger->entries);
	if (ledger->fd >= 0)
		close(ledger->fd);
}

int ledger_add(struct ledger *ledger, const struct ledger_entry *entry)
{
	struct ledger_entry *free_entry = find(ledger, 0);

	if (!free_entry && grow(ledger))
		return -ENOMEM;
	if (!free_entry)
		free_entry = &ledger->entries[ledger->count - 1];
	*free_entry = *entry;
	return write_entry(ledger, (size_t)(free_entry - ledger->entries));
}

void ledger_remove(struct ledger *ledger, uint64_t session)
{
	struct ledger_entry *entry = find(ledger, session);

	if (!entry)
		return;
	memset(entry, 0, sizeof *entry);
	write_entry(ledger, (size_t)(entry - ledger->entries));
}

bool ledger_has(const struct ledger *ledger, const struct ledger_entry *entry)
{
	const struct ledger_entry *known = entry->session ? find(ledger, entry->session) : NULL;

	return known && !memcmp(known, entry, sizeof *known);
}
