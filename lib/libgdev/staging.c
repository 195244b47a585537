/* SPDX-License-Identifier: MIT
 *
 * The staging memory, shared by all threads of the process that copy: it is divided into slots of one
 * chunk each. A thread takes slots in the order in which threads ask; only the first in the queue waits for
 * a slot to drain. A thread that has one slot may try for more, to overlap its own chunks, but gets them only
 * while none queues, so a long copy does not keep a short one out.
 */
#include <errno.h>

#include "lib/libgdev/internal.h"

#define SLOTS_MIN 4
#define SLOTS_MAX 64
#define CHUNK_MIN (512u << 10)

static void make_slots(struct staging *staging, uint64_t chunk)
{
	staging->count = (unsigned)min_of(staging->bytes / chunk, (uint64_t)SLOTS_MAX);
	staging->chunk_bytes = chunk;
	list_init(&staging->free);
	list_init(&staging->draining);
	for (unsigned i = 0; i < staging->count; i++) {
		staging->slots[i].address = staging->base + i * chunk;
		list_append(&staging->free, &staging->slots[i].link);
	}
}

int staging_init(struct gdev_session *session, uint64_t base, uint64_t bytes)
{
	struct staging *staging = &session->staging;

	staging->slots = calloc(SLOTS_MAX, sizeof *staging->slots);
	if (!staging->slots)
		return -ENOMEM;
	pthread_mutex_init(&staging->lock, NULL);
	pthread_cond_init(&staging->changed, NULL);
	staging->base = base;
	staging->bytes = bytes;
	make_slots(staging,
		max_of(bytes / SLOTS_MAX & ~4095ull, min_of(bytes / SLOTS_MIN, CHUNK_MIN)));
	return 0;
}

void staging_finish(struct gdev_session *session)
{
	struct staging *staging = &session->staging;

	free(staging->slots);
	pthread_mutex_destroy(&staging->lock);
	pthread_cond_destroy(&staging->changed);
}

/* Moves drained slots to the free ones. */
static void free_drained(struct gdev_session *session)
{
	struct staging *staging = &session->staging;
	struct slot *slot, *next;

	list_for_each_safe (slot, next, &staging->draining, link) {
		if (!transport_reached(session->transport, &slot->fence))
			continue;
		list_remove(&slot->link);
		list_append(&staging->free, &slot->link);
	}
}

int staging_set_chunk(struct gdev_session *session, uint64_t bytes)
{
	struct staging *staging = &session->staging;
	struct slot *slot;
	unsigned idle = 0;
	int error = 0;

	if (bytes < 4096 || bytes % 4096 || bytes > staging->bytes / SLOTS_MIN)
		return -EINVAL;
	pthread_mutex_lock(&staging->lock);
	free_drained(session);
	list_for_each (slot, &staging->free, link)
		idle++;
	if (idle == staging->count)
		make_slots(staging, bytes);
	else
		error = -EBUSY;
	pthread_mutex_unlock(&staging->lock);
	return error;
}

static struct slot *pop_free(struct gdev_session *session)
{
	struct staging *staging = &session->staging;
	struct slot *slot;

	if (list_empty(&staging->free))
		free_drained(session);
	slot = list_first(&staging->free, struct slot, link);
	if (slot)
		list_remove(&slot->link);
	return slot;
}

/* The first in the queue waits: for the oldest draining slot, or for another thread to give one. */
static int wait_for_slot(struct gdev_session *session, struct slot **slot)
{
	struct staging *staging = &session->staging;

	while (!(*slot = pop_free(session))) {
		struct slot *oldest = list_first(&staging->draining, struct slot, link);
		if (!oldest) {
			pthread_cond_wait(&staging->changed, &staging->lock);
			continue;
		}
		struct gdev_fence fence = oldest->fence;
		pthread_mutex_unlock(&staging->lock);
		int error = gdev_fence_wait(session, &fence);
		pthread_mutex_lock(&staging->lock);
		if (error)
			return error;
	}
	return 0;
}

int staging_take(struct gdev_session *session, struct slot **slot)
{
	struct staging *staging = &session->staging;
	uint64_t ticket;
	int error;

	pthread_mutex_lock(&staging->lock);
	ticket = staging->next_ticket++;
	while (staging->serving != ticket)
		pthread_cond_wait(&staging->changed, &staging->lock);
	error = wait_for_slot(session, slot);
	staging->serving++;
	pthread_cond_broadcast(&staging->changed);
	pthread_mutex_unlock(&staging->lock);
	return error;
}

struct slot *staging_try(struct gdev_session *session)
{
	struct staging *staging = &session->staging;
	struct slot *slot = NULL;

	pthread_mutex_lock(&staging->lock);
	if (staging->serving == staging->next_ticket)
		slot = pop_free(session);
	pthread_mutex_unlock(&staging->lock);
	return slot;
}

void staging_give(struct gdev_session *session, struct slot *slot, const struct gdev_fence *fence)
{
	struct staging *staging = &session->staging;

	pthread_mutex_lock(&staging->lock);
	if (fence) {
		slot->fence = *fence;
		list_append(&staging->draining, &slot->link);
	} else {
		list_append(&staging->free, &slot->link);
	}
	if (staging->serving != staging->next_ticket)
		pthread_cond_broadcast(&staging->changed);
	pthread_mutex_unlock(&staging->lock);
}
