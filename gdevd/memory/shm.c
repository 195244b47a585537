/* SPDX-License-Identifier: MIT
 *
 * See shm.h.
 */
#include "gdevd/memory/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/random.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "gdevd/daemon.h"
#include "proto/session.h"

bool shm_may_access(const struct shm_segment *segment, uid_t uid, gid_t gid, unsigned access)
{
	unsigned granted = segment->mode;

	if (uid == 0)
		return true;
	if (uid == segment->uid || uid == segment->creator_uid)
		granted >>= 6;
	else if (gid == segment->gid || gid == segment->creator_gid)
		granted >>= 3;
	return (access & ~granted & 7) == 0;
}

bool shm_may_control(const struct shm_segment *segment, uid_t uid)
{
	return uid == 0 || uid == segment->uid || uid == segment->creator_uid;
}

void shm_init(struct shm *shm)
{
	list_init(&shm->segments);
	shm->count = 0;
}

void shm_reply(struct worker *worker, const struct control_shm *request,
	const struct shm_segment *segment, int status, const int *fds, size_t fd_count)
{
	struct control_shm answer = *request;

	if (!request->header.serial || !worker || !worker->connection)
		return;
	control_fill(&answer, CONTROL_SHM_REPLY, request->header.serial);
	answer.header.status = status;
	if (segment) {
		answer.key = segment->key;
		answer.id = segment->id;
		answer.bytes = segment->bytes;
		answer.chunk_bytes = request->first_chunk < segment->backed
					     ? segment->chunk_bytes[request->first_chunk]
					     : 0;
		answer.chunks = segment->chunks;
		answer.uid = segment->uid;
		answer.gid = segment->gid;
		answer.mode = segment->mode;
		answer.attached = segment->attached;
		answer.flags &= ~(CONTROL_SHM_HOST | CONTROL_SHM_MAPPED);
		if (segment->place != SHM_ON_DEVICE && !request->first_chunk &&
			segment->carrier != worker)
			answer.flags |= CONTROL_SHM_HOST;
		if (segment->place == SHM_MAPPED)
			answer.flags |= CONTROL_SHM_MAPPED;
	}
	connection_send(worker->connection, &answer, fds, fd_count);
}

static struct shm_segment *find_id(struct shm *shm, uint32_t id)
{
	struct shm_segment *segment;

	list_for_each (segment, &shm->segments, link)
		if (segment->id == id)
			return segment;
	return NULL;
}

struct shm_segment *shm_find(struct session *session, uint32_t id)
{
	return find_id(&session->vgpu->shm, id);
}

/* As find_id, by who may know that it is there. */
static struct shm_segment *find(struct session *session, const struct control_shm *message)
{
	struct shm_segment *segment = find_id(&session->vgpu->shm, message->id);

	if (segment && segment->transient &&
		memcmp(segment->token, message->token, sizeof segment->token) != 0)
		return NULL;
	return segment;
}

static struct shm_segment *find_key(struct shm *shm, int32_t key)
{
	struct shm_segment *segment;

	list_for_each (segment, &shm->segments, link)
		if (segment->key == key && !segment->removed)
			return segment;
	return NULL;
}

void shm_close_chunks(struct shm_segment *segment)
{
	fd_close_all(segment->fds, segment->backed);
	free(segment->fds);
	free(segment->chunk_bytes);
	segment->fds = NULL;
	segment->chunk_bytes = NULL;
	segment->chunks = segment->backed = 0;
}

static void segment_destroy(struct shm_segment *segment)
{
	struct shm_attachment *attachment, *next_attachment;
	struct shm_parked *parked, *after;

	list_remove(&segment->link);
	segment->shm->count--;
	list_for_each_safe (parked, after, &segment->parked, link) {
		shm_reply(parked->session->worker, &parked->message, NULL, -EIDRM, NULL, 0);
		shm_unpark(parked);
	}
	list_for_each_safe (attachment, next_attachment, &segment->attachments, by_segment) {
		list_remove(&attachment->by_segment);
		list_remove(&attachment->by_session);
		free(attachment);
	}
	shm_put_down(segment);
	shm_close_chunks(segment);
	memory_return(&segment->memory, segment->memory.used_bytes);
	shm_drop_host_copy(segment);
	free(segment);
}

void shm_finish(struct shm *shm)
{
	struct shm_segment *segment, *after;

	list_for_each_safe (segment, after, &shm->segments, link)
		segment_destroy(segment);
}

static void maybe_destroy(struct shm_segment *segment)
{
	if ((segment->removed || segment->transient) && !segment->attached && !segment->creator)
		segment_destroy(segment);
}

static int segment_create(struct session *session, const struct control_shm *message, uint32_t id,
	struct shm_segment **result)
{
	struct shm *shm = &session->vgpu->shm;
	struct shm_segment *segment;

	if (shm->count >= SHM_SEGMENTS_MAX)
		return -ENOSPC;
	segment = calloc(1, sizeof *segment);
	if (!segment)
		return -ENOMEM;
	segment->shm = shm;
	segment->id = id;
	segment->key = message->key;
	segment->bytes = message->bytes;
	segment->creator = session;
	list_init(&segment->attachments);
	list_init(&segment->parked);
	memory_init(&segment->memory, &session->vgpu->memory, UINT64_MAX);
	for (unsigned i = 0; i < SWAP_POOLS; i++)
		memory_init(&segment->swap[i], &session->vgpu->swap[i], UINT64_MAX);
	segment->host_fd = segment->memory_fd = -1;
	list_append(&shm->segments, &segment->link);
	shm->count++;
	*result = segment;
	return 0;
}

/* Names the new segment's token to its creator. */
static int make_transient(struct shm_segment *segment, struct control_shm *message)
{
	segment->transient = true;
	if (getrandom(segment->token, sizeof segment->token, 0) != sizeof segment->token) {
		segment_destroy(segment);
		return -EAGAIN;
	}
	memcpy(message->token, segment->token, sizeof segment->token);
	return 0;
}

static void get(struct session *session, const struct control_shm *message)
{
	struct control_shm request = *message;
	struct shm_segment *segment = NULL;
	unsigned access = message->flags & 0777;
	int error;

	if (message->key != IPC_PRIVATE)
		segment = find_key(&session->vgpu->shm, message->key);
	if (segment) {
		error = 0;
		if ((message->flags & IPC_CREAT) && (message->flags & IPC_EXCL))
			error = -EEXIST;
		/* Any of the three digits asks for it, as ipcperms() of the kernel has it. */
		else if (!shm_may_access(segment, session->uid, session->gid,
				 (access >> 6 | access >> 3 | access) & 7))
			error = -EACCES;
		else if (message->bytes > segment->bytes)
			error = -EINVAL;
		shm_reply(session->worker, message, error ? NULL : segment, error, NULL, 0);
		return;
	}
	error = message->bytes == 0 ? -EINVAL : 0;
	if ((message->flags & CONTROL_SHM_TRANSIENT) && message->key != IPC_PRIVATE)
		error = -EINVAL;
	if (message->key != IPC_PRIVATE && !(message->flags & IPC_CREAT))
		error = -ENOENT;
	if (!error)
		error = segment_create(session, message, daemon_new_id(session->daemon), &segment);
	if (!error) {
		segment->uid = segment->creator_uid = session->uid;
		segment->gid = segment->creator_gid = session->gid;
		segment->mode = access;
		if (message->flags & CONTROL_SHM_TRANSIENT)
			error = make_transient(segment, &request);
	}
	shm_reply(session->worker, &request, error ? NULL : segment, error ? error : 1, NULL, 0);
}

struct shm_attachment *shm_find_attachment(
	struct session *session, const struct shm_segment *segment)
{
	struct shm_attachment *attachment;

	list_for_each (attachment, &session->shm_attachments, by_session)
		if (attachment->segment == segment)
			return attachment;
	return NULL;
}

/* Counts one attachment more. */
int shm_count_attachment(struct session *session, struct shm_segment *segment)
{
	struct shm_attachment *attachment = shm_find_attachment(session, segment);

	if (!attachment) {
		attachment = calloc(1, sizeof *attachment);
		if (!attachment)
			return -ENOMEM;
		attachment->session = session;
		attachment->segment = segment;
		list_append(&session->shm_attachments, &attachment->by_session);
		list_append(&segment->attachments, &attachment->by_segment);
	}
	attachment->count++;
	segment->attached++;
	return 0;
}

/* How many chunks from `first` on one message takes: they are of one size. */
static size_t run_of_chunks(const struct shm_segment *segment, uint32_t first)
{
	size_t count = 1;

	while (count < FD_PASS_MAX && first + count < segment->chunks &&
		segment->chunk_bytes[first + count] == segment->chunk_bytes[first])
		count++;
	return count;
}

void shm_reply_chunks(
	struct worker *worker, const struct control_shm *message, const struct shm_segment *segment)
{
	uint32_t first = message->first_chunk;

	shm_reply(worker, message, segment, 0, segment->fds + first, run_of_chunks(segment, first));
}

/* Whether the chunks are there for one who has some of them already: then he is waited for. */
static bool may_go_on(const struct shm_segment *segment)
{
	return segment->place <= SHM_WRITING && shm_is_whole(segment);
}

/* Answers an ATTACH of a segment that was whole once: counts it when it asks from the first chunk on. */
void shm_attach(
	struct session *session, const struct control_shm *message, struct shm_segment *segment)
{
	uint32_t first = message->first_chunk;
	bool valid = segment->place >= SHM_ON_HOST;
	int error = 0;

	if (first && (first >= segment->chunks || !may_go_on(segment) ||
			     !shm_find_attachment(session, segment)))
		error = -EINVAL;
	else if (first == 0)
		error = shm_count_attachment(session, segment);
	if (error)
		shm_reply(session->worker, message, NULL, error, NULL, 0);
	else if (first || segment->place == SHM_ON_DEVICE)
		shm_reply_chunks(session->worker, message, segment);
	else
		shm_reply(session->worker, message, segment, 0, &segment->host_fd, valid);
}

/* A worker that was here before this gdevd says what it has attached: makes the segment again. */
static void restore(struct session *session, const struct control_shm *message)
{
	struct shm_segment *segment = NULL;
	int error = -EINVAL;

	if (message->bytes && daemon_knows_id(session->daemon, message->id) &&
		!shm_find(session, message->id))
		error = segment_create(session, message, message->id, &segment);
	if (!error) {
		segment->restored = segment->unpaid = true;
		segment->uid = segment->creator_uid = message->uid;
		segment->gid = segment->creator_gid = message->gid;
		segment->mode = message->mode & 0777;
		segment->transient = message->flags & CONTROL_SHM_TRANSIENT;
		memcpy(segment->token, message->token, sizeof segment->token);
	}
	shm_reply(session->worker, message, segment, error ? error : 1, NULL, 0);
}

/* A worker that was here before this gdevd has the chunks, which may have been changed since the host copy was
 * made: it may give them to us, as one that has brought the segment in. */
static void supersede(
	struct session *session, const struct control_shm *message, struct shm_segment *segment)
{
	int error = shm_count_attachment(session, segment);

	if (!error) {
		segment->place = SHM_LOADING;
		segment->mover = session;
		segment->unpaid = true;
	}
	shm_reply(session->worker, message, segment, error ? error : 1, NULL, 0);
}

static void attach(struct session *session, const struct control_shm *message)
{
	struct shm_segment *segment = find(session, message);
	unsigned access = SHM_READ | (message->flags & SHM_RDONLY ? 0 : SHM_WRITE);

	if (!segment && session->worker->restored) {
		restore(session, message);
		return;
	}
	if (!segment || segment->removed) {
		shm_reply(session->worker, message, NULL, segment ? -EIDRM : -EINVAL, NULL, 0);
		return;
	}
	if (!session->worker->restored &&
		!shm_may_access(segment, session->uid, session->gid, access)) {
		shm_reply(session->worker, message, NULL, -EACCES, NULL, 0);
		return;
	}
	if (!shm_is_whole(segment) && segment->host_fd < 0)
		shm_park(segment, session, message);
	else if (segment->restored && segment->place == SHM_ON_HOST && session->worker->restored &&
		 !(message->flags & CONTROL_SHM_HOST))
		supersede(session, message, segment);
	else
		shm_attach(session, message, segment);
}

/* One attachment more of a transient segment, without the chunks. */
static void hold(struct session *session, const struct control_shm *message)
{
	struct shm_segment *segment = find(session, message);
	int error = 0;

	if (!segment || !segment->transient)
		error = -EINVAL;
	else if (!session->worker->restored &&
		 !shm_may_access(segment, session->uid, session->gid, SHM_READ | SHM_WRITE))
		error = -EACCES;
	else
		error = shm_count_attachment(session, segment);
	shm_reply(session->worker, message, error ? NULL : segment, error, NULL, 0);
}

/* The first part says how many chunks there are, and the others agree with it. A part's are of one size, and
 * all together are the segment's. */
static int check_backing(const struct session *session, const struct shm_segment *segment,
	const struct control_shm *message, size_t fd_count)
{
	bool loads = segment && segment->place == SHM_LOADING && segment->mover == session;
	uint64_t bytes;

	if (!segment || (segment->creator != session && !loads) || !fd_count)
		return -EINVAL;
	if (message->first_chunk != segment->backed)
		return -EINVAL;
	if (segment->chunks && message->chunks != segment->chunks)
		return -EINVAL;
	/* Each is one of our descriptors: there are no more of them than memory was charged for. */
	if (!message->chunk_bytes || message->chunk_bytes % ARENA_ALIGN)
		return -EINVAL;
	if (message->chunks == 0 || message->chunks > SHM_CHUNKS_MAX ||
		fd_count > message->chunks - segment->backed)
		return -EINVAL;
	if (__builtin_mul_overflow(message->chunk_bytes, fd_count, &bytes) ||
		bytes > segment->bytes - segment->memory.used_bytes)
		return -EINVAL;
	if (segment->backed + fd_count == message->chunks &&
		bytes != segment->bytes - segment->memory.used_bytes)
		return -EINVAL;
	return 0;
}

static int charge_backing(struct session *session, struct shm_segment *segment, uint64_t bytes)
{
	if (!segment->unpaid)
		return memory_move(&session->worker->memory, &segment->memory, bytes);
	return memory_claim(&segment->memory, bytes);
}

static int accept_backing(struct session *session, struct shm_segment *segment,
	const struct control_shm *message, size_t fd_count)
{
	int error = check_backing(session, segment, message, fd_count);

	if (!error && !segment->fds) {
		segment->fds = calloc(message->chunks, sizeof *segment->fds);
		segment->chunk_bytes = calloc(message->chunks, sizeof *segment->chunk_bytes);
		error = segment->fds && segment->chunk_bytes ? 0 : -ENOMEM;
	}
	if (!error)
		error = charge_backing(session, segment, fd_count * message->chunk_bytes);
	if (error && segment && !segment->chunks) {
		free(segment->fds);
		free(segment->chunk_bytes);
		segment->fds = NULL;
		segment->chunk_bytes = NULL;
	}
	return error;
}

/* A worker that was here before this gdevd has the host copy. What has seals is memory. */
static int accept_host_copy(
	struct session *session, struct shm_segment *segment, const int *fds, size_t fd_count)
{
	enum swap_pool pool;

	if (!segment || !segment->restored || segment->creator != session || fd_count != 1 ||
		segment->chunks)
		return -EINVAL;
	pool = fcntl(fds[0], F_GET_SEALS) < 0 ? SWAP_FILE : SWAP_MEMORY;
	return memory_claim(&segment->swap[pool], segment->bytes);
}

static void back(
	struct session *session, const struct control_shm *message, int *fds, size_t fd_count)
{
	struct shm_segment *segment = find_id(&session->vgpu->shm, message->id);
	bool loads = segment && segment->place == SHM_LOADING;
	bool host = message->flags & CONTROL_SHM_HOST;
	int error;

	if (host)
		error = accept_host_copy(session, segment, fds, fd_count);
	else
		error = accept_backing(session, segment, message, fd_count);
	/* These have their creator attached from the moment at which they are whole. */
	if (!error && !loads && (host || segment->backed + fd_count == message->chunks) &&
		(segment->transient || segment->restored))
		error = shm_count_attachment(session, segment);
	if (error) {
		shm_reply(session->worker, message, NULL, error, NULL, 0);
		return;
	}
	if (host) {
		segment->host_fd = steal_fd(&fds[0]);
		segment->place = message->flags & CONTROL_SHM_MAPPED ? SHM_MAPPED : SHM_ON_HOST;
	} else {
		segment->chunks = message->chunks;
		for (size_t i = 0; i < fd_count; i++) {
			segment->chunk_bytes[segment->backed] = message->chunk_bytes;
			segment->fds[segment->backed++] = steal_fd(&fds[i]);
		}
	}
	if (shm_is_whole(segment) && loads)
		shm_loaded(segment);
	shm_reply(session->worker, message, segment, 0, NULL, 0);
	if (!shm_is_whole(segment) && !host)
		return;
	segment->creator = NULL;
	segment->unpaid = false;
	shm_serve_parked(segment);
	maybe_destroy(segment);
}

static void detach(struct session *session, const struct control_shm *message)
{
	struct shm_attachment *attachment;

	list_for_each (attachment, &session->shm_attachments, by_session) {
		struct shm_segment *segment = attachment->segment;
		if (segment->id != message->id || !attachment->count)
			continue;
		segment->attached--;
		if (--attachment->count == 0) {
			shm_attachment_over(attachment);
			list_remove(&attachment->by_session);
			list_remove(&attachment->by_segment);
			free(attachment);
		}
		maybe_destroy(segment);
		return;
	}
}

void shm_return_charge(struct shm_segment *segment, struct session *session)
{
	uint64_t bytes = segment->memory.used_bytes;

	if (segment->unpaid)
		return;
	/* Whatever the limits are by now: it held it before. */
	memory_return(&segment->memory, bytes);
	memory_charge_held(&session->worker->memory, bytes);
}

static void change(struct session *session, const struct control_shm *message)
{
	struct shm_segment *segment = find(session, message);

	if (!segment) {
		shm_reply(session->worker, message, NULL, -EINVAL, NULL, 0);
		return;
	}
	if (segment->creator == session && message->command == SHM_COMMAND_REMOVE) {
		shm_return_charge(segment, session); /* it was never whole */
		shm_reply(session->worker, message, segment, 0, NULL, 0);
		segment_destroy(segment);
		return;
	}
	if (!shm_may_control(segment, session->uid)) {
		shm_reply(session->worker, message, NULL, -EPERM, NULL, 0);
		return;
	}
	if (message->command == SHM_COMMAND_SET) {
		segment->mode = message->mode & 0777;
		shm_reply(session->worker, message, segment, 0, NULL, 0);
		return;
	}
	segment->removed = true;
	segment->key = IPC_PRIVATE;
	shm_reply(session->worker, message, segment, 0, NULL, 0);
	maybe_destroy(segment);
}

static void stat_segment(struct session *session, const struct control_shm *message)
{
	const struct shm_segment *segment = find(session, message);
	int error = 0;

	if (!segment)
		error = -EINVAL;
	else if (!shm_may_access(segment, session->uid, session->gid, SHM_READ))
		error = -EACCES;
	shm_reply(session->worker, message, error ? NULL : segment, error, NULL, 0);
}

int shm_message(
	struct session *session, const struct control_shm *message, int *fds, size_t fd_count)
{
	switch (message->command) {
	case SHM_COMMAND_GET:
		get(session, message);
		return 0;
	case SHM_COMMAND_BACK:
		back(session, message, fds, fd_count);
		return 0;
	case SHM_COMMAND_ATTACH:
		attach(session, message);
		return 0;
	case SHM_COMMAND_DETACH:
		detach(session, message);
		return 0;
	case SHM_COMMAND_HOLD:
		hold(session, message);
		return 0;
	case SHM_COMMAND_LEAVE:
	case SHM_COMMAND_WRITE:
	case SHM_COMMAND_DROP:
		shm_ordered(session, message);
		return 0;
	case SHM_COMMAND_RESTORE:
		shm_restore(session, message);
		return 0;
	case SHM_COMMAND_MAP:
		shm_map(session, message);
		return 0;
	case SHM_COMMAND_MOVE:
		shm_move(session, message);
		return 0;
	case SHM_COMMAND_STAT:
		stat_segment(session, message);
		return 0;
	case SHM_COMMAND_SET:
	case SHM_COMMAND_REMOVE:
		change(session, message);
		return 0;
	}
	return -EINVAL;
}

/* Takes the session's waiting ATTACHes out, and what it began to create and never finished. */
static void forget_unfinished(struct session *session)
{
	struct shm_segment *segment, *after;
	struct shm_parked *parked, *next;

	list_for_each_safe (segment, after, &session->vgpu->shm.segments, link) {
		list_for_each_safe (parked, next, &segment->parked, link)
			if (parked->session == session)
				shm_unpark(parked);
		if (segment->creator == session)
			segment_destroy(segment);
	}
}

void shm_session_finish(struct session *session)
{
	struct shm_attachment *attachment;

	forget_unfinished(session);
	while ((attachment =
			list_first(&session->shm_attachments, struct shm_attachment, by_session))) {
		struct shm_segment *segment = attachment->segment;
		segment->attached -= attachment->count;
		shm_attachment_over(attachment);
		list_remove(&attachment->by_session);
		list_remove(&attachment->by_segment);
		free(attachment);
		maybe_destroy(segment);
	}
}
