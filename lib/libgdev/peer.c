/* SPDX-License-Identifier: MIT
 *
 * Peers: what sessions of one process have of one another. An object of one session is mapped by the worker of another,
 * at the same address: device memory as a segment that is found by its token, page-locked memory as the memfd that it is.
 *
 * One lock guards what there is. It is held while a worker maps an object: the owner's object goes when no other
 * session's worker has it any more. It is not held while a session leaves an object, because that waits for commands,
 * which may wait for the program. Whoever needs that very object meanwhile waits for the end of it; nobody else does.
 *
 * Uses are counted: a thread that is about to submit a command on an object holds the peering, and a session leaves an
 * object when nobody holds it. A peering that is leaving is not held by anybody, and will not be: its next user waits until
 * it is gone, and then makes another. So a thread that holds some and waits for one that is leaving waits for commands
 * alone, and not for another thread that holds.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/shm.h>

#include "base/cleanup.h"
#include "lib/libgdev/internal.h"
#include "lib/libgdev/memory.h"

#define TRIES_MAX 16 /* to have an object on the device when it is asked for */

/* An object that a session has of another. */
struct peering {
	struct list link;
	struct gdev_session *session, *owner;
	uint64_t base, bytes;
	bool host;
	int flags;     /* SHM_RDONLY, or 0 */
	unsigned uses; /* threads that hold it */
	bool leaving;  /* a thread sees to it that the session has it no more; nobody holds it */
};

static pthread_mutex_t lock =
	PTHREAD_MUTEX_INITIALIZER; /* guards peerings, and the sessions' peer_arenas */
static pthread_cond_t left =
	PTHREAD_COND_INITIALIZER; /* a peering that was leaving is gone, or is held no more */
static struct list peerings = {&peerings, &peerings};

bool gdev_peer_can(const struct gdev_session *session, const struct gdev_session *owner)
{
	return session->description.peers && session->description.peers == owner->description.peers;
}

/* ---- with the workers ---- */

/* The session's worker knows the addresses of the owner. */
static int know_arena(struct gdev_session *session, const struct gdev_session *owner)
{
	struct transport *transport = session->transport;
	const struct extent arena = {owner->description.arena_base, owner->description.arena_bytes};
	int error;

	for (unsigned i = 0; i < session->peer_arena_count; i++)
		if (session->peer_arenas[i].base == arena.base &&
			session->peer_arenas[i].bytes == arena.bytes)
			return 0;
	if (session->peer_arena_count == PEER_RANGES_MAX)
		return -ENOSPC;
	error = transport->ops->range_add
			? transport->ops->range_add(transport, arena.base, arena.bytes)
			: -ENOTSUP;
	if (!error)
		session->peer_arenas[session->peer_arena_count++] = arena;
	return error;
}

static int map_segment(struct gdev_session *session, const struct object *object,
	const struct gdev_shared *shared, int flags)
{
	struct record_shared record = {
		.id = shared->id, .address = object->base, .flags = (uint32_t)flags};
	struct reply_shared reply;

	memcpy(record.token, shared->token, sizeof record.token);
	return session_request(session, RECORD_SHARED_MAP, &record, sizeof record, NULL, 0, &reply,
		sizeof reply, sizeof reply);
}

/* A command that names the object has it brought in. */
static int touch(struct gdev_session *owner, const struct object *object)
{
	uint8_t byte;
	struct gdev_copy copy = gdev_copy_linear((uint64_t)&byte, object->base, sizeof byte);
	struct gdev_stream *stream;
	int error = gdev_stream_create(owner, 0, &stream);

	if (error)
		return error;
	error = gdev_copy(stream, &copy);
	gdev_stream_destroy(stream);
	return error;
}

static int map_device(struct gdev_session *session, struct gdev_session *owner,
	const struct object *object, uint64_t address, int flags)
{
	struct gdev_shared shared = object->shared;
	uint64_t offset;
	int error = 0;

	if (!gdev_peer_can(session, owner))
		return -ENOTSUP;
	if (object->kind == GDEV_MEMORY_DEVICE)
		error = gdev_shared_export(owner, address, &shared, &offset);
	else if (!shared.bytes) /* attached by its key */
		error = -ENOTSUP;
	if (!error)
		error = copies_complete(owner);
	if (error)
		return error;
	error = map_segment(session, object, &shared, flags);
	for (int i = 0; i < TRIES_MAX && error == -EAGAIN; i++) {
		error = touch(owner, object);
		if (!error)
			error = map_segment(session, object, &shared, flags);
	}
	return error == -EINVAL ? -ENOTSUP
				: error; /* gdevd cannot tell that both are this process */
}

static int map_host(
	struct gdev_session *session, const struct gdev_session *owner, const struct object *object)
{
	struct transport *transport = session->transport;

	if (object->file < 0)
		return -ENOTSUP;
	return transport->ops->host_add(
		transport, object->base, object->bytes, owner->memory.files[object->file], 0);
}

static int unmap(const struct peering *peering)
{
	struct record_shm detach = {.address = peering->base};
	struct record_memory free = {.address = peering->base, .bytes = peering->bytes};

	if (peering->host)
		return session_request(peering->session, RECORD_MEMORY_FREE, &free, sizeof free,
			NULL, 0, NULL, 0, 0);
	return session_request(
		peering->session, RECORD_SHM_DETACH, &detach, sizeof detach, NULL, 0, NULL, 0, 0);
}

/* ---- what there is ---- */

static struct peering *find(
	const struct gdev_session *session, const struct gdev_session *owner, uint64_t address)
{
	struct peering *peering;

	list_for_each (peering, &peerings, link)
		if (peering->session == session && peering->owner == owner &&
			address - peering->base < peering->bytes)
			return peering;
	return NULL;
}

static void forget(struct peering *peering)
{
	list_remove(&peering->link);
	free(peering);
}

static bool is_gone_with_worker(const struct peering *peering)
{
	/* The worker has let it go by itself when the owner's had died. */
	return session_lost(peering->session) || gdev_session_error(peering->owner, NULL);
}

/* No command names the object from now on. What the session has submitted may, and is waited for. */
static int unmap_in_turn(const struct peering *peering)
{
	struct gdev_session *session = peering->session;
	int error = 0;

	memory_remove_peer(session, peering->base);
	streams_drain(session);
	if (!session_lost(session))
		error = unmap(peering);
	return is_gone_with_worker(peering) ? 0 : error;
}

/* With the lock, which is given up meanwhile: lists have to be looked through anew. With either worker the mapping is
 * gone, too. Of several threads one does it, when nobody holds it, and the others wait; -EAGAIN: the peering may be gone,
 * and has to be found again. */
static int leave(struct peering *peering)
{
	int error;

	if (peering->leaving || peering->uses) {
		pthread_cond_wait(&left, &lock);
		return -EAGAIN;
	}
	peering->leaving = true;
	pthread_mutex_unlock(&lock);
	error = unmap_in_turn(peering);
	pthread_mutex_lock(&lock);
	forget(peering);
	pthread_cond_broadcast(&left);
	return error;
}

static struct peering *first_of_object(const struct gdev_session *owner, uint64_t base)
{
	struct peering *peering;

	list_for_each (peering, &peerings, link)
		if (peering->owner == owner && peering->base == base)
			return peering;
	return NULL;
}

static struct peering *first_of_session(const struct gdev_session *session)
{
	struct peering *peering;

	list_for_each (peering, &peerings, link)
		if (peering->owner == session || peering->session == session)
			return peering;
	return NULL;
}

int peers_leave_object(struct gdev_session *owner, uint64_t base)
{
	struct peering *peering;
	int error = 0;

	pthread_mutex_lock(&lock);
	while ((peering = first_of_object(owner, base))) {
		int failed = leave(peering);
		if (failed != -EAGAIN && !error)
			error = failed;
	}
	pthread_mutex_unlock(&lock);
	return error;
}

void peers_leave_session(struct gdev_session *session)
{
	struct peering *peering;

	pthread_mutex_lock(&lock);
	while ((peering = first_of_session(session))) {
		if (peering->owner == session || peering->leaving)
			leave(peering);
		else
			forget(peering); /* it goes with the worker */
	}
	pthread_cond_broadcast(&left); /* those that waited until one of these is held no more */
	pthread_mutex_unlock(&lock);
}

void peers_forget(void)
{
	pthread_mutex_init(&lock, NULL);
	pthread_cond_init(&left, NULL);
	list_init(&peerings);
}

/* ---- for everybody ---- */

/* The owner's object at the address. It may be freed meanwhile, but stays until the lock is given up. */
static int find_object(struct gdev_session *owner, uint64_t address, struct object *found)
{
	struct memory *memory = &owner->memory;
	const struct block *block;
	bool usable;

	pthread_mutex_lock(&memory->change);
	block = memory_block_at(owner, address);
	usable = block && !block->object->peer;
	if (usable) {
		block->object->has_peers = true;
		*found = *block->object;
	}
	pthread_mutex_unlock(&memory->change);
	return usable ? 0 : -EINVAL;
}

/* Whether other allocations of the owner are in one object with what is at the address. */
static bool is_in_shared_object(struct gdev_session *owner, uint64_t address)
{
	struct memory *memory = &owner->memory;
	const struct block *block;
	bool shared;

	pthread_mutex_lock(&memory->change);
	block = memory_block_at(owner, address);
	shared = block && memory_is_carved(block);
	pthread_mutex_unlock(&memory->change);
	return shared;
}

/* What an object is mapped with. Allocations that share one may be for others, who write into them. */
static int flags_for(struct gdev_session *owner, uint64_t address, int wanted)
{
	return wanted && is_in_shared_object(owner, address) ? 0 : wanted;
}

/* With the lock. A session that holds it, without a word of what it may do there, may what its owner may. */
static int add_peering(struct gdev_session *session, struct gdev_session *owner, uint64_t address,
	int flags, bool as_owner, struct peering **result)
{
	struct peering *peering = calloc(1, sizeof *peering);
	struct object object;
	int error = peering ? find_object(owner, address, &object) : -ENOMEM;

	if (!error)
		error = know_arena(session, owner);
	if (error)
		goto err_free;
	*peering = (struct peering){
		.session = session,
		.owner = owner,
		.base = object.base,
		.bytes = object.bytes,
		.host = object.kind == GDEV_MEMORY_HOST,
		.flags = as_owner ? object.shared_flags : flags,
	};
	error = peering->host ? map_host(session, owner, &object)
			      : map_device(session, owner, &object, address, peering->flags);
	if (error)
		goto err_free;
	error = memory_add_peer(session, &object);
	if (error)
		goto err_unmap;
	owner->shares = true;
	list_append(&peerings, &peering->link);
	*result = peering;
	return 0;

err_unmap:
	unmap(peering);
err_free:
	free(peering);
	return error;
}

static int check_sessions(struct gdev_session *session, struct gdev_session *owner)
{
	int error = gdev_session_error(session, NULL);

	return error ? error : gdev_session_error(owner, NULL);
}

/* With the lock, which is given up meanwhile. */
static struct peering *find_settled(
	struct gdev_session *session, struct gdev_session *owner, uint64_t address)
{
	struct peering *peering;

	while ((peering = find(session, owner, address)) && peering->leaving)
		pthread_cond_wait(&left, &lock);
	return peering;
}

int gdev_peer_map(
	struct gdev_session *session, struct gdev_session *owner, uint64_t address, int flags)
{
	int error = check_sessions(session, owner);
	struct peering *peering;

	if (error || session == owner)
		return error;
	flags = flags_for(owner, address, flags & SHM_RDONLY);
	pthread_mutex_lock(&lock);
	/* Mapped with another right it is mapped anew. */
	while (!error && (peering = find_settled(session, owner, address)) && !peering->host &&
		peering->flags != flags) {
		error = leave(peering);
		if (error == -EAGAIN)
			error = 0;
	}
	if (!error && !peering)
		error = add_peering(session, owner, address, flags, false, &peering);
	pthread_mutex_unlock(&lock);
	return error;
}

int gdev_peer_hold(
	struct gdev_session *session, struct gdev_session *owner, uint64_t address, int flags)
{
	int error = check_sessions(session, owner);
	struct peering *peering;

	if (error || session == owner)
		return error;
	pthread_mutex_lock(&lock);
	peering = find_settled(session, owner, address);
	if (!peering)
		error = add_peering(session, owner, address, 0, true, &peering);
	if (!error && peering->flags && !(flags & SHM_RDONLY))
		error = -EACCES;
	if (!error)
		peering->uses++;
	pthread_mutex_unlock(&lock);
	return error;
}

void gdev_peer_release(struct gdev_session *session, struct gdev_session *owner, uint64_t address)
{
	struct peering *peering;

	pthread_mutex_lock(&lock);
	peering = find(session, owner, address); /* none: the session has been closed meanwhile */
	if (peering && peering->uses && !--peering->uses)
		pthread_cond_broadcast(&left);
	pthread_mutex_unlock(&lock);
}

int gdev_peer_unmap(struct gdev_session *session, struct gdev_session *owner, uint64_t address)
{
	struct peering *peering;
	int error;

	if (session->forked)
		return -GDEV_E_SESSION_LOST;
	if (is_in_shared_object(owner, address))
		return 0;
	pthread_mutex_lock(&lock);
	do {
		peering = find(session, owner, address);
		error = peering ? leave(peering) : 0;
	} while (error == -EAGAIN);
	pthread_mutex_unlock(&lock);
	return error;
}

/* The owner's worker gives the fence a name, and gdevd tells the other worker when it is reached. */
int gdev_stream_wait_peer(
	struct gdev_stream *stream, struct gdev_session *owner, const struct gdev_fence *fence)
{
	uint64_t event;
	int error;

	if (stream->session == owner)
		return gdev_stream_wait(stream, fence);
	error = gdev_fence_query(owner, fence);
	if (error != -GDEV_E_NOT_READY)
		return error;
	error = fence_share(owner, fence, &event);
	return error ? error : gdev_stream_wait_shared(stream, event);
}
