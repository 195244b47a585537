/* SPDX-License-Identifier: MIT
 *
 * Warm workers make room: a context that nobody uses yet holds device memory (half a GiB on hardware), and
 * a session that lacks memory comes first. Its request waits until they are gone, and for workers that are going
 * anyway. Segments that no program has attached leave before the warm workers do, carried by one of them.
 */
#include "gdevd/daemon.h"

#include "base/cleanup.h"

#define POOL_PART 8 /* of the device's memory: what the pool may hold, if nobody says otherwise */

unsigned relief_pool_size(const struct device *device)
{
	const struct workers *workers = &device->workers;
	uint64_t each = device->overhead_bytes, bound = device->daemon->config.warm_memory, room;
	unsigned wanted = device->drained ? 0 : (unsigned)device->daemon->config.warm_workers;

	/* Sessions of the gdevd before this one wait for memory until a worker has said what the device has. A worker
	 * of theirs may not say it: all would believe it. */
	if (!device->known && device_count_sessions(device))
		wanted = max_of(wanted, 1u);
	if (!each)
		return wanted;
	if (wanted)
		wanted += 2 * workers->missed;
	if (!bound)
		bound = device->memory.limit_bytes / POOL_PART;
	wanted = (unsigned)min_of((uint64_t)wanted, max_of(bound / each, (uint64_t)1));
	/* Sessions grow: the pool takes no more than half of what is free. */
	room = memory_free(&device->memory) / each / 2;
	return (unsigned)min_of((uint64_t)wanted, workers->warm + workers->starting + room);
}

uint64_t relief_pool_bytes(const struct device *device)
{
	const struct worker *worker;
	uint64_t bytes = 0;

	list_for_each (worker, &device->workers.all, by_device)
		if (worker->state == WORKER_WARM)
			bytes += worker->memory.used_bytes;
	return bytes;
}

/* What workers hold that are going, and what is being freed: all, or those of one virtual GPU. */
static uint64_t going_bytes(const struct device *device, const struct vgpu *vgpu)
{
	const struct worker *worker;
	uint64_t bytes = freeing_coming(device->daemon, vgpu ? &vgpu->memory : &device->memory);

	list_for_each (worker, &device->workers.all, by_device)
		if (worker_is_going(worker) && (!vgpu || worker->memory.parent == &vgpu->memory))
			bytes += worker->memory.used_bytes;
	return bytes;
}

/* Whether `wanted` will be free, for the worker, once those have left that are told to now, or are going. */
static bool make_room(const struct worker *asks, uint64_t wanted)
{
	struct device *device = asks->device;
	const struct vgpu *vgpu = asks->session->vgpu;
	uint64_t bytes = wanted + device->residency.reserve_bytes;
	uint64_t own = memory_room(&vgpu->memory), coming = memory_room(&device->memory);
	uint64_t warm = relief_pool_bytes(device);
	struct worker *worker;

	if (own >= wanted && coming >= bytes)
		return false; /* it is kept for a client's context */
	if (own < wanted && own + going_bytes(device, vgpu) < wanted)
		return false; /* the virtual GPU is full, and stays so */
	coming += going_bytes(device, NULL) + shm_coming(device, NULL);
	if (coming < bytes)
		coming += shm_send_for(device, asks, NULL, asks->session->id, bytes - coming, true);
	if (coming + warm < bytes)
		return false;
	while (coming < bytes && (worker = workers_take_warm(device))) {
		coming += worker->memory.used_bytes;
		worker_send_away(worker);
	}
	return true;
}

void relief_hold(struct worker *worker, const struct control_allocate *message)
{
	worker->lacks = *message;
	list_remove(&worker->lacking);
	list_append(&worker->device->lacking, &worker->lacking);
}

bool relief_wait(struct worker *worker, const struct control_allocate *message)
{
	if (!make_room(worker, message->device_bytes))
		return false;
	relief_hold(worker, message);
	return true;
}

void relief_serve(struct device *device)
{
	struct worker *worker;
	struct list waiting;

	/* Each worker once: one that still lacks memory is put at the end of the device's list. */
	list_init(&waiting);
	while ((worker = list_first(&device->lacking, struct worker, lacking))) {
		list_remove(&worker->lacking);
		list_append(&waiting, &worker->lacking);
	}
	while ((worker = list_first(&waiting, struct worker, lacking))) {
		list_remove(&worker->lacking);
		if (worker->state == WORKER_SERVING)
			residency_allocate(worker, &worker->lacks);
	}
}
