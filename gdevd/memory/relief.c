/* SPDX-License-Identifier: MIT
 *
 * Warm workers make room: a context that nobody uses yet holds device memory (half a GiB on hardware), and
 * a session that lacks memory comes first. Its request waits until they are gone, and for those who are going anyway.
 * Segments that no program has attached leave before them, carried by one of them.
 */
#include "gdevd/daemon.h"

#include <errno.h>

#include "base/cleanup.h"

#define POOL_PART 8 /* of the device's memory: what the pool may hold, if nobody says otherwise */

unsigned relief_pool_size(const struct daemon *daemon)
{
	const struct workers *workers = &daemon->workers;
	uint64_t each = daemon->device.overhead_bytes, bound = daemon->config.warm_memory, room;
	unsigned wanted = (unsigned)daemon->config.warm_workers;

	/* Sessions of a gdevd before us wait for memory until somebody has said what the device has. Not one of theirs:
	 * all would believe it. */
	if (!daemon->device.known && daemon->session_count)
		wanted = max_of(wanted, 1u);
	if (!each)
		return wanted;
	if (!bound)
		bound = daemon->device.memory.limit_bytes / POOL_PART;
	wanted = (unsigned)min_of((uint64_t)wanted, max_of(bound / each, (uint64_t)1));
	/* Sessions grow: the pool takes no more than half of what is free. */
	room = memory_free(&daemon->device.memory) / each / 2;
	return (unsigned)min_of((uint64_t)wanted, workers->warm + workers->starting + room);
}

uint64_t relief_pool_bytes(const struct daemon *daemon)
{
	const struct worker *worker;
	uint64_t bytes = 0;

	list_for_each (worker, &daemon->workers.all, link)
		if (worker->state == WORKER_WARM)
			bytes += worker->memory.used_bytes;
	return bytes;
}

/* What those hold who are going: of all, or of one virtual GPU. */
static uint64_t going(const struct daemon *daemon, const struct vgpu *vgpu)
{
	const struct worker *worker;
	uint64_t bytes = 0;

	list_for_each (worker, &daemon->workers.all, link)
		if (worker_is_going(worker) && (!vgpu || worker->memory.parent == &vgpu->memory))
			bytes += worker->memory.used_bytes;
	return bytes;
}

/* Whether `wanted` will be free, for the worker, once those have left that are told to now, or are going. */
static bool make_room(const struct worker *asks, uint64_t wanted)
{
	struct daemon *daemon = asks->daemon;
	const struct vgpu *vgpu = asks->session->vgpu;
	uint64_t bytes = wanted + daemon->device.residency.reserve_bytes;
	uint64_t own = memory_room(&vgpu->memory), coming = memory_room(&daemon->device.memory);
	uint64_t warm = relief_pool_bytes(daemon);
	struct worker *worker;

	if (own >= wanted && coming >= bytes)
		return false; /* it is kept for a client's context */
	if (own < wanted && own + going(daemon, vgpu) < wanted)
		return false; /* the virtual GPU is full, and stays so */
	coming += going(daemon, NULL) + shm_coming(daemon, NULL);
	if (coming < bytes)
		coming += shm_send_for(daemon, asks, NULL, asks->session->id, bytes - coming, true);
	if (coming + warm < bytes)
		return false;
	while (coming < bytes && (worker = workers_take_warm(daemon))) {
		coming += worker->memory.used_bytes;
		worker_send_away(worker);
	}
	return true;
}

bool relief_wait(struct worker *worker, const struct control_memory *message)
{
	if (!make_room(worker, (uint64_t)message->bytes))
		return false;
	worker->lacks = *message;
	list_remove(&worker->lacking);
	list_append(&worker->daemon->lacking, &worker->lacking);
	return true;
}

void relief_serve(struct daemon *daemon)
{
	struct worker *worker;
	struct list waiting;

	/* Each once: who still lacks memory is put at the end of the daemon's list. */
	list_init(&waiting);
	while ((worker = list_first(&daemon->lacking, struct worker, lacking))) {
		list_remove(&worker->lacking);
		list_append(&waiting, &worker->lacking);
	}
	while ((worker = list_first(&waiting, struct worker, lacking))) {
		list_remove(&worker->lacking);
		if (worker->state == WORKER_SERVING)
			worker_wants_memory(worker, &worker->lacks);
	}
}
