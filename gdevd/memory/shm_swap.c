/* SPDX-License-Identifier: MIT
 *
 * Shared segments leave the device and come back, with what is in them (docs/memory.md, rule 12): a segment is in
 * one place as a whole, which is ours to know. The sessions that have attached it do it:
 *
 *   ON_DEVICE -> LEAVING -> WRITING -> DROPPING -> ON_HOST -> LOADING -> ON_DEVICE
 *       ^___________|__________|   refused            |__________|___-> MAPPED
 *
 * LEAVING: all sessions keep commands away from it, and say so.
 * WRITING: one of them copies it into the host copy, a memfd; if none has it mapped, a warm worker does (shm_carry.c).
 * DROPPING: the host copy is complete; all drop the chunks, and so do we.
 * LOADING: the first session that needs it brings it in; the others ask for its chunks when they need it.
 * MAPPED: it has no room beside what a session has that needs it, and is used in the host copy. Where the device cannot
 * use files and the host copy is one, the session that brings it in copies it to memory before that. Until it has said
 * that the bytes are there the file is what is valid, and no other session uses either.
 *
 * At each moment either the chunks are valid or the host copy is, and every session that has attached the segment has
 * what is valid: whichever process is killed, the contents stay.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "gdevd/daemon.h"
#include "gdevd/memory/shm.h"

#define COPY_NS_A_MIB (16 * NS_PER_MS)

bool shm_is_whole(const struct shm_segment *segment)
{
	return segment->chunks && segment->backed == segment->chunks;
}

static bool is_leaving(const struct shm_segment *segment)
{
	return segment->place >= SHM_LEAVING && segment->place <= SHM_DROPPING;
}

void shm_order(const struct shm_attachment *attachment, enum control_shm_command command)
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
		shm_send(worker, segment, &message, &segment->host_fd, copy);
}

static void order_all(struct shm_segment *segment, enum control_shm_command command)
{
	struct shm_attachment *attachment;

	segment->orders = 0;
	list_for_each (attachment, &segment->attachments, by_segment) {
		attachment->ordered = command != SHM_COMMAND_STAY;
		segment->orders += attachment->ordered;
		shm_order(attachment, command);
	}
}

static struct freeing *close_copy(struct shm_segment *segment, int *fd)
{
	return freeing_begin(segment->vgpu->daemon, segment->user, fd, 1);
}

void shm_drop_host_copy(struct shm_segment *segment)
{
	int fds[] = {steal_fd(&segment->host_fd), steal_fd(&segment->memory_fd)};
	struct freeing *freeing =
		freeing_begin(segment->vgpu->daemon, segment->user, fds, array_length(fds));

	segment->known.copy_device = segment->known.copy_inode = 0;
	for (unsigned i = 0; i < SWAP_POOLS; i++)
		freeing_charge(freeing, &segment->swap[i]);
}

/* ---- leaving ---- */

static void advance_leaving(struct shm_segment *segment);

/* Makes a host copy of the segment's size. -errno. */
static int open_copy(const struct shm_segment *segment, enum swap_pool pool)
{
	autoclose int fd = pool == SWAP_FILE ? swap_file_open(segment->vgpu->daemon)
					     : fd_shared_memory("gdev-shared", segment->bytes);

	if (fd < 0 || ftruncate(fd, (off_t)segment->bytes))
		return fd < 0 ? -ENOMEM : -errno;
	return steal_fd(&fd);
}

/* Whether its contents are being copied, or given back after a restart. */
static bool is_under_way(const struct shm_segment *segment)
{
	return segment->place == SHM_LEAVING || segment->place == SHM_WRITING ||
	       segment->place == SHM_LOADING || (segment->restored && !shm_is_there(segment));
}

static uint64_t bytes_under_way(const struct daemon *daemon)
{
	const struct shm_segment *segment;
	uint64_t bytes = 0;

	list_for_each (segment, &daemon->segments, link)
		bytes += is_under_way(segment) ? segment->bytes : 0;
	return bytes;
}

/* The time of so many orders, and what copying takes on a slow disk: of this segment, and of all that are under way now, as a
 * session does what it is ordered one after another, and all of them share the disk. */
static void await_copy(struct shm_segment *segment, unsigned orders)
{
	struct daemon *daemon = segment->vgpu->daemon;
	uint64_t bytes = max_of(segment->bytes, bytes_under_way(daemon));

	deadline_set(&daemon->deadlines, &segment->overdue,
		clock_now_ns() + orders * RESIDENCY_ORDER_NS + (bytes >> 20) * COPY_NS_A_MIB);
}

void shm_await_contents(struct shm_segment *segment)
{
	await_copy(segment, 1);
}

/* A session has to bring the segment in within that. */
static void await_load(struct shm_segment *segment)
{
	await_copy(segment, 2);
}

static void await_step(struct shm_segment *segment, enum shm_place place)
{
	segment->place = place;
	segment->late = false;
	deadline_set(&segment->vgpu->daemon->deadlines, &segment->overdue,
		clock_now_ns() + RESIDENCY_ORDER_NS);
}

static int begin_leaving(struct shm_segment *segment, uint64_t cause)
{
	struct device *device = segment->vgpu->device;
	enum swap_pool pool;
	int error = swap_charge_accounts(device->daemon, segment->swap, segment->bytes, &pool);

	if (error)
		return error;
	segment->host_fd = open_copy(segment, pool);
	if (segment->host_fd < 0) {
		shm_drop_host_copy(segment);
		return -ENOMEM;
	}
	await_step(segment, SHM_LEAVING);
	segment->refused = 0;
	segment->cause = cause;
	order_all(segment, SHM_COMMAND_LEAVE);
	advance_leaving(segment);
	return 0;
}

static void let_stay(struct shm_segment *segment)
{
	await_step(segment, SHM_ON_DEVICE);
	segment->mover = NULL;
	segment->stays = true;
	shm_drop_host_copy(segment);
	order_all(segment, SHM_COMMAND_STAY);
	shm_serve_parked(segment);
	residency_balance(segment->vgpu->device);
	relief_serve(segment->vgpu->device);
}

/* One that has not answered DROP; NULL: all have, or the segment is gone. */
static struct shm_attachment *find_ordered(const struct daemon *daemon, uint32_t id)
{
	const struct shm_segment *segment = shm_find_id(daemon, id);
	struct shm_attachment *attachment;

	if (segment && segment->place == SHM_DROPPING)
		list_for_each (attachment, &segment->attachments, by_segment)
			if (attachment->ordered)
				return attachment;
	return NULL;
}

/* Each that dies may be the last that kept the segment from the next step, or from its end. */
static void kill_ordered(const struct daemon *daemon, uint32_t id)
{
	struct shm_attachment *attachment;

	while ((attachment = find_ordered(daemon, id)))
		worker_kill(attachment->session->worker, "it did not drop shared memory in time");
}

/* Not all have done in time what they were ordered. If a session does not say that its commands are kept away, it
 * would keep the others from the segment: the segment stays. Once the segment is being written, only those that have it
 * can say what is valid: they are waited for, but the room is not counted on. A session that has not written it after the
 * time for that is killed, as it may still write into the host copy, and another one writes it. When it has been written,
 * the host copy is valid, and a session that keeps its chunks keeps the others from both: after the same time again it is
 * killed. */
static void leave_overdue(struct shm_segment *segment)
{
	bool was_late = segment->late;

	if (!was_late)
		complain("shared memory %u does not leave the device as was ordered", segment->id);
	if (segment->place == SHM_LEAVING) {
		segment->late = true;
		let_stay(segment);
	} else if (segment->place == SHM_DROPPING && was_late) {
		kill_ordered(segment->vgpu->daemon, segment->id);
	} else if (segment->place == SHM_WRITING && was_late && segment->mover) {
		worker_kill(segment->mover->worker, "it did not write shared memory out in time");
	} else {
		await_copy(segment, 1);
		segment->late = true;
		residency_balance(segment->vgpu->device);
	}
}

/* A session that was to bring the segment in has not, and another waits for it, which is to do it now. gdevd lets the first
 * wait itself, or watches over a carrier that does it for it: then the time counts from anew. */
static void load_overdue(struct shm_segment *segment)
{
	const struct shm_parked *parked;
	bool wanted = false;

	list_for_each (parked, &segment->parked, link)
		wanted |= parked->session != segment->mover;
	if (!wanted || segment->carried || segment->awaits_memory) {
		await_load(segment);
		return;
	}
	complain("shared memory %u is not brought in: another session is to do it", segment->id);
	shm_return_charge(segment, segment->mover);
	shm_load_failed(segment);
}

void shm_overdue(struct deadline *deadline, uint64_t now_ns)
{
	struct shm_segment *segment = container_of(deadline, struct shm_segment, overdue);

	if (segment->creator) {
		shm_abandon_backing(segment);
	} else if (!shm_is_there(segment)) {
		if (segment->given_up)
			shm_drop_claims(segment);
		shm_maybe_destroy(segment);
	} else if (segment->place == SHM_ON_DEVICE) {
		segment->stays = false;
		residency_balance(segment->vgpu->device);
	} else if (segment->place == SHM_LOADING) {
		load_overdue(segment);
	} else if (is_leaving(segment)) {
		leave_overdue(segment);
	}
}

/* No command reaches the segment any more. A session that has it mapped copies it out; if none has, a warm worker
 * does. */
static void write_out(struct shm_segment *segment)
{
	struct shm_attachment *attachment;

	await_step(segment, SHM_WRITING);
	segment->mover = NULL;
	list_for_each (attachment, &segment->attachments, by_segment)
		if (attachment->has_chunks && attachment->writes) {
			segment->mover = attachment->session;
			shm_order(attachment, SHM_COMMAND_WRITE);
			return;
		}
	workers_adjust(segment->vgpu->device);
}

static void end_leaving(struct shm_segment *segment)
{
	struct device *device = segment->vgpu->device;

	segment->place = SHM_ON_HOST;
	deadline_cancel(&segment->overdue);
	segment->known.on_device = false;
	shm_write_down(segment);
	segment->vgpu->shm.evictions++;
	memory_return(&segment->memory, segment->memory.used_bytes);
	shm_serve_parked(segment);
	residency_balance(device);
	relief_serve(device);
}

/* A session has answered the order, or is gone and will not; or our own chunks are closed. */
static void advance_leaving(struct shm_segment *segment)
{
	if (segment->orders)
		return;
	if (segment->place == SHM_LEAVING)
		segment->refused ? let_stay(segment) : write_out(segment);
	else if (segment->place == SHM_DROPPING)
		end_leaving(segment);
}

void shm_written(struct shm_segment *segment, int status)
{
	if (status < 0) {
		complain("shared memory %u cannot leave the device: %s", segment->id,
			strerror(-status));
		let_stay(segment);
		return;
	}
	await_step(segment, SHM_DROPPING);
	segment->mover = NULL;
	shm_know_copy(segment);
	shm_write_down(segment);
	order_all(segment, SHM_COMMAND_DROP);
	segment->dropping = shm_close_chunks(segment);
	if (segment->dropping) {
		segment->orders++;
		freeing_tell(segment->dropping, segment->id);
	}
	advance_leaving(segment);
}

void shm_freed(struct daemon *daemon, uint32_t id)
{
	struct shm_segment *segment = shm_find_id(daemon, id);

	if (!segment)
		return;
	segment->dropping = NULL;
	segment->orders--;
	advance_leaving(segment);
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
	advance_leaving(segment);
}

/* ---- coming back ---- */

/* The session is to bring the segment in from now on, or to map it if there is no room. */
static void begin_load(
	struct session *session, const struct control_shm *message, struct shm_segment *segment)
{
	int error = shm_pay(session, segment);

	if (error == -EAGAIN) {
		segment->awaits_room |= shm_park(segment, session, message, false);
		return;
	}
	segment->place = SHM_LOADING;
	segment->mover = session;
	await_load(segment);
	shm_reply(session->worker, message, segment, error ? 3 : 1, &segment->host_fd, 1);
}

void shm_restore(struct session *session, const struct control_shm *message)
{
	struct shm_segment *segment = shm_find(session, message->id);
	int error = 0;

	if (!segment)
		error = -EIDRM;
	else if (!shm_find_attachment(session, segment)) /* a rest is of a gdevd before this one */
		error = !message->first_chunk && shm_had_attached(session, segment, false)
				? shm_count_attachment(session, segment)
				: -EINVAL;
	if (!error && message->first_chunk &&
		(message->first_chunk >= segment->chunks || !shm_is_whole(segment) ||
			segment->place > SHM_WRITING))
		error = -EINVAL;
	if (error)
		shm_reply(session->worker, message, NULL, error, NULL, 0);
	else if (!shm_is_there(segment) || shm_may_be_newer(segment))
		shm_park(segment, session, message, false);
	else if (message->first_chunk || (segment->place == SHM_ON_DEVICE && shm_is_whole(segment)))
		shm_reply_chunks(session->worker, message, segment);
	else if (segment->place == SHM_MAPPED)
		shm_reply(session->worker, message, segment, 2, &segment->host_fd, 1);
	else if (segment->place == SHM_ON_HOST)
		begin_load(session, message, segment);
	else
		shm_park(segment, session, message, false);
}

void shm_loaded(struct shm_segment *segment)
{
	segment->place = SHM_ON_DEVICE;
	segment->mover = NULL;
	segment->carried = segment->pays = false;
	shm_put_down(segment);
	segment->stays = false;
	shm_drop_host_copy(segment);
	shm_write_down(segment);
	order_all(segment,
		SHM_COMMAND_STAY); /* sessions that kept the host copy for the next gdevd let it go */
	residency_balance(segment->vgpu->device);
}

static bool is_in_file(const struct shm_segment *segment)
{
	return segment->swap[SWAP_FILE].used_bytes;
}

/* The host copy in a file does not move to memory after all. */
static void forget_move(struct shm_segment *segment)
{
	struct freeing *freeing = close_copy(segment, &segment->memory_fd);

	segment->awaits_memory = false;
	if (is_in_file(segment))
		freeing_charge(freeing, &segment->swap[SWAP_MEMORY]);
}

static void forget_load(struct shm_segment *segment)
{
	segment->mover = NULL;
	segment->unpaid = segment->expects = segment->carried = false;
	deadline_cancel(&segment->overdue);
	shm_put_down(segment);
	forget_move(segment);
	shm_free_chunks(segment);
	shm_pay_back(segment);
	shm_serve_parked(segment);
}

void shm_load_failed(struct shm_segment *segment)
{
	segment->place = SHM_ON_HOST;
	forget_load(segment);
}

/* From now on the segment is used where it is. All sessions hear of it before any uses it: they will tell the next
 * gdevd, which must not take a copy that is used for one that can be brought in, nor a copy that was left for the
 * valid one. */
static void map_host_copy(struct shm_segment *segment)
{
	struct shm_attachment *attachment;

	if (segment->memory_fd >= 0) {
		freeing_charge(close_copy(segment, &segment->host_fd), &segment->swap[SWAP_FILE]);
		segment->host_fd = steal_fd(&segment->memory_fd);
	}
	segment->place = SHM_MAPPED;
	segment->known.mapped = true;
	shm_know_copy(segment);
	shm_write_down(segment);
	list_for_each (attachment, &segment->attachments, by_segment)
		shm_order(attachment, SHM_COMMAND_DROP);
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
	residency_balance(session->device);
}

void shm_move(struct session *session, const struct control_shm *message)
{
	struct shm_segment *segment = shm_find(session, message->id);
	bool moves = segment && segment->place == SHM_LOADING && segment->mover == session &&
		     shm_find_attachment(session, segment)->writes;
	int error;

	if (!moves || !is_in_file(segment) || segment->memory_fd >= 0 || segment->awaits_memory) {
		/* Else it was a gdevd before this one that had the session bring it in. */
		shm_reply(session->worker, message, NULL, moves ? -EINVAL : -EAGAIN, NULL, 0);
		return;
	}
	error = swap_charge_memory(session->worker, &segment->swap[SWAP_MEMORY], segment->bytes);
	if (error == -EAGAIN) {
		segment->awaits_memory = true;
		shm_park(segment, session, message, false);
		return;
	}
	if (!error) {
		segment->memory_fd = open_copy(segment, SWAP_MEMORY);
		error = min_of(segment->memory_fd, 0);
	}
	if (error)
		forget_move(segment);
	await_load(segment);
	shm_reply(session->worker, message, segment, error, &segment->memory_fd, !error);
}

/* A MOVE that waits is taken up again for many reasons; there is one at a time. */
static void move_again(
	struct session *session, const struct control_shm *message, struct shm_segment *segment)
{
	segment->awaits_memory = false;
	shm_move(session, message);
}

void shm_serve_waiting(struct device *device)
{
	struct shm_segment *segment;

	list_for_each (segment, &device->daemon->segments, link)
		if (segment->vgpu->device == device &&
			(segment->awaits_memory || segment->awaits_room)) {
			segment->awaits_room = false;
			shm_serve_parked(segment);
		}
}

/* ---- those that wait ---- */

bool shm_park(struct shm_segment *segment, struct session *session,
	const struct control_shm *message, bool counted)
{
	struct shm_parked *parked = NULL;

	if (session->shm_parked < SHM_PARKED_MAX)
		parked = malloc(sizeof *parked);
	if (!parked) {
		shm_reply(session->worker, message, NULL, -ENOMEM, NULL, 0);
		return false;
	}
	session->shm_parked++;
	parked->session = session;
	parked->message = *message;
	parked->counted = counted;
	list_append(&segment->parked, &parked->link);
	return true;
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

	/* A request that still has to wait is parked again. */
	list_init(&waiting);
	while ((parked = list_first(&segment->parked, struct shm_parked, link))) {
		list_remove(&parked->link);
		list_append(&waiting, &parked->link);
	}
	while ((parked = list_first(&waiting, struct shm_parked, link))) {
		struct session *session = parked->session;
		const struct control_shm message = parked->message;
		bool counted = parked->counted;

		shm_unpark(parked);
		if (message.command == SHM_COMMAND_RESTORE)
			shm_restore(session, &message);
		else if (message.command == SHM_COMMAND_MOVE)
			move_again(session, &message, segment);
		else if (message.command == SHM_COMMAND_CARRY)
			shm_carried_in(session, &message, segment);
		else if (counted &&
			 !shm_find_attachment(session, segment)) /* it has detached since */
			shm_reply(session->worker, &message, NULL, -EINVAL, NULL, 0);
		else if (counted)
			shm_attach_again(session, &message, segment);
		else if (!shm_is_there(segment))
			shm_park(segment, session, &message, false);
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
	segment->stays = false; /* perhaps it was that one */
	if (segment->mover != attachment->session)
		advance_leaving(segment);
	else if (segment->place == SHM_WRITING)
		write_out(segment);
	else
		shm_load_failed(segment);
}

/* ---- which ---- */

/* Whether the segment is of the device, and of that virtual GPU if one is given. */
static bool is_of(
	const struct shm_segment *segment, const struct device *device, const struct vgpu *only)
{
	return segment->vgpu->device == device && (!only || segment->vgpu == only);
}

uint64_t shm_coming(const struct device *device, const struct vgpu *only)
{
	const struct shm_segment *segment;
	uint64_t bytes = 0;

	list_for_each (segment, &device->daemon->segments, link)
		if (is_of(segment, device, only) && is_leaving(segment) && !segment->late)
			bytes += segment->memory.used_bytes;
	return bytes;
}

/* Whether the segment is on the device and can leave it: no session that has attached it uses the device, or is
 * `asks`. *used_ns: when one of them used the device last; 0: none has. */
static bool may_leave(
	const struct shm_segment *segment, const struct worker *asks, uint64_t *used_ns)
{
	const struct shm_attachment *attachment;

	*used_ns = 0;
	if (segment->place != SHM_ON_DEVICE || !shm_is_whole(segment) || segment->creator ||
		segment->stays || shm_is_kept_by_peer(segment))
		return false;
	list_for_each (attachment, &segment->attachments, by_segment) {
		struct worker *worker = attachment->session->worker;
		if (!worker || worker == asks || worker->state != WORKER_SERVING ||
			!worker->connection || residency_is_protected(worker))
			return false;
		*used_ns = max_of(*used_ns, worker->residency.used_ns);
	}
	return true;
}

static struct shm_segment *find_victim(const struct device *device, const struct worker *asks,
	const struct vgpu *only, bool unattached)
{
	struct shm_segment *segment, *victim = NULL;
	uint64_t used_ns, least_ns = 0;

	list_for_each (segment, &device->daemon->segments, link) {
		if (!is_of(segment, device, only) || !may_leave(segment, asks, &used_ns) ||
			(victim && used_ns >= least_ns) ||
			(unattached && !list_empty(&segment->attachments)))
			continue;
		victim = segment;
		least_ns = used_ns;
	}
	return victim;
}

/* Whether some session that has attached the segment uses the device, and `asks` has not attached it. */
static bool is_used_by_others(const struct shm_segment *segment, const struct worker *asks)
{
	const struct shm_attachment *attachment;
	bool used = false;

	list_for_each (attachment, &segment->attachments, by_segment) {
		struct worker *worker = attachment->session->worker;
		if (!worker || worker == asks)
			return false;
		used |= residency_uses_device(worker);
	}
	return used;
}

uint64_t shm_given_later(
	const struct device *device, const struct worker *asks, const struct vgpu *only)
{
	const struct shm_segment *segment;
	uint64_t bytes = 0;

	list_for_each (segment, &device->daemon->segments, link)
		if (is_of(segment, device, only) && segment->place == SHM_ON_DEVICE &&
			!segment->stays && !shm_is_kept_by_peer(segment) &&
			is_used_by_others(segment, asks))
			bytes += segment->memory.used_bytes;
	return bytes;
}

uint64_t shm_send_for(struct device *device, const struct worker *asks, const struct vgpu *vgpu,
	uint64_t cause, uint64_t bytes, bool unattached)
{
	struct shm_segment *segment;
	uint64_t sent = 0;
	while (sent < bytes && (segment = find_victim(device, asks, vgpu, unattached))) {
		if (begin_leaving(segment, cause))
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
			begin_leaving(segment, 0);
	}
}
