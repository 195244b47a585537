/* SPDX-License-Identifier: MIT
 *
 * What a context says of itself and is told: limits, flags, what it is made for. And waiting for all of its work, or
 * making all of it wait.
 */
#include <errno.h>
#include <string.h>

#include "lib/cuda/exports.h"
#include "lib/cuda/internal.h"

/* ---- all of its work ---- */

CUresult context_synchronise(CUcontext context)
{
	if (context->capturing)
		return capture_refuse_all(context,
			fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
				"a stream of the context captures, and a capture cannot hold "
				"waiting for all"));
	TRY_GDEV(gdev_session_sync(context->session), "work of the context failed");
	pools_synchronised(context);
	return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
	return cuCtxSynchronize_v2(NULL);
}

/* What waits for all streams of the context, or of the green one. With the context's lock. */
static CUresult joint_of(CUcontext context, CUgreenCtx green, struct gdev_stream **joint)
{
	struct gdev_stream **place = green ? &green->joint : &context->joint;

	if (!*place)
		TRY_GDEV(gdev_stream_create(context->session, 0, place),
			"a stream that waits for all cannot be made");
	*joint = *place;
	return CUDA_SUCCESS;
}

/* A stream that has waited for all that was sent to the others. With the context's lock. */
static CUresult join_streams(CUcontext context, CUgreenCtx green, struct gdev_stream **joint)
{
	struct gdev_fence fence;
	CUstream stream;

	TRY(joint_of(context, green, joint));
	list_for_each (stream, &context->streams, link) {
		if (green && stream->green != green)
			continue;
		gdev_stream_fence(stream->stream, &fence);
		TRY_GDEV(gdev_stream_wait(*joint, &fence),
			"a stream that waits for all cannot wait");
	}
	return CUDA_SUCCESS;
}

static CUresult green_synchronise(CUcontext context, CUgreenCtx green)
{
	struct gdev_stream *joint;
	CUresult result;

	pthread_mutex_lock(&context->lock);
	result = join_streams(context, green, &joint);
	pthread_mutex_unlock(&context->lock);
	TRY(result);
	return result_of(gdev_stream_sync(joint), "work of the green context failed");
}

CUresult cuCtxSynchronize_v2(CUcontext given)
{
	CUcontext context;
	CUgreenCtx green;

	TRY(context_and_green(given, &context, &green));
	return green ? green_synchronise(context, green) : context_synchronise(context);
}

CUresult cuCtxRecordEvent(CUcontext given, CUevent event)
{
	struct gdev_stream *joint;
	CUcontext context;
	CUgreenCtx green;
	CUresult result;

	TRY(context_and_green(given, &context, &green));
	if (!handle_is(HANDLE_EVENT, event) || event->context != context)
		return fail(CUDA_ERROR_INVALID_HANDLE, "%p is no living event of the context",
			(void *)event);
	if (context->capturing)
		return fail(
			CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "a stream of the context captures");
	pthread_mutex_lock(&context->lock);
	result = join_streams(context, green, &joint);
	if (result == CUDA_SUCCESS)
		result = result_of(
			gdev_event_record(event->event, joint), "the event cannot be recorded");
	pthread_mutex_unlock(&context->lock);
	if (result == CUDA_SUCCESS)
		atomic_store(&event->recorded, true);
	return result;
}

/* All streams wait for a point of the joint stream, and so does every new one. With the lock. */
static CUresult await(CUcontext context, CUgreenCtx green, CUevent event)
{
	struct gdev_fence *awaited = green ? &green->awaited : &context->awaited;
	struct gdev_stream *joint;
	CUstream stream;

	TRY(joint_of(context, green, &joint));
	TRY(event_await(event, context->session, joint));
	gdev_stream_fence(joint, awaited);
	list_for_each (stream, &context->streams, link)
		if (!green || stream->green == green)
			TRY_GDEV(gdev_stream_wait(stream->stream, awaited),
				"a stream cannot wait for the event");
	return CUDA_SUCCESS;
}

CUresult cuCtxWaitEvent(CUcontext given, CUevent event)
{
	CUcontext context;
	CUgreenCtx green;
	CUresult result;

	TRY(context_and_green(given, &context, &green));
	if (!handle_is(HANDLE_EVENT, event))
		return fail(CUDA_ERROR_INVALID_HANDLE, "%p is no living event", (void *)event);
	if (context->capturing)
		return fail(
			CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "a stream of the context captures");
	pthread_mutex_lock(&context->lock);
	result = await(context, green, event);
	pthread_mutex_unlock(&context->lock);
	return result;
}

/* ---- a share of the multiprocessors, which no context has ---- */

CUresult cuDeviceGetExecAffinitySupport(int *supported, CUexecAffinityType type, CUdevice device)
{
	struct device *found;

	TRY(initialised());
	if (!supported)
		return fail(CUDA_ERROR_INVALID_VALUE, "supported is NULL");
	TRY(device_find(device, &found));
	*supported = 0;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetExecAffinity(CUexecAffinityParam *affinity, CUexecAffinityType type)
{
	CUcontext context;

	TRY(current_context(&context));
	if (!affinity)
		return fail(CUDA_ERROR_INVALID_VALUE, "affinity is NULL");
	return fail(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY,
		"a context cannot be bound to a part of the multiprocessors here");
}

/* ---- what it is ---- */

CUresult cuCtxGetDevice(CUdevice *device)
{
	return cuCtxGetDevice_v2(device, NULL);
}

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext given)
{
	CUcontext context = given;

	TRY(initialised());
	if (!device)
		return fail(CUDA_ERROR_INVALID_VALUE, "device is NULL");
	if (!context)
		context = context_top();
	if (!handle_is(HANDLE_CONTEXT, context))
		return fail(CUDA_ERROR_INVALID_CONTEXT,
			"no living context was given, and none is current in this thread");
	*device = context->device;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned int *flags)
{
	CUcontext context;

	TRY(current_context(&context));
	if (!flags)
		return fail(CUDA_ERROR_INVALID_VALUE, "flags is NULL");
	*flags = context->flags;
	return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned int flags)
{
	CUcontext context;

	TRY(current_context(&context));
	if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
		return fail(
			CUDA_ERROR_INVALID_VALUE, "flags %#x have bits that mean nothing", flags);
	context->flags = flags;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext given, unsigned long long *id)
{
	CUcontext context;
	CUgreenCtx green;

	TRY(context_and_green(given, &context, &green));
	if (!id)
		return fail(CUDA_ERROR_INVALID_VALUE, "id is NULL");
	*id = green ? green->view->id : context->id;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext given, unsigned int *version)
{
	CUcontext context;

	TRY(context_or_current(given, &context));
	if (!version)
		return fail(CUDA_ERROR_INVALID_VALUE, "version is NULL");
	*version = 3020; /* of contexts: what cuCtxCreate_v2 and later make */
	return CUDA_SUCCESS;
}

/* ---- limits ---- */

static const size_t default_limits[CU_LIMIT_MAX] = {
	[CU_LIMIT_STACK_SIZE] = 1024,
	[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20,
	[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20,
	[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048,
	[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64,
};

void context_reset_limits(CUcontext context)
{
	memcpy(context->limits, default_limits, sizeof default_limits);
}

/* A device that cannot be told keeps its own limits. */
static CUresult tell_limit(CUcontext context, CUlimit limit, size_t value)
{
	int error = 0;

	if (limit == CU_LIMIT_STACK_SIZE)
		error = gdev_session_tune(context->session, GDEV_TUNE_STACK_BYTES, value);
	else if (limit == CU_LIMIT_MALLOC_HEAP_SIZE)
		error = gdev_session_tune(context->session, GDEV_TUNE_HEAP_BYTES, value);
	return error == -ENOSYS ? CUDA_SUCCESS : result_of(error, "the limit cannot be set");
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
	CUcontext context;

	TRY(current_context(&context));
	if ((unsigned)limit >= CU_LIMIT_MAX)
		return fail(CUDA_ERROR_INVALID_VALUE, "%d is no limit", (int)limit);
	if (limit == CU_LIMIT_CIG_ENABLED || limit == CU_LIMIT_SHMEM_SIZE)
		return fail(CUDA_ERROR_NOT_PERMITTED, "this limit can be read, and not set");
	if (!default_limits[limit])
		return fail(CUDA_ERROR_UNSUPPORTED_LIMIT, "limit %d is not there on this device",
			(int)limit);
	TRY(tell_limit(context, limit, value));
	pthread_mutex_lock(&context->lock);
	context->limits[limit] = value;
	pthread_mutex_unlock(&context->lock);
	return CUDA_SUCCESS;
}

/* Values that can be read, and never set. cuBLAS believes that CUDA in graphics is on when it cannot read that it is
 * not, and then finds no kernel that it may use. */
static CUresult fixed_limit(CUcontext context, CUlimit limit, size_t *value)
{
	int shared_bytes;

	if (limit == CU_LIMIT_CIG_ENABLED) {
		*value = 0;
		return CUDA_SUCCESS;
	}
	if (limit != CU_LIMIT_SHMEM_SIZE)
		return fail(CUDA_ERROR_UNSUPPORTED_LIMIT, "limit %d is not there on this device",
			(int)limit);
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
		return fail(
			CUDA_ERROR_INVALID_VALUE, "value is NULL, or %d is no limit", (int)limit);
	if (!default_limits[limit])
		return fixed_limit(context, limit, value);
	pthread_mutex_lock(&context->lock);
	*value = context->limits[limit];
	pthread_mutex_unlock(&context->lock);
	return CUDA_SUCCESS;
}

/* ---- caches, banks, priorities ---- */

CUresult cuCtxGetCacheConfig(CUfunc_cache *config)
{
	CUcontext context;

	TRY(current_context(&context));
	if (!config)
		return fail(CUDA_ERROR_INVALID_VALUE, "config is NULL");
	*config = context->cache_config;
	return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
	CUcontext context;

	TRY(current_context(&context));
	if ((unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL)
		return fail(
			CUDA_ERROR_INVALID_VALUE, "%d is no configuration of caches", (int)config);
	context->cache_config = config;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig *config)
{
	CUcontext context;

	TRY(current_context(&context));
	if (!config)
		return fail(CUDA_ERROR_INVALID_VALUE, "config is NULL");
	*config = context->shared_config;
	return CUDA_SUCCESS;
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config)
{
	CUcontext context;

	TRY(current_context(&context));
	if ((unsigned)config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE)
		return fail(CUDA_ERROR_INVALID_VALUE, "%d is no configuration of shared memory",
			(int)config);
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
