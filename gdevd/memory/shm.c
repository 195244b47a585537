/* SPDX-License-Identifier: MIT
 *
 * See shm.h.
 */
#include "gdevd/memory/shm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/random.h>
#include <sys/shm.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "gdev/error.h"
#include "gdevd/daemon.h"
#include "proto/session.h"

#define MODE_BITS (0777 | CONTROL_SHM_TRUST_READERS)

static bool is_of_group(const struct shm_segment *segment, gid_t gid)
{
	return gid == segment->gid || gid == segment->creator_gid;
}

bool shm_may_access(const struct shm_segment *segment, uid_t uid, gid_t gid,
	const struct groups *groups, unsigned access)
{
	unsigned granted = segment->mode;
	bool of_group = is_of_group(segment, gid);

	if (uid == 0)
		return true;
	for (uint32_t i = 0; i < groups->count && !of_group; i++)
		of_group = is_of_group(segment, groups->ids[i]);
	if (uid == segment->uid || uid == segment->creator_uid)
		granted >>= 6;
	else if (of_group)
		granted >>= 3;
	return (access & ~granted & 7) == 0;
}

static bool may_access(
	const struct session *session, const struct shm_segment *segment, unsigned access)
{
	return shm_may_access(segment, session->uid, session->gid, &session->groups, access);
}

/* The session's worker can be given descriptors with which it cannot write, if it must not; or its owner said that it
 * need not. */
static bool can_be_kept_from_writing(
	const struct session *session, const struct shm_segment *segment)
{
	return may_access(session, segment, SHM_WRITE) || segment->known.memfds ||
	       segment->mode & CONTROL_SHM_TRUST_READERS;
}

bool shm_may_control(const struct shm_segment *segment, uid_t uid)
{
	return uid == 0 || uid == segment->uid || uid == segment->creator_uid;
}

bool shm_may_have_writable(const struct worker *worker, const struct shm_segment *segment)
{
	const struct shm_attachment *attachment =
		worker->session ? shm_find_attachment(worker->session, segment) : NULL;

	return !worker->session || (attachment && attachment->writes);
}

/* -errno, and nothing is lent. */
static int lend_fds(const int *fds, size_t count, int *lent)
{
	for (size_t i = 0; i < count; i++) {
		lent[i] = fd_lend(fds[i]);
		if (lent[i] < 0) {
			int error = lent[i];
			fd_close_all(lent, i);
			return error;
		}
	}
	return 0;
}

void shm_send(struct worker *worker, const struct shm_segment *segment, struct control_shm *message,
	const int *fds, size_t fd_count)
{
	bool ours =
		fds == &segment->host_fd; /* else chunks: of those only memfds can be narrowed */
	int lent[FD_PASS_MAX], error;

	if (!fd_count || shm_may_have_writable(worker, segment)) {
		connection_send(worker->connection, message, fds, fd_count);
		return;
	}
	error = ours || segment->known.memfds ? lend_fds(fds, fd_count, lent) : -EACCES;
	if (error) {
		message->header.status = error;
		connection_send(worker->connection, message, NULL, 0);
		return;
	}
	connection_send(worker->connection, message, lent, fd_count);
	fd_close_all(lent, fd_count);
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
		answer.size = segment->size;
		answer.bytes = segment->bytes;
		answer.chunk_bytes = request->first_chunk < segment->backed
					     ? segment->chunk_bytes[request->first_chunk]
					     : 0;
		answer.chunks = segment->chunks;
		answer.uid = segment->uid;
		answer.gid = segment->gid;
		answer.mode = segment->mode;
		answer.attached = segment->attached;
		answer.flags &= ~(CONTROL_SHM_HOST | CONTROL_SHM_MAPPED | CONTROL_SHM_READER |
				  CONTROL_SHM_PAID);
		if (segment->place != SHM_ON_DEVICE && !request->first_chunk &&
			segment->carrier != worker)
			answer.flags |= CONTROL_SHM_HOST;
		if (segment->place == SHM_MAPPED)
			answer.flags |= CONTROL_SHM_MAPPED;
		if (!shm_may_have_writable(worker, segment))
			answer.flags |= CONTROL_SHM_READER;
		if (segment->pays && segment->mover == worker->session)
			answer.flags |= CONTROL_SHM_PAID;
		shm_send(worker, segment, &answer, fds, fd_count);
		return;
	}
	connection_send(worker->connection, &answer, NULL, 0);
}

struct shm_segment *shm_find_id(const struct daemon *daemon, uint32_t id)
{
	struct shm_segment *segment;

	list_for_each (segment, &daemon->segments, link)
		if (segment->id == id)
			return segment;
	return NULL;
}

struct shm_segment *shm_find(struct session *session, uint32_t id)
{
	struct shm_segment *segment = shm_find_id(session->daemon, id);

	return segment && shm_may_find(session, segment) ? segment : NULL;
}

/* As shm_find, but a transient segment is only found by its token, and by those whom it is for. */
static struct shm_segment *find_for(struct session *session, const struct control_shm *message)
{
	struct shm_segment *segment = shm_find(session, message->id);

	if (segment && segment->transient &&
		(memcmp(segment->token, message->token, sizeof segment->token) != 0 ||
			!shm_is_for(session, segment)))
		return NULL;
	return segment;
}

static struct shm_segment *find_key(const struct vgpu *vgpu, int32_t key)
{
	struct shm_segment *segment;

	list_for_each (segment, &vgpu->daemon->segments, link)
		if (segment->vgpu == vgpu && segment->key == key && !segment->removed)
			return segment;
	return NULL;
}

struct freeing *shm_close_chunks(struct shm_segment *segment)
{
	struct freeing *freeing =
		freeing_begin(segment->vgpu->daemon, segment->user, segment->fds, segment->backed);

	free(segment->fds);
	free(segment->chunk_bytes);
	segment->fds = NULL;
	segment->chunk_bytes = NULL;
	segment->chunks = segment->backed = 0;
	return freeing;
}

void shm_free_chunks(struct shm_segment *segment)
{
	struct freeing *freeing = shm_close_chunks(segment);

	freeing_charge(freeing ? freeing : segment->dropping, &segment->memory);
}

static void attachment_destroy(struct shm_attachment *attachment)
{
	struct shm_segment *segment = attachment->segment;

	shm_forget(segment, &segment->vgpu->daemon->ledgers.attachments, &attachment->ledger_place);
	list_remove(&attachment->by_segment);
	list_remove(&attachment->by_session);
	free(attachment);
}

static void segment_destroy(struct shm_segment *segment)
{
	struct shm_attachment *attachment, *next_attachment;
	struct shm_parked *parked, *after;

	list_remove(&segment->link);
	shm_count(segment, -1);
	list_for_each_safe (parked, after, &segment->parked, link) {
		shm_reply(parked->session->worker, &parked->message, NULL, -EIDRM, NULL, 0);
		shm_unpark(parked);
	}
	list_for_each_safe (attachment, next_attachment, &segment->attachments, by_segment)
		attachment_destroy(attachment);
	shm_drop_claims(segment);
	shm_forget(segment, &segment->vgpu->daemon->ledgers.segments, &segment->ledger_place);
	deadline_cancel(&segment->overdue);
	shm_put_down(segment);
	shm_free_chunks(segment);
	shm_pay_back(segment);
	shm_drop_host_copy(segment);
	user_release(segment->user, SHM_HOST_COPIES + segment->held_chunks);
	user_put(segment->user);
	free(segment);
}

void shm_finish(struct daemon *daemon, const struct vgpu *vgpu)
{
	struct shm_segment *segment, *after;

	list_for_each_safe (segment, after, &daemon->segments, link)
		if (!vgpu || segment->vgpu == vgpu)
			segment_destroy(segment);
}

bool shm_is_there(const struct shm_segment *segment)
{
	return shm_is_whole(segment) || segment->host_fd >= 0;
}

/* No session that had it attached before the restart has its contents. */
static bool is_lost(const struct shm_segment *segment)
{
	return segment->given_up && !shm_is_there(segment);
}

void shm_maybe_destroy(struct shm_segment *segment)
{
	if (segment->creator || !list_empty(&segment->claims))
		return;
	if (is_lost(segment))
		complain("shared memory %u has not come back", segment->id);
	else if (segment->attached)
		return;
	if (segment->removed || segment->transient || !shm_is_there(segment))
		segment_destroy(segment);
}

int shm_create(struct vgpu *vgpu, uint32_t id, uid_t creator, uint64_t bytes, bool transient,
	struct shm_segment **result)
{
	struct shm_segment *segment = calloc(1, sizeof *segment);

	if (!segment)
		return -ENOMEM;
	segment->user = user_get(&vgpu->daemon->users, creator);
	if (!segment->user || !user_hold(segment->user, SHM_HOST_COPIES)) {
		int error = segment->user ? -GDEV_E_SHARED_LIMIT : -ENOMEM;
		user_put(segment->user);
		free(segment);
		return error;
	}
	segment->vgpu = vgpu;
	segment->id = id;
	segment->uid = segment->creator_uid = creator;
	segment->bytes = bytes;
	segment->transient = transient;
	list_init(&segment->attachments);
	list_init(&segment->parked);
	list_init(&segment->claims);
	deadline_init(&segment->overdue, shm_overdue);
	memory_init(&segment->memory, &vgpu->memory, UINT64_MAX);
	memory_init(&segment->paid, &vgpu->memory, UINT64_MAX);
	for (unsigned i = 0; i < SWAP_POOLS; i++)
		memory_init(&segment->swap[i], &vgpu->swap[i], UINT64_MAX);
	segment->host_fd = segment->memory_fd = -1;
	list_append(&vgpu->daemon->segments, &segment->link);
	shm_count(segment, 1);
	*result = segment;
	return 0;
}

/* Names the new segment's token to its creator. */
static int choose_token(struct shm_segment *segment, struct control_shm *message)
{
	if (getrandom(segment->token, sizeof segment->token, 0) != sizeof segment->token) {
		segment_destroy(segment);
		return -EAGAIN;
	}
	memcpy(message->token, segment->token, sizeof segment->token);
	return 0;
}

/* Whether the session may make that segment. */
static int check_new(const struct session *session, const struct control_shm *message)
{
	bool transient = message->flags & CONTROL_SHM_TRANSIENT;

	if (message->key != IPC_PRIVATE && !(message->flags & IPC_CREAT))
		return -ENOENT;
	if (transient && message->key != IPC_PRIVATE)
		return -EINVAL;
	if (!message->size || message->size > message->bytes || message->bytes > CONTROL_AMOUNT_MAX)
		return -EINVAL;
	return shm_check_limits(session, message->bytes, transient);
}

static void get_segment(struct session *session, const struct control_shm *message)
{
	struct control_shm request = *message;
	struct shm_segment *segment = NULL;
	unsigned access = message->flags & 0777;
	bool transient = message->flags & CONTROL_SHM_TRANSIENT;
	int error;

	if (message->key != IPC_PRIVATE)
		segment = find_key(session->vgpu, message->key);
	if (segment) {
		error = 0;
		if ((message->flags & IPC_CREAT) && (message->flags & IPC_EXCL))
			error = -EEXIST;
		/* Any of the three digits asks for it, as ipcperms() of the kernel has it. */
		else if (!may_access(session, segment, (access >> 6 | access >> 3 | access) & 7))
			error = -EACCES;
		else if (message->size > segment->size)
			error = -EINVAL;
		shm_reply(session->worker, message, error ? NULL : segment, error, NULL, 0);
		return;
	}
	error = check_new(session, message);
	if (!error)
		error = shm_create(session->vgpu, daemon_new_id(session->daemon), session->uid,
			message->bytes, transient, &segment);
	if (!error) {
		segment->creator = session;
		segment->key = message->key;
		segment->size = message->size;
		segment->gid = segment->creator_gid = session->gid;
		segment->mode = message->flags & MODE_BITS;
		if (transient)
			error = choose_token(segment, &request);
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

/* Counts one attachment more. -errno. */
int shm_count_attachment(struct session *session, struct shm_segment *segment)
{
	struct shm_attachment *attachment = shm_find_attachment(session, segment);
	bool trusted = !segment->known.memfds && segment->mode & CONTROL_SHM_TRUST_READERS;
	bool writes = trusted || may_access(session, segment, SHM_WRITE);

	if (attachment && attachment->count >= SHM_ATTACHED_MAX)
		return -EMFILE;
	if (!attachment) {
		attachment = calloc(1, sizeof *attachment);
		if (!attachment)
			return -ENOMEM;
		attachment->session = session;
		attachment->segment = segment;
		list_append(&session->shm_attachments, &attachment->by_session);
		list_append(&segment->attachments, &attachment->by_segment);
		shm_take_claim(attachment);
	}
	attachment->count++;
	segment->attached++;
	if (attachment->ledger_place && (attachment->writes || !writes))
		return 0;
	attachment->writes |= writes;
	shm_write_attachment(attachment);
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

/* Whether a session that has got some of the chunks gets the rest. Until the segment is being written out it does,
 * and the segment waits for that session. */
static bool may_go_on(const struct shm_segment *segment)
{
	return segment->place <= SHM_WRITING && shm_is_whole(segment);
}

void shm_answer_attach(
	struct session *session, const struct control_shm *message, struct shm_segment *segment)
{
	uint32_t first = message->first_chunk;
	bool valid = segment->place >= SHM_ON_HOST;

	if (first && (first >= segment->chunks || !may_go_on(segment) ||
			     !shm_find_attachment(session, segment)))
		shm_reply(session->worker, message, NULL, -EINVAL, NULL, 0);
	else if (first || segment->place == SHM_ON_DEVICE)
		shm_reply_chunks(session->worker, message, segment);
	else
		shm_reply(session->worker, message, segment, 0, &segment->host_fd, valid);
}

/* Answers an ATTACH of a segment that is there: counts it when it asks from the first chunk on. */
void shm_attach(
	struct session *session, const struct control_shm *message, struct shm_segment *segment)
{
	int error = 0;

	if (!message->first_chunk)
		error = can_be_kept_from_writing(session, segment)
				? shm_count_attachment(session, segment)
				: -EACCES;
	if (error)
		shm_reply(session->worker, message, NULL, error, NULL, 0);
	else
		shm_answer_attach(session, message, segment);
}

static void attach_segment(struct session *session, const struct control_shm *message)
{
	bool writing = !(message->flags & SHM_RDONLY);
	struct shm_segment *segment = find_for(session, message);
	bool had = segment && shm_had_attached(session, segment, writing);
	bool awaited = had && shm_may_be_newer(segment);
	int error = 0;

	if (!segment)
		error = -EINVAL;
	else if (segment->removed && !had)
		error = -EIDRM;
	else if (!had && !may_access(session, segment, SHM_READ | (writing ? SHM_WRITE : 0)))
		error = -EACCES;
	else if (!had && !message->first_chunk && shm_must_wait(session, segment))
		error = -EAGAIN;
	else if (had && !message->first_chunk)
		error = shm_count_attachment(session, segment);
	if (error == -EAGAIN)
		shm_fetch(segment);
	if (error)
		shm_reply(session->worker, message, NULL, error, NULL, 0);
	else if (had)
		shm_attach_again(session, message, segment);
	else if (!shm_is_there(segment))
		shm_park(segment, session, message, false);
	else
		shm_attach(session, message, segment);
	if (awaited && !shm_may_be_newer(segment))
		shm_serve_parked(segment);
}

/* One attachment more of a transient segment, without the chunks. */
static void hold_segment(struct session *session, const struct control_shm *message)
{
	struct shm_segment *segment = find_for(session, message);
	bool had = segment && shm_had_attached(session, segment, false);
	int error = 0;

	if (!segment || !segment->transient)
		error = -EINVAL;
	else if (!had && !may_access(session, segment, SHM_READ | SHM_WRITE))
		error = -EACCES;
	else if (!had && shm_must_wait(session, segment))
		error = -EAGAIN;
	else
		error = shm_count_attachment(session, segment);
	if (error == -EAGAIN)
		shm_fetch(segment);
	shm_reply(session->worker, message, error ? NULL : segment, error, NULL, 0);
}

/* Only who has it can hand it out, and only with all the rights that come with it. */
static void publish_segment(struct session *session, const struct control_shm *message)
{
	struct shm_segment *segment = find_for(session, message);
	int error = 0;

	if (!segment || !segment->transient ||
		(!shm_find_attachment(session, segment) &&
			!shm_had_attached(session, segment, false)))
		error = -EINVAL;
	else if (!may_access(session, segment, SHM_READ | SHM_WRITE))
		error = -EACCES;
	if (!error && !segment->published) {
		segment->published = true;
		shm_write_down(segment);
	}
	shm_reply(session->worker, message, error ? NULL : segment, error, NULL, 0);
}

static void detach_segment(struct session *session, const struct control_shm *message)
{
	struct shm_attachment *attachment;

	list_for_each (attachment, &session->shm_attachments, by_session) {
		struct shm_segment *segment = attachment->segment;
		if (segment->id != message->id || !attachment->count)
			continue;
		segment->attached--;
		if (--attachment->count == 0) {
			shm_attachment_over(attachment);
			attachment_destroy(attachment);
		}
		shm_maybe_destroy(segment);
		return;
	}
}

void shm_return_charge(struct shm_segment *segment, struct session *session)
{
	uint64_t bytes = segment->memory.used_bytes;

	if (segment->unpaid || segment->pays)
		return;
	/* Whatever the limits are by now: it held it before. */
	memory_return(&segment->memory, bytes);
	memory_charge_held(&session->worker->memory, bytes);
}

void shm_remove(struct shm_segment *segment)
{
	segment->removed = true;
	segment->key = IPC_PRIVATE;
	shm_write_down(segment);
	shm_maybe_destroy(segment);
}

static void change_segment(struct session *session, const struct control_shm *message)
{
	struct shm_segment *segment = find_for(session, message);

	if (!segment) {
		shm_reply(session->worker, message, NULL, -EINVAL, NULL, 0);
		return;
	}
	if (segment->creator == session && !segment->restored &&
		message->command == SHM_COMMAND_REMOVE) {
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
		segment->mode = message->mode & MODE_BITS;
		shm_write_down(segment);
		shm_reply(session->worker, message, segment, 0, NULL, 0);
		return;
	}
	shm_reply(session->worker, message, segment, 0, NULL, 0);
	shm_remove(segment);
}

static void stat_segment(struct session *session, const struct control_shm *message)
{
	const struct shm_segment *segment = find_for(session, message);
	int error = 0;

	if (!segment)
		error = -EINVAL;
	else if (!may_access(session, segment, SHM_READ))
		error = -EACCES;
	shm_reply(session->worker, message, error ? NULL : segment, error, NULL, 0);
}

static void (*const handlers[])(struct session *session, const struct control_shm *message) = {
	[SHM_COMMAND_GET] = get_segment,
	[SHM_COMMAND_ATTACH] = attach_segment,
	[SHM_COMMAND_DETACH] = detach_segment,
	[SHM_COMMAND_HOLD] = hold_segment,
	[SHM_COMMAND_PUBLISH] = publish_segment,
	[SHM_COMMAND_LEAVE] = shm_ordered,
	[SHM_COMMAND_WRITE] = shm_ordered,
	[SHM_COMMAND_DROP] = shm_ordered,
	[SHM_COMMAND_RESTORE] = shm_restore,
	[SHM_COMMAND_MAP] = shm_map,
	[SHM_COMMAND_MOVE] = shm_move,
	[SHM_COMMAND_CARRY] = shm_carry_in,
	[SHM_COMMAND_STAT] = stat_segment,
	[SHM_COMMAND_SET] = change_segment,
	[SHM_COMMAND_REMOVE] = change_segment,
};

int shm_message(
	struct session *session, const struct control_shm *message, int *fds, size_t fd_count)
{
	uint32_t command = message->command;

	if (command == SHM_COMMAND_BACK) {
		shm_back(session->worker, session, message, fds, fd_count);
		return 0;
	}
	if (command >= array_length(handlers) || !handlers[command])
		return -EINVAL;
	handlers[command](session, message);
	return 0;
}

static bool is_in(struct session *session, const struct shm_segment *segment)
{
	const struct shm_parked *parked;

	list_for_each (parked, &segment->parked, link)
		if (parked->session == session)
			return true;
	return segment->creator == session || shm_had_attached(session, segment, false);
}

bool shm_is_used_by(struct session *session)
{
	const struct shm_segment *segment;

	list_for_each (segment, &session->daemon->segments, link)
		if (is_in(session, segment))
			return true;
	return !list_empty(&session->shm_attachments);
}

static void forget_in(struct session *session, struct shm_segment *segment)
{
	struct shm_parked *parked, *next;

	list_for_each_safe (parked, next, &segment->parked, link)
		if (parked->session == session)
			shm_unpark(parked);
	if (segment->creator != session)
		shm_drop_claim(segment, session);
	else if (segment->restored)
		shm_abandon_backing(segment);
	else
		segment_destroy(segment);
}

/* Takes the session's waiting ATTACHes and its claims out, and what it began to create and never finished. */
static void forget_unfinished(struct session *session)
{
	struct shm_segment *segment, *after;

	list_for_each_safe (segment, after, &session->daemon->segments, link)
		forget_in(session, segment);
}

void shm_session_finish(struct session *session)
{
	struct shm_attachment *attachment;

	forget_unfinished(session);
	while ((attachment =
			list_first(&session->shm_attachments, struct shm_attachment, by_session))) {
		struct shm_segment *segment = attachment->segment;
		segment->attached -= attachment->count;
		if (segment->pays &&
			segment->mover == session) /* its worker has it until it is gone */
			memory_charge_held(&session->worker->memory,
				segment->paid.used_bytes + segment->memory.used_bytes);
		shm_attachment_over(attachment);
		attachment_destroy(attachment);
		shm_maybe_destroy(segment);
	}
}
