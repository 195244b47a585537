/* SPDX-License-Identifier: MIT
 *
 * Contexts: what CUDA puts around streams, memory and code of one device. All contexts of a device share
 * the process's session on it, unless a fault has broken that session: then a context that is created (or
 * a primary context that is reset and used again) gets a new one.
 *
 * A primary context's handle is made at its first mention and lives as long as the process; whether it is
 * active is whether it has a session.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/cuda/exports.h"
#include "lib/cuda/internal.h"

static pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER; /* guards list and ids */
static struct list contexts = {&contexts, &contexts};
static unsigned long long next_id;
static _Atomic unsigned generation = 1; /* counts forks: a child's stacks start empty */

/* The thread's stack of contexts; the top is current. */
static _Thread_local struct {
	unsigned generation, depth;
	CUcontext contexts[CONTEXTS_MAX];
} stack;

static void check_generation(void)
{
	unsigned now = atomic_load_explicit(&generation, memory_order_relaxed);

	if (stack.generation == now)
		return;
	stack.generation = now;
	stack.depth = 0;
}

static CUcontext top(void)
{
	check_generation();
	return stack.depth ? stack.contexts[stack.depth - 1] : NULL;
}

void contexts_forget(void)
{
	pthread_mutex_init(&contexts_lock, NULL);
	list_init(&contexts);
	atomic_fetch_add(&generation, 1);
}

/* ---- life ---- */

static const size_t default_limits[CU_LIMIT_MAX] = {
	[CU_LIMIT_STACK_SIZE] = 1024,
	[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20,
	[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20,
	[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048,
	[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64,
};

/* Gives a context what it needs to be used. */
static CUresult activate(CUcontext context)
{
	struct gdev_session *session;
	CUresult result;

	TRY(device_open_session(context->device, &session));
	context->session = session;
	result = stream_create(context, CU_STREAM_DEFAULT, 0, true, &context->legacy);
	if (result != CUDA_SUCCESS) {
		gdev_session_close(session);
		context->session = NULL;
		return result;
	}
	pthread_mutex_lock(&contexts_lock);
	context->id = ++next_id;
	pthread_mutex_unlock(&contexts_lock);
	memcpy(context->limits, default_limits, sizeof default_limits);
	return CUDA_SUCCESS;
}

/* Takes all away again that was made in it. What the program still holds becomes invalid. */
static void deactivate(CUcontext context)
{
	struct gdev_session *session = context->session;

	gdev_session_sync(session);
	memops_leave_session(session);
	gdev_stream_destroy(context->joint);
	context->joint = NULL;
	context->awaited = (struct gdev_fence){0};
	libraries_leave_context(context);
	while (!list_empty(&context->modules))
		module_release(list_first(&context->modules, struct CUmod_st, link));
	while (!list_empty(&context->events))
		event_release(list_first(&context->events, struct CUevent_st, link));
	ipc_release_context(context);
	pools_leave_context(context);
	graph_memory_leave_context(context);
	memory_release_context(context);
	while (!list_empty(&context->streams))
		stream_release(list_first(&context->streams, struct CUstream_st, link));
	context->legacy = NULL;
	context->session = NULL;
	gdev_session_close(session);
}

static CUresult context_create(CUdevice device, unsigned flags, bool primary, CUcontext *created)
{
	CUcontext context = handle_create(HANDLE_CONTEXT, sizeof *context);

	if (!context)
		return CUDA_ERROR_OUT_OF_MEMORY;
	context->device = device;
	context->flags = flags;
	context->primary = primary;
	pthread_mutex_init(&context->lock, NULL);
	list_init(&context->streams);
	list_init(&context->modules);
	list_init(&context->events);
	pthread_mutex_lock(&contexts_lock);
	list_append(&contexts, &context->link);
	pthread_mutex_unlock(&contexts_lock);
	*created = context;
	return CUDA_SUCCESS;
}

static void context_destroy(CUcontext context)
{
	if (context->session)
		deactivate(context);
	pthread_mutex_lock(&contexts_lock);
	list_remove(&context->link);
	pthread_mutex_unlock(&contexts_lock);
	pthread_mutex_destroy(&context->lock);
	handle_destroy(HANDLE_CONTEXT, context);
}

/* ---- the current context ---- */

static CUresult usable(CUcontext context)
{
	if (!handle_is(HANDLE_CONTEXT, context) || !context->session)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	return CUDA_SUCCESS;
}

CUresult current_context(CUcontext *context)
{
	TRY(initialised());
	*context = top();
	if (!*context)
		return CUDA_ERROR_INVALID_CONTEXT;
	return usable(*context);
}

CUresult context_or_current(CUcontext given, CUcontext *context)
{
	if (!given)
		return current_context(context);
	TRY(initialised());
	if (!handle_is(HANDLE_CONTEXT, given))
		return CUDA_ERROR_INVALID_CONTEXT;
	*context = given;
	return usable(given);
}

static CUresult push(CUcontext context)
{
	check_generation();
	if (stack.depth == CONTEXTS_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stack.contexts[stack.depth++] = context;
	return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
	TRY(initialised());
	if (!context)
		return CUDA_ERROR_INVALID_VALUE;
	if (!handle_is(HANDLE_CONTEXT, context))
		return CUDA_ERROR_INVALID_CONTEXT;
	return push(context);
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
	TRY(initialised());
	if (!top())
		return CUDA_ERROR_INVALID_CONTEXT;
	stack.depth--;
	if (context)
		*context = stack.contexts[stack.depth];
	return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
	TRY(initialised());
	if (context && !handle_is(HANDLE_CONTEXT, context))
		return CUDA_ERROR_INVALID_CONTEXT;
	check_generation();
	if (stack.depth)
		stack.depth--;
	return context ? push(context) : CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
	TRY(initialised());
	if (!context)
		return CUDA_ERROR_INVALID_VALUE;
	*context = top();
	return CUDA_SUCCESS;
}

/* ---- created contexts ---- */

CUresult cuCtxCreate_v2(CUcontext *created, unsigned int flags, CUdevice device)
{
	struct device *found;
	CUcontext context;
	CUresult result;

	TRY(device_find(device, &found));
	if (!created || flags & ~(unsigned)CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(context_create(device, flags, false, &context));
	result = activate(context);
	if (result == CUDA_SUCCESS)
		result = push(context);
	if (result != CUDA_SUCCESS) {
		context_destroy(context);
		return result;
	}
	*created = context;
	return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v3(CUcontext *created, CUexecAffinityParam *affinity, int count,
	unsigned int flags, CUdevice device)
{
	if (affinity && count)
		return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
	return cuCtxCreate_v2(created, flags, device);
}

CUresult cuCtxCreate_v4(
	CUcontext *created, CUctxCreateParams *params, unsigned int flags, CUdevice device)
{
	if (params && params->cigParams)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (params && params->execAffinityParams && params->numExecAffinityParams)
		return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
	return cuCtxCreate_v2(created, flags, device);
}

CUresult cuCtxDestroy_v2(CUcontext context)
{
	TRY(initialised());
	if (!context)
		return CUDA_ERROR_INVALID_VALUE;
	if (!handle_is(HANDLE_CONTEXT, context) || context->primary)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (top() == context)
		stack.depth--;
	context_destroy(context);
	return CUDA_SUCCESS;
}

CUresult cuCtxAttach(CUcontext *context, unsigned int flags)
{
	if (!context || flags)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(current_context(context));
	(*context)->attached++;
	return CUDA_SUCCESS;
}

CUresult cuCtxDetach(CUcontext context)
{
	TRY(initialised());
	if (!handle_is(HANDLE_CONTEXT, context))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (atomic_load(&context->attached)) {
		context->attached--;
		return CUDA_SUCCESS;
	}
	return cuCtxDestroy_v2(context);
}

/* ---- primary contexts ---- */

/* With the device's lock. */
static CUresult primary_of(struct device *device, CUdevice number, CUcontext *context)
{
	if (!device->primary)
		TRY(context_create(number, device->primary_flags, true, &device->primary));
	*context = device->primary;
	return CUDA_SUCCESS;
}

CUresult primary_handle(CUdevice number, CUcontext *context)
{
	struct device *device;
	CUresult result;

	TRY(device_find(number, &device));
	pthread_mutex_lock(&device->lock);
	result = primary_of(device, number, context);
	pthread_mutex_unlock(&device->lock);
	return result;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice number)
{
	static pthread_mutex_t activation = PTHREAD_MUTEX_INITIALIZER;
	struct device *device;
	CUcontext primary;
	CUresult result;

	if (!context)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(primary_handle(number, &primary));
	TRY(device_find(number, &device));
	pthread_mutex_lock(&activation);
	result = primary->session ? CUDA_SUCCESS : activate(primary);
	pthread_mutex_unlock(&activation);
	if (result != CUDA_SUCCESS)
		return result;
	pthread_mutex_lock(&device->lock);
	device->primary_refs++;
	pthread_mutex_unlock(&device->lock);
	*context = primary;
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice number)
{
	struct device *device;
	CUresult result = CUDA_SUCCESS;
	bool last = false;

	TRY(device_find(number, &device));
	pthread_mutex_lock(&device->lock);
	if (!device->primary || !device->primary_refs)
		result = CUDA_ERROR_INVALID_CONTEXT;
	else
		last = --device->primary_refs == 0;
	pthread_mutex_unlock(&device->lock);
	if (last && device->primary->session)
		deactivate(device->primary);
	return result;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice number)
{
	struct device *device;
	CUcontext primary;

	TRY(device_find(number, &device));
	TRY(primary_handle(number, &primary));
	storage_clear(primary);
	if (primary->session)
		deactivate(primary);
	pthread_mutex_lock(&device->lock);
	device->primary_refs = 0;
	pthread_mutex_unlock(&device->lock);
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice number, unsigned int flags)
{
	struct device *device;

	if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(device_find(number, &device));
	pthread_mutex_lock(&device->lock);
	device->primary_flags = flags;
	if (device->primary)
		device->primary->flags = flags;
	pthread_mutex_unlock(&device->lock);
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice number, unsigned int *flags, int *active)
{
	struct device *device;

	if (!flags || !active)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(device_find(number, &device));
	pthread_mutex_lock(&device->lock);
	*flags = device->primary_flags;
	*active = device->primary && device->primary->session;
	pthread_mutex_unlock(&device->lock);
	return CUDA_SUCCESS;
}

/* ---- what a context says of itself ---- */

CUresult context_synchronise(CUcontext context)
{
	if (context->capturing)
		return capture_refuse_all(context, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	TRY_GDEV(gdev_session_sync(context->session));
	pools_synchronised(context);
	return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
	return cuCtxSynchronize_v2(NULL);
}

CUresult cuCtxSynchronize_v2(CUcontext given)
{
	CUcontext context;

	TRY(context_or_current(given, &context));
	return context_synchronise(context);
}

/* ---- events of a whole context ---- */

/* A stream that has waited for all that was sent to the others. With the context's lock. */
static CUresult join_streams(CUcontext context)
{
	struct gdev_fence fence;
	CUstream stream;

	if (!context->joint)
		TRY_GDEV(gdev_stream_create(context->session, 0, &context->joint));
	list_for_each (stream, &context->streams, link) {
		gdev_stream_fence(stream->stream, &fence);
		TRY_GDEV(gdev_stream_wait(context->joint, &fence));
	}
	return CUDA_SUCCESS;
}

CUresult cuCtxRecordEvent(CUcontext given, CUevent event)
{
	CUcontext context;
	CUresult result;

	TRY(context_or_current(given, &context));
	if (!handle_is(HANDLE_EVENT, event) || event->context != context)
		return CUDA_ERROR_INVALID_HANDLE;
	if (context->capturing)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	pthread_mutex_lock(&context->lock);
	result = join_streams(context);
	if (result == CUDA_SUCCESS)
		result = result_of(gdev_event_record(event->event, context->joint));
	pthread_mutex_unlock(&context->lock);
	if (result == CUDA_SUCCESS)
		atomic_store(&event->recorded, true);
	return result;
}

/* All streams wait for a point of the joint stream, and so does every new one. With the lock. */
static CUresult await(CUcontext context, CUevent event)
{
	CUstream stream;

	if (!context->joint)
		TRY_GDEV(gdev_stream_create(context->session, 0, &context->joint));
	TRY_GDEV(gdev_stream_wait_event(context->joint, event->event));
	gdev_stream_fence(context->joint, &context->awaited);
	list_for_each (stream, &context->streams, link)
		TRY_GDEV(gdev_stream_wait(stream->stream, &context->awaited));
	return CUDA_SUCCESS;
}

CUresult cuCtxWaitEvent(CUcontext given, CUevent event)
{
	CUcontext context;
	CUresult result;

	TRY(context_or_current(given, &context));
	if (!handle_is(HANDLE_EVENT, event))
		return CUDA_ERROR_INVALID_HANDLE;
	if (context->capturing)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (event->context->session != context->session)
		return CUDA_ERROR_NOT_SUPPORTED;
	pthread_mutex_lock(&context->lock);
	result = await(context, event);
	pthread_mutex_unlock(&context->lock);
	return result;
}

/* ---- a share of the multiprocessors, which no context has ---- */

CUresult cuDeviceGetExecAffinitySupport(int *supported, CUexecAffinityType type, CUdevice device)
{
	struct device *found;

	TRY(initialised());
	if (!supported)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(device_find(device, &found));
	*supported = 0;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetExecAffinity(CUexecAffinityParam *affinity, CUexecAffinityType type)
{
	CUcontext context;

	TRY(current_context(&context));
	if (!affinity)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
}

/* ---- more of what a context says of itself ---- */

CUresult cuCtxGetDevice(CUdevice *device)
{
	return cuCtxGetDevice_v2(device, NULL);
}

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext given)
{
	CUcontext context = given;

	TRY(initialised());
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	if (!context)
		context = top();
	if (!handle_is(HANDLE_CONTEXT, context))
		return CUDA_ERROR_INVALID_CONTEXT;
	*device = context->device;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned int *flags)
{
	CUcontext context;

	TRY(current_context(&context));
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = context->flags;
	return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned int flags)
{
	CUcontext context;

	TRY(current_context(&context));
	if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	context->flags = flags;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext given, unsigned long long *id)
{
	CUcontext context;

	TRY(context_or_current(given, &context));
	if (!id)
		return CUDA_ERROR_INVALID_VALUE;
	*id = context->id;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext given, unsigned int *version)
{
	CUcontext context;

	TRY(context_or_current(given, &context));
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = 3020; /* of contexts: what cuCtxCreate_v2 and later make */
	return CUDA_SUCCESS;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
	CUcontext context;

	TRY(current_context(&context));
	if ((unsigned)limit >= CU_LIMIT_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (limit == CU_LIMIT_CIG_ENABLED || limit == CU_LIMIT_SHMEM_SIZE)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!default_limits[limit])
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	pthread_mutex_lock(&context->lock);
	context->limits[limit] = value;
	pthread_mutex_unlock(&context->lock);
	return CUDA_SUCCESS;
}

/* What can be read, and never set. cuBLAS believes that CUDA in graphics is on when it cannot read that it is
 * not, and then finds no kernel that it may use. */
static CUresult fixed_limit(CUcontext context, CUlimit limit, size_t *value)
{
	int shared_bytes;

	if (limit == CU_LIMIT_CIG_ENABLED) {
		*value = 0;
		return CUDA_SUCCESS;
	}
	if (limit != CU_LIMIT_SHMEM_SIZE)
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	TRY(device_attribute(context->device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
		&shared_bytes));
	*value = (size_t)shared_bytes;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
	CUcontext context;

	TRY(current_context(&context));
	if (!value || (unsigned)limit >= CU_LIMIT_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (!default_limits[limit])
		return fixed_limit(context, limit, value);
	pthread_mutex_lock(&context->lock);
	*value = context->limits[limit];
	pthread_mutex_unlock(&context->lock);
	return CUDA_SUCCESS;
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *config)
{
	CUcontext context;

	TRY(current_context(&context));
	if (!config)
		return CUDA_ERROR_INVALID_VALUE;
	*config = context->cache_config;
	return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
	CUcontext context;

	TRY(current_context(&context));
	if ((unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL)
		return CUDA_ERROR_INVALID_VALUE;
	context->cache_config = config;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig *config)
{
	CUcontext context;

	TRY(current_context(&context));
	if (!config)
		return CUDA_ERROR_INVALID_VALUE;
	*config = context->shared_config;
	return CUDA_SUCCESS;
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config)
{
	CUcontext context;

	TRY(current_context(&context));
	if ((unsigned)config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE)
		return CUDA_ERROR_INVALID_VALUE;
	context->shared_config = config;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	CUcontext context;

	TRY(current_context(&context));
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return CUDA_SUCCESS;
}

CUresult cuCtxResetPersistingL2Cache(void)
{
	CUcontext context;

	return current_context(&context);
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
	CUcontext context;

	TRY(current_context(&context));
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (!handle_is(HANDLE_CONTEXT, peer))
		return CUDA_ERROR_INVALID_CONTEXT;
	return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED; /* to oneself as well, says NVIDIA's library */
}

CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
	CUcontext context;

	TRY(current_context(&context));
	if (!handle_is(HANDLE_CONTEXT, peer))
		return CUDA_ERROR_INVALID_CONTEXT;
	return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}
