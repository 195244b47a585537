/* SPDX-License-Identifier: MIT
 *
 * Segments that are to leave the device, and that nobody has mapped: those that outlive their programs, and those that
 * are only held. A warm worker carries them out, one at a time, and is warm again. It is the one process beside us that may
 * have any segment in its hands: no client has ever told it anything, and it keeps nothing of what it has carried.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "gdevd/daemon.h"
#include "gdevd/memory/shm.h"

/* One that waits for a carrier; NULL: none does. */
static struct shm_segment *find_waiting(const struct daemon *daemon)
{
	struct shm_segment *segment;
	const struct vgpu *vgpu;

	list_for_each (vgpu, &daemon->vgpus, link)
		list_for_each (segment, &vgpu->shm.segments, link)
			if (segment->place == SHM_WRITING && !segment->mover && !segment->carrier)
				return segment;
	return NULL;
}

bool shm_wants_carrier(const struct daemon *daemon)
{
	return find_waiting(daemon);
}

static void give(struct worker *worker, struct shm_segment *segment)
{
	struct control_shm message = {
		.command = SHM_COMMAND_WRITE,
		.id = segment->id,
		.bytes = segment->bytes,
	};

	log_debug("worker %d carries shared memory %u out", (int)worker->pid, segment->id);
	segment->carrier = worker;
	worker->carries = segment;
	control_fill(&message, CONTROL_SHM, 0);
	worker_carry(worker);
	connection_send(worker->connection, &message, &segment->host_fd, 1);
}

void shm_carry(struct daemon *daemon)
{
	struct shm_segment *segment;
	struct worker *worker;

	while ((segment = find_waiting(daemon)) && (worker = workers_take_warm(daemon)))
		give(worker, segment);
}

void shm_no_carrier(struct daemon *daemon)
{
	struct shm_segment *segment;

	while ((segment = find_waiting(daemon)))
		shm_written(segment, -EAGAIN);
}

/* Nobody else pays for it: who needed the room does. */
static void charge_cause(const struct worker *worker, const struct shm_segment *segment)
{
	struct session *cause = session_find(worker->daemon, segment->cause);

	if (cause)
		grants_charge(cause, RESOURCE_COPY_FROM_DEVICE, clock_now_ns() - worker->since_ns);
}

static struct shm_segment *put_down(struct worker *worker)
{
	struct shm_segment *segment = worker->carries;

	worker->carries = NULL;
	if (segment)
		segment->carrier = NULL;
	return segment;
}

int shm_carrier_message(struct worker *worker, const struct control_shm *message)
{
	struct shm_segment *segment = worker->carries;

	switch (message->command) {
	case SHM_COMMAND_RESTORE:
		if (!segment || message->id != segment->id ||
			message->first_chunk >= segment->chunks)
			shm_reply(worker, message, NULL, -EIDRM, NULL, 0);
		else
			shm_reply_chunks(worker, message, segment);
		return 0;
	case SHM_COMMAND_WRITE:
		if (segment) {
			charge_cause(worker, segment);
			put_down(worker);
			shm_written(segment, min_of(message->header.status, 0));
		}
		worker_carried(worker);
		return 0;
	default:
		return -EPROTO;
	}
}

void shm_carrier_gone(struct worker *worker)
{
	struct shm_segment *segment = put_down(worker);

	if (segment)
		shm_written(segment, -ESRCH);
}

void shm_put_down(struct shm_segment *segment)
{
	if (segment->carrier)
		put_down(segment->carrier);
}
