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

CUcontext context_top(void)
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
	context_reset_limits(context);
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
	*context = context_top();
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
	if (!context_top())
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
	*context = context_top();
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
	if (context_top() == context)
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
