/* SPDX-License-Identifier: MIT
 *
 * Device memory that the processes of a guest find by keys, and by the ids that they get for them (cuShmGet). To gdevd they are
 * all one user's, who has the keys of other guests and of the host, too. So a machine has a table of its own: gdevd knows each
 * segment by a random key, and who of the guest may do what with it is decided here, by the user that the guest's kernel names
 * and by the mode. A segment that is not in the table is none of the machine's.
 *
 * All proxies of the machine share the table. Its lock is held for a look or a change; whoever dies with it leaves entries
 * whole: `host_key` is stored last, and cleared first.
 */
#ifndef GDEV_VM_KEYS_H
#define GDEV_VM_KEYS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define KEYS_MAX 256 /* of a machine: gdevd allows its user 2,048 */

struct record_shm;
struct reply_shm;

struct key {
	int32_t key;      /* the guest's; IPC_PRIVATE: it has none */
	int32_t host_key; /* gdevd's; 0: this is no entry, or, of a noted CONTROL, one that stays */
	uint32_t id;      /* 0: it is being made, */
	unsigned maker;   /* by this slot's proxy */
	uint32_t user, mode; /* of the owner; nine bits, and GDEV_SHM_TRUST_READERS */
	bool makes;          /* of a noted GET: the entry was added for it */
};

struct keys {
	pthread_mutex_t lock; /* robust */
	struct key entries[KEYS_MAX];
};

/* In memory that is zeros, and that proxies share. */
int keys_init(struct keys *keys);
/* A record SHM_GET, _ATTACH or _CONTROL of a process of that user becomes what the worker is sent; `*noted`: for
 * keys_answered(). -errno: what it is answered instead. */
int keys_prepare(struct keys *keys, unsigned slot, uint32_t user, struct record_shm *record,
	struct key *noted);
/* What the worker has answered to `opcode` becomes what the guest is answered: the status. *spare: the id of a segment for which
 * there is no room here any more, and which is to be removed; else 0. */
int keys_answered(struct keys *keys, uint16_t opcode, const struct key *noted, int status,
	struct reply_shm *reply, uint32_t *spare);
/* Takes entries out, and the keys by which gdevd knows them: how many. Those that are still being made by slots of the set
 * `ended`, whose workers have gone; and, `all`: those that are made. Then nobody finds any of the others, either. */
unsigned keys_take(struct keys *keys, bool all, uint64_t ended, int32_t host_keys[KEYS_MAX]);
/* Removes what keys_take() has named, by a session of its own. */
void keys_remove(const char *vgpu, const int32_t *host_keys, unsigned count);

#endif
