/* SPDX-License-Identifier: MIT
 *
 * Memory pools: allocations in the order of streams. What a stream frees stays in the pool, with the point of
 * the stream at which it is free; who allocates as much takes it, and its stream waits for that point if it
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
	struct list link; /* oldest first */
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
	size_t max_bytes; /* 0: no limit */
	int reuse[3];     /* attributes that are kept, and given back */
	uint64_t threshold, used, used_high, idle_bytes, reserved_high;
	struct list idle;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows, and all pools */
static struct list pools = {&pools, &pools};
static CUmemoryPool defaults[DEVICES_MAX], current[DEVICES_MAX];

void pools_forget(void)
{
	pthread_mutex_init(&lock, NULL);
	list_init(&pools);
	memset(defaults, 0, sizeof defaults);
	memset(current, 0, sizeof current);
}

/* ---- life; with the lock ---- */

static CUresult pool_create(CUdevice device, CUmemoryPool *created)
{
	CUmemoryPool pool = handle_create(HANDLE_POOL, sizeof *pool);

	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
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

static void idle_forget(CUmemoryPool pool, struct idle *idle)
{
	pool->idle_bytes -= idle->bytes;
	list_remove(&idle->link);
	free(idle);
}

/* Gives back, oldest first, until at most `keep` bytes are idle. Waits for the device. */
static void trim(CUmemoryPool pool, uint64_t keep)
{
	struct idle *idle, *next;

	list_for_each_safe (idle, next, &pool->idle, link) {
		if (pool->idle_bytes + pool->used <= keep)
			return;
		gdev_memory_free(idle->session, idle->base);
		idle_forget(pool, idle);
	}
}

static void settle(CUmemoryPool pool)
{
	if (!pool->destroyed)
		return;
	trim(pool, 0);
	if (pool->used)
		return;
	list_remove(&pool->link);
	handle_destroy(HANDLE_POOL, pool);
}

void pools_synchronised(CUcontext context)
{
	CUmemoryPool pool;

	pthread_mutex_lock(&lock);
	list_for_each (pool, &pools, link)
		if (pool->device == context->device && pool->idle_bytes)
			trim(pool, pool->threshold);
	pthread_mutex_unlock(&lock);
}

void pools_leave_context(CUcontext context)
{
	struct idle *idle, *next;
	CUmemoryPool pool;

	pthread_mutex_lock(&lock);
	list_for_each (pool, &pools, link)
		list_for_each_safe (idle, next, &pool->idle, link) {
			if (idle->context != context)
				continue;
			gdev_memory_free(idle->session, idle->base);
			idle_forget(pool, idle);
		}
	pthread_mutex_unlock(&lock);
}

/* ---- allocations ---- */

/* An idle piece of that size, newest first. With the lock. */
static bool reuse(CUmemoryPool pool, CUstream stream, uint64_t bytes, uint64_t *base)
{
	for (struct list *at = pool->idle.prev; at != &pool->idle; at = at->prev) {
		struct idle *idle = list_entry(at, struct idle, link);
		if (idle->bytes != bytes || idle->context != stream->context)
			continue;
		if (idle->stream != stream->stream &&
			gdev_stream_wait(stream->stream, &idle->fence))
			return false;
		*base = idle->base;
		idle_forget(pool, idle);
		return true;
	}
	return false;
}

static void count(CUmemoryPool pool, int64_t bytes)
{
	pool->used += (uint64_t)bytes;
	pool->used_high = max_of(pool->used_high, pool->used);
	pool->reserved_high = max_of(pool->reserved_high, pool->used + pool->idle_bytes);
}

/* With the lock. */
static CUresult take(CUmemoryPool pool, CUstream stream, uint64_t bytes, uint64_t *base)
{
	struct gdev_session *session = stream->context->session;
	CUresult result;

	if (pool->max_bytes && pool->used + bytes > pool->max_bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (reuse(pool, stream, bytes, base))
		return CUDA_SUCCESS;
	result = result_of(gdev_memory_alloc(session, bytes, base));
	if (result == CUDA_ERROR_OUT_OF_MEMORY && pool->idle_bytes) {
		trim(pool, 0);
		result = result_of(gdev_memory_alloc(session, bytes, base));
	}
	return result;
}

static CUresult alloc_from(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream)
{
	uint64_t base, rounded = align_up(bytes, (size_t)GRANULE);
	CUresult result;

	if (!pointer)
		return CUDA_ERROR_INVALID_VALUE;
	if (!bytes) {
		*pointer = 0;
		return CUDA_SUCCESS;
	}
	if (rounded < bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&lock);
	if (!pool)
		result = current_pool(stream->context->device, &pool);
	else
		result = handle_is(HANDLE_POOL, pool) && !pool->destroyed
				 ? CUDA_SUCCESS
				 : CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		result = take(pool, stream, rounded, &base);
	if (result == CUDA_SUCCESS)
		result = memory_remember_pooled(stream->context, base, rounded, pool);
	if (result == CUDA_SUCCESS) {
		count(pool, (int64_t)rounded);
		*pointer = base;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

CUresult cuMemAllocFromPoolAsync(
	CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream handle)
{
	CUstream stream;

	TRY(stream_record(handle, &stream));
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
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

void pool_gone(const struct allocation *allocation)
{
	pthread_mutex_lock(&lock);
	count(allocation->pool, -(int64_t)allocation->bytes);
	settle(allocation->pool);
	pthread_mutex_unlock(&lock);
}

/* With the lock. */
static CUresult make_idle(const struct allocation *allocation, CUstream stream)
{
	CUmemoryPool pool = allocation->pool;
	struct idle *idle = malloc(sizeof *idle);

	count(pool, -(int64_t)allocation->bytes);
	if (!idle)
		return result_of(gdev_memory_free(allocation->session, allocation->base));
	*idle = (struct idle){.context = allocation->context,
		.session = allocation->session,
		.base = allocation->base,
		.bytes = allocation->bytes,
		.stream = stream->stream};
	gdev_stream_fence(stream->stream, &idle->fence);
	list_append(&pool->idle, &idle->link);
	pool->idle_bytes += idle->bytes;
	settle(pool);
	return CUDA_SUCCESS;
}

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream handle)
{
	struct allocation allocation;
	CUstream stream;
	CUresult result;

	TRY(stream_record(handle, &stream));
	if (stream->capture)
		return capture_free(stream, pointer);
	if (!pointer)
		return CUDA_SUCCESS;
	if (!memory_find_base(pointer, &allocation))
		return CUDA_ERROR_INVALID_VALUE;
	if (allocation.kind == ALLOCATION_GRAPH)
		return graph_memory_free(pointer, stream);
	if (!allocation.pool) { /* of cuMemAlloc */
		TRY_GDEV(gdev_stream_sync(stream->stream));
		return cuMemFree_v2(pointer);
	}
	if (allocation.context != stream->context)
		return CUDA_ERROR_INVALID_VALUE;
	if (!memory_forget(pointer, &allocation))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	result = make_idle(&allocation, stream);
	pthread_mutex_unlock(&lock);
	return result;
}

/* The stream's own commands come after it no more: who takes what it freed waits. */
void pools_leave_stream(struct gdev_stream *stream)
{
	CUmemoryPool pool;
	struct idle *idle;

	pthread_mutex_lock(&lock);
	list_for_each (pool, &pools, link)
		list_for_each (idle, &pool->idle, link)
			if (idle->stream == stream)
				idle->stream = NULL;
	pthread_mutex_unlock(&lock);
}

/* ---- pools of devices ---- */

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
	CUresult result;

	TRY(initialised());
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	result = default_pool(device, pool);
	pthread_mutex_unlock(&lock);
	return result;
}

/* As in CUDA: but for the call that asks a device for its default pool, a wrong device is a wrong value. */
static CUresult check_device(CUdevice device)
{
	struct device *found;
	CUresult result = device_find(device, &found);

	return result == CUDA_ERROR_INVALID_DEVICE ? CUDA_ERROR_INVALID_VALUE : result;
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
	CUresult result;

	TRY(initialised());
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(check_device(device));
	pthread_mutex_lock(&lock);
	result = current_pool(device, pool);
	pthread_mutex_unlock(&lock);
	return result;
}

static CUresult check(CUmemoryPool pool)
{
	TRY(initialised());
	return handle_is(HANDLE_POOL, pool) && !pool->destroyed ? CUDA_SUCCESS
								: CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
	TRY(check_device(device));
	TRY(check(pool));
	if (pool->device != device)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	current[device] = pool;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

static CUresult check_location(const CUmemLocation *location, CUmemAllocationType type)
{
	TRY(initialised());
	if (!location || type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	return location->type == CU_MEM_LOCATION_TYPE_DEVICE ? check_device(location->id)
							     : CUDA_ERROR_NOT_SUPPORTED;
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
		return CUDA_ERROR_INVALID_VALUE;
	TRY(check_location(&properties->location, properties->allocType));
	if (properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
		return CUDA_ERROR_NOT_SUPPORTED;
	pthread_mutex_lock(&lock);
	result = pool_create(properties->location.id, created);
	if (result == CUDA_SUCCESS)
		(*created)->max_bytes = properties->maxSize;
	pthread_mutex_unlock(&lock);
	return result;
}

/* What was allocated from it stays good; the last piece takes the pool with it. */
CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	TRY(check(pool));
	if (pool->is_default)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	if (current[pool->device] == pool)
		current[pool->device] = NULL;
	pool->destroyed = true;
	settle(pool);
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
	TRY(check(pool));
	pthread_mutex_lock(&lock);
	trim(pool, keep);
	pthread_mutex_unlock(&lock);
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
	return CUDA_ERROR_INVALID_VALUE;
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
			return CUDA_ERROR_INVALID_VALUE;
		pool->reserved_high = pool->used + pool->idle_bytes;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		if (*(const uint64_t *)value)
			return CUDA_ERROR_INVALID_VALUE;
		pool->used_high = pool->used;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
	CUresult result;

	TRY(check(pool));
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	result = get_attribute(pool, attribute, value);
	pthread_mutex_unlock(&lock);
	return result;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
	CUresult result;

	TRY(check(pool));
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	result = set_attribute(pool, attribute, value);
	pthread_mutex_unlock(&lock);
	return result;
}

/* A pool is for its own device. */
CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location)
{
	TRY(check(pool));
	if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(check_device(location->id));
	*flags = location->id == pool->device ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
					      : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t length)
{
	struct device *found;

	TRY(check(pool));
	if (!map || !length)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < length; i++) {
		if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
			return CUDA_ERROR_INVALID_VALUE;
		TRY(device_find(map[i].location.id, &found));
		if (map[i].location.id != pool->device)
			return CUDA_ERROR_INVALID_DEVICE;
		if (map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
			return CUDA_ERROR_INVALID_VALUE; /* as CUDA: not taken from its own */
	}
	return CUDA_SUCCESS;
}
