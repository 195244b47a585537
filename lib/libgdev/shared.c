/* SPDX-License-Identifier: MIT
 *
 * Shared device memory: shmget, shmat, shmdt, shmctl on device memory ("Gdev", section 4.2). Segments and
 * who may use them are gdevd's; an attached one is an object of the session like its own.
 */
#include <errno.h>
#include <sys/ipc.h>

#include "lib/libgdev/internal.h"
#include "lib/libgdev/memory.h"

static int request_shm(struct gdev_session *session, uint16_t opcode, struct record_shm *record,
	struct reply_shm *reply)
{
	return session_request(session, opcode, record, sizeof *record, NULL, 0, reply,
		reply ? sizeof *reply : 0, reply ? sizeof *reply : 0);
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

static int attach_at(struct gdev_session *session, uint32_t id, int flags, uint64_t bytes,
	struct block **attached)
{
	struct record_shm record = {.id = id, .flags = (uint32_t)flags};
	struct reply_shm reply;
	struct object *object;
	int error = memory_object_create(
		session, GDEV_MEMORY_SHARED, align_up(bytes, ARENA_ALIGN), &object);

	if (error)
		return error;
	record.address = object->base;
	error = memory_whole_block(object, attached);
	if (!error)
		error = request_shm(session, RECORD_SHM_ATTACH, &record, &reply);
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
	struct record_shm record = {.address = address};
	struct memory *memory = &session->memory;
	struct block *block;
	int error;

	if (session_lost(session))
		return transport_error(session->transport);
	error = streams_sync(session);
	pthread_mutex_lock(&memory->change);
	block = memory_take_shared(session, address);
	if (block) {
		int detached = request_shm(session, RECORD_SHM_DETACH, &record, NULL);
		memory_object_destroy(session, block->object);
		error = error ? error : detached;
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

	if (command == IPC_SET)
		record.flags = info->mode;
	error = request_shm(session, RECORD_SHM_CONTROL, &record, &reply);
	if (error || !info)
		return error;
	*info = (struct gdev_shm_info){reply.id, reply.owner_uid, reply.owner_gid, reply.mode,
		reply.bytes, reply.attached};
	return 0;
}
