/* SPDX-License-Identifier: MIT
 *
 * Shared segments leave the device and come back, with what is in them (docs/memory.md, rule 12): a segment is in
 * one place as a whole, which is ours to know. The sessions that have attached it do it:
 *
 *   ON_DEVICE -> LEAVING -> WRITING -> DROPPING -> ON_HOST -> LOADING -> ON_DEVICE
 *       ^___________|__________|   refused            |__________|___-> MAPPED
 *
 * MAPPED: it has no room beside what the one has who needs it, and is used where it is. Where the device cannot use files,
 * a host copy in one becomes one in memory before that, by the same session, which nobody else can meet there: until it
 * has said that the bytes are there the file is what is valid.
 * LEAVING: all keep commands away and say so. WRITING: one of them copies it into the host copy, a memfd; if none has it
 * mapped, a warm worker does (shm_carry.c).
 * DROPPING: it is there; all drop the chunks, and so do we. LOADING: the first that needs it brings it in; the
 * others ask for its chunks when they need it. At each moment either the chunks are valid or the host copy is, and
 * everybody who has attached it has what is valid: whoever is killed, the contents stay.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "gdevd/daemon.h"
#include "gdevd/memory/shm.h"

bool shm_is_whole(const struct shm_segment *segment)
{
	return segment->chunks && segment->backed == segment->chunks;
}

static bool is_leaving(const struct shm_segment *segment)
{
	return segment->place >= SHM_LEAVING && segment->place <= SHM_DROPPING;
}

static struct daemon *daemon_of(const struct shm_segment *segment)
{
	const struct vgpu *vgpu = container_of(segment->shm, struct vgpu, shm);

	return vgpu->daemon;
}

static void order(struct shm_attachment *attachment, enum control_shm_command command)
{
	const struct shm_segment *segment = attachment->segment;
	struct worker *worker = attachment->session->worker;
	struct control_shm message = {
		.command = command,
		.id = segment->id,
		.bytes = segment->bytes,
		.flags = segment->place == SHM_MAPPED ? CONTROL_SHM_MAPPED : 0,
	};
	bool copy = command == SHM_COMMAND_WRITE || command == SHM_COMMAND_DROP;

	control_fill(&message, CONTROL_SHM, 0);
	if (worker && worker->connection)
		connection_send(worker->connection, &message, &segment->host_fd, copy);
}

static void order_all(struct shm_segment *segment, enum control_shm_command command)
{
	struct shm_attachment *attachment;

	segment->orders = 0;
	list_for_each (attachment, &segment->attachments, by_segment) {
		attachment->ordered = command != SHM_COMMAND_STAY;
		segment->orders += attachment->ordered;
		order(attachment, command);
	}
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void return_swap(struct shm_segment *segment, enum swap_pool pool)
{
	memory_return(&segment->swap[pool], segment->swap[pool].used_bytes);
}

void shm_drop_host_copy(struct shm_segment *segment)
{
	close_fd(&segment->host_fd);
	close_fd(&segment->memory_fd);
	return_swap(segment, SWAP_MEMORY);
	return_swap(segment, SWAP_FILE);
}

/* ---- leaving ---- */

static void advance(struct shm_segment *segment);

/* Of the segment's size. -errno. */
static int open_copy(const struct shm_segment *segment, enum swap_pool pool)
{
	autoclose int fd = pool == SWAP_FILE ? swap_file_open(daemon_of(segment))
					     : memfd_create("gdev-shared", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, (off_t)segment->bytes))
		return fd < 0 ? -ENOMEM : -errno;
	return steal_fd(&fd);
}

static int leave(struct shm_segment *segment, uint64_t cause)
{
	struct daemon *daemon = daemon_of(segment);
	enum swap_pool pool;
	int error = swap_charge_accounts(daemon, segment->swap, segment->bytes, &pool);

	if (error)
		return error;
	segment->host_fd = open_copy(segment, pool);
	if (segment->host_fd < 0) {
		shm_drop_host_copy(segment);
		return -ENOMEM;
	}
	segment->place = SHM_LEAVING;
	segment->refused = 0;
	segment->cause = cause;
	order_all(segment, SHM_COMMAND_LEAVE);
	advance(segment);
	return 0;
}

static void stay(struct shm_segment *segment)
{
	segment->place = SHM_ON_DEVICE;
	segment->mover = NULL;
	residency_pause_begin(&segment->pause);
	shm_drop_host_copy(segment);
	order_all(segment, SHM_COMMAND_STAY);
	shm_serve_parked(segment);
	residency_balance(daemon_of(segment));
	relief_serve(daemon_of(segment));
}

/* Nobody reaches it. Who has it mapped can copy it, or it is carried out. */
static void write_out(struct shm_segment *segment)
{
	struct shm_attachment *attachment;

	segment->place = SHM_WRITING;
	segment->mover = NULL;
	list_for_each (attachment, &segment->attachments, by_segment)
		if (attachment->has_chunks) {
			segment->mover = attachment->session;
			order(attachment, SHM_COMMAND_WRITE);
			return;
		}
	workers_adjust(daemon_of(segment));
}

static void left(struct shm_segment *segment)
{
	struct daemon *daemon = daemon_of(segment);

	segment->place = SHM_ON_HOST;
	segment->shm->evictions++;
	memory_return(&segment->memory, segment->memory.used_bytes);
	shm_serve_parked(segment);
	residency_balance(daemon);
	relief_serve(daemon);
}

/* One has answered, or will not any more. */
static void advance(struct shm_segment *segment)
{
	if (segment->orders)
		return;
	if (segment->place == SHM_LEAVING)
		segment->refused ? stay(segment) : write_out(segment);
	else if (segment->place == SHM_DROPPING)
		left(segment);
}

void shm_written(struct shm_segment *segment, int status)
{
	if (status < 0) {
		complain("shared memory %u cannot leave the device: %s", segment->id,
			strerror(-status));
		stay(segment);
		return;
	}
	segment->place = SHM_DROPPING;
	segment->mover = NULL;
	shm_close_chunks(segment);
	order_all(segment, SHM_COMMAND_DROP);
	advance(segment);
}

void shm_ordered(struct session *session, const struct control_shm *message)
{
	struct shm_segment *segment = shm_find(session, message->id);
	struct shm_attachment *attachment = segment ? shm_find_attachment(session, segment) : NULL;
	int status = message->header.status;

	if (!attachment)
		return; /* it has detached since */
	if (message->command == SHM_COMMAND_WRITE) {
		if (segment->place == SHM_WRITING && segment->mover == session)
			shm_written(segment, status);
		return;
	}
	if (!attachment->ordered ||
		(message->command == SHM_COMMAND_LEAVE) != (segment->place == SHM_LEAVING))
		return;
	attachment->ordered = false;
	if (message->command == SHM_COMMAND_LEAVE) {
		attachment->has_chunks = status == 1;
		if (status < 0)
			segment->refused = status;
	}
	segment->orders--;
	advance(segment);
}

/* ---- coming back ---- */

/* A worker that was here before this gdevd, and had nothing to say of the segment when it registered. */
static int count_late(
	struct session *session, const struct control_shm *message, struct shm_segment *segment)
{
	bool known = segment->transient
			     ? !memcmp(segment->token, message->token, sizeof segment->token)
			     : shm_may_access(segment, session->uid, session->gid, SHM_READ);

	return session->worker->restored && known ? shm_count_attachment(session, segment)
						  : -EINVAL;
}

void shm_restore(struct session *session, const struct control_shm *message)
{
	struct shm_segment *segment = shm_find(session, message->id);
	int error = 0;

	if (!segment)
		error = -EIDRM;
	else if (!shm_find_attachment(session, segment))
		error = count_late(session, message, segment);
	if (!error && message->first_chunk &&
		(message->first_chunk >= segment->chunks || !shm_is_whole(segment) ||
			segment->place > SHM_WRITING))
		error = -EINVAL;
	if (error)
		shm_reply(session->worker, message, NULL, error, NULL, 0);
	else if (message->first_chunk || (segment->place == SHM_ON_DEVICE && shm_is_whole(segment)))
		shm_reply_chunks(session->worker, message, segment);
	else if (segment->place == SHM_MAPPED)
		shm_reply(session->worker, message, segment, 2, &segment->host_fd, 1);
	else if (segment->place == SHM_ON_HOST) {
		segment->place = SHM_LOADING;
		segment->mover = session;
		shm_reply(session->worker, message, segment, 1, &segment->host_fd, 1);
	} else {
		shm_park(segment, session, message);
	}
}

void shm_loaded(struct shm_segment *segment)
{
	segment->place = SHM_ON_DEVICE;
	segment->mover = NULL;
	segment->pause = (struct residency_pause){0};
	shm_drop_host_copy(segment);
	order_all(segment,
		SHM_COMMAND_STAY); /* who kept the host copy for the next gdevd has none any more */
	residency_balance(daemon_of(segment));
}

static bool is_in_file(const struct shm_segment *segment)
{
	return segment->swap[SWAP_FILE].used_bytes;
}

/* The host copy in a file does not move to memory after all. */
static void forget_move(struct shm_segment *segment)
{
	segment->awaits_memory = false;
	close_fd(&segment->memory_fd);
	if (is_in_file(segment))
		return_swap(segment, SWAP_MEMORY);
}

static void forget_load(struct shm_segment *segment)
{
	segment->mover = NULL;
	segment->unpaid = false;
	forget_move(segment);
	shm_close_chunks(segment);
	memory_return(&segment->memory, segment->memory.used_bytes);
	shm_serve_parked(segment);
}

void shm_load_failed(struct shm_segment *segment)
{
	segment->place = SHM_ON_HOST;
	forget_load(segment);
}

/* All hear of it before anybody uses it: the next gdevd, to whom they will tell it, must not take what is used for what
 * can be brought in, nor what was left for what is valid. */
static void map_host_copy(struct shm_segment *segment)
{
	struct shm_attachment *attachment;

	if (segment->memory_fd >= 0) {
		close(segment->host_fd);
		segment->host_fd = steal_fd(&segment->memory_fd);
		return_swap(segment, SWAP_FILE);
	}
	segment->place = SHM_MAPPED;
	list_for_each (attachment, &segment->attachments, by_segment)
		order(attachment, SHM_COMMAND_DROP);
}

void shm_map(struct session *session, const struct control_shm *message)
{
	struct shm_segment *segment = shm_find(session, message->id);

	if (!segment || segment->place != SHM_LOADING || segment->mover != session) {
		shm_reply(session->worker, message, NULL, -EAGAIN, NULL, 0);
		return;
	}
	shm_return_charge(segment, session);
	if (message->header.status)
		segment->place = SHM_ON_HOST;
	else
		map_host_copy(segment);
	shm_reply(session->worker, message, segment, 0, NULL, 0);
	forget_load(segment);
	residency_balance(session->daemon);
}

void shm_move(struct session *session, const struct control_shm *message)
{
	struct shm_segment *segment = shm_find(session, message->id);
	bool moves = segment && segment->place == SHM_LOADING && segment->mover == session;
	int error;

	if (!moves || !is_in_file(segment) || segment->memory_fd >= 0 || segment->awaits_memory) {
		/* If not: it was another gdevd who had the session bring it in. */
		shm_reply(session->worker, message, NULL, moves ? -EINVAL : -EAGAIN, NULL, 0);
		return;
	}
	error = swap_charge_memory(session->worker, &segment->swap[SWAP_MEMORY], segment->bytes);
	if (error == -EAGAIN) {
		segment->awaits_memory = true;
		shm_park(segment, session, message);
		return;
	}
	if (!error) {
		segment->memory_fd = open_copy(segment, SWAP_MEMORY);
		error = min_of(segment->memory_fd, 0);
	}
	if (error)
		forget_move(segment);
	shm_reply(session->worker, message, segment, error, &segment->memory_fd, !error);
}

void shm_serve_moves(struct daemon *daemon)
{
	struct shm_segment *segment;
	const struct vgpu *vgpu;

	list_for_each (vgpu, &daemon->vgpus, link)
		list_for_each (segment, &vgpu->shm.segments, link)
			if (segment->awaits_memory) {
				segment->awaits_memory = false;
				shm_serve_parked(segment);
			}
}

/* ---- those that wait ---- */

void shm_park(
	struct shm_segment *segment, struct session *session, const struct control_shm *message)
{
	struct shm_parked *parked = NULL;

	if (session->shm_parked < SHM_PARKED_MAX)
		parked = malloc(sizeof *parked);
	if (!parked) {
		shm_reply(session->worker, message, NULL, -ENOMEM, NULL, 0);
		return;
	}
	session->shm_parked++;
	parked->session = session;
	parked->message = *message;
	list_append(&segment->parked, &parked->link);
}

void shm_unpark(struct shm_parked *parked)
{
	list_remove(&parked->link);
	parked->session->shm_parked--;
	free(parked);
}

void shm_serve_parked(struct shm_segment *segment)
{
	struct shm_parked *parked;
	struct list waiting;

	/* Who still has to wait parks again. */
	list_init(&waiting);
	while ((parked = list_first(&segment->parked, struct shm_parked, link))) {
		list_remove(&parked->link);
		list_append(&waiting, &parked->link);
	}
	while ((parked = list_first(&waiting, struct shm_parked, link))) {
		struct session *session = parked->session;
		const struct control_shm message = parked->message;

		shm_unpark(parked);
		if (message.command == SHM_COMMAND_RESTORE)
			shm_restore(session, &message);
		else if (message.command == SHM_COMMAND_MOVE)
			shm_move(session, &message);
		else
			shm_attach(session, &message, segment);
	}
}

void shm_attachment_over(struct shm_attachment *attachment)
{
	struct shm_segment *segment = attachment->segment;

	if (attachment->ordered) {
		attachment->ordered = false;
		segment->orders--;
	}
	attachment->has_chunks = false;
	if (segment->mover != attachment->session)
		advance(segment);
	else if (segment->place == SHM_WRITING)
		write_out(segment);
	else
		shm_load_failed(segment);
}

/* ---- which ---- */

uint64_t shm_coming(const struct daemon *daemon, const struct vgpu *only)
{
	const struct shm_segment *segment;
	const struct vgpu *vgpu;
	uint64_t bytes = 0;

	list_for_each (vgpu, &daemon->vgpus, link) {
		if (only && vgpu != only)
			continue;
		list_for_each (segment, &vgpu->shm.segments, link)
			if (is_leaving(segment))
				bytes += segment->memory.used_bytes;
	}
	return bytes;
}

/* Whether it is on the device, and nobody who has attached it uses the device or is `asks`. When it was used; 0: nobody
 * has. */
static bool may_leave(
	const struct shm_segment *segment, const struct worker *asks, uint64_t *used_ns)
{
	const struct shm_attachment *attachment;

	*used_ns = 0;
	if (segment->place != SHM_ON_DEVICE || !shm_is_whole(segment) || segment->creator ||
		residency_is_paused(&segment->pause))
		return false;
	list_for_each (attachment, &segment->attachments, by_segment) {
		const struct worker *worker = attachment->session->worker;
		if (!worker || worker == asks || worker->state != WORKER_SERVING ||
			!worker->connection || residency_is_protected(worker))
			return false;
		*used_ns = max_of(*used_ns, worker->residency.used_ns);
	}
	return true;
}

static struct shm_segment *find_victim(const struct daemon *daemon, const struct worker *asks,
	const struct vgpu *only, bool unattached)
{
	struct shm_segment *segment, *victim = NULL;
	const struct vgpu *vgpu;
	uint64_t used_ns, least_ns = 0;

	list_for_each (vgpu, &daemon->vgpus, link) {
		if (only && vgpu != only)
			continue;
		list_for_each (segment, &vgpu->shm.segments, link) {
			if (!may_leave(segment, asks, &used_ns) || (victim && used_ns >= least_ns))
				continue;
			if (unattached && !list_empty(&segment->attachments))
				continue;
			victim = segment;
			least_ns = used_ns;
		}
	}
	return victim;
}

/* Nobody who has attached it is `asks`, and somebody uses the device. */
static bool is_used_by_others(const struct shm_segment *segment, const struct worker *asks)
{
	const struct shm_attachment *attachment;
	bool used = false;

	list_for_each (attachment, &segment->attachments, by_segment) {
		const struct worker *worker = attachment->session->worker;
		if (!worker || worker == asks)
			return false;
		used |= residency_is_protected(worker);
	}
	return used;
}

uint64_t shm_given_later(const struct daemon *daemon, const struct worker *asks,
	const struct vgpu *only, enum residency_patience patience)
{
	const struct shm_segment *segment;
	const struct vgpu *vgpu;
	uint64_t bytes = 0;

	list_for_each (vgpu, &daemon->vgpus, link) {
		if (only && vgpu != only)
			continue;
		list_for_each (segment, &vgpu->shm.segments, link)
			if (segment->place == SHM_ON_DEVICE &&
				(residency_is_hopeful(&segment->pause, patience) ||
					(patience >= PATIENCE_TURNS &&
						is_used_by_others(segment, asks))))
				bytes += segment->memory.used_bytes;
	}
	return bytes;
}

uint64_t shm_asked_again_at(const struct daemon *daemon, uint64_t at_ns)
{
	const struct shm_segment *segment;
	const struct vgpu *vgpu;

	list_for_each (vgpu, &daemon->vgpus, link)
		list_for_each (segment, &vgpu->shm.segments, link)
			if (residency_is_paused(&segment->pause))
				at_ns = min_of(at_ns, segment->pause.until_ns);
	return at_ns;
}

uint64_t shm_send_for(struct daemon *daemon, const struct worker *asks, const struct vgpu *vgpu,
	uint64_t cause, uint64_t bytes, bool unattached)
{
	struct shm_segment *segment;
	uint64_t sent = 0;

	while (sent < bytes && (segment = find_victim(daemon, asks, vgpu, unattached))) {
		if (leave(segment, cause))
			return sent;
		if (is_leaving(segment)) /* else it had to stay at once */
			sent += segment->bytes;
	}
	return sent;
}

void shm_session_suspended(struct session *session)
{
	struct shm_attachment *attachment, *other;

	list_for_each (attachment, &session->shm_attachments, by_session) {
		struct shm_segment *segment = attachment->segment;
		bool used = false;
		uint64_t used_ns;
		list_for_each (other, &segment->attachments, by_segment)
			used |= !other->session->worker ||
				!other->session->worker->residency.suspended;
		if (!used && may_leave(segment, NULL, &used_ns))
			leave(segment, 0);
	}
}
