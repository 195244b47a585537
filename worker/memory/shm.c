/* SPDX-License-Identifier: MIT
 *
 * See shm.h. Without a gdevd these calls fail with -GDEV_E_NO_DAEMON; what is attached stays attached.
 */
#include "worker/memory/shm.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "gdev/error.h"
#include "worker/command.h"
#include "worker/core.h"

/* Shared memory that the session holds without having it anywhere. */
struct hold {
	struct list link;
	struct control_shm description;
	uint32_t count;
};

struct control_shm shared_message(enum control_shm_command command)
{
	return (struct control_shm){
		.header = {sizeof(struct control_shm), CONTROL_SHM, CONTROL_VERSION, 0, 0},
		.command = command,
	};
}

static int call(struct core *core, const struct control_shm *message, struct control_shm *reply,
	int *fds, size_t *fd_count)
{
	int status =
		control_call(core, message, CONTROL_SHM_REPLY, reply, sizeof *reply, fds, fd_count);

	return status == -ENOTCONN ? -GDEV_E_NO_DAEMON : status;
}

static void answer(struct command *command, int status, const struct control_shm *segment)
{
	struct core *core = command->core;
	struct reply_shm reply = {0};

	if (status >= 0)
		reply = (struct reply_shm){
			.id = segment->id,
			.owner_uid = segment->uid,
			.owner_gid = segment->gid,
			.mode = segment->mode,
			.bytes = segment->bytes,
			.attached = segment->attached,
		};
	core_lock(core);
	command_answer(command, min_of(status, 0), &reply, status >= 0 ? sizeof reply : 0);
	core_unlock(core);
}

/* ---- backing ---- */

/* Segments have chunks of one size, the largest that makes them up. */
static uint64_t chunk_bytes_for(uint64_t bytes)
{
	uint64_t chunk = DEVICE_CHUNK_MIN;

	while (bytes >= (64ull << 20) && chunk < DEVICE_CHUNK_MAX && !(bytes % (2 * chunk)))
		chunk *= 2;
	return chunk;
}

/* Hands the descriptors of the chunks to gdevd, some at a time, which are of one size. */
int shared_back(struct core *core, const struct range *range, const struct control_shm *segment)
{
	struct control_shm message = shared_message(SHM_COMMAND_BACK), reply;
	int fds[FD_PASS_MAX], status = 0;
	size_t count;

	message.id = segment->id;
	message.bytes = segment->bytes;
	message.chunks = (uint32_t)range->piece_count;
	for (size_t i = 0; i < range->piece_count && status >= 0; i += count) {
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
		fd_close_all(fds, count);
	}
	return min_of(status, 0);
}

/* A charge that a job waits for. */
struct payment {
	struct charge charge;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool decided;
	int status;
};

static void payment_decided(struct core *core, struct charge *charge, int status)
{
	struct payment *payment = container_of(charge, struct payment, charge);

	pthread_mutex_lock(&payment->lock);
	payment->decided = true;
	payment->status = status;
	pthread_cond_signal(&payment->changed);
	pthread_mutex_unlock(&payment->lock);
}

/* In turn with the session's other wishes: gdevd hears one at a time. */
static int pay(struct core *core, uint64_t bytes)
{
	struct payment payment = {
		.charge = {.bytes = bytes, .decided = payment_decided},
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.changed = PTHREAD_COND_INITIALIZER,
	};

	core_lock(core);
	memory_charge(core, &payment.charge);
	core_unlock(core);
	pthread_mutex_lock(&payment.lock);
	while (!payment.decided)
		pthread_cond_wait(&payment.changed, &payment.lock);
	pthread_mutex_unlock(&payment.lock);
	pthread_cond_destroy(&payment.changed);
	pthread_mutex_destroy(&payment.lock);
	return payment.status;
}

/* A segment that gdevd has just made for us: it is paid for, made of zeroed chunks, and handed over. */
static int create_segment(
	struct core *core, const struct control_shm *segment, uint64_t chunk_bytes)
{
	struct range range = {.kind = RANGE_SHARED, .bytes = segment->bytes};
	struct control_shm remove = shared_message(SHM_COMMAND_REMOVE), reply;
	int error = pay(core, segment->bytes);
	bool paid = !error;

	if (paid) {
		error = memory_make_pieces(core, segment->bytes, chunk_bytes, false, &range);
		if (!error)
			error = shared_back(core, &range, segment);
		memory_drop_pieces(core, &range);
		free(range.pieces);
	}
	if (error) {
		remove.id = segment->id;
		memcpy(remove.token, segment->token, sizeof remove.token);
		call(core, &remove, &reply, NULL, NULL);
	}
	if (paid) {
		core_lock(core);
		if (error)
			memory_uncharge(core, segment->bytes);
		else
			memory_hand_over(core, segment->bytes);
		core_unlock(core);
	}
	return error;
}

static void get_job(struct job *job)
{
	struct command *command = container_of(job, struct command, job);
	const struct record_shm *record = command->request.shm;
	struct control_shm message = shared_message(SHM_COMMAND_GET), reply;
	int status;

	message.key = record->key;
	message.flags = record->flags & ~CONTROL_SHM_TRANSIENT;
	message.bytes = align_up(record->bytes, DEVICE_CHUNK_MIN);
	status = call(command->core, &message, &reply, NULL, NULL);
	if (status == 1)
		status = create_segment(command->core, &reply, chunk_bytes_for(message.bytes));
	answer(command, status, &reply);
}

void shm_get(struct command *command)
{
	if (command->request.shm->bytes > command->core->session.arena_bytes)
		command_answer(command, -EINVAL, NULL, 0);
	else
		service_job(command->core, &command->job, get_job);
}

/* ---- attaching ---- */

static void detach(struct core *core, uint32_t id)
{
	struct control_shm message = shared_message(SHM_COMMAND_DETACH);

	message.id = id;
	control_tell(core, &message, NULL, 0);
}

static int import(
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

	return chunk >= DEVICE_CHUNK_MIN && chunk <= DEVICE_CHUNK_MAX && !(chunk & (chunk - 1)) &&
	       segment->chunks && segment->chunks <= segment->bytes / DEVICE_CHUNK_MIN &&
	       segment->bytes <= core->session.arena_bytes;
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
	return range->pieces ? import(core, range, segment->chunk_bytes, fds, count) : -ENOMEM;
}

/* The segment is not on the device: there is the host copy, or nothing. */
static int take_host(const struct core *core, const struct control_shm *segment, int *fds,
	size_t count, int *host_fd)
{
	bool sane = segment->bytes && segment->bytes % DEVICE_CHUNK_MIN == 0 &&
		    segment->bytes <= core->session.arena_bytes && host_fd && count <= 1;

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
		message->first_chunk = (uint32_t)range->piece_count;
		error = call(core, message, segment, fds, &count);
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
		error = shared_import(core, segment, range, fds, count);
		fd_close_all(fds, count);
	}
	return !error && bytes_of(range) != segment->bytes ? -EINVAL : error;
}

/* Puts what was fetched into the address space: the chunks, or nothing yet. */
static int place(struct core *core, uint64_t address, struct shared *shared,
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

/* message: who is attached, and how. */
static int attach(struct core *core, struct control_shm *message, uint64_t address,
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
		error = place(core, address, shared, segment, &fetched, &host_fd,
			message->flags & SHM_RDONLY);
	if (error) {
		if (segment->id)
			detach(core, message->id);
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
	struct control_shm message = shared_message(SHM_COMMAND_ATTACH), segment = {0};
	int error;

	message.id = record->id;
	message.flags = record->flags & SHM_RDONLY;
	error = attach(command->core, &message, record->address, &segment);
	answer(command, error, &segment);
}

void shm_attach(struct command *command)
{
	if (command->request.shm->address % ARENA_ALIGN)
		command_answer(command, -EINVAL, NULL, 0);
	else
		service_job(command->core, &command->job, attach_job);
}

static void detach_job(struct job *job)
{
	struct command *command = container_of(job, struct command, job);
	struct core *core = command->core;
	struct range *range = command->range;
	struct shared *shared = range->shared;

	memory_unmap_pieces(core, range, range->piece_count);
	shared_unmap(core, range);
	memory_drop_pieces(core, range);
	detach(core, shared->description.id);
	core_lock(core);
	shared_remove(core, shared);
	memory_remove(core, range);
	command_answer(command, 0, NULL, 0);
	core_unlock(core);
}

void shm_detach(struct command *command)
{
	uint64_t address = command->request.shm->address;
	struct range *range = memory_find(command->core, address, 1);

	if (!range || range->kind != RANGE_SHARED || range->address != address)
		command_answer(command, -EINVAL, NULL, 0);
	else
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
	struct control_shm message = shared_message(what), reply;
	int status;

	message.id = record->id;
	message.mode = record->flags;
	status = call(command->core, &message, &reply, NULL, NULL);
	answer(command, status, &reply);
}

void shm_control(struct command *command)
{
	uint32_t what = command->request.shm->command;

	if (what != IPC_STAT && what != IPC_SET && what != IPC_RMID)
		command_answer(command, -EINVAL, NULL, 0);
	else
		service_job(command->core, &command->job, control_job);
}

/* ---- shared by token ---- */

static struct hold *find_hold(struct core *core, uint32_t id)
{
	struct hold *hold;

	list_for_each (hold, &core->memory.holds, link)
		if (hold->description.id == id)
			return hold;
	return NULL;
}

/* gdevd has counted one attachment more. */
static int add_hold(struct core *core, const struct control_shm *segment)
{
	struct hold *hold = find_hold(core, segment->id);

	if (!hold) {
		hold = calloc(1, sizeof *hold);
		if (!hold)
			return -ENOMEM;
		hold->description = *segment;
		list_append(&core->memory.holds, &hold->link);
	}
	hold->count++;
	return 0;
}

/* With the lock: the job is done, and the session holds what it has got. */
static void answer_shared(struct command *command, int status, const struct control_shm *segment)
{
	struct reply_shared reply = {0};

	if (status >= 0) {
		reply.id = segment->id;
		reply.bytes = segment->bytes;
		memcpy(reply.token, segment->token, sizeof reply.token);
	}
	command_answer(command, min_of(status, 0), &reply, status >= 0 ? sizeof reply : 0);
}

static void hold_and_answer(struct command *command, int status, const struct control_shm *segment)
{
	struct core *core = command->core;
	bool held = status >= 0;

	core_lock(core);
	if (held)
		status = add_hold(core, segment);
	answer_shared(command, status, segment);
	core_unlock(core);
	if (held && status)
		detach(core, segment->id);
}

/* A transient segment that gdevd makes for `bytes`; status as of call(). */
static int get_transient(struct core *core, uint64_t bytes, struct control_shm *segment)
{
	struct control_shm message = shared_message(SHM_COMMAND_GET);
	int status;

	message.key = IPC_PRIVATE;
	message.flags = CONTROL_SHM_TRANSIENT | 0600;
	message.bytes = bytes;
	status = call(core, &message, segment, NULL, NULL);
	return status == 0 ? -GDEV_E_PROTOCOL : status;
}

static void create_job(struct job *job)
{
	struct command *command = container_of(job, struct command, job);
	uint64_t bytes = align_up(command->request.shared->bytes, DEVICE_CHUNK_MIN);
	struct control_shm segment;
	int status = get_transient(command->core, bytes, &segment);

	if (status == 1)
		status = create_segment(command->core, &segment, chunk_bytes_for(bytes));
	hold_and_answer(command, status, &segment);
}

void shared_create(struct command *command)
{
	uint64_t bytes = command->request.shared->bytes;

	if (!bytes || bytes > command->core->session.arena_bytes)
		command_answer(command, -EINVAL, NULL, 0);
	else
		service_job(command->core, &command->job, create_job);
}

/* What had no room on the device cannot be shared. */
static bool is_resident(const struct range *range)
{
	for (size_t i = 0; i < range->piece_count; i++)
		if (range->pieces[i].state != PIECE_RESIDENT)
			return false;
	return true;
}

/* Hands the object's chunks to gdevd. With the lock, an entry is there before gdevd may give orders for it. */
static int hand_out(
	struct core *core, struct range *range, struct control_shm *segment, struct shared **shared)
{
	struct control_shm remove = shared_message(SHM_COMMAND_REMOVE), reply;
	int status = get_transient(core, range->bytes, segment);

	if (status != 1)
		return status;
	core_lock(core);
	*shared = shared_create_entry(core, segment->id);
	core_unlock(core);
	status = *shared ? shared_back(core, range, segment) : -ENOMEM;
	if (status) {
		remove.id = segment->id;
		memcpy(remove.token, segment->token, sizeof remove.token);
		call(core, &remove, &reply, NULL, NULL);
	}
	return status;
}

/* The chunks stay where they are; what in-flight commands do to them goes on. */
static void export_job(struct job *job)
{
	struct command *command = container_of(job, struct command, job);
	struct range *range = command->range;
	struct core *core = command->core;
	struct shared *shared = NULL;
	struct control_shm segment;
	int status = hand_out(core, range, &segment, &shared);

	core_lock(core);
	range->stays = false;
	if (!status) {
		memory_hand_over(core, range->bytes);
		range->kind = RANGE_SHARED;
		if (range->lent) /* from here on copies of it are ours */
			direct_moved(core);
		range->shared = shared;
		shared->range = range;
		shared->description = segment;
		shared->exported = true;
	}
	range->exporting = false;
	answer_shared(command, status, &segment);
	if (!status)
		shared_settle(core, shared, SHARED_HERE);
	else if (shared)
		shared_remove(core, shared);
	memory_unpin(core, range);
	core_unlock(core);
}

void shared_export(struct command *command)
{
	uint64_t address = command->request.shared->address;
	struct range *range = memory_find(command->core, address, 1);

	if (!range || range->address != address ||
		(range->kind != RANGE_DEVICE && !shared_is_export(range))) {
		command_answer(command, -EINVAL, NULL, 0);
	} else if (range->kind == RANGE_SHARED) {
		answer_shared(command, 0, &range->shared->description);
	} else if (!residency_keep(command->core, range)) {
		/* It comes in first. */
		list_append(&command->core->residency.exports, &command->link);
	} else if (!is_resident(range)) {
		range->stays = false;
		command_answer(command, -ENOMEM, NULL, 0);
	} else if (range->exporting) { /* twice at once: no client of ours does it */
		command_answer(command, -EAGAIN, NULL, 0);
	} else {
		range->exporting = true;
		command->range = range;
		memory_pin(range);
		service_job(command->core, &command->job, export_job);
	}
}

static void hold_job(struct job *job)
{
	struct command *command = container_of(job, struct command, job);
	const struct record_shared *record = command->request.shared;
	struct control_shm message = shared_message(SHM_COMMAND_HOLD), segment;

	message.id = record->id;
	memcpy(message.token, record->token, sizeof message.token);
	hold_and_answer(command, call(command->core, &message, &segment, NULL, NULL), &segment);
}

void shared_hold(struct command *command)
{
	service_job(command->core, &command->job, hold_job);
}

void shared_drop(struct command *command)
{
	struct core *core = command->core;
	struct hold *hold = find_hold(core, command->request.shared->id);
	struct control_shm message = shared_message(SHM_COMMAND_DETACH);

	if (!hold) {
		command_answer(command, -EINVAL, NULL, 0);
		return;
	}
	message.id = hold->description.id;
	control_send(core, &message, NULL, 0);
	if (!--hold->count) {
		list_remove(&hold->link);
		free(hold);
	}
	command_answer(command, 0, NULL, 0);
}

static void map_job(struct job *job)
{
	struct command *command = container_of(job, struct command, job);
	const struct record_shared *record = command->request.shared;
	struct control_shm message = shared_message(SHM_COMMAND_ATTACH), segment = {0};
	int error;

	message.id = record->id;
	message.flags = CONTROL_SHM_TRANSIENT | (record->flags & SHM_RDONLY);
	memcpy(message.token, record->token, sizeof message.token);
	error = attach(command->core, &message, record->address, &segment);
	core_lock(command->core);
	answer_shared(command, error, &segment);
	core_unlock(command->core);
}

void shared_map(struct command *command)
{
	if (command->request.shared->address % ARENA_ALIGN)
		command_answer(command, -EINVAL, NULL, 0);
	else
		service_job(command->core, &command->job, map_job);
}

bool shared_is_export(const struct range *range)
{
	return range->kind == RANGE_SHARED && range->shared && range->shared->exported;
}

void shared_free(struct command *command, struct range *range)
{
	memory_retire(command, range, detach_job);
}

void shared_finish(struct core *core)
{
	struct hold *hold, *next;

	list_for_each_safe (hold, next, &core->memory.holds, link)
		free(hold);
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

/* What it was doing is done: gdevd may be another since. */
void shared_rest(struct core *core, struct shared *shared)
{
	memory_unpin(core, shared->range);
	if (shared->missed && control_connected(core))
		register_again(core, shared);
}

/* It can be asked for now. */
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

static void registered(struct core *core, struct control_request *request, int status,
	const struct control_header *reply, int *fds, size_t fd_count)
{
	struct shared *shared = container_of(request, struct shared, request);
	const struct control_shm *answer = (const struct control_shm *)reply;

	if (status == 1) {
		service_job(core, &shared->job, back_job);
		return;
	}
	/* It has heard of another host copy, from those who were told of that one later. */
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
	message->header = shared_message(SHM_COMMAND_ATTACH).header;
	message->command = SHM_COMMAND_ATTACH;
	message->first_chunk = 0;
	message->flags = (range->read_only ? SHM_RDONLY : 0) |
			 (shared->description.flags & CONTROL_SHM_TRANSIENT) |
			 (shared->place != SHARED_HERE ? CONTROL_SHM_HOST : 0) |
			 (shared->place != SHARED_HERE && shared->used ? CONTROL_SHM_MAPPED : 0);
	shared->request.expected = CONTROL_SHM_REPLY;
	shared->request.answered = registered;
	control_ask(core, &shared->request);
}

void shared_register(struct core *core)
{
	struct hold *hold;

	for (size_t i = 0; i < core->memory.range_count; i++)
		if (core->memory.ranges[i]->shared)
			register_again(core, core->memory.ranges[i]->shared);
	/* Behind these, so that what is mapped somewhere is known when it is held. */
	list_for_each (hold, &core->memory.holds, link) {
		struct control_shm message = shared_message(SHM_COMMAND_HOLD);
		message.id = hold->description.id;
		memcpy(message.token, hold->description.token, sizeof message.token);
		for (uint32_t i = 0; i < hold->count; i++)
			control_send(core, &message, NULL, 0);
	}
	residency_wake(core); /* what is away can be asked for again */
}
