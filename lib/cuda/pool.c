/* SPDX-License-Identifier: MIT
 *
 * Memory pools: allocations in the order of streams. What a stream frees stays in the pool, with the point of
 * the stream at which it is free. An allocation of that size takes it, and its stream waits for that point if it
 * is another one. Nothing is given back while commands run: only when the program trims the pool, when it has
 * waited for its context and the pool holds more than its release threshold, or when memory runs out.
 *
 * Every device has a default pool, which lives as long as the process, and a current one.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/cuda/internal.h"

#define GRANULE 512

/* A piece that nobody has. */
struct idle {
	struct list link; /* of its pool, oldest first; or of those that free_pieces() is to free */
	CUcontext context;
	struct gdev_session *session;
	uint64_t base, bytes;
	struct gdev_stream *stream; /* that freed it: its later commands need not wait */
	struct gdev_fence fence;
};

struct CUmemPoolHandle_st {
	uint32_t handle_word;
	struct list link; /* of all pools */
	CUdevice device;
	bool is_default, destroyed;
	bool shareable, imported;    /* with other processes; of another process */
	struct access_rights rights; /* of other devices */
	size_t max_bytes;            /* 0: no limit */
	int reuse[3];                /* attributes that are kept, and given back */
	uint64_t threshold, used, used_high, idle_bytes, reserved_high;
	uint64_t coming; /* bytes of allocations under way */
	struct list idle;
};

/* Guards what follows, and all pools. Memory is allocated and freed without it: `coming` counts what allocations under
 * way will add to a pool, and what is to be freed has left its pool before. */
static pthread_mutex_t *const lock = &process_locks[LOCK_POOLS];
static struct list pools = {&pools, &pools};
static CUmemoryPool defaults[DEVICES_MAX], current[DEVICES_MAX];
static unsigned leaving_pieces[DEVICES_MAX]; /* have left their pools, and are not freed yet */
static pthread_cond_t freed = PTHREAD_COND_INITIALIZER;

void pools_forget(void)
{
	list_init(&pools);
	memset(defaults, 0, sizeof defaults);
	memset(current, 0, sizeof current);
	memset(leaving_pieces, 0, sizeof leaving_pieces);
	pthread_cond_init(&freed, NULL);
}

/* ---- life; with the lock ---- */

static CUresult pool_create(CUdevice device, CUmemoryPool *created)
{
	CUmemoryPool pool = handle_create(HANDLE_POOL, sizeof *pool);

	if (!pool)
		return no_memory();
	pool->device = device;
	pool->reuse[0] = pool->reuse[1] = pool->reuse[2] = 1;
	list_init(&pool->idle);
	list_append(&pools, &pool->link);
	*created = pool;
	return CUDA_SUCCESS;
}

static CUresult default_pool(CUdevice device, CUmemoryPool *pool)
{
	struct device *found;

	TRY(device_find(device, &found));
	if (!defaults[device]) {
		TRY(pool_create(device, &defaults[device]));
		defaults[device]->is_default = true;
	}
	*pool = defaults[device];
	return CUDA_SUCCESS;
}

static CUresult current_pool(CUdevice device, CUmemoryPool *pool)
{
	TRY(default_pool(device, pool));
	if (current[device])
		*pool = current[device];
	return CUDA_SUCCESS;
}

static void idle_append(CUmemoryPool pool, struct idle *idle)
{
	list_append(&pool->idle, &idle->link);
	pool->idle_bytes += idle->bytes;
}

static void idle_remove(CUmemoryPool pool, struct idle *idle)
{
	pool->idle_bytes -= idle->bytes;
	list_remove(&idle->link);
}

/* Takes an idle piece out of the pool; free_pieces() frees it. Its session stays open until then, because its last
 * context may go away meanwhile. */
static void idle_take(CUmemoryPool pool, struct idle *idle, struct list *leaving)
{
	idle_remove(pool, idle);
	gdev_session_ref(idle->session);
	list_append(leaving, &idle->link);
	leaving_pieces[pool->device]++;
}

/* Takes idle pieces out, oldest first, until at most `keep` bytes are left. */
static void pool_trim(CUmemoryPool pool, uint64_t keep, struct list *leaving)
{
	struct idle *idle, *next;

	list_for_each_safe (idle, next, &pool->idle, link) {
		if (pool->idle_bytes + pool->used <= keep)
			return;
		idle_take(pool, idle, leaving);
	}
}

/* Takes out what a destroyed pool holds. The pool itself ends with its last allocation. */
static void pool_settle(CUmemoryPool pool, struct list *leaving)
{
	if (!pool->destroyed)
		return;
	pool_trim(pool, 0, leaving);
	if (pool->used || pool->coming)
		return;
	list_remove(&pool->link);
	handle_destroy(HANDLE_POOL, pool);
}

/* ---- without the lock ---- */

/* Frees what was taken out of pools of the device. Waits for its work. */
static void free_pieces(CUdevice device, struct list *leaving)
{
	struct idle *idle, *next;

	list_for_each_safe (idle, next, leaving, link) {
		gdev_memory_free(idle->session, idle->base);
		gdev_session_close(idle->session);
		free(idle);
		pthread_mutex_lock(lock);
		leaving_pieces[device]--;
		pthread_cond_broadcast(&freed);
		pthread_mutex_unlock(lock);
	}
}

void pools_synchronised(CUcontext context)
{
	struct list leaving = {&leaving, &leaving};
	CUdevice device = context->device;
	CUmemoryPool pool;

	pthread_mutex_lock(lock);
	list_for_each (pool, &pools, link)
		if (pool->device == context->device && pool->idle_bytes)
			pool_trim(pool, pool->threshold, &leaving);
	pthread_mutex_unlock(lock);
	free_pieces(device, &leaving);
}

void pools_leave_context(CUcontext context)
{
	struct list leaving = {&leaving, &leaving};
	CUdevice device = context->device;
	struct idle *idle, *next;
	CUmemoryPool pool;

	pthread_mutex_lock(lock);
	list_for_each (pool, &pools, link)
		list_for_each_safe (idle, next, &pool->idle, link)
			if (idle->context == context)
				idle_take(pool, idle, &leaving);
	pthread_mutex_unlock(lock);
	free_pieces(device, &leaving);
}

/* ---- allocations ---- */

/* An idle piece of that size, newest first, which leaves the pool; or NULL. With the lock. */
static struct idle *idle_find(CUmemoryPool pool, CUstream stream, uint64_t bytes)
{
	for (struct list *at = pool->idle.prev; at != &pool->idle; at = at->prev) {
		struct idle *idle = list_entry(at, struct idle, link);
		if (idle->bytes == bytes && idle->context == stream->context) {
			idle_remove(pool, idle);
			return idle;
		}
	}
	return NULL;
}

/* With the lock. */
static void count_used(CUmemoryPool pool, int64_t bytes)
{
	pool->used += (uint64_t)bytes;
	pool->used_high = max_of(pool->used_high, pool->used);
	pool->reserved_high = max_of(pool->reserved_high, pool->used + pool->idle_bytes);
}

/* Begins an allocation from the pool, or from the device's current one for NULL: its bytes count as coming until
 * end_alloc(). *idle: the piece that it uses again, or NULL for new memory. With the lock. */
static CUresult begin_alloc(CUmemoryPool *pool, CUstream stream, uint64_t bytes, struct idle **idle)
{
	if (!*pool)
		TRY(current_pool(stream->context->device, pool));
	else if (!handle_is(HANDLE_POOL, *pool) || (*pool)->destroyed || (*pool)->imported)
		return fail(CUDA_ERROR_INVALID_VALUE, "%p is no living pool, or another process's",
			(void *)*pool);
	if ((*pool)->max_bytes && (*pool)->used + (*pool)->coming + bytes > (*pool)->max_bytes)
		return fail(CUDA_ERROR_OUT_OF_MEMORY, "the pool holds %llu bytes, and may hold %zu",
			(unsigned long long)((*pool)->used + (*pool)->coming), (*pool)->max_bytes);
	*idle = idle_find(*pool, stream, bytes);
	(*pool)->coming += bytes;
	return CUDA_SUCCESS;
}

/* Ends an allocation, whether it has come or not. */
static void end_alloc(CUmemoryPool pool, uint64_t bytes, CUresult result)
{
	struct list leaving = {&leaving, &leaving};
	CUdevice device = pool->device;

	pthread_mutex_lock(lock);
	pool->coming -= bytes;
	if (result == CUDA_SUCCESS)
		count_used(pool, (int64_t)bytes);
	pool_settle(pool, &leaving);
	pthread_mutex_unlock(lock);
	free_pieces(device, &leaving);
}

static CUresult take_new(struct gdev_session *session, uint64_t bytes, uint64_t *base)
{
	return result_of(gdev_memory_alloc(session, bytes, base),
		"%llu bytes of device memory cannot be had", (unsigned long long)bytes);
}

/* New memory. What the pool holds idle is no reason to refuse, nor what another thread is about to free. */
static CUresult alloc_new(
	CUmemoryPool pool, struct gdev_session *session, uint64_t bytes, uint64_t *base)
{
	struct list leaving = {&leaving, &leaving};
	CUresult result = take_new(session, bytes, base);
	CUdevice device = pool->device;
	bool more;

	if (result != CUDA_ERROR_OUT_OF_MEMORY)
		return result;
	pthread_mutex_lock(lock);
	pool_trim(pool, 0, &leaving);
	more = leaving_pieces[device];
	while (list_empty(&leaving) && leaving_pieces[device])
		pthread_cond_wait(&freed, lock);
	pthread_mutex_unlock(lock);
	free_pieces(device, &leaving);
	return more ? take_new(session, bytes, base) : result;
}

/* For the stream's commands to come: memory of a piece that was idle, or new memory for NULL. */
static CUresult alloc_piece(
	CUmemoryPool pool, CUstream stream, struct idle *idle, uint64_t bytes, uint64_t *base)
{
	int error;

	if (!idle)
		return alloc_new(pool, stream->context->session, bytes, base);
	error = idle->stream == stream->stream ? 0 : gdev_stream_wait(stream->stream, &idle->fence);
	if (error) {
		pthread_mutex_lock(lock);
		idle_append(pool, idle);
		pthread_mutex_unlock(lock);
		return result_of(error, "the stream cannot wait until the memory is free");
	}
	*base = idle->base;
	free(idle);
	return CUDA_SUCCESS;
}

static CUresult alloc_from(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream)
{
	uint64_t base, rounded = align_up(bytes, (size_t)GRANULE);
	struct access_rights rights;
	struct idle *idle;
	CUresult result;

	if (!pointer)
		return fail(CUDA_ERROR_INVALID_VALUE, "the pointer is NULL");
	if (!bytes) {
		*pointer = 0;
		return CUDA_SUCCESS;
	}
	if (rounded < bytes)
		return fail(
			CUDA_ERROR_OUT_OF_MEMORY, "%zu bytes are more than any device has", bytes);
	pthread_mutex_lock(lock);
	result = begin_alloc(&pool, stream, rounded, &idle);
	pthread_mutex_unlock(lock);
	if (result != CUDA_SUCCESS)
		return result;
	result = alloc_piece(pool, stream, idle, rounded, &base);
	if (result == CUDA_SUCCESS) {
		result = memory_remember_pooled(stream->context, base, rounded, pool);
		if (result != CUDA_SUCCESS)
			gdev_memory_free(stream->context->session, base);
	}
	end_alloc(pool, rounded, result);
	if (result == CUDA_SUCCESS) {
		pthread_mutex_lock(lock);
		rights = pool->rights;
		pthread_mutex_unlock(lock);
		result = access_set(&rights, stream->context->session, base);
		if (result != CUDA_SUCCESS)
			cuMemFree_v2(base);
	}
	if (result == CUDA_SUCCESS)
		*pointer = base;
	return result;
}

CUresult cuMemAllocFromPoolAsync(
	CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream handle)
{
	CUstream stream;

	TRY(stream_record(handle, &stream));
	if (!pool)
		return fail(CUDA_ERROR_INVALID_VALUE, "the pool is NULL");
	return stream->capture ? capture_alloc(stream, bytes, pointer)
			       : alloc_from(pointer, bytes, pool, stream);
}

CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream handle)
{
	CUstream stream;

	TRY(stream_record(handle, &stream));
	return stream->capture ? capture_alloc(stream, bytes, pointer)
			       : alloc_from(pointer, bytes, NULL, stream);
}

/* The allocation ends; `idle`: what the pool has of it, or NULL. */
static void end_allocation(const struct allocation *allocation, struct idle *idle)
{
	struct list leaving = {&leaving, &leaving};
	CUmemoryPool pool = allocation->pool;
	CUdevice device = pool->device;

	pthread_mutex_lock(lock);
	count_used(pool, -(int64_t)allocation->bytes);
	if (idle)
		idle_append(pool, idle);
	pool_settle(pool, &leaving);
	pthread_mutex_unlock(lock);
	free_pieces(device, &leaving);
}

void pool_gone(const struct allocation *allocation)
{
	end_allocation(allocation, NULL);
}

static CUresult free_to_pool(const struct allocation *allocation, CUstream stream)
{
	struct idle *idle = malloc(sizeof *idle);

	if (idle) {
		*idle = (struct idle){.context = allocation->context,
			.session = allocation->session,
			.base = allocation->base,
			.bytes = allocation->bytes,
			.stream = stream->stream};
		gdev_stream_fence(stream->stream, &idle->fence);
	}
	end_allocation(allocation, idle);
	return idle ? CUDA_SUCCESS
		    : result_of(gdev_memory_free(allocation->session, allocation->base),
			      "the memory cannot be freed");
}

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream handle)
{
	struct allocation allocation;
	CUstream stream;

	TRY(stream_record(handle, &stream));
	if (stream->capture)
		return capture_free(stream, pointer);
	if (!pointer)
		return CUDA_SUCCESS;
	if (!memory_find_base(pointer, &allocation))
		return fail(CUDA_ERROR_INVALID_VALUE, "no memory begins at %#llx",
			(unsigned long long)pointer);
	if (allocation.kind == ALLOCATION_GRAPH)
		return graph_memory_free(pointer, stream);
	if (!allocation.pool) { /* of cuMemAlloc */
		TRY_GDEV(gdev_stream_sync(stream->stream),
			"the stream's work, after which the memory is free, failed");
		return cuMemFree_v2(pointer);
	}
	if (allocation.context != stream->context)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the memory is of another context than the stream");
	if (!memory_forget(pointer, &allocation))
		return fail(CUDA_ERROR_INVALID_VALUE, "%#llx was freed meanwhile",
			(unsigned long long)pointer);
	return free_to_pool(&allocation, stream);
}

/* From now on the stream's own commands need not come after what it freed: an allocation that takes it waits. */
void pools_leave_stream(struct gdev_stream *stream)
{
	CUmemoryPool pool;
	struct idle *idle;

	pthread_mutex_lock(lock);
	list_for_each (pool, &pools, link)
		list_for_each (idle, &pool->idle, link)
			if (idle->stream == stream)
				idle->stream = NULL;
	pthread_mutex_unlock(lock);
}

/* ---- pools of devices ---- */

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
	CUresult result;

	TRY(initialised());
	if (!pool)
		return fail(CUDA_ERROR_INVALID_VALUE, "pool is NULL");
	pthread_mutex_lock(lock);
	result = default_pool(device, pool);
	pthread_mutex_unlock(lock);
	return result;
}

/* As in CUDA: but for the call that asks a device for its default pool, a wrong device is a wrong value. */
static CUresult check_device(CUdevice device)
{
	struct device *found;
	CUresult result = device_find(device, &found);

	return result == CUDA_ERROR_INVALID_DEVICE
		       ? fail(CUDA_ERROR_INVALID_VALUE, "there is no device %d", device)
		       : result;
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
	CUresult result;

	TRY(initialised());
	if (!pool)
		return fail(CUDA_ERROR_INVALID_VALUE, "pool is NULL");
	TRY(check_device(device));
	pthread_mutex_lock(lock);
	result = current_pool(device, pool);
	pthread_mutex_unlock(lock);
	return result;
}

CUresult pool_check(CUmemoryPool pool)
{
	TRY(initialised());
	return handle_is(HANDLE_POOL, pool) && !pool->destroyed
		       ? CUDA_SUCCESS
		       : fail(CUDA_ERROR_INVALID_VALUE, "%p is no living pool", (void *)pool);
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
	TRY(check_device(device));
	TRY(pool_check(pool));
	if (pool->device != device || pool->imported)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the pool is of device %d, and not of %d, or is another process's",
			pool->device, device);
	pthread_mutex_lock(lock);
	current[device] = pool;
	pthread_mutex_unlock(lock);
	return CUDA_SUCCESS;
}

static CUresult check_location(const CUmemLocation *location, CUmemAllocationType type)
{
	TRY(initialised());
	if (!location || type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the location is NULL, or the memory not page-locked");
	return location->type == CU_MEM_LOCATION_TYPE_DEVICE
		       ? check_device(location->id)
		       : fail(CUDA_ERROR_NOT_SUPPORTED, "a pool can only be on a device");
}

CUresult cuMemGetDefaultMemPool(
	CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
	TRY(check_location(location, type));
	return cuDeviceGetDefaultMemPool(pool, location->id);
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
	TRY(check_location(location, type));
	return cuDeviceGetMemPool(pool, location->id);
}

CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
	TRY(check_location(location, type));
	return cuDeviceSetMemPool(location->id, pool);
}

CUresult cuMemPoolCreate(CUmemoryPool *created, const CUmemPoolProps *properties)
{
	CUresult result;

	TRY(initialised());
	if (!created || !properties)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the pointer for the pool, or properties, is NULL");
	TRY(check_location(&properties->location, properties->allocType));
	if (properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE &&
		properties->handleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return fail(CUDA_ERROR_NOT_SUPPORTED,
			"a pool leaves the process as a file descriptor, and in no other way");
	pthread_mutex_lock(lock);
	result = pool_create(properties->location.id, created);
	if (result == CUDA_SUCCESS) {
		(*created)->max_bytes = properties->maxSize;
		(*created)->shareable = properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE;
	}
	pthread_mutex_unlock(lock);
	return result;
}

CUresult pool_import(CUdevice device, CUmemoryPool *created)
{
	CUresult result;

	pthread_mutex_lock(lock);
	result = pool_create(device, created);
	if (result == CUDA_SUCCESS)
		(*created)->imported = true;
	pthread_mutex_unlock(lock);
	return result;
}

CUdevice pool_device(CUmemoryPool pool)
{
	return pool->device;
}

bool pool_is_shareable(CUmemoryPool pool)
{
	return pool->shareable;
}

bool pool_is_imported(CUmemoryPool pool)
{
	return pool->imported;
}

/* Allocations of the pool stay good; the last one takes the pool with it. */
CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	struct list leaving = {&leaving, &leaving};
	CUdevice device;

	TRY(pool_check(pool));
	device = pool->device;
	if (pool->is_default)
		return fail(
			CUDA_ERROR_INVALID_VALUE, "the default pool of a device is not destroyed");
	pthread_mutex_lock(lock);
	if (current[pool->device] == pool)
		current[pool->device] = NULL;
	pool->destroyed = true;
	pool_settle(pool, &leaving);
	pthread_mutex_unlock(lock);
	free_pieces(device, &leaving);
	return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
	struct list leaving = {&leaving, &leaving};
	CUdevice device;

	TRY(pool_check(pool));
	device = pool->device;
	pthread_mutex_lock(lock);
	pool_trim(pool, keep, &leaving);
	pthread_mutex_unlock(lock);
	free_pieces(device, &leaving);
	return CUDA_SUCCESS;
}

/* ---- what a pool says ---- */

/* With the lock. */
static CUresult get_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
	switch (attribute) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		*(int *)value = pool->reuse[attribute - 1];
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		*(uint64_t *)value = pool->threshold;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
		*(uint64_t *)value = pool->used + pool->idle_bytes;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		*(uint64_t *)value = pool->reserved_high;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		*(uint64_t *)value = pool->used;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		*(uint64_t *)value = pool->used_high;
		return CUDA_SUCCESS;
	}
	return fail(CUDA_ERROR_INVALID_VALUE, "%d is no attribute of pools", (int)attribute);
}

/* With the lock. High-water marks can only be reset. */
static CUresult set_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, const void *value)
{
	switch (attribute) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		pool->reuse[attribute - 1] = *(const int *)value != 0;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		pool->threshold = *(const uint64_t *)value;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		if (*(const uint64_t *)value)
			return fail(CUDA_ERROR_INVALID_VALUE,
				"the highest values can only be set to 0");
		pool->reserved_high = pool->used + pool->idle_bytes;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		if (*(const uint64_t *)value)
			return fail(CUDA_ERROR_INVALID_VALUE,
				"the highest values can only be set to 0");
		pool->used_high = pool->used;
		return CUDA_SUCCESS;
	default:
		return fail(CUDA_ERROR_INVALID_VALUE, "%d is no attribute of pools that can be set",
			(int)attribute);
	}
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
	CUresult result;

	TRY(pool_check(pool));
	if (!value)
		return fail(CUDA_ERROR_INVALID_VALUE, "value is NULL");
	pthread_mutex_lock(lock);
	result = get_attribute(pool, attribute, value);
	pthread_mutex_unlock(lock);
	return result;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
	CUresult result;

	TRY(pool_check(pool));
	if (!value)
		return fail(CUDA_ERROR_INVALID_VALUE, "value is NULL");
	pthread_mutex_lock(lock);
	result = set_attribute(pool, attribute, value);
	pthread_mutex_unlock(lock);
	return result;
}

/* A pool is for its own device. */
CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location)
{
	TRY(pool_check(pool));
	if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"a pointer is NULL, or the location is no device");
	TRY(check_device(location->id));
	pthread_mutex_lock(lock);
	*flags = location->id == pool->device ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
					      : pool->rights.of[location->id];
	pthread_mutex_unlock(lock);
	return CUDA_SUCCESS;
}

/* A device gets the right to what begins there, or loses all. */
static CUresult change_one(
	CUdevice device, CUmemAccess_flags flags, struct gdev_session *session, uint64_t base)
{
	struct access_rights rights = {0};

	if (flags == CU_MEM_ACCESS_FLAGS_PROT_NONE)
		return access_revoke(device, session, base);
	rights.of[device] = flags;
	return access_set(&rights, session, base);
}

/* What the pool has given out already. */
static CUresult change_allocations(CUmemoryPool pool, CUdevice device, CUmemAccess_flags flags)
{
	struct allocation *list;
	CUresult result = CUDA_SUCCESS;
	size_t count;

	TRY(memory_list(NULL, &list, &count));
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		if (list[i].pool == pool)
			result = change_one(device, flags, list[i].session, list[i].base);
	free(list);
	return result;
}

/* What is idle gets its rights when it is given out again, and a device that has lost its right must not have it until
 * then: it is freed. */
static void drop_idle(CUmemoryPool pool)
{
	struct list leaving = {&leaving, &leaving};
	struct idle *idle, *next;

	pthread_mutex_lock(lock);
	list_for_each_safe (idle, next, &pool->idle, link)
		idle_take(pool, idle, &leaving);
	pthread_mutex_unlock(lock);
	free_pieces(pool->device, &leaving);
}

static CUresult set_peer(CUmemoryPool pool, CUdevice device, CUmemAccess_flags flags)
{
	CUmemAccess_flags had;

	TRY(access_check(device, pool->device));
	pthread_mutex_lock(lock);
	had = pool->rights.of[device];
	pool->rights.of[device] = flags;
	pthread_mutex_unlock(lock);
	if (had == flags)
		return CUDA_SUCCESS;
	if (flags < had)
		drop_idle(pool);
	return change_allocations(pool, device, flags);
}

static CUresult check_access(CUmemoryPool pool, const CUmemAccessDesc *access, size_t number)
{
	struct device *found;

	if (access->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return fail(CUDA_ERROR_INVALID_VALUE, "location %zu is no device", number);
	TRY(device_find(access->location.id, &found));
	if (!access_is_right(access->flags))
		return fail(CUDA_ERROR_INVALID_VALUE, "flags %d are no rights", (int)access->flags);
	return access->location.id != pool->device ||
			       access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE
		       ? CUDA_SUCCESS
		       : fail(CUDA_ERROR_INVALID_VALUE,
				 "a device keeps the right to read and write its own pools");
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t length)
{
	TRY(pool_check(pool));
	if (!map || !length)
		return fail(CUDA_ERROR_INVALID_VALUE, "the list is NULL or empty");
	for (size_t i = 0; i < length; i++)
		TRY(check_access(pool, &map[i], i));
	for (size_t i = 0; i < length; i++)
		if (map[i].location.id != pool->device)
			TRY(set_peer(pool, map[i].location.id, map[i].flags));
	return CUDA_SUCCESS;
}
