/* SPDX-License-Identifier: MIT
 *
 * Segments that a warm worker carries: out of the device, when no session that may write into it has it mapped, as its
 * programs are gone, or only hold it, or only read; and in, when the session that needs it may only read. A warm worker
 * carries one at a time, and is warm again. It is the one process beside us that may have any segment in its hands: no
 * client has ever told it anything, and it keeps nothing of what it has carried.
 */
#include <errno.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "gdevd/daemon.h"
#include "gdevd/memory/shm.h"

/* A segment that waits for a carrier; NULL: none does. */
static struct shm_segment *find_waiting(const struct device *device)
{
	struct shm_segment *segment;

	list_for_each (segment, &device->daemon->segments, link)
		if (segment->vgpu->device == device && !segment->carrier &&
			((segment->place == SHM_WRITING && !segment->mover) || segment->carried))
			return segment;
	return NULL;
}

bool shm_wants_carrier(const struct device *device)
{
	return find_waiting(device);
}

static void give_segment(struct worker *worker, struct shm_segment *segment)
{
	struct control_shm message = {
		.command = segment->carried ? SHM_COMMAND_CARRY : SHM_COMMAND_WRITE,
		.id = segment->id,
		.bytes = segment->bytes,
	};

	log_debug("worker %d carries shared memory %u %s", (int)worker->pid, segment->id,
		segment->carried ? "in" : "out");
	segment->carrier = worker;
	worker->carries = segment;
	control_fill(&message, CONTROL_SHM, 0);
	worker_carry(worker);
	connection_send(worker->connection, &message, &segment->host_fd, 1);
}

void shm_carry(struct device *device)
{
	struct shm_segment *segment;
	struct worker *worker;

	while ((segment = find_waiting(device)) && (worker = workers_take_warm(device)))
		give_segment(worker, segment);
}

static struct shm_segment *put_down(struct worker *worker)
{
	struct shm_segment *segment = worker->carries;

	worker->carries = NULL;
	if (segment)
		segment->carrier = NULL;
	return segment;
}

void shm_put_down(struct shm_segment *segment)
{
	if (segment->carrier)
		put_down(segment->carrier);
}

/* The segment was carried out, or could not be carried. */
static void carrying_over(struct shm_segment *segment, int status)
{
	if (!segment->carried) {
		shm_written(segment, status);
		return;
	}
	segment->carried = false;
	shm_return_charge(segment, segment->mover);
	shm_free_chunks(segment);
	shm_serve_parked(segment);
}

void shm_no_carrier(struct device *device)
{
	struct shm_segment *segment;

	while ((segment = find_waiting(device)))
		carrying_over(segment, -EAGAIN);
}

void shm_carrier_gone(struct worker *worker)
{
	struct shm_segment *segment = put_down(worker);

	if (segment)
		carrying_over(segment, -ESRCH);
}

/* The session that needed the room, or the segment, pays for the copying. */
static void charge_copying(const struct worker *worker, struct session *session, unsigned resource)
{
	if (session)
		grants_charge(session, resource, clock_now_ns() - worker->since_ns);
}

static void give_chunks(struct worker *worker, const struct control_shm *message)
{
	const struct shm_segment *segment = worker->carries;

	if (!segment || message->id != segment->id || message->first_chunk >= segment->chunks)
		shm_reply(worker, message, NULL, -EIDRM, NULL, 0);
	else
		shm_reply_chunks(worker, message, segment);
}

static void take_chunks(
	struct worker *worker, const struct control_shm *message, int *fds, size_t fd_count)
{
	const struct shm_segment *segment = worker->carries;
	struct session *session;

	if (!segment || message->id != segment->id || !segment->carried) {
		shm_reply(worker, message, NULL, -EIDRM, NULL, 0);
		return;
	}
	session = segment->mover;
	shm_back(worker, session, message, fds, fd_count);
	if (!worker->carries) /* that was all of it */
		charge_copying(worker, session, RESOURCE_COPY_TO_DEVICE);
}

static void carrier_done(struct worker *worker, int status)
{
	struct shm_segment *segment = put_down(worker);

	if (segment && segment->carried) /* it has not come, but it has cost the time */
		charge_copying(worker, segment->mover, RESOURCE_COPY_TO_DEVICE);
	else if (segment)
		charge_copying(worker, session_find(worker->daemon, segment->cause),
			RESOURCE_COPY_FROM_DEVICE);
	if (segment)
		carrying_over(segment, min_of(status, 0));
	worker_carried(worker);
}

int shm_carrier_message(
	struct worker *worker, const struct control_shm *message, int *fds, size_t fd_count)
{
	switch (message->command) {
	case SHM_COMMAND_RESTORE:
		give_chunks(worker, message);
		return 0;
	case SHM_COMMAND_BACK:
		take_chunks(worker, message, fds, fd_count);
		return 0;
	case SHM_COMMAND_WRITE:
	case SHM_COMMAND_CARRY:
		carrier_done(worker, message->header.status);
		return 0;
	default:
		return -EPROTO;
	}
}

/* ---- for who may only read ---- */

void shm_carry_in(struct session *session, const struct control_shm *message)
{
	struct shm_segment *segment = shm_find(session, message->id);

	if (!segment || segment->place != SHM_LOADING || segment->mover != session ||
		segment->carried || segment->backed) {
		shm_reply(session->worker, message, NULL, -EAGAIN, NULL, 0);
		return;
	}
	if (session->worker->memory.used_bytes < segment->bytes) {
		shm_reply(session->worker, message, NULL, -EINVAL, NULL, 0);
		return;
	}
	segment->carried = shm_park(segment, session, message, false);
	workers_adjust(session->device);
}

void shm_carried_in(
	struct session *session, const struct control_shm *message, struct shm_segment *segment)
{
	if (segment->carried)
		shm_park(segment, session, message, false);
	else if (segment->place == SHM_ON_DEVICE && shm_is_whole(segment))
		shm_reply_chunks(session->worker, message, segment);
	else
		shm_reply(session->worker, message, NULL, -EAGAIN, NULL, 0);
}
