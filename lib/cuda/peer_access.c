/* SPDX-License-Identifier: MIT
 *
 * Access to memory of other devices: which context may name whose memory in its kernels. A session maps what it may name,
 * object by object, at the addresses that the memory has for its owner (gdev/session.h, peers):
 *   device memory of a context, from cuCtxEnablePeerAccess on: what is there, and then whatever comes;
 *   memory of pools and of mapped handles, for the devices that they name (pool.c, vmm.c);
 *   page-locked and managed memory always, because with unified addressing it is every device's.
 * Small memory of a device shares objects, whoever may use it, so it stays mapped when an access ends, and is mapped for
 * writing whatever the right is: only memory with an object of its own is out of reach from then on, or is only read.
 * An access is put down before the memory that is there is looked through, and memory is put down before the
 * accesses are. So of a thread that allocates and one that enables, at least one sees the other. To map twice is to map
 * once.
 * The accesses of two contexts of one device to memory of one other are uses of the same mappings. The last of them that
 * ends unmaps, and is *ending* meanwhile: it counts no more, and another access of that device to that memory begins when it
 * is gone. Otherwise it could unmap what the new one has just found mapped.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/shm.h>

#include "lib/cuda/exports.h"
#include "lib/cuda/internal.h"

#define PEERS_MAX 16 /* of a context */

struct access {
	struct list link;
	CUcontext context, peer;              /* the first may name memory of the second */
	struct gdev_session *session, *owner; /* theirs, referenced */
	bool ending; /* the thread that ends it unmaps, and destroys it then */
};

static pthread_mutex_t *const lock = &process_locks[LOCK_ACCESSES];
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER; /* an access that was ending is gone */
static struct list accesses = {&accesses, &accesses};
static atomic_int access_count; /* a look without the lock */

void accesses_forget(void)
{
	pthread_cond_init(&ended, NULL);
	list_init(&accesses);
	access_count = 0;
}

static bool can_reach(CUcontext context, CUcontext peer)
{
	return context->session != peer->session && gdev_peer_can(context->session, peer->session);
}

/* ---- accesses ---- */

static struct access *find_access(CUcontext context, CUcontext peer)
{
	struct access *access;

	list_for_each (access, &accesses, link)
		if (access->context == context && access->peer == peer && !access->ending)
			return access;
	return NULL;
}

/* Another access that uses the same mappings. */
static const struct access *find_other(const struct access *one, bool ending)
{
	const struct access *access;

	list_for_each (access, &accesses, link)
		if (access != one && access->session == one->session &&
			access->owner == one->owner && access->ending == ending)
			return access;
	return NULL;
}

static void destroy_access(struct access *access)
{
	gdev_session_close(access->session);
	gdev_session_close(access->owner);
	free(access);
}

static CUresult publish(struct access *access)
{
	CUresult result = CUDA_SUCCESS;
	struct access *other;
	unsigned count = 0;

	pthread_mutex_lock(lock);
	while (find_other(access, true))
		pthread_cond_wait(&ended, lock);
	list_for_each (other, &accesses, link)
		count += other->context == access->context && !other->ending;
	if (find_access(access->context, access->peer)) {
		result = fail(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED,
			"the context may use memory of that context already");
	} else if (count == PEERS_MAX) {
		result = fail(CUDA_ERROR_TOO_MANY_PEERS,
			"a context may use memory of %d others, and this one does", PEERS_MAX);
	} else {
		list_append(&accesses, &access->link);
		access_count++;
	}
	pthread_mutex_unlock(lock);
	return result;
}

/* With the lock. */
static void withdraw(struct access *access)
{
	list_remove(&access->link);
	access_count--;
}

/* ---- memory ---- */

/* Whether an access is to it. Pools, and memory of graphs, say themselves who may use them. */
static bool is_of_access(const struct allocation *allocation)
{
	return allocation->kind == ALLOCATION_DEVICE && !allocation->pool;
}

static bool is_everybodys(const struct allocation *allocation)
{
	return allocation->kind == ALLOCATION_HOST || allocation->kind == ALLOCATION_MANAGED;
}

/* What is freed meanwhile needs no access. */
static CUresult map_one(
	struct gdev_session *session, struct gdev_session *owner, uint64_t base, int flags)
{
	int error = gdev_peer_map(session, owner, base, flags);

	if (error == -ENOTSUP || error == -EADDRINUSE)
		return fail(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
			"the device cannot reach the memory of another one at %#llx",
			(unsigned long long)base);
	return error == -EINVAL
		       ? CUDA_SUCCESS
		       : result_of(error, "the memory at %#llx cannot be mapped for another device",
				 (unsigned long long)base);
}

static CUresult map_all(const struct access *access)
{
	struct allocation *list;
	CUresult result = CUDA_SUCCESS;
	size_t count;

	TRY(memory_list(access->peer, &list, &count));
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		if (is_of_access(&list[i]))
			result = map_one(access->session, access->owner, list[i].base, 0);
	free(list);
	return result;
}

static CUresult unmap_all(const struct access *access)
{
	struct allocation *list;
	CUresult result = CUDA_SUCCESS;
	size_t count;

	TRY(memory_list(access->peer, &list, &count));
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		if (is_of_access(&list[i]))
			result = result_of(
				gdev_peer_unmap(access->session, access->owner, list[i].base),
				"the memory at %#llx cannot be unmapped from the other device",
				(unsigned long long)list[i].base);
	free(list);
	return result;
}

static bool is_among(
	const struct gdev_session *session, struct gdev_session *const *sessions, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (sessions[i] == session)
			return true;
	return false;
}

/* The sessions that may name memory of the context, each once, referenced. */
static unsigned sessions_with_access(CUcontext peer, struct gdev_session *sessions[DEVICES_MAX])
{
	struct access *access;
	unsigned count = 0;

	pthread_mutex_lock(lock);
	list_for_each (access, &accesses, link)
		if (access->peer == peer && !access->ending && count < DEVICES_MAX &&
			!is_among(access->session, sessions, count)) {
			gdev_session_ref(access->session);
			sessions[count++] = access->session;
		}
	pthread_mutex_unlock(lock);
	return count;
}

CUresult access_new_memory(CUcontext context, uint64_t base)
{
	struct gdev_session *sessions[DEVICES_MAX];
	CUresult result = CUDA_SUCCESS;
	unsigned count;

	if (!atomic_load(&access_count))
		return CUDA_SUCCESS;
	count = sessions_with_access(context, sessions);
	for (unsigned i = 0; i < count; i++) {
		if (result == CUDA_SUCCESS)
			result = map_one(sessions[i], context->session, base, 0);
		gdev_session_close(sessions[i]);
	}
	return result;
}

/* Where it cannot be, copies still take page-locked memory as the process's own, and a kernel that names it fails. */
void access_new_host_memory(CUcontext context, uint64_t base)
{
	struct gdev_session *sessions[DEVICES_MAX];
	unsigned count;

	if (devices_used() < 2)
		return;
	count = peer_sessions(sessions);
	for (unsigned i = 0; i < count; i++) {
		gdev_peer_map(sessions[i], context->session, base, 0);
		gdev_session_close(sessions[i]);
	}
}

void access_new_context(CUcontext context)
{
	struct allocation *list;
	size_t count;

	if (devices_used() < 2 || memory_list(NULL, &list, &count) != CUDA_SUCCESS)
		return;
	for (size_t i = 0; i < count; i++)
		if (is_everybodys(&list[i]))
			gdev_peer_map(context->session, list[i].session, list[i].base, 0);
	free(list);
}

/* ---- for devices, whatever their contexts ---- */

CUresult access_reaches(CUdevice device, CUdevice peer, bool *reached)
{
	struct gdev_description ours, theirs;

	TRY(device_description(device, &ours));
	TRY(device_description(peer, &theirs));
	*reached = device != peer && ours.peers && ours.peers == theirs.peers;
	return CUDA_SUCCESS;
}

CUresult access_check(CUdevice device, CUdevice owner)
{
	bool reached;

	TRY(access_reaches(device, owner, &reached));
	return reached ? CUDA_SUCCESS
		       : fail(CUDA_ERROR_INVALID_DEVICE,
				 "device %d cannot reach memory of device %d", device, owner);
}

CUresult access_set(
	const struct access_rights *rights, struct gdev_session *owner, uint64_t address)
{
	struct gdev_session *session;
	CUresult result = CUDA_SUCCESS;

	for (CUdevice i = 0; i < DEVICES_MAX && result == CUDA_SUCCESS; i++) {
		if (rights->of[i] == CU_MEM_ACCESS_FLAGS_PROT_NONE)
			continue;
		TRY(device_open_session(i, &session));
		result = map_one(session, owner, address,
			rights->of[i] == CU_MEM_ACCESS_FLAGS_PROT_READ ? SHM_RDONLY : 0);
		gdev_session_close(session);
	}
	return result;
}

CUresult access_revoke(CUdevice device, struct gdev_session *owner, uint64_t address)
{
	struct gdev_session *session;
	CUresult result;

	TRY(device_open_session(device, &session));
	result = result_of(gdev_peer_unmap(session, owner, address),
		"the memory at %#llx cannot be unmapped from device %d",
		(unsigned long long)address, device);
	gdev_session_close(session);
	return result;
}

/* ---- a context goes ---- */

/* What it has mapped stays for others of its session, which would have to do without; its own memory is freed anyway. */
void access_leave_context(CUcontext context)
{
	struct list leaving = {&leaving, &leaving};
	struct access *access, *next;

	pthread_mutex_lock(lock);
	list_for_each_safe (access, next, &accesses, link)
		if ((access->context == context || access->peer == context) && !access->ending) {
			withdraw(access);
			list_append(&leaving, &access->link);
		}
	pthread_mutex_unlock(lock);
	list_for_each_safe (access, next, &leaving, link)
		destroy_access(access);
}

/* ---- the calls ---- */

/* *peer: as given, and as it is found by. */
static CUresult check_peer(CUcontext *peer, CUcontext *context)
{
	TRY(current_context(context));
	return *peer ? context_or_current(*peer, peer)
		     : fail(CUDA_ERROR_INVALID_CONTEXT, "the other context is NULL");
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
	struct access *access;
	CUcontext context;
	CUresult result;

	TRY(current_context(&context));
	if (flags)
		return fail(CUDA_ERROR_INVALID_VALUE, "flags must be 0");
	TRY(check_peer(&peer, &context));
	if (!can_reach(context, peer)) /* to oneself as well, says NVIDIA's library */
		return fail(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
			"the two contexts are of one device, or of devices that do not reach "
			"each other's memory");
	access = calloc(1, sizeof *access);
	if (!access)
		return no_memory();
	*access = (struct access){.context = context,
		.peer = peer,
		.session = context->session,
		.owner = peer->session};
	gdev_session_ref(access->session);
	gdev_session_ref(access->owner);
	result = publish(access);
	if (result != CUDA_SUCCESS) {
		destroy_access(access);
		return result;
	}
	result = map_all(access);
	if (result != CUDA_SUCCESS)
		cuCtxDisablePeerAccess(peer);
	return result;
}

CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
	CUresult result = CUDA_SUCCESS;
	struct access *access;
	CUcontext context;

	TRY(check_peer(&peer, &context));
	pthread_mutex_lock(lock);
	access = find_access(context, peer);
	if (access && !find_other(access, false)) {
		access->ending = true;
		pthread_mutex_unlock(lock);
		result = unmap_all(access);
		pthread_mutex_lock(lock);
		pthread_cond_broadcast(&ended);
	}
	if (access)
		withdraw(access);
	pthread_mutex_unlock(lock);
	if (!access)
		return fail(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED,
			"the context may not use memory of that context");
	destroy_access(access);
	return result;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
	bool reached;

	TRY(initialised());
	if (!can)
		return fail(CUDA_ERROR_INVALID_VALUE, "can is NULL");
	TRY(access_reaches(device, peer, &reached));
	*can = reached;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(
	int *value, CUdevice_P2PAttribute attribute, CUdevice source, CUdevice destination)
{
	bool reached, atomics;

	TRY(initialised());
	if (!value || attribute < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ||
		attribute > CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"value is NULL, or %d is no attribute of two devices", (int)attribute);
	TRY(access_reaches(source, destination, &reached));
	TRY(atomics_between(source, destination, &atomics));
	*value = (reached && attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED) ||
		 (atomics && attribute == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED);
	return CUDA_SUCCESS;
}
