/* SPDX-License-Identifier: MIT
 *
 * See shm.h: shared segments leave the device, as gdevd orders, and come back when a command needs them
 * (docs/memory.md, rule 12; gdevd/memory/shm_swap.c says who does what). A session may have a segment attached at several
 * places; an order is answered when all of them have carried it out.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "gdev/error.h"
#include "worker/command.h"
#include "worker/core.h"
#include "worker/memory/shm.h"

static void set_place(struct core *core, struct shared *shared, enum shared_place place)
{
	struct memory *memory = &core->memory;
	bool counts = shared->range && place != SHARED_HERE && place != SHARED_MAPPED;

	if (counts && !shared->counted) {
		core->residency.absent_bytes += shared->range->bytes;
		memory->shared_away++;
	} else if (!counts && shared->counted) {
		core->residency.absent_bytes -= shared->range->bytes;
		memory->shared_away--;
	}
	memory->shared_leaving += place == SHARED_LEAVING;
	memory->shared_leaving -= shared->place == SHARED_LEAVING;
	shared->counted = counts;
	shared->place = place;
}

struct shared *shared_create_entry(struct core *core, uint32_t id)
{
	struct shared *shared = calloc(1, sizeof *shared);

	if (!shared)
		return NULL;
	shared->core = core;
	shared->description.id = id;
	shared->place = SHARED_COMING;
	shared->host_fd = shared->copy_fd = -1;
	list_append(&core->memory.shared, &shared->link);
	return shared;
}

void shared_destroy(struct shared *shared)
{
	if (!shared)
		return;
	list_remove(&shared->link);
	fd_close_all(shared->fds, shared->fd_count);
	if (shared->host_fd >= 0)
		close(shared->host_fd);
	free(shared->fds);
	free(shared);
}

void shared_take_copy(struct shared *shared, int fd, uint32_t flags)
{
	if (shared->host_fd >= 0)
		close(shared->host_fd);
	shared->host_fd = fd;
	shared->used = fd >= 0 && flags & CONTROL_SHM_MAPPED;
}

int shared_hold_copy(struct core *core, const struct shared *shared, bool *used)
{
	int fd;

	core_lock(core);
	fd = fcntl(shared->host_fd, F_DUPFD_CLOEXEC, 0);
	*used = shared->used;
	core_unlock(core);
	return fd;
}

/* ---- orders ---- */

void shared_say(struct core *core, uint32_t id, enum control_shm_command command, int status)
{
	struct control_shm message = shared_message(command, id);

	message.header.status = status;
	control_send(core, &message, NULL, 0);
}

/* Answers gdevd's order when every place where the segment is attached has carried it out. */
static void answer_order(struct core *core, uint32_t id, enum control_shm_command command)
{
	const struct shared *shared;
	int status = 0;

	list_for_each (shared, &core->memory.shared, link) {
		if (shared->description.id != id)
			continue;
		if (shared->order == command)
			return;
		if (shared->place == SHARED_LEFT && !status)
			status = 1;
		if (shared->place == SHARED_HERE)
			status = -EBUSY;
	}
	shared_say(core, id, command, status);
}

static void order_done(struct core *core, struct shared *shared)
{
	enum control_shm_command command = shared->order;

	shared->order = 0;
	answer_order(core, shared->description.id, command);
}

static void drop_job(struct job *job)
{
	struct shared *shared = container_of(job, struct shared, job);
	struct range *range = shared->range;
	struct core *core = shared->core;

	memory_unmap_pieces(core, range, range->piece_count);
	memory_drop_pieces(core, range);
	core_lock(core);
	free(range->pieces);
	range->pieces = NULL;
	set_place(core, shared, SHARED_AWAY);
	if (shared->order)
		order_done(core, shared);
	shared_rest(core, shared);
	residency_wake(core);
	core_unlock(core);
}

static void carry_out(struct core *core, struct shared *shared);

/* The client does not copy by itself any more, until it has mapped anew what is there by then. */
static void client_stopped(struct core *core, struct direct_stop *stop)
{
	struct shared *shared = container_of(stop, struct shared, stop);

	shared->stopping = false;
	shared->range->lent = false;
	shared->sequence = core->streams.submitted;
	direct_moved(core);
	direct_resume(core);
	carry_out(core, shared);
	shared_rest(core, shared);
}

static void begin_leaving(struct core *core, struct shared *shared)
{
	set_place(core, shared, SHARED_LEAVING);
	shared->sequence = core->streams.submitted;
	if (!shared->range->lent || shared->stopping)
		return;
	shared->stopping = true;
	shared->stop.stopped = client_stopped;
	memory_pin(shared->range);
	direct_stop(core, &shared->stop);
}

/* Does what was ordered as far as it can be done now; what is in the way calls again. */
static void carry_out(struct core *core, struct shared *shared)
{
	struct range *range = shared->range;

	if (shared->place == SHARED_COMING || (range && !range->ready))
		return; /* until it has come, or is gone */
	if (shared->order == SHM_COMMAND_LEAVE && shared->place == SHARED_HERE &&
		!range->mapped) /* else the client has it mapped, for good */
		begin_leaving(core, shared);
	if (shared->place == SHARED_LEAVING) {
		if (shared->stopping || !evict_is_drained(core, shared->sequence))
			return;
		set_place(core, shared, SHARED_LEFT);
	}
	if (shared->order == SHM_COMMAND_DROP && shared->place == SHARED_LEFT) {
		if (shared->copy_fd >= 0) /* still being written, for a gdevd before this one */
			return;
		set_place(core, shared, SHARED_COMING);
		memory_pin(range);
		service_job(core, LANE_ORDERS, &shared->job, drop_job);
		return;
	}
	if (shared->order)
		order_done(core, shared);
}

void shared_drained(struct core *core)
{
	struct shared *shared;

	list_for_each (shared, &core->memory.shared, link)
		if (shared->place == SHARED_LEAVING)
			carry_out(core, shared);
}

void shared_settle(struct core *core, struct shared *shared, enum shared_place place)
{
	set_place(core, shared, place);
	if (place == SHARED_HERE)
		shared_take_copy(shared, -1, 0);
	if (shared->order)
		carry_out(core, shared);
	shared_let_go(core, shared);
}

void shared_remove(struct core *core, struct shared *shared)
{
	enum control_shm_command order = shared->order;
	uint32_t id = shared->description.id;

	set_place(core, shared, SHARED_HERE);
	shared_destroy(shared);
	if (order)
		answer_order(core, id, order);
	residency_wake(core);
}

static void let_stay(struct core *core, struct shared *shared)
{
	shared->order = 0;
	if (shared->place == SHARED_LEAVING || shared->place == SHARED_LEFT)
		set_place(core, shared, SHARED_HERE);
	shared_let_go(core, shared);
}

/* The segment is on the device. If we have no chunks of it, the host copy that we keep is old. */
static void forget_copy(struct shared *shared)
{
	if (shared->place == SHARED_AWAY)
		shared_take_copy(shared, -1, 0);
}

void shared_lost(struct core *core)
{
	struct shared *shared;

	list_for_each (shared, &core->memory.shared, link) {
		shared->copy_wanted = false;
		let_stay(core, shared);
	}
	residency_wake(core);
}

/* ---- bytes ---- */

int shared_map_copy(struct core *core, int fd, uint64_t bytes, void **copy)
{
	int error = 0;

	if (fallocate(fd, 0, 0, (off_t)bytes))
		return -ENOMEM;
	*copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (*copy != MAP_FAILED)
		error = memory_register(core, (uintptr_t)*copy, bytes);
	if (*copy != MAP_FAILED && (!error || error == -EINVAL))
		return 0; /* that: pages of a file, which are copied nevertheless */
	if (*copy != MAP_FAILED)
		munmap(*copy, bytes);
	*copy = NULL;
	return error ? error : -ENOMEM;
}

void shared_unmap_copy(struct core *core, void *copy, uint64_t bytes)
{
	if (!copy)
		return;
	memory_unregister(core, (uintptr_t)copy, bytes);
	munmap(copy, bytes);
}

/* Unlocked. */
static void end_copy(struct core *core, struct shared *shared)
{
	uint64_t bytes = shared->range->bytes;

	if (shared->queue)
		core->ops->queue_destroy(shared->queue);
	shared_unmap_copy(core, shared->copy, bytes);
	free(shared->slots);
	shared->queue = NULL;
	shared->copy = NULL;
	shared->slots = NULL;
}

/* Unlocked: maps the host copy, with its pages there, so that the device can copy from and to it. */
static int begin_copy(struct core *core, struct shared *shared, struct range *range, int fd)
{
	int error = shared_map_copy(core, fd, shared->range->bytes, &shared->copy);

	if (error)
		return error;
	shared->slots = calloc(range->piece_count, sizeof *shared->slots);
	if (!shared->slots)
		return -ENOMEM;
	for (size_t i = 0; i < range->piece_count; i++) {
		shared->slots[i].base = (uint8_t *)shared->copy + range->pieces[i].offset;
		range->pieces[i].slot = &shared->slots[i];
	}
	return core->ops->queue_create(core->space, 0, &shared->queue);
}

static void piece_moved(struct core *core, struct command *command)
{
	struct shared *shared = command->owner;

	command->piece->slot = NULL;
	if (command->error && !shared->error)
		shared->error = command->error;
	if (!--shared->moves)
		service_job(core, shared->job.lane, &shared->job, shared->job.run);
}

/* Unlocked: moves all pieces; then, or if that cannot be, `then` is run as a job. */
static void copy_pieces(struct core *core, struct shared *shared, struct range *range, int fd,
	bool out, void (*then)(struct job *job))
{
	int error = begin_copy(core, shared, range, fd);

	core_lock(core);
	shared->error = error;
	shared->moves = 1;
	shared->job.run = then;
	for (size_t i = 0; i < range->piece_count; i++) {
		struct piece *piece = &range->pieces[i];
		if (!shared->error)
			shared->error = residency_move_on(
				core, shared->queue, piece, out, piece_moved, shared);
		if (shared->error)
			piece->slot = NULL;
		else
			shared->moves++;
	}
	if (!--shared->moves)
		service_job(core, shared->job.lane, &shared->job, then);
	core_unlock(core);
}

static void written_job(struct job *job)
{
	struct shared *shared = container_of(job, struct shared, job);
	struct core *core = shared->core;

	end_copy(core, shared);
	core_lock(core);
	close(shared->copy_fd);
	shared->copy_fd = -1;
	if (shared->copy_wanted) /* else the next gdevd would take it for an answer to its own */
		shared_say(core, shared->description.id, SHM_COMMAND_WRITE, shared->error);
	if (shared->order)
		carry_out(core, shared);
	shared_rest(core, shared);
	core_unlock(core);
}

static void write_job(struct job *job)
{
	struct shared *shared = container_of(job, struct shared, job);

	copy_pieces(shared->core, shared, shared->range, shared->copy_fd, true, written_job);
}

static void write_out(struct core *core, uint32_t id, int *fd)
{
	struct shared *shared;

	list_for_each (shared, &core->memory.shared, link) {
		if (shared->description.id != id || shared->place != SHARED_LEFT ||
			!shared->range->ready)
			continue;
		if (shared->copy_fd >= 0) /* for a gdevd before this one */
			break;
		shared->copy_fd = steal_fd(fd);
		shared->copy_wanted = true;
		memory_pin(shared->range);
		service_job(core, LANE_ORDERS, &shared->job, write_job);
		return;
	}
	shared_say(core, id, SHM_COMMAND_WRITE, -EAGAIN);
}

static void want_segment(struct core *core, struct shared *shared);

/* A session of another device asks for it. */
static void fetch_for_peer(struct core *core, uint32_t id)
{
	struct shared *shared;

	if (core->residency.suspended || context_is_closed(core))
		return;
	list_for_each (shared, &core->memory.shared, link)
		if (shared->description.id == id)
			want_segment(core, shared);
}

void shared_ordered(struct core *core, const struct control_shm *order, int *fds, size_t fd_count)
{
	enum control_shm_command command = order->command;
	uint32_t id = order->id;
	struct shared *shared;
	bool done = true;

	if (fd_count == 1 && (command == SHM_COMMAND_WRITE || command == SHM_COMMAND_CARRY)) {
		if (!core->attached)
			shared_carry(core, order, &fds[0]);
		else if (command == SHM_COMMAND_WRITE)
			write_out(core, id, &fds[0]);
		return;
	}
	if (command == SHM_COMMAND_LOSE) {
		shared_lose(core, id);
		return;
	}
	if (command == SHM_COMMAND_FETCH) {
		fetch_for_peer(core, id);
		return;
	}
	list_for_each (shared, &core->memory.shared, link) {
		if (shared->description.id != id)
			continue;
		if (command == SHM_COMMAND_STAY) {
			let_stay(core, shared);
			forget_copy(shared);
			continue;
		}
		if (command == SHM_COMMAND_DROP && fd_count == 1)
			shared_take_copy(shared, fcntl(fds[0], F_DUPFD_CLOEXEC, 0), order->flags);
		shared->order = command;
		done = false;
	}
	if (command == SHM_COMMAND_STAY) {
		residency_wake(core);
		return;
	}
	if (done)
		shared_say(core, id, command, 0);
	list_for_each (shared, &core->memory.shared, link)
		if (shared->description.id == id && shared->order)
			carry_out(core, shared);
}

/* ---- coming back ---- */

/* Whether the segment will be asked for again: the gdevd that was asked is gone, another session is to bring it in by now,
 * or the next gdevd was told what the one before had asked for. */
static bool is_asked_again(const struct shared *shared, int error)
{
	return shared->missed || error == -EAGAIN || error == -ENOTCONN ||
	       error == -GDEV_E_NO_DAEMON;
}

void shared_arrived(struct core *core, struct shared *shared, enum shared_place place, int error)
{
	struct range *range = shared->range;

	if (place == SHARED_HERE) {
		range->pieces = shared->moving.pieces;
		range->piece_count = shared->moving.piece_count;
		for (size_t i = 0; i < range->piece_count; i++)
			range->pieces[i].range = range;
	}
	shared->moving = (struct range){0};
	if (error && !is_asked_again(shared, error)) {
		log_error("session %llu: shared memory %u cannot be brought in: %s",
			(unsigned long long)core->session.session, shared->description.id,
			gdev_strerror(error));
		core->residency.load_error = error;
	}
	shared_settle(core, shared, place);
	shared_rest(core, shared);
	residency_wake(core);
}

static void begin_moving(struct shared *shared)
{
	const struct range *range = shared->range;

	shared->moving = (struct range){
		.kind = RANGE_SHARED,
		.address = range->address,
		.bytes = range->bytes,
		.read_only = range->read_only,
	};
}

/* Unlocked. */
static void drop_moving(struct core *core, struct shared *shared)
{
	memory_drop_pieces(core, &shared->moving);
	free(shared->moving.pieces);
	shared->moving.pieces = NULL;
}

/* Another has brought it in: its chunks are mapped here too. */
static void fetch_job(struct job *job)
{
	struct shared *shared = container_of(job, struct shared, job);
	struct control_shm segment = shared->description;
	struct control_shm message = shared_message(SHM_COMMAND_RESTORE, segment.id);
	struct core *core = shared->core;
	int error;

	begin_moving(shared);
	error = shared_import(core, &segment, &shared->moving, shared->fds, shared->fd_count);
	fd_close_all(shared->fds, shared->fd_count);
	free(shared->fds);
	shared->fds = NULL;
	shared->fd_count = 0;
	if (!error)
		error = shared_fetch(core, &message, &segment, &shared->moving, NULL);
	if (!error)
		error = memory_map_pieces(core, &shared->moving);
	if (error)
		drop_moving(core, shared);
	core_lock(core);
	shared_arrived(core, shared, error ? SHARED_AWAY : SHARED_HERE, error);
	core_unlock(core);
}

/* A session that may only read has written to bring it in. */
static int protect_pieces(struct core *core, struct shared *shared)
{
	if (!shared->range->read_only)
		return 0;
	memory_unmap_pieces(core, &shared->moving, shared->moving.piece_count);
	shared->moving.read_only = true;
	return memory_map_pieces(core, &shared->moving);
}

static void loaded_job(struct job *job)
{
	struct shared *shared = container_of(job, struct shared, job);
	uint64_t bytes = shared->range->bytes;
	struct core *core = shared->core;
	int error = shared->error;

	end_copy(core, shared);
	if (!error)
		error = protect_pieces(core, shared);
	if (!error)
		error = shared_back(core, &shared->moving, &shared->description);
	if (error) {
		memory_unmap_pieces(core, &shared->moving, shared->moving.piece_count);
		drop_moving(core, shared);
	}
	core_lock(core);
	if (error)
		shared_say(core, shared->description.id, SHM_COMMAND_MAP, error);
	if (!shared->paid)
		error ? memory_uncharge(core, bytes) : memory_hand_over(core, bytes);
	shared_arrived(core, shared, error ? SHARED_AWAY : SHARED_HERE, error);
	core_unlock(core);
}

static void load_job(struct job *job)
{
	struct shared *shared = container_of(job, struct shared, job);
	struct core *core = shared->core;
	bool used;
	autoclose int fd = shared_hold_copy(core, shared, &used);
	int error;

	begin_moving(shared);
	shared->moving.read_only = false;
	error = memory_make_pieces(core, shared->moving.bytes, 0, false, &shared->moving);
	if (!error)
		error = memory_map_pieces(core, &shared->moving);
	if (!error) {
		copy_pieces(core, shared, &shared->moving, fd, false, loaded_job);
		return;
	}
	drop_moving(core, shared);
	core_lock(core);
	shared_say(core, shared->description.id, SHM_COMMAND_MAP, error);
	if (!shared->paid)
		memory_uncharge(core, shared->range->bytes);
	shared_arrived(core, shared, SHARED_AWAY, error);
	core_unlock(core);
}

/* Descriptors of the first chunks: the rest is fetched. */
static int take_chunks(
	struct shared *shared, const struct control_shm *answer, int *fds, size_t fd_count)
{
	shared->fds = calloc(fd_count, sizeof *shared->fds);
	if (!shared->fds)
		return -ENOMEM;
	shared->description.chunk_bytes = answer->chunk_bytes;
	shared->description.chunks = answer->chunks;
	for (size_t i = 0; i < fd_count; i++)
		shared->fds[i] = steal_fd(&fds[i]);
	shared->fd_count = fd_count;
	return 0;
}

/* A worker without a session has brought it in, or could not: then it is used where it is. */
static void segment_carried(struct core *core, struct control_request *request, int status,
	const struct control_header *reply, int *fds, size_t fd_count)
{
	struct shared *shared = container_of(request, struct shared, request);
	uint64_t bytes = shared->range->bytes;

	if (!status && !fd_count)
		status = -GDEV_E_PROTOCOL;
	if (!status)
		status = take_chunks(shared, (const struct control_shm *)reply, fds, fd_count);
	if (!status) {
		memory_hand_over(core, bytes);
		service_job(core, LANE_LOADING, &shared->job, fetch_job);
		return;
	}
	memory_uncharge(core, bytes);
	if (status == -EAGAIN)
		service_job(core, LANE_LOADING, &shared->job, shared_map_job);
	else
		shared_arrived(core, shared, SHARED_AWAY, status);
}

static void ask_gdevd(struct core *core, struct shared *shared, enum control_shm_command command,
	__typeof__(((struct control_request *)0)->answered) answered)
{
	shared->request.message.shm = shared_message(command, shared->description.id);
	memcpy(shared->request.message.shm.token, shared->description.token, CONTROL_TOKEN_BYTES);
	shared->request.expected = CONTROL_SHM_REPLY;
	shared->request.answered = answered;
	control_ask(core, &shared->request);
}

static void room_decided(struct core *core, struct charge *charge, int status)
{
	struct shared *shared = container_of(charge, struct shared, charge);

	if (!status && shared->reader && control_connected(core))
		ask_gdevd(core, shared, SHM_COMMAND_CARRY, segment_carried);
	else
		service_job(core, LANE_LOADING, &shared->job, status ? shared_map_job : load_job);
}

static void take_answer(struct core *core, struct shared *shared, int status,
	const struct control_shm *answer, int *fds)
{
	if (status) {
		shared->reader = answer->flags & CONTROL_SHM_READER;
		shared->paid = answer->flags & CONTROL_SHM_PAID;
		shared_take_copy(shared, steal_fd(&fds[0]), status == 2 ? CONTROL_SHM_MAPPED : 0);
		if (status > 1 || shared->paid) {
			service_job(core, LANE_LOADING, &shared->job,
				status > 1 ? shared_map_job : load_job);
			return;
		}
		shared->charge = (struct charge){
			.bytes = shared->range->bytes,
			.for_turn = true,
			.decided = room_decided,
		};
		memory_charge(core, &shared->charge);
		return;
	}
	service_job(core, LANE_LOADING, &shared->job, fetch_job);
}

static void restore_answered(struct core *core, struct control_request *request, int status,
	const struct control_header *reply, int *fds, size_t fd_count)
{
	struct shared *shared = container_of(request, struct shared, request);
	const struct control_shm *answer = (const struct control_shm *)reply;

	set_place(core, shared, SHARED_COMING);
	if (status >= 0 && (!fd_count || (status && fd_count != 1)))
		status = -GDEV_E_PROTOCOL;
	if (status == 0)
		status = take_chunks(shared, answer, fds, fd_count);
	if (status >= 0)
		take_answer(core, shared, status, answer, fds);
	else
		shared_arrived(core, shared, SHARED_AWAY, status);
}

static void want_segment(struct core *core, struct shared *shared)
{
	if (shared->place != SHARED_AWAY || !shared->range || !shared->range->ready ||
		shared->registering || !control_connected(core))
		return;
	set_place(core, shared, SHARED_WANTED);
	memory_pin(shared->range);
	ask_gdevd(core, shared, SHM_COMMAND_RESTORE, restore_answered);
}

bool shared_want_all(struct core *core)
{
	struct shared *shared;

	if (!core->memory.shared_away)
		return false;
	list_for_each (shared, &core->memory.shared, link)
		want_segment(core, shared);
	return true;
}

static struct shared *away_at(struct core *core, uint64_t address)
{
	struct range *range = memory_find(core, address, 1);

	if (!range || range->kind != RANGE_SHARED || !range->shared->counted)
		return NULL;
	return range->shared;
}

static size_t find_away(
	struct core *core, const struct device_command *command, struct shared *found[2])
{
	size_t count = 0;

	if (command->kind == DEVICE_FILL) {
		found[0] = away_at(core, command->fill.destination);
		return found[0] != NULL;
	}
	found[count] = away_at(core, command->copy.destination);
	count += found[count] != NULL;
	found[count] = away_at(core, command->copy.source);
	return count + (found[count] != NULL);
}

bool shared_is_away(struct core *core, const struct device_command *command)
{
	struct shared *found[2];

	return find_away(core, command, found) > 0;
}

void shared_want(struct core *core, const struct device_command *command)
{
	struct shared *found[2];
	size_t count = find_away(core, command, found);

	for (size_t i = 0; i < count; i++)
		want_segment(core, found[i]);
}
