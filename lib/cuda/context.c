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

#include "lib/cuda/array.h"
#include "lib/cuda/exports.h"
#include "lib/cuda/internal.h"

/* Guards what changes of struct device. */
static pthread_mutex_t *const devices_lock = &process_locks[LOCK_DEVICES];
static pthread_cond_t primary_changed = PTHREAD_COND_INITIALIZER;
/* Guards the list and ids. */
static pthread_mutex_t *const contexts_lock = &process_locks[LOCK_CONTEXTS];
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
	pthread_cond_init(&primary_changed, NULL);
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
	result = stream_create(context, NULL, CU_STREAM_DEFAULT, 0, true, &context->legacy);
	if (result != CUDA_SUCCESS) {
		gdev_session_close(session);
		context->session = NULL;
		return result;
	}
	pthread_mutex_lock(contexts_lock);
	context->id = ++next_id;
	pthread_mutex_unlock(contexts_lock);
	context_reset_limits(context);
	access_new_context(context);
	return CUDA_SUCCESS;
}

/* Destroys everything that was made in the context. Handles that the program still has become invalid. */
static void deactivate(CUcontext context)
{
	struct gdev_session *session = context->session;

	gdev_session_sync(session);
	access_leave_context(context);
	memops_leave_session(session);
	greens_leave_context(context);
	gdev_stream_destroy(context->joint);
	gdev_stream_destroy(context->writer);
	context->joint = context->writer = NULL;
	context->awaited = (struct gdev_fence){0};
	libraries_leave_context(context);
	while (!list_empty(&context->modules))
		module_release(list_first(&context->modules, struct CUmod_st, link));
	while (!list_empty(&context->events))
		event_release(list_first(&context->events, struct CUevent_st, link));
	ipc_release_context(context);
	pools_leave_context(context);
	graph_memory_leave_context(context);
	textures_release_context(context);
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
		return no_memory();
	context->device = device;
	context->flags = flags;
	context->primary = primary;
	pthread_mutex_init(&context->lock, NULL);
	list_init(&context->streams);
	list_init(&context->modules);
	list_init(&context->events);
	list_init(&context->textures);
	list_init(&context->greens);
	pthread_mutex_lock(contexts_lock);
	list_append(&contexts, &context->link);
	pthread_mutex_unlock(contexts_lock);
	*created = context;
	return CUDA_SUCCESS;
}

static void context_destroy(CUcontext context)
{
	if (context->session)
		deactivate(context);
	pthread_mutex_lock(contexts_lock);
	list_remove(&context->link);
	pthread_mutex_unlock(contexts_lock);
	pthread_mutex_destroy(&context->lock);
	handle_destroy(HANDLE_CONTEXT, context);
}

/* ---- the current context ---- */

static CUresult usable(CUcontext context)
{
	if (!handle_is(HANDLE_CONTEXT, context) || !context->session)
		return fail(CUDA_ERROR_CONTEXT_IS_DESTROYED,
			"the context was destroyed, or is a primary context that nobody has retained");
	return CUDA_SUCCESS;
}

/* Of a view the primary context, which is usable as long as the view is. */
static inline CUresult look_behind(CUcontext given, CUcontext *context, CUgreenCtx *green)
{
	TRY(usable(given));
	*green = given->green;
	*context = *green ? (*green)->primary : given;
	return CUDA_SUCCESS;
}

CUresult current_and_green(CUcontext *context, CUgreenCtx *green)
{
	CUcontext top;

	TRY(initialised());
	top = context_top();
	if (!top)
		return fail(CUDA_ERROR_INVALID_CONTEXT,
			"no context is current in this thread: cuCtxSetCurrent or cuCtxCreate "
			"makes one so");
	return look_behind(top, context, green);
}

CUresult current_context(CUcontext *context)
{
	CUgreenCtx green;

	return current_and_green(context, &green);
}

CUresult context_and_green(CUcontext given, CUcontext *context, CUgreenCtx *green)
{
	if (!given)
		return current_and_green(context, green);
	TRY(initialised());
	if (!handle_is(HANDLE_CONTEXT, given))
		return fail(CUDA_ERROR_INVALID_CONTEXT, "%p is no living context", (void *)given);
	return look_behind(given, context, green);
}

CUresult context_or_current(CUcontext given, CUcontext *context)
{
	CUgreenCtx green;

	return context_and_green(given, context, &green);
}

static CUresult make_current(CUcontext context)
{
	check_generation();
	if (stack.depth == CONTEXTS_MAX)
		return fail(CUDA_ERROR_OUT_OF_MEMORY,
			"%d contexts are on the stack of this thread, which is all that it has "
			"room for",
			CONTEXTS_MAX);
	stack.contexts[stack.depth++] = context;
	return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
	TRY(initialised());
	if (!context)
		return fail(CUDA_ERROR_INVALID_VALUE, "context is NULL");
	if (!handle_is(HANDLE_CONTEXT, context))
		return fail(CUDA_ERROR_INVALID_CONTEXT, "%p is no living context", (void *)context);
	return make_current(context);
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
	TRY(initialised());
	if (!context_top())
		return fail(CUDA_ERROR_INVALID_CONTEXT,
			"the stack of contexts of this thread is empty");
	stack.depth--;
	if (context)
		*context = stack.contexts[stack.depth];
	return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
	TRY(initialised());
	if (context && !handle_is(HANDLE_CONTEXT, context))
		return fail(CUDA_ERROR_INVALID_CONTEXT, "%p is no living context", (void *)context);
	check_generation();
	if (stack.depth)
		stack.depth--;
	return context ? make_current(context) : CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
	TRY(initialised());
	if (!context)
		return fail(CUDA_ERROR_INVALID_VALUE, "context is NULL");
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
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the pointer for the context is NULL, or flags %#x have bits that mean nothing",
			flags);
	TRY(context_create(device, flags, false, &context));
	result = activate(context);
	if (result == CUDA_SUCCESS)
		result = make_current(context);
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
		return fail(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY,
			"a context cannot be bound to a part of the multiprocessors here");
	return cuCtxCreate_v2(created, flags, device);
}

CUresult cuCtxCreate_v4(
	CUcontext *created, CUctxCreateParams *params, unsigned int flags, CUdevice device)
{
	if (params && params->cigParams)
		return fail(CUDA_ERROR_NOT_SUPPORTED, "CUDA in graphics is not there");
	if (params && params->execAffinityParams && params->numExecAffinityParams)
		return fail(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY,
			"a context cannot be bound to a part of the multiprocessors here");
	return cuCtxCreate_v2(created, flags, device);
}

CUresult cuCtxDestroy_v2(CUcontext context)
{
	TRY(initialised());
	if (!context)
		return fail(CUDA_ERROR_INVALID_VALUE, "context is NULL");
	if (!handle_is(HANDLE_CONTEXT, context) || context->primary)
		return fail(CUDA_ERROR_INVALID_CONTEXT,
			"%p is no living context, or a primary one, which is released and not "
			"destroyed, or a green one, which cuGreenCtxDestroy destroys",
			(void *)context);
	if (context_top() == context)
		stack.depth--;
	context_destroy(context);
	return CUDA_SUCCESS;
}

CUresult cuCtxAttach(CUcontext *context, unsigned int flags)
{
	if (!context || flags)
		return fail(CUDA_ERROR_INVALID_VALUE, "context is NULL, or flags are not 0");
	TRY(current_context(context));
	(*context)->attached++;
	return CUDA_SUCCESS;
}

CUresult cuCtxDetach(CUcontext context)
{
	TRY(initialised());
	if (!handle_is(HANDLE_CONTEXT, context))
		return fail(CUDA_ERROR_INVALID_CONTEXT, "%p is no living context", (void *)context);
	if (atomic_load(&context->attached)) {
		context->attached--;
		return CUDA_SUCCESS;
	}
	return cuCtxDestroy_v2(context);
}

/* ---- views of green contexts ---- */

CUresult context_view_create(CUgreenCtx green, CUcontext *view)
{
	TRY(context_create(green->primary->device, green->primary->flags, true, view));
	(*view)->green = green;
	(*view)->session = green->primary->session;
	pthread_mutex_lock(contexts_lock);
	(*view)->id = ++next_id;
	pthread_mutex_unlock(contexts_lock);
	return CUDA_SUCCESS;
}

void context_view_destroy(CUcontext view)
{
	view->session = NULL; /* the primary context's */
	context_destroy(view);
}

/* ---- primary contexts ---- */

/* With the devices' lock. */
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
	pthread_mutex_lock(devices_lock);
	result = primary_of(device, number, context);
	pthread_mutex_unlock(devices_lock);
	return result;
}

/* The calling thread is about to make the primary context active, or to end it. Others that want to wait in
 * await_change(). With the devices' lock, which is given up until end_change(). */
static void begin_change(struct device *device)
{
	device->primary_changes = true;
	pthread_mutex_unlock(devices_lock);
}

static void end_change(struct device *device)
{
	pthread_mutex_lock(devices_lock);
	device->primary_changes = false;
	pthread_cond_broadcast(&primary_changed);
}

static void await_change(const struct device *device)
{
	while (device->primary_changes)
		pthread_cond_wait(&primary_changed, devices_lock);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice number)
{
	CUresult result = CUDA_SUCCESS;
	struct device *device;
	CUcontext primary;

	if (!context)
		return fail(CUDA_ERROR_INVALID_VALUE, "context is NULL");
	TRY(primary_handle(number, &primary));
	TRY(device_find(number, &device));
	pthread_mutex_lock(devices_lock);
	await_change(device);
	if (!primary->session) {
		begin_change(device);
		result = activate(primary);
		end_change(device);
	}
	if (result == CUDA_SUCCESS)
		device->primary_refs++;
	pthread_mutex_unlock(devices_lock);
	if (result == CUDA_SUCCESS)
		*context = primary;
	return result;
}

/* With the devices' lock, as begin_change(). */
static void end_primary(struct device *device)
{
	device->primary_refs = 0;
	if (!device->primary->session)
		return;
	begin_change(device);
	deactivate(device->primary);
	end_change(device);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice number)
{
	struct device *device;
	CUresult result = CUDA_SUCCESS;

	TRY(device_find(number, &device));
	pthread_mutex_lock(devices_lock);
	await_change(device);
	if (!device->primary || !device->primary_refs)
		result = fail(CUDA_ERROR_INVALID_CONTEXT,
			"the primary context of the device is not retained");
	else if (--device->primary_refs == 0)
		end_primary(device);
	pthread_mutex_unlock(devices_lock);
	return result;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice number)
{
	struct device *device;
	CUcontext primary;

	TRY(device_find(number, &device));
	TRY(primary_handle(number, &primary));
	storage_clear(primary);
	pthread_mutex_lock(devices_lock);
	await_change(device);
	end_primary(device);
	pthread_mutex_unlock(devices_lock);
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice number, unsigned int flags)
{
	struct device *device;

	if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
		return fail(
			CUDA_ERROR_INVALID_VALUE, "flags %#x have bits that mean nothing", flags);
	TRY(device_find(number, &device));
	pthread_mutex_lock(devices_lock);
	device->primary_flags = flags;
	if (device->primary)
		device->primary->flags = flags;
	pthread_mutex_unlock(devices_lock);
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice number, unsigned int *flags, int *active)
{
	struct device *device;

	if (!flags || !active)
		return fail(CUDA_ERROR_INVALID_VALUE, "flags or active is NULL");
	TRY(device_find(number, &device));
	pthread_mutex_lock(devices_lock);
	*flags = device->primary_flags;
	*active = device->primary && device->primary->session;
	pthread_mutex_unlock(devices_lock);
	return CUDA_SUCCESS;
}
