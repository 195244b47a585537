/* SPDX-License-Identifier: MIT
 *
 * Which worker serves whom, written down in the runtime directory, which only gdevd may write to: the next gdevd
 * compares with it what workers say who register with it. Workers run what clients send; on its own word one could be
 * any user's.
 */
#ifndef GDEV_GDEVD_LEDGER_H
#define GDEV_GDEVD_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/control.h"

/* As in the file. */
struct ledger_entry {
	uint64_t session; /* 0: no entry */
	int32_t worker, pid;
	uint32_t uid, gid;
	char vgpu[CONTROL_NAME_MAX];
};

_Static_assert(sizeof(struct ledger_entry) == 56, "the next gdevd's");

struct ledger {
	int fd;
	struct ledger_entry *entries;
	size_t count;
};

/* Takes the descriptor over, and forgets workers whose processes are no more. */
void ledger_init(struct ledger *ledger, int fd);
void ledger_finish(struct ledger *ledger);
/* -errno: it will not be known after a restart. */
int ledger_add(struct ledger *ledger, const struct ledger_entry *entry);
void ledger_remove(struct ledger *ledger, uint64_t session);
/* Whether there is just that. */
bool ledger_has(const struct ledger *ledger, const struct ledger_entry *entry);

#endif
