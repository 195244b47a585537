/* SPDX-License-Identifier: MIT
 *
 * Streams, and the semantics of the default stream, which are made here out of waits:
 *   a command on the default (legacy) stream waits for what was sent before on all blocking streams of
 *   the context, and a command on a blocking stream waits for what was sent before on the default stream.
 * Streams remember up to where they have waited, so that nothing is sent when there is nothing new. The
 * per-thread default stream is a blocking stream of its own, made when a thread first names it.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "gdev/error.h"
#include "lib/cuda/exports.h"
#include "lib/cuda/internal.h"

#define PRIORITY_GREATEST (-5)

static _Atomic unsigned long long next_id = 1;

static bool is_blocking(CUstream stream)
{
	return !(stream->flags & CU_STREAM_NON_BLOCKING);
}

/* ---- life ---- */

CUresult stream_create(CUcontext context, CUgreenCtx green, unsigned flags, int priority,
	bool is_default, CUstream *created)
{
	const struct gdev_part part = green ? green->part : (struct gdev_part){0};
	CUstream stream = handle_create(HANDLE_STREAM, sizeof *stream);
	CUresult result;

	if (!stream)
		return no_memory();
	priority = min_of(max_of(priority, PRIORITY_GREATEST), 0);
	result = result_of(gdev_stream_create_on(context->session, priority, part, &stream->stream),
		"a stream cannot be made");
	if (result != CUDA_SUCCESS) {
		handle_destroy(HANDLE_STREAM, stream);
		return result;
	}
	stream->context = context;
	stream->green = green;
	stream->flags = flags;
	stream->priority = priority;
	stream->id = atomic_fetch_add(&next_id, 1);
	stream->is_default = is_default;
	stream->policy.syncPolicy = CU_SYNC_POLICY_AUTO;
	stream->domain_map.memSyncDomainMap = (CUlaunchMemSyncDomainMap){0, 1};
	if (context->awaited.value)
		gdev_stream_wait(stream->stream, &context->awaited);
	if (green && green->awaited.value)
		gdev_stream_wait(stream->stream, &green->awaited);
	pthread_mutex_lock(&context->lock);
	list_append(&context->streams, &stream->link);
	if (context->legacy && is_blocking(stream)) /* the first one is the legacy stream itself */
		context->blocking_streams++;
	pthread_mutex_unlock(&context->lock);
	*created = stream;
	return CUDA_SUCCESS;
}

void stream_release(CUstream stream)
{
	CUcontext context = stream->context;

	pthread_mutex_lock(&context->lock);
	list_remove(&stream->link);
	if (stream != context->legacy && is_blocking(stream))
		context->blocking_streams--;
	pthread_mutex_unlock(&context->lock);
	if (stream->capture)
		capture_stream_gone(stream);
	gate_release(stream->gate);
	pools_leave_stream(stream->stream);
	gdev_stream_destroy(stream->stream);
	handle_destroy(HANDLE_STREAM, stream);
}

/* ---- per-thread default streams ---- */

struct thread_stream {
	unsigned long long context_id;
	CUcontext context;
	CUstream stream;
};

/* The one used last; threads use one context, as a rule. */
static _Thread_local struct thread_stream thread_stream;
static pthread_key_t thread_stream_key;
static pthread_once_t thread_stream_once = PTHREAD_ONCE_INIT;

static void release_thread_stream(void *value)
{
	struct thread_stream *mine = value;

	if (handle_is(HANDLE_CONTEXT, mine->context) && mine->context->id == mine->context_id &&
		handle_is(HANDLE_STREAM, mine->stream) && initialised() == CUDA_SUCCESS)
		stream_release(mine->stream);
	mine->stream = NULL;
}

static void make_key(void)
{
	pthread_key_create(&thread_stream_key, release_thread_stream);
}

static CUresult per_thread_stream(CUcontext context, CUstream *stream)
{
	if (thread_stream.stream && thread_stream.context == context &&
		thread_stream.context_id == context->id) {
		*stream = thread_stream.stream;
		return CUDA_SUCCESS;
	}
	if (thread_stream.stream)
		release_thread_stream(&thread_stream);
	TRY(stream_create(context, NULL, CU_STREAM_DEFAULT, 0, true, stream));
	thread_stream = (struct thread_stream){context->id, context, *stream};
	pthread_once(&thread_stream_once, make_key);
	pthread_setspecific(thread_stream_key, &thread_stream);
	return CUDA_SUCCESS;
}

/* ---- order ---- */

/* Makes `later` wait for what is on `earlier` now, unless it has already. */
static CUresult follow(CUstream later, CUstream earlier, _Atomic uint64_t *seen)
{
	struct gdev_fence fence;

	gdev_stream_fence(earlier->stream, &fence);
	if (atomic_load_explicit(seen, memory_order_relaxed) >= fence.value)
		return CUDA_SUCCESS;
	TRY_GDEV(gdev_stream_wait(later->stream, &fence),
		"the stream cannot wait for the default one");
	atomic_store_explicit(seen, fence.value, memory_order_relaxed);
	return CUDA_SUCCESS;
}

CUstream stream_legacy(CUstream stream)
{
	return stream->green ? stream->green->stream : stream->context->legacy;
}

/* `legacy` is a default stream; those of a green context are apart from the others. */
static CUresult follow_blocking_streams(CUcontext context, CUstream legacy)
{
	CUresult result = CUDA_SUCCESS;
	CUstream stream;

	if (!atomic_load_explicit(&context->blocking_streams, memory_order_relaxed))
		return CUDA_SUCCESS;
	pthread_mutex_lock(&context->lock);
	list_for_each (stream, &context->streams, link)
		if (result == CUDA_SUCCESS && stream != legacy && is_blocking(stream) &&
			stream->green == legacy->green)
			result = follow(legacy, stream, &stream->seen_by_legacy);
	pthread_mutex_unlock(&context->lock);
	return result;
}

/* `context`, and perhaps `green`, are current. */
static inline CUresult resolve(
	CUstream handle, CUcontext context, CUgreenCtx green, CUstream *stream)
{
	if (!handle || handle == CU_STREAM_LEGACY) {
		*stream = green ? green->stream : context->legacy;
		return CUDA_SUCCESS;
	}
	if (handle == CU_STREAM_PER_THREAD && green)
		return fail(CUDA_ERROR_INVALID_HANDLE,
			"threads have no default streams of their own in a green context");
	if (handle == CU_STREAM_PER_THREAD)
		return per_thread_stream(context, stream);
	if (!handle_is(HANDLE_STREAM, handle))
		return fail(CUDA_ERROR_INVALID_HANDLE, "%p is no living stream", (void *)handle);
	if (handle->detached)
		return fail(CUDA_ERROR_CONTEXT_IS_DESTROYED,
			"the green context of the stream was destroyed");
	*stream = handle;
	return CUDA_SUCCESS;
}

CUresult stream_resolve(CUstream handle, CUstream *stream)
{
	CUcontext context;
	CUgreenCtx green;

	TRY(current_and_green(&context, &green));
	return resolve(handle, context, green, stream);
}

static CUresult order(CUstream stream)
{
	CUcontext context = stream->context;
	CUstream legacy = stream_legacy(stream);

	if (stream == legacy) {
		if (atomic_load_explicit(&context->capturing_blocking, memory_order_relaxed))
			return capture_refuse_all(context,
				fail(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
					"a blocking stream of the context captures, with which "
					"the default stream would synchronise"));
		return follow_blocking_streams(context, legacy);
	}
	if (is_blocking(stream))
		return follow(stream, legacy, &stream->legacy_seen);
	return CUDA_SUCCESS;
}

CUresult stream_enter(CUstream handle, CUstream *stream)
{
	TRY(stream_resolve(handle, stream));
	if ((*stream)->capture)
		return capture_refuse(*stream,
			fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
				"the stream captures, and a capture cannot hold this call"));
	return order(*stream);
}

CUresult stream_record_in(CUstream handle, CUcontext context, CUgreenCtx green, CUstream *stream)
{
	TRY(resolve(handle, context, green, stream));
	return (*stream)->capture ? CUDA_SUCCESS : order(*stream);
}

CUresult stream_record(CUstream handle, CUstream *stream)
{
	CUcontext context;
	CUgreenCtx green;

	TRY(current_and_green(&context, &green));
	return stream_record_in(handle, context, green, stream);
}

/* ---- the calls ---- */

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
	CUcontext context;
	CUgreenCtx green;

	TRY(current_and_green(&context, &green));
	if (!stream || flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the pointer for the stream is NULL, or flags %#x have bits that mean nothing",
			flags);
	return stream_create(context, green, flags, priority, false, stream);
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
	return cuStreamCreateWithPriority(stream, flags, 0);
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
	TRY(initialised());
	if (!handle_is(HANDLE_STREAM, stream) || stream->is_default)
		return fail(CUDA_ERROR_INVALID_HANDLE, "%p is no living stream, or a default one",
			(void *)stream);
	if (stream->detached)
		return fail(CUDA_ERROR_CONTEXT_IS_DESTROYED,
			"the green context of the stream was destroyed");
	stream_release(stream);
	return CUDA_SUCCESS;
}

CUresult cuStreamGetPriority(CUstream handle, int *priority)
{
	CUstream stream;

	TRY(stream_resolve(handle, &stream));
	if (!priority)
		return fail(CUDA_ERROR_INVALID_VALUE, "priority is NULL");
	*priority = stream->priority;
	return CUDA_SUCCESS;
}

CUresult cuStreamGetFlags(CUstream handle, unsigned int *flags)
{
	CUstream stream;

	TRY(stream_resolve(handle, &stream));
	if (!flags)
		return fail(CUDA_ERROR_INVALID_VALUE, "flags is NULL");
	*flags = stream->flags;
	return CUDA_SUCCESS;
}

CUresult cuStreamGetId(CUstream handle, unsigned long long *id)
{
	CUstream stream;

	TRY(stream_resolve(handle, &stream));
	if (!id)
		return fail(CUDA_ERROR_INVALID_VALUE, "id is NULL");
	*id = stream->id;
	return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext *context)
{
	CUstream stream;

	TRY(stream_resolve(handle, &stream));
	if (!context)
		return fail(CUDA_ERROR_INVALID_VALUE, "context is NULL");
	*context = stream->green ? stream->green->view : stream->context;
	return CUDA_SUCCESS;
}

CUresult cuStreamGetDevice(CUstream handle, CUdevice *device)
{
	CUstream stream;

	TRY(stream_resolve(handle, &stream));
	if (!device)
		return fail(CUDA_ERROR_INVALID_VALUE, "device is NULL");
	*device = stream->context->device;
	return CUDA_SUCCESS;
}

/* Asking about the default stream is asking about all that it waits for. */
CUresult cuStreamQuery(CUstream handle)
{
	CUstream stream;

	TRY(stream_enter(handle, &stream));
	return result_of(gdev_stream_query(stream->stream), "the stream's work is not done");
}

CUresult cuStreamSynchronize(CUstream handle)
{
	CUstream stream;

	TRY(stream_enter(handle, &stream));
	return result_of(gdev_stream_sync(stream->stream), "the stream's work failed");
}

CUresult cuGdevStreamWait(CUstream handle, uint64_t timeout_ns)
{
	uint64_t now_ns = clock_now_ns();
	CUstream stream;

	TRY(stream_enter(handle, &stream));
	return result_of(gdev_stream_sync_until(
				 stream->stream, now_ns + min_of(timeout_ns, UINT64_MAX - now_ns)),
		"the stream's work failed");
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned int flags)
{
	CUstream stream;

	TRY(stream_resolve(handle, &stream));
	if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
		return fail(
			CUDA_ERROR_INVALID_VALUE, "flags %#x have bits that mean nothing", flags);
	if (!handle_is(HANDLE_EVENT, event))
		return fail(CUDA_ERROR_INVALID_HANDLE, "%p is no living event", (void *)event);
	if (stream->capture || capture_has_event(event))
		return capture_event_wait(stream, event, flags & CU_EVENT_WAIT_EXTERNAL);
	TRY(stream_enter(handle, &stream));
	if (event_is_foreign(event))
		return event_wait_foreign(event, stream);
	return event_await(event, stream->context->session, stream->stream);
}

CUresult cuStreamAttachMemAsync(
	CUstream handle, CUdeviceptr pointer, size_t length, unsigned int flags)
{
	struct allocation allocation;
	struct gdev_range range;
	CUstream stream;

	TRY(stream_resolve(handle, &stream));
	if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
		flags != CU_MEM_ATTACH_SINGLE)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"flags %#x are not one of global, host and single", flags);
	if (!memory_find(pointer, &range, &allocation) || !memory_is_managed(&allocation))
		return fail(CUDA_ERROR_INVALID_VALUE, "%#llx is in no managed memory",
			(unsigned long long)pointer);
	return CUDA_SUCCESS;
}

/* ---- host functions ---- */

struct callback {
	CUstream handle;
	CUstreamCallback callback;
	CUhostFn function;
	void *argument;
};

static void run_callback(void *argument, int error)
{
	struct callback *callback = argument;

	if (callback->callback)
		callback->callback(callback->handle, result_of(error, "the stream's work failed"),
			callback->argument);
	else if (!error) /* a host function does not run after a failure */
		callback->function(callback->argument);
	free(callback);
}

static CUresult enqueue(CUstream stream, struct callback wanted)
{
	struct callback *callback = malloc(sizeof *callback);
	CUresult result;

	if (!callback)
		return no_memory();
	*callback = wanted;
	result = result_of(gdev_stream_call(stream->stream, run_callback, callback),
		"the function cannot be sent");
	if (result != CUDA_SUCCESS)
		free(callback);
	return result;
}

CUresult cuStreamAddCallback(
	CUstream handle, CUstreamCallback callback, void *argument, unsigned int flags)
{
	CUstream stream;

	TRY(stream_enter(handle, &stream));
	if (!callback || flags)
		return fail(CUDA_ERROR_INVALID_VALUE, "the function is NULL, or flags are not 0");
	return enqueue(stream,
		(struct callback){.handle = handle, .callback = callback, .argument = argument});
}

CUresult stream_call(CUstream stream, CUhostFn function, void *argument)
{
	return enqueue(stream, (struct callback){.function = function, .argument = argument});
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void *argument)
{
	CUstream stream;

	TRY(stream_record(handle, &stream));
	if (!function)
		return fail(CUDA_ERROR_INVALID_VALUE, "the function is NULL");
	if (stream->capture)
		return capture_host(stream, function, argument);
	return stream_call(stream, function, argument);
}

/* ---- attributes: hints that change nothing here, but for the priority ---- */

static CUlaunchAttributeValue *attribute_of(CUstream stream, CUstreamAttrID attribute)
{
	switch (attribute) {
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
		return &stream->window;
	case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
		return &stream->policy;
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
		return &stream->domain;
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
		return &stream->domain_map;
	default:
		return NULL;
	}
}

CUresult cuStreamGetAttribute(CUstream handle, CUstreamAttrID attribute, CUstreamAttrValue *value)
{
	const CUlaunchAttributeValue *kept;
	CUstream stream;

	TRY(stream_resolve(handle, &stream));
	if (!value)
		return fail(CUDA_ERROR_INVALID_VALUE, "value is NULL");
	if (attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY) {
		value->priority = stream->priority;
		return CUDA_SUCCESS;
	}
	kept = attribute_of(stream, attribute);
	if (!kept)
		return fail(
			CUDA_ERROR_INVALID_VALUE, "%d is no attribute of streams", (int)attribute);
	*value = *kept;
	return CUDA_SUCCESS;
}

CUresult cuStreamSetAttribute(
	CUstream handle, CUstreamAttrID attribute, const CUstreamAttrValue *value)
{
	CUlaunchAttributeValue *kept;
	CUstream stream;

	TRY(stream_resolve(handle, &stream));
	kept = attribute_of(stream, attribute); /* the priority is the stream's for good */
	if (!value || !kept)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"value is NULL, or attribute %d cannot be set", (int)attribute);
	if (attribute == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY &&
		(value->syncPolicy < CU_SYNC_POLICY_AUTO ||
			value->syncPolicy > CU_SYNC_POLICY_BLOCKING_SYNC))
		return fail(
			CUDA_ERROR_INVALID_VALUE, "%d is no way to wait", (int)value->syncPolicy);
	*kept = *value;
	return CUDA_SUCCESS;
}

CUresult cuStreamCopyAttributes(CUstream to_handle, CUstream from_handle)
{
	CUstream to, from;

	TRY(stream_resolve(to_handle, &to));
	TRY(stream_resolve(from_handle, &from));
	to->window = from->window;
	to->policy = from->policy;
	to->domain = from->domain;
	to->domain_map = from->domain_map;
	return CUDA_SUCCESS;
}
