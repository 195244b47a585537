/* SPDX-License-Identifier: MIT
 *
 * Shared device memory: shmget, shmat, shmdt, shmctl on device memory ("Gdev", section 4.2). Segments and
 * the rights to them are gdevd's; an attached one is an object of the session like its own. So is one that is
 * found by its token.
 */
#include <errno.h>
#include <string.h>
#include <sys/ipc.h>
#include <unistd.h>

#include "base/log.h"
#include "lib/libgdev/internal.h"
#include "lib/libgdev/memory.h"

/* A segment of less than ARENA_ALIGN takes a multiple of this where it can be mapped into the client, which asks to map
 * what there is and no more. */
#define SMALL_SEGMENT_GRAIN 4096ull

#define COMES_TRIES 100
#define COMES_PAUSE_US 20000

static int request_shm(struct gdev_session *session, uint16_t opcode, struct record_shm *record,
	struct reply_shm *reply)
{
	return session_request(session, opcode, record, sizeof *record, NULL, 0, reply,
		reply ? sizeof *reply : 0, reply ? sizeof *reply : 0);
}

/* With memory.change, which it lets go meanwhile: of an object that other threads do not find. */
static int request_unlocked(struct gdev_session *session, uint16_t opcode,
	struct record_shm *record, struct reply_shm *reply)
{
	int error;

	pthread_mutex_unlock(&session->memory.change);
	error = request_shm(session, opcode, record, reply);
	pthread_mutex_lock(&session->memory.change);
	return error;
}

int gdev_shm_get(struct gdev_session *session, int32_t key, uint64_t bytes, int flags, uint32_t *id)
{
	struct record_shm record = {.key = key, .bytes = bytes, .flags = (uint32_t)flags};
	struct reply_shm reply;
	int error = request_shm(session, RECORD_SHM_GET, &record, &reply);

	if (error)
		return error;
	*id = reply.id;
	return 0;
}

int gdev_shm_get_or_make(
	struct gdev_session *session, int32_t key, uint64_t bytes, int flags, uint32_t *id)
{
	int error = gdev_shm_get(session, key, bytes, flags, id);

	if (error != -ENOENT || flags || !bytes)
		return error;
	log_warning(
		"no shared memory has the key %#x: it is made, as the first Gdev did; IPC_CREAT asks for that",
		(unsigned)key);
	return gdev_shm_get(session, key, bytes, IPC_CREAT | 0600, id);
}

static int attach_at(struct gdev_session *session, uint32_t id, int flags, uint64_t bytes,
	struct block **attached)
{
	struct record_shm record = {.id = id, .flags = (uint32_t)flags};
	struct reply_shm reply;
	struct object *object;
	int error = memory_object_create(session, GDEV_MEMORY_SHARED,
		align_up(bytes, bytes < ARENA_ALIGN ? SMALL_SEGMENT_GRAIN : ARENA_ALIGN), &object);

	if (error)
		return error;
	record.address = object->base;
	error = object_whole_block(object, attached);
	if (!error)
		error = request_unlocked(session, RECORD_SHM_ATTACH, &record, &reply);
	if (error)
		memory_object_destroy(session, object);
	return error;
}

int gdev_shm_attach(struct gdev_session *session, uint32_t id, int flags, uint64_t *address)
{
	struct memory *memory = &session->memory;
	struct gdev_shm_info info;
	struct block *block;
	int error = gdev_shm_control(session, id, IPC_STAT, &info);

	if (error)
		return error;
	if (!info.bytes || info.bytes > session->description.arena_bytes)
		return -GDEV_E_PROTOCOL;
	pthread_mutex_lock(&memory->change);
	error = attach_at(session, id, flags, info.bytes, &block);
	if (!error)
		error = memory_publish(session, block, info.bytes);
	if (!error)
		*address = block->base;
	pthread_mutex_unlock(&memory->change);
	return error;
}

int gdev_shm_detach(struct gdev_session *session, uint64_t address)
{
	struct record_shm record = {0};
	struct memory *memory = &session->memory;
	struct block *block;
	int error;

	if (session_lost(session))
		return transport_error(session->transport);
	error = streams_sync(session);
	pthread_mutex_lock(&memory->change);
	block = memory_take_shared(session, address);
	if (block) {
		record.address = block->object->base;
		int left = memory_leave_peers(session, block->object);
		int detached = request_unlocked(session, RECORD_SHM_DETACH, &record, NULL);
		memory_object_destroy(session, block->object);
		error = error ? error : detached ? detached : left;
	} else {
		error = -EINVAL;
	}
	pthread_mutex_unlock(&memory->change);
	return error;
}

int gdev_shm_control(
	struct gdev_session *session, uint32_t id, int command, struct gdev_shm_info *info)
{
	struct record_shm record = {.id = id, .command = (uint32_t)command};
	struct reply_shm reply;
	int error;

	if (command == IPC_SET && !info)
		return -EINVAL;
	if (command == IPC_SET)
		record.flags = info->mode;
	error = request_shm(session, RECORD_SHM_CONTROL, &record, &reply);
	if (error || !info)
		return error;
	*info = (struct gdev_shm_info){reply.id, reply.owner_uid, reply.owner_gid, reply.mode,
		reply.bytes, reply.attached};
	return 0;
}

/* ---- by token ---- */

static int request_shared(struct gdev_session *session, uint16_t opcode,
	struct record_shared *record, struct gdev_shared *shared)
{
	struct reply_shared reply;
	int error;

	if (!shared)
		return session_request(
			session, opcode, record, sizeof *record, NULL, 0, NULL, 0, 0);
	error = session_request(session, opcode, record, sizeof *record, NULL, 0, &reply,
		sizeof reply, sizeof reply);
	if (error)
		return error;
	*shared = (struct gdev_shared){.id = reply.id, .bytes = reply.bytes};
	memcpy(shared->token, reply.token, sizeof shared->token);
	return 0;
}

static struct record_shared record_of(const struct gdev_shared *shared)
{
	struct record_shared record = {.id = shared->id};

	memcpy(record.token, shared->token, sizeof record.token);
	return record;
}

int gdev_shared_create(struct gdev_session *session, uint64_t bytes, struct gdev_shared *shared)
{
	struct record_shared record = {.bytes = bytes};
	struct memory *memory = &session->memory;
	uint64_t left;
	int error;

	if (bytes > session->description.arena_bytes)
		return -ENOMEM;
	pthread_mutex_lock(&memory->change);
	do {
		left = memory->kept.left;
		pthread_mutex_unlock(&memory->change);
		error = request_shared(session, RECORD_SHARED_CREATE, &record, shared);
		pthread_mutex_lock(&memory->change);
		/* Memory that is only kept is no reason to refuse. */
	} while (error == -ENOMEM && kept_release(session, left));
	pthread_mutex_unlock(&memory->change);
	return error;
}

/* What others write there is not seen: for checks it is written. Lock of changes held. */
static int set_exported(struct gdev_session *session, struct object *object)
{
	const struct memory *memory = &session->memory;
	int error = 0;

	if (object->exported)
		return 0;
	for (size_t i = 0; i < memory->block_count && !error; i++)
		if (memory->blocks[i]->object == object)
			error = check_added(session, memory->blocks[i]->base,
				memory->blocks[i]->asked_bytes, true);
	object->exported = !error; /* soon: it is not kept from now on */
	return error;
}

int gdev_shared_export(struct gdev_session *session, uint64_t address, struct gdev_shared *shared,
	uint64_t *offset)
{
	struct memory *memory = &session->memory;
	struct record_shared record = {0};
	struct block *block;
	int error = -EINVAL;

	pthread_mutex_lock(&memory->change);
	block = memory_block_at(session, address);
	if (block && block->object->kind == GDEV_MEMORY_DEVICE) {
		record.address = block->object->base;
		*offset = block->base - block->object->base;
		error = set_exported(session, block->object);
	}
	pthread_mutex_unlock(&memory->change);
	if (!error)
		error = request_shared(session, RECORD_SHARED_EXPORT, &record, shared);
	if (!error)
		session->shares = true;
	return error;
}

/* Memory of another device that is not on it just now cannot be had; but its own session is bringing it in, if it can.
 * Waits a little, and returns whether it is worth to ask again. */
static bool may_have_come(int error, unsigned *tries)
{
	if (error != -EAGAIN || ++*tries > COMES_TRIES)
		return false;
	usleep(COMES_PAUSE_US);
	return true;
}

int gdev_shared_hold(struct gdev_session *session, struct gdev_shared *shared)
{
	struct record_shared record = record_of(shared);
	unsigned tries = 0;
	int error;

	do
		error = request_shared(session, RECORD_SHARED_HOLD, &record, shared);
	while (may_have_come(error, &tries));
	return error;
}

int gdev_shared_publish(struct gdev_session *session, const struct gdev_shared *shared)
{
	struct record_shared record = record_of(shared);
	struct gdev_shared published;

	return request_shared(session, RECORD_SHARED_PUBLISH, &record, &published);
}

int gdev_shared_drop(struct gdev_session *session, const struct gdev_shared *shared)
{
	struct record_shared record = record_of(shared);

	return request_shared(session, RECORD_SHARED_DROP, &record, NULL);
}

/* As request_unlocked(). */
static int request_map(
	struct gdev_session *session, struct record_shared *record, struct gdev_shared *found)
{
	int error;

	pthread_mutex_unlock(&session->memory.change);
	error = request_shared(session, RECORD_SHARED_MAP, record, found);
	pthread_mutex_lock(&session->memory.change);
	return error;
}

/* memory.change is held. */
static int map_object(struct gdev_session *session, const struct gdev_shared *shared, int flags,
	uint64_t address, struct block **mapped)
{
	struct record_shared record = record_of(shared);
	struct gdev_shared found;
	struct object *object;
	int error;

	if (address)
		error = memory_object_create_at(session, address, shared->bytes, &object);
	else
		error = memory_object_create(session, GDEV_MEMORY_SHARED, shared->bytes, &object);
	if (error)
		return error;
	record.address = object->base;
	record.flags = (uint32_t)flags;
	object->shared = *shared;
	object->shared_flags = flags;
	error = object_whole_block(object, mapped);
	if (!error)
		error = request_map(session, &record, &found);
	if (!error && found.bytes != shared->bytes) { /* the caller has been told a lie */
		struct record_shm detach = {.address = object->base};
		request_unlocked(session, RECORD_SHM_DETACH, &detach, NULL);
		error = -EINVAL;
	}
	if (error)
		memory_object_destroy(session, object);
	return error;
}

int gdev_shared_map(struct gdev_session *session, const struct gdev_shared *shared, uint64_t offset,
	uint64_t bytes, int flags, uint64_t *address)
{
	struct memory *memory = &session->memory;
	struct block *block;
	unsigned tries = 0;
	int error;

	if (!shared->bytes || shared->bytes % ARENA_ALIGN || *address % ARENA_ALIGN ||
		shared->bytes > session->description.arena_bytes || !bytes ||
		offset > shared->bytes || bytes > shared->bytes - offset)
		return -EINVAL;
	do {
		pthread_mutex_lock(&memory->change);
		error = map_object(session, shared, flags, *address, &block);
		if (error)
			pthread_mutex_unlock(&memory->change);
	} while (may_have_come(error, &tries));
	if (error)
		return error;
	block->base += offset;
	error = memory_publish(session, block, bytes);
	if (!error)
		*address = block->base;
	pthread_mutex_unlock(&memory->change);
	return error;
}

/* ---- addresses ---- */

int gdev_address_reserve(
	struct gdev_session *session, uint64_t bytes, uint64_t alignment, uint64_t *address)
{
	int error;

	if (!bytes || bytes % ARENA_ALIGN || (alignment & (alignment - 1)))
		return -EINVAL;
	alignment = max_of(alignment, (uint64_t)ARENA_ALIGN);
	pthread_mutex_lock(&session->memory.change);
	error = arena_take_aligned(&session->memory.arena, bytes, alignment, address);
	pthread_mutex_unlock(&session->memory.change);
	return error;
}

void gdev_address_free(struct gdev_session *session, uint64_t address, uint64_t bytes)
{
	pthread_mutex_lock(&session->memory.change);
	arena_give(&session->memory.arena, address, bytes);
	pthread_mutex_unlock(&session->memory.change);
}
