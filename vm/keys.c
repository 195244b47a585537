/* SPDX-License-Identifier: MIT
 *
 * See keys.h.
 */
#include "vm/keys.h"

#include <errno.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/random.h>
#include <sys/shm.h>

#include "gdev/session.h"
#include "proto/record.h"

#define ACCESS_READ 4
#define ACCESS_WRITE 2
#define MODE_BITS (0777u | GDEV_SHM_TRUST_READERS)
#define HOST_MODE 0600u /* the user that runs `gdev vm serve` has all, and nobody else anything */

int keys_init(struct keys *keys)
{
	pthread_mutexattr_t attributes;
	int error = pthread_mutexattr_init(&attributes);

	if (error)
		return -error;
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	error = pthread_mutex_init(&keys->lock, &attributes);
	pthread_mutexattr_destroy(&attributes);
	return -error;
}

static void lock(struct keys *keys)
{
	if (pthread_mutex_lock(&keys->lock) == EOWNERDEAD)
		pthread_mutex_consistent(&keys->lock);
}

/* ---- entries. With the lock ---- */

static void put(struct key *entry, const struct key *content)
{
	entry->key = content->key;
	entry->id = content->id;
	entry->maker = content->maker;
	entry->user = content->user;
	entry->mode = content->mode;
	__atomic_store_n(&entry->host_key, content->host_key, __ATOMIC_RELEASE);
}

static void drop(struct key *entry)
{
	__atomic_store_n(&entry->host_key, 0, __ATOMIC_RELEASE);
}

static struct key *add(struct keys *keys, const struct key *content)
{
	for (unsigned i = 0; i < KEYS_MAX; i++)
		if (!keys->entries[i].host_key) {
			put(&keys->entries[i], content);
			return &keys->entries[i];
		}
	return NULL;
}

static struct key *find(struct keys *keys, int32_t host_key)
{
	for (unsigned i = 0; i < KEYS_MAX && host_key; i++)
		if (keys->entries[i].host_key == host_key)
			return &keys->entries[i];
	return NULL;
}

static struct key *find_key(struct keys *keys, int32_t key)
{
	for (unsigned i = 0; i < KEYS_MAX && key != IPC_PRIVATE; i++)
		if (keys->entries[i].host_key && keys->entries[i].key == key)
			return &keys->entries[i];
	return NULL;
}

static struct key *find_id(struct keys *keys, uint32_t id)
{
	for (unsigned i = 0; i < KEYS_MAX && id; i++)
		if (keys->entries[i].host_key && keys->entries[i].id == id)
			return &keys->entries[i];
	return NULL;
}

/* ---- rights ---- */

/* The guest's groups are not known: who is not the owner has what both the group and others have. */
static bool may_access(const struct key *entry, uint32_t user, unsigned access)
{
	unsigned granted = user == entry->user ? entry->mode >> 6 : entry->mode & entry->mode >> 3;

	return user == 0 || !(access & ~granted & 7);
}

static bool may_control(const struct key *entry, uint32_t user)
{
	return user == 0 || user == entry->user;
}

/* ---- records ---- */

static int prepare_get(struct keys *keys, unsigned slot, uint32_t user, struct record_shm *record,
	struct key *noted)
{
	const struct key *entry = find_key(keys, record->key);
	bool makes = !entry;
	unsigned access = record->flags >> 6 | record->flags >> 3 | record->flags;
	struct key made = {
		.key = record->key, .maker = slot, .user = user, .mode = record->flags & MODE_BITS};

	if (entry && !may_access(entry, user, access & 7))
		return -EACCES;
	if (!entry && record->key != IPC_PRIVATE && !(record->flags & IPC_CREAT))
		return -ENOENT;
	while (!entry && (!made.host_key || find(keys, made.host_key)))
		if (getrandom(&made.host_key, sizeof made.host_key, 0) < 0)
			return -EAGAIN;
	if (!entry)
		entry = add(keys, &made);
	if (!entry)
		return -ENOSPC;
	*noted = *entry;
	noted->makes = makes;
	record->key = entry->host_key;
	record->flags = (record->flags & (IPC_CREAT | IPC_EXCL)) | HOST_MODE;
	if (noted->key == IPC_PRIVATE)
		record->flags |= IPC_CREAT | IPC_EXCL;
	return 0;
}

/* Its worker is not kept from writing by gdevd, to whom it is the owner's: so who may only read has it if the owner trusts
 * readers, and else not at all. */
static int prepare_attach(
	struct keys *keys, uint32_t user, const struct record_shm *record, struct key *noted)
{
	const struct key *entry = find_id(keys, record->id);
	bool reads = record->flags & SHM_RDONLY;

	if (!entry)
		return -EINVAL;
	if (!may_access(entry, user, ACCESS_READ | (reads ? 0 : ACCESS_WRITE)))
		return -EACCES;
	if (!may_access(entry, user, ACCESS_WRITE) && !(entry->mode & GDEV_SHM_TRUST_READERS))
		return -ENOTSUP;
	*noted = *entry;
	return 0;
}

static int prepare_control(
	struct keys *keys, uint32_t user, struct record_shm *record, struct key *noted)
{
	struct key *entry = find_id(keys, record->id);
	bool asks = record->command == IPC_STAT;

	if (!entry || (!asks && record->command != IPC_SET && record->command != IPC_RMID))
		return -EINVAL;
	if (asks ? !may_access(entry, user, ACCESS_READ) : !may_control(entry, user))
		return asks ? -EACCES : -EPERM;
	if (record->command == IPC_SET) { /* the host's mode stays */
		entry->mode = record->flags & MODE_BITS;
		record->command = IPC_STAT;
	}
	*noted = *entry;
	if (record->command != IPC_RMID)
		noted->host_key = 0;
	return 0;
}

int keys_prepare(struct keys *keys, unsigned slot, uint32_t user, struct record_shm *record,
	struct key *noted)
{
	int error;

	lock(keys);
	if (record->header.opcode == RECORD_SHM_GET)
		error = prepare_get(keys, slot, user, record, noted);
	else if (record->header.opcode == RECORD_SHM_ATTACH)
		error = prepare_attach(keys, user, record, noted);
	else
		error = prepare_control(keys, user, record, noted);
	pthread_mutex_unlock(&keys->lock);
	return error;
}

/* What was asked for is not there: was not made, or is gone. What others have made meanwhile stays. */
static bool is_over(const struct key *entry, const struct key *noted, int status)
{
	return entry->id == noted->id && (noted->id ? status == -ENOENT : noted->makes);
}

static int note_id(struct keys *keys, struct key *noted, int status, uint32_t id, uint32_t *spare)
{
	struct key *entry = find(keys, noted->host_key);

	if (status < 0) {
		if (entry && is_over(entry, noted, status))
			drop(entry);
		return status;
	}
	noted->id = id;
	if (!entry)
		entry = add(keys, noted);
	if (!entry) {
		*spare = id;
		return -ENOSPC;
	}
	entry->id = id;
	return status;
}

int keys_answered(struct keys *keys, uint16_t opcode, const struct key *noted, int status,
	struct reply_shm *reply, uint32_t *spare)
{
	struct key of = *noted, *removed;

	*spare = 0;
	lock(keys);
	if (opcode == RECORD_SHM_GET) {
		status = note_id(keys, &of, status, reply->id, spare);
	} else if (opcode == RECORD_SHM_CONTROL && !status) {
		removed = find(keys, noted->host_key);
		if (removed && removed->id == noted->id)
			drop(removed);
	}
	pthread_mutex_unlock(&keys->lock);
	reply->owner_uid = of.user;
	reply->owner_gid = UINT32_MAX;
	reply->mode = of.mode;
	return status;
}

/* ---- the end ---- */

unsigned keys_take(struct keys *keys, bool all, uint64_t ended, int32_t host_keys[KEYS_MAX])
{
	unsigned count = 0;

	lock(keys);
	for (unsigned i = 0; i < KEYS_MAX; i++) {
		struct key *entry = &keys->entries[i];
		if (all)
			entry->key = IPC_PRIVATE;
		if (!entry->host_key || !(entry->id ? all : ended >> entry->maker & 1))
			continue;
		host_keys[count++] = entry->host_key;
		drop(entry);
	}
	pthread_mutex_unlock(&keys->lock);
	return count;
}

void keys_remove(const char *vgpu, const int32_t *host_keys, unsigned count)
{
	struct gdev_session *session;
	uint32_t id;

	if (gdev_session_open(vgpu, &session))
		return;
	for (unsigned i = 0; i < count; i++)
		if (!gdev_shm_get(session, host_keys[i], 0, 0, &id))
			gdev_shm_control(session, id, IPC_RMID, NULL);
	gdev_session_close(session);
}
