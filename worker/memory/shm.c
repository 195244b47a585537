/* SPDX-License-Identifier: MIT
 *
 * See shm.h. Without a gdevd these calls fail with -GDEV_E_NO_DAEMON; what is attached stays attached.
 */
#include "worker/memory/shm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "gdev/error.h"
#include "gdev/session.h"
#include "worker/command.h"
#include "worker/core.h"

_Static_assert(CONTROL_SHM_TRUST_READERS == GDEV_SHM_TRUST_READERS, "a flag of programs");

struct control_shm shared_message(enum control_shm_command command, uint32_t id)
{
	return (struct control_shm){
		.header = {sizeof(struct control_shm), CONTROL_SHM, CONTROL_VERSION, 0, 0},
		.command = command,
		.id = id,
	};
}

int shared_call(struct core *core, const struct control_shm *message, struct control_shm *reply,
	int *fds, size_t *fd_count)
{
	int status =
		control_call(core, message, CONTROL_SHM_REPLY, reply, sizeof *reply, fds, fd_count);

	return status == -ENOTCONN ? -GDEV_E_NO_DAEMON : status;
}

static void answer_shm(struct command *command, int status, const struct control_shm *segment)
{
	struct core *core = command->core;
	struct reply_shm reply = {0};

	if (status >= 0)
		reply = (struct reply_shm){
			.id = segment->id,
			.owner_uid = segment->uid,
			.owner_gid = segment->gid,
			.mode = segment->mode,
			.bytes = segment->size,
			.attached = segment->attached,
		};
	core_lock(core);
	command_answer(command, min_of(status, 0), &reply, status >= 0 ? sizeof reply : 0);
	core_unlock(core);
}

/* ---- backing ---- */

/* What a segment of a size takes: whole chunks, the least that the device has for a small one. */
static uint64_t segment_bytes(const struct core *core, uint64_t size)
{
	uint64_t grain = core->ops->grain_bytes ? core->ops->grain_bytes : DEVICE_CHUNK_MIN;

	return align_up(size, size < DEVICE_CHUNK_MIN ? grain : DEVICE_CHUNK_MIN);
}

bool shared_size_is_sane(const struct core *core, const struct control_shm *segment, uint64_t most)
{
	return segment->bytes && segment->bytes <= most &&
	       segment->bytes == segment_bytes(core, segment->bytes);
}

/* Segments have chunks of one size, the largest that makes them up. */
static uint64_t chunk_bytes_for(uint64_t bytes)
{
	uint64_t chunk = min_of(bytes, (uint64_t)DEVICE_CHUNK_MIN);

	while (bytes >= (64ull << 20) && chunk < DEVICE_CHUNK_MAX && !(bytes % (2 * chunk)))
		chunk *= 2;
	return chunk;
}

int shared_make_pieces(struct core *core, uint64_t bytes, struct range *range)
{
	return memory_make_pieces(core, bytes, chunk_bytes_for(bytes), false, range);
}

/* Hands the descriptors of the chunks to gdevd, some at a time, which are of one size. */
int shared_back(struct core *core, const struct range *range, const struct control_shm *segment)
{
	struct control_shm message = shared_message(SHM_COMMAND_BACK, segment->id), reply;
	int fds[FD_PASS_MAX], status = 0;
	size_t count;

	message.bytes = segment->bytes;
	message.chunks = (uint32_t)range->piece_count;
	for (size_t i = 0; i < range->piece_count && !status; i += count) {
		size_t none = 0;
		count = 0;
		message.first_chunk = (uint32_t)i;
		message.chunk_bytes = range->pieces[i].bytes;
		while (count < FD_PASS_MAX && i + count < range->piece_count && !status &&
			range->pieces[i + count].bytes == message.chunk_bytes) {
			const struct piece *piece = &range->pieces[i + count];
			status = piece->chunk ? core->ops->chunk_export(piece->chunk, &fds[count])
					      : -ENOMEM; /* in host memory */
			count += !status;
		}
		if (!status)
			status = control_call_with(core, &message, fds, count, CONTROL_SHM_REPLY,
				&reply, sizeof reply, NULL, &none);
		status = min_of(status, 0);
		fd_close_all(fds, count);
	}
	return status;
}

/* A charge that a job waits for. */
struct payment {
	struct charge charge;
	bool decided;
	int status;
};

static void payment_decided(struct core *core, struct charge *charge, int status)
{
	struct payment *payment = container_of(charge, struct payment, charge);

	payment->status = status;
	control_done(core, &payment->decided);
}

/* In turn with the session's other wishes: gdevd hears one at a time. */
static int pay_for_segment(struct core *core, uint64_t bytes)
{
	struct payment payment = {.charge = {.bytes = bytes, .decided = payment_decided}};

	core_lock(core);
	memory_charge(core, &payment.charge);
	core_unlock(core);
	control_await(core, &payment.decided);
	return payment.status;
}

void shared_abandon(struct core *core, const struct control_shm *segment)
{
	struct control_shm remove = shared_message(SHM_COMMAND_REMOVE, segment->id), reply;

	memcpy(remove.token, segment->token, sizeof remove.token);
	shared_call(core, &remove, &reply, NULL, NULL);
}

int shared_make(struct core *core, const struct control_shm *segment, uint64_t bytes)
{
	struct range range = {.kind = RANGE_SHARED, .bytes = bytes};
	bool sane = shared_size_is_sane(core, segment, core->session.arena_bytes) &&
		    segment->bytes == bytes;
	int error = sane ? pay_for_segment(core, bytes) : -GDEV_E_PROTOCOL;
	bool paid = !error;

	if (paid) {
		error = shared_make_pieces(core, bytes, &range);
		if (!error)
			error = shared_back(core, &range, segment);
		memory_drop_pieces(core, &range);
		free(range.pieces);
	}
	if (error)
		shared_abandon(core, segment);
	if (paid) {
		core_lock(core);
		if (error)
			memory_uncharge(core, bytes);
		else
			memory_hand_over(core, bytes);
		core_unlock(core);
	}
	return error;
}

static void get_job(struct job *job)
{
	struct command *command = container_of(job, struct command, job);
	const struct record_shm *record = command->request.shm;
	struct control_shm message = shared_message(SHM_COMMAND_GET, 0), reply;
	int status;

	message.key = record->key;
	message.flags = record->flags & (07777 | CONTROL_SHM_TRUST_READERS);
	message.size = record->bytes;
	message.bytes = segment_bytes(command->core, record->bytes);
	status = shared_call(command->core, &message, &reply, NULL, NULL);
	if (status == 1)
		status = shared_make(command->core, &reply, message.bytes);
	answer_shm(command, status, &reply);
}

void shm_get(struct command *command)
{
	if (command->request.shm->bytes > command->core->session.arena_bytes)
		command_answer(command, -EINVAL, NULL, 0);
	else
		service_job(command->core, LANE_LONG, &command->job, get_job);
}

/* ---- attaching ---- */

void shared_detach(struct core *core, uint32_t id)
{
	const struct control_shm message = shared_message(SHM_COMMAND_DETACH, id);

	control_tell(core, &message, NULL, 0);
}

static int import_chunks(
	struct core *core, struct range *range, uint64_t chunk_bytes, int *fds, size_t count)
{
	struct piece *last = range->piece_count ? &range->pieces[range->piece_count - 1] : NULL;
	int error = 0;

	for (size_t i = 0; i < count && !error; i++) {
		struct piece *piece = &range->pieces[range->piece_count];
		error = core->ops->chunk_import(core->device, fds[i], chunk_bytes, &piece->chunk);
		if (error)
			break;
		*piece = (struct piece){
			.range = range,
			.chunk = piece->chunk,
			.offset = last ? last->offset + last->bytes : 0,
			.bytes = chunk_bytes,
		};
		list_init(&piece->link);
		last = piece;
		range->piece_count++;
	}
	return error;
}

static bool is_sane(const struct core *core, const struct control_shm *segment)
{
	uint64_t chunk = segment->chunk_bytes;
	bool whole = chunk == segment->bytes && segment->chunks == 1 && chunk < DEVICE_CHUNK_MIN;
	bool part = chunk >= DEVICE_CHUNK_MIN && chunk <= DEVICE_CHUNK_MAX &&
		    !(chunk & (chunk - 1)) && segment->chunks &&
		    segment->chunks <= segment->bytes / DEVICE_CHUNK_MIN;

	return (whole || part) && shared_size_is_sane(core, segment, core->session.arena_bytes);
}

static uint64_t bytes_of(const struct range *range)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < range->piece_count; i++)
		bytes += range->pieces[i].bytes;
	return bytes;
}

int shared_import(
	struct core *core, struct control_shm *segment, struct range *range, int *fds, size_t count)
{
	if (!is_sane(core, segment) || !count || count > segment->chunks - range->piece_count)
		return -EINVAL;
	if (!range->pieces)
		range->pieces = calloc(segment->chunks, sizeof *range->pieces);
	return range->pieces ? import_chunks(core, range, segment->chunk_bytes, fds, count)
			     : -ENOMEM;
}

/* The segment is not on the device: there is the host copy, or nothing. */
static int take_host(const struct core *core, const struct control_shm *segment, int *fds,
	size_t count, int *host_fd)
{
	bool sane = shared_size_is_sane(core, segment, core->session.arena_bytes) && host_fd &&
		    count <= 1;

	if (sane && count)
		*host_fd = steal_fd(&fds[0]);
	return sane ? 0 : -EINVAL;
}

/* Fetches the chunks that `range` does not have, message by message. If the first is refused, segment->id is 0:
 * gdevd has counted nothing. */
int shared_fetch(struct core *core, struct control_shm *message, struct control_shm *segment,
	struct range *range, int *host_fd)
{
	int error = 0;

	while (!error && (!range->piece_count || range->piece_count < segment->chunks)) {
		int fds[FD_PASS_MAX];
		size_t count = array_length(fds);
		uint32_t chunks = segment->chunks;
		message->first_chunk = (uint32_t)range->piece_count;
		error = shared_call(core, message, segment, fds, &count);
		if (error < 0) {
			if (!message->first_chunk)
				segment->id = 0;
			return error;
		}
		if (!message->first_chunk && (segment->flags & CONTROL_SHM_HOST)) {
			error = take_host(core, segment, fds, count, host_fd);
			fd_close_all(fds, count);
			return error;
		}
		/* There is room for as many as were said first. */
		if (message->first_chunk && segment->chunks != chunks)
			error = -GDEV_E_PROTOCOL;
		else
			error = shared_import(core, segment, range, fds, count);
		fd_close_all(fds, count);
	}
	return !error && bytes_of(range) != segment->bytes ? -EINVAL : error;
}

/* Puts what was fetched into the address space: the chunks, or nothing yet. */
static int place_segment(struct core *core, uint64_t address, struct shared *shared,
	const struct control_shm *segment, struct range *fetched, int *host_fd, bool read_only)
{
	bool away = !fetched->piece_count;
	struct range *range;
	int error;

	core_lock(core);
	error = memory_insert(core, RANGE_SHARED, address, segment->bytes, &range);
	if (!error) {
		range->read_only = read_only;
		range->piece_count = fetched->piece_count;
		range->pieces = steal_pointer(&fetched->pieces);
		for (size_t i = 0; i < range->piece_count; i++)
			range->pieces[i].range = range;
		fetched->piece_count = 0;
	}
	core_unlock(core);
	if (error)
		return error;
	error = memory_map_pieces(core, range);
	core_lock(core);
	if (error) { /* give the pieces back to be dropped */
		fetched->pieces = steal_pointer(&range->pieces);
		fetched->piece_count = range->piece_count;
		memory_remove(core, range);
	} else {
		shared->range = range;
		shared->description = *segment;
		if (shared->host_fd < 0) /* else gdevd has said more since */
			shared_take_copy(shared, steal_fd(host_fd), segment->flags);
		range->shared = shared;
		range->ready = true;
		shared_settle(core, shared, away ? SHARED_AWAY : SHARED_HERE);
	}
	core_unlock(core);
	return error;
}

int shared_attach(struct core *core, struct control_shm *message, uint64_t address,
	struct control_shm *segment)
{
	struct range fetched = {.kind = RANGE_SHARED};
	autoclose int host_fd = -1;
	struct shared *shared;
	int error;

	core_lock(core);
	shared = shared_create_entry(core, message->id);
	core_unlock(core);
	if (!shared)
		return -ENOMEM;
	error = shared_fetch(core, message, segment, &fetched, &host_fd);
	if (!error)
		error = place_segment(core, address, shared, segment, &fetched, &host_fd,
			message->flags & SHM_RDONLY);
	if (error) {
		if (segment->id)
			shared_detach(core, message->id);
		memory_drop_pieces(core, &fetched);
		free(fetched.pieces);
		core_lock(core);
		shared_remove(core, shared);
		core_unlock(core);
	}
	return error;
}

static void attach_job(struct job *job)
{
	struct command *command = container_of(job, struct command, job);
	const struct record_shm *record = command->request.shm;
	struct control_shm message = shared_message(SHM_COMMAND_ATTACH, record->id), segment = {0};
	int error;

	message.flags = record->flags & SHM_RDONLY;
	error = shared_attach(command->core, &message, record->address, &segment);
	answer_shm(command, error, &segment);
}

void shm_attach(struct command *command)
{
	if (command->request.shm->address % ARENA_ALIGN)
		command_answer(command, -EINVAL, NULL, 0);
	else
		service_job(command->core, LANE_LONG, &command->job, attach_job);
}

/* Takes it out of the address space, where no command reaches it any more. Unlocked; returns with the lock, and the command
 * that waits for it. */
static struct command *take_apart(struct core *core, struct range *range)
{
	struct shared *shared = range->shared;
	struct command *waiter;

	memory_unmap_pieces(core, range, range->piece_count);
	shared_unmap(core, range);
	memory_drop_pieces(core, range);
	shared_detach(core, shared->description.id);
	core_lock(core);
	waiter = shared->waiter;
	shared_remove(core, shared);
	memory_remove(core, range);
	return waiter;
}

static void lost_job(struct job *job)
{
	struct shared *shared = container_of(job, struct shared, job);
	struct core *core = shared->core;
	struct command *waiter = take_apart(core, shared->range);

	if (waiter)
		command_answer(waiter, 0, NULL, 0);
	core_unlock(core);
}

static void lost_drained(struct barrier *barrier)
{
	struct shared *shared = container_of(barrier, struct shared, barrier);

	service_job(shared->core, LANE_ORDERS, &shared->job, lost_job);
}

/* If the segment is lost, and nothing works at it, lets it go: commands find nothing there from here on, and kernels when
 * those in flight are done. */
void shared_let_go(struct core *core, struct shared *shared)
{
	struct range *range = shared->range;

	if (!shared->lost || shared->place != SHARED_HERE || !range->ready || range->pins)
		return;
	range->ready = false;
	shared->going = true;
	shared->barrier.passed = lost_drained;
	barrier_start(core, &shared->barrier);
}

void shared_lose(struct core *core, uint32_t id)
{
	struct shared *shared;

	list_for_each (shared, &core->memory.shared, link)
		if (shared->description.id == id) {
			shared->lost = true;
			shared_let_go(core, shared);
		}
}

static void detach_job(struct job *job)
{
	struct command *command = container_of(job, struct command, job);
	struct core *core = command->core;

	take_apart(core, command->range);
	command_answer(command, 0, NULL, 0);
	core_unlock(core);
}

/* One that is going by itself. */
static struct shared *find_lost(struct core *core, uint64_t address)
{
	struct shared *shared;

	list_for_each (shared, &core->memory.shared, link)
		if (shared->going && shared->range->address == address && !shared->waiter)
			return shared;
	return NULL;
}

void shm_detach(struct command *command)
{
	uint64_t address = command->request.shm->address;
	struct range *range = memory_find(command->core, address, 1);
	struct shared *lost = range ? NULL : find_lost(command->core, address);

	if (lost)
		lost->waiter = command;
	else if (!range || range->kind != RANGE_SHARED || range->address != address)
		command_answer(command, -EINVAL, NULL, 0);
	else
		memory_retire(command, range, detach_job);
}

void shared_free(struct command *command, struct range *range)
{
	memory_retire(command, range, detach_job);
}

/* ---- control ---- */

static void control_job(struct job *job)
{
	struct command *command = container_of(job, struct command, job);
	const struct record_shm *record = command->request.shm;
	enum control_shm_command what = record->command == IPC_STAT  ? SHM_COMMAND_STAT
					: record->command == IPC_SET ? SHM_COMMAND_SET
								     : SHM_COMMAND_REMOVE;
	struct control_shm message = shared_message(what, record->id), reply;
	int status;

	message.mode = record->flags & (0777 | CONTROL_SHM_TRUST_READERS);
	status = shared_call(command->core, &message, &reply, NULL, NULL);
	answer_shm(command, status, &reply);
}

void shm_control(struct command *command)
{
	uint32_t what = command->request.shm->command;

	if (what != IPC_STAT && what != IPC_SET && what != IPC_RMID)
		command_answer(command, -EINVAL, NULL, 0);
	else
		service_job(command->core, LANE_CALLS, &command->job, control_job);
}

/* ---- a new gdevd ---- */

static void register_again(struct core *core, struct shared *shared);

/* The new gdevd learns where the host copy is. */
static int back_host(struct core *core, const struct shared *shared)
{
	struct control_shm message = shared->request.message.shm, reply;
	int status;

	message.command = SHM_COMMAND_BACK;
	status = control_call_with(core, &message, &shared->host_fd, 1, CONTROL_SHM_REPLY, &reply,
		sizeof reply, NULL, NULL);
	return min_of(status, 0);
}

/* The work for which the segment was pinned is done. There may be another gdevd by now, which has not heard of it. */
void shared_rest(struct core *core, struct shared *shared)
{
	memory_unpin(core, shared->range);
	if (shared->missed && control_connected(core))
		register_again(core, shared);
}

/* The new gdevd knows the segment: commands may ask for it again. */
static void register_end(struct core *core, struct shared *shared)
{
	shared->registering = false;
	shared_rest(core, shared);
	residency_wake(core);
}

static void back_job(struct job *job)
{
	struct shared *shared = container_of(job, struct shared, job);
	struct core *core = shared->core;
	int error = shared->range->piece_count
			    ? shared_back(core, shared->range, &shared->description)
			    : back_host(core, shared);

	if (error)
		log_warning("shared memory %u is unknown to the new gdevd: %s",
			shared->description.id, gdev_strerror(error));
	core_lock(core);
	register_end(core, shared);
	core_unlock(core);
}

static void segment_registered(struct core *core, struct control_request *request, int status,
	const struct control_header *reply, int *fds, size_t fd_count)
{
	struct shared *shared = container_of(request, struct shared, request);
	const struct control_shm *answer = (const struct control_shm *)reply;

	if (status == 1) {
		service_job(core, LANE_CALLS, &shared->job, back_job);
		return;
	}
	/* gdevd has heard of another host copy, from a session that was told of that one later. */
	if (!status && shared->place == SHARED_AWAY && answer->flags & CONTROL_SHM_HOST && fd_count)
		shared_take_copy(shared, steal_fd(&fds[0]), answer->flags);
	register_end(core, shared);
}

/* Whether there is something to say of it to a gdevd that does not know it. */
static bool is_known_here(const struct shared *shared)
{
	return shared->place == SHARED_HERE ||
	       ((shared->place == SHARED_AWAY || shared->place == SHARED_MAPPED) &&
		       shared->host_fd >= 0);
}

static void register_again(struct core *core, struct shared *shared)
{
	struct range *range = shared->range;
	struct control_shm *message = &shared->request.message.shm;

	shared->missed = range->pins; /* by what moves it, or tells a gdevd before this one */
	if (!range->ready || range->pins || !is_known_here(shared))
		return;
	memory_pin(range); /* until gdevd has it */
	shared->registering = true;
	*message = shared->description;
	message->header = shared_message(SHM_COMMAND_ATTACH, 0).header;
	message->command = SHM_COMMAND_ATTACH;
	message->first_chunk = 0;
	message->flags = (range->read_only ? SHM_RDONLY : 0) |
			 (shared->description.flags & CONTROL_SHM_TRANSIENT) |
			 (shared->place != SHARED_HERE ? CONTROL_SHM_HOST : 0) |
			 (shared->place != SHARED_HERE && shared->used ? CONTROL_SHM_MAPPED : 0);
	shared->request.expected = CONTROL_SHM_REPLY;
	shared->request.answered = segment_registered;
	control_ask(core, &shared->request);
}

void shared_register(struct core *core)
{
	for (size_t i = 0; i < core->memory.range_count; i++)
		if (core->memory.ranges[i]->shared)
			register_again(core, core->memory.ranges[i]->shared);
	/* Behind these, so that what is mapped somewhere is known when it is held. */
	shared_register_holds(core);
	residency_wake(core); /* what is away can be asked for again */
}
