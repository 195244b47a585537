/* SPDX-License-Identifier: MIT
 *
 * Green contexts: the primary context of a device on a part of its multiprocessors. Modules, memory and events are the primary
 * context's. A green context has a default stream of its own, and streams that are made in it run on its part (stream.c); a
 * CUcontext for it is a view: as the current one it is the primary context, but for what concerns streams.
 *
 * A part is some multiprocessors that follow each other, from a multiple of the device's step on. What CUDA calls a resource is
 * one, of a device, and says so where CUDA's structure leaves room.
 */
#include <string.h>

#include "lib/cuda/exports.h"
#include "lib/cuda/internal.h"
#include "proto/properties.h"

/* In a resource. */
struct mark {
	uint32_t magic, first;
	CUdevice device;
	uint32_t split; /* that it came from; 0: from none */
};

#define MAGIC 0x67726e31u

struct CUdevResourceDesc_st {
	uint32_t handle_word;
	CUdevice device;
	struct gdev_part part;
};

static _Atomic uint32_t splits;

_Static_assert(sizeof(struct mark) <= sizeof((CUdevResource *)NULL)->_internal_padding,
	"CUDA's structure");

/* ---- resources ---- */

static CUresult step_of(CUdevice device, uint32_t *step)
{
	struct device *found;

	TRY(device_find(device, &found));
	TRY(device_property(device, PROPERTY_PART_STEP, step));
	if (!*step)
		return fail(CUDA_ERROR_NOT_SUPPORTED,
			"the device's driver cannot bind work to a part of the multiprocessors");
	return CUDA_SUCCESS;
}

static CUdevResource resource_of(
	CUdevice device, struct gdev_part part, uint32_t step, uint32_t split)
{
	const struct mark mark = {MAGIC, part.first, device, split};
	CUdevResource resource = {.type = CU_DEV_RESOURCE_TYPE_SM, .sm = {part.count, step, step}};

	memcpy(resource._internal_padding, &mark, sizeof mark);
	return resource;
}

/* What the program hands back. */
static CUresult read_resource(
	const CUdevResource *resource, struct mark *mark, struct gdev_part *part)
{
	uint32_t all;

	if (resource->type != CU_DEV_RESOURCE_TYPE_SM)
		return fail(CUDA_ERROR_INVALID_RESOURCE_TYPE,
			"%d is not the type of multiprocessors", (int)resource->type);
	memcpy(mark, resource->_internal_padding, sizeof *mark);
	*part = (struct gdev_part){mark->first, resource->sm.smCount};
	if (mark->magic != MAGIC)
		return fail(CUDA_ERROR_INVALID_VALUE, "no call of CUDA has made the resource");
	TRY(device_property(mark->device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &all));
	if (!part->count || part->first >= all || part->count > all - part->first)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the device has no multiprocessors %u to %u: the resource was changed",
			part->first, part->first + part->count);
	return CUDA_SUCCESS;
}

static CUresult check_type(const CUdevResource *resource, CUdevResourceType type)
{
	if (!resource)
		return fail(CUDA_ERROR_INVALID_VALUE, "resource is NULL");
	if (type != CU_DEV_RESOURCE_TYPE_SM)
		return fail(CUDA_ERROR_INVALID_RESOURCE_TYPE,
			"%d is not the type of multiprocessors", (int)type);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type)
{
	struct gdev_part part = {0};
	uint32_t step;

	TRY(initialised());
	TRY(check_type(resource, type));
	TRY(step_of(device, &step));
	TRY(device_property(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &part.count));
	*resource = resource_of(device, part, step, 0);
	return CUDA_SUCCESS;
}

static CUresult green_resource(CUgreenCtx green, CUdevResource *resource)
{
	uint32_t step;

	TRY(step_of(green->view->device, &step));
	*resource = resource_of(green->view->device, green->part, step, 0);
	return CUDA_SUCCESS;
}

CUresult cuCtxGetDevResource(CUcontext given, CUdevResource *resource, CUdevResourceType type)
{
	CUgreenCtx green;
	CUcontext context;

	TRY(context_and_green(given, &context, &green));
	TRY(check_type(resource, type));
	return green ? green_resource(green, resource)
		     : cuDeviceGetDevResource(context->device, resource, type);
}

/* `count` multiprocessors at least, of a part of so many. */
static uint32_t group_size(uint32_t least, uint32_t step, uint32_t all)
{
	uint32_t size = (least + step - 1) / step * step;

	size = max_of(size, step);
	return size > all && least <= all ? all : size;
}

CUresult cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *count,
	const CUdevResource *input, CUdevResource *remaining, unsigned int flags,
	unsigned int least)
{
	const unsigned known = CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING |
			       CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE;
	struct gdev_part all, group;
	uint32_t step, split, groups;
	struct mark mark;

	TRY(initialised());
	if (!count || !input || flags & ~known)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"nbGroups or input is NULL, or flags %#x have bits that mean nothing",
			flags);
	TRY(read_resource(input, &mark, &all));
	TRY(step_of(mark.device, &step));
	if (mark.split)
		return fail(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION,
			"what a split gave cannot be split again, but for that of a green context");
	if (least > all.count)
		return fail(CUDA_ERROR_INVALID_VALUE, "%u multiprocessors are wanted of %u", least,
			all.count);
	group.count = group_size(least, step, all.count);
	groups = all.count / group.count;
	if (result)
		groups = min_of(groups, *count);
	*count = groups;
	split = atomic_fetch_add(&splits, 1) + 1;
	for (unsigned i = 0; result && i < groups; i++) {
		group.first = all.first + i * group.count;
		result[i] = resource_of(mark.device, group, step, split);
	}
	group.first = all.first + groups * group.count;
	group.count = all.count - groups * group.count;
	if (result && remaining)
		*remaining = group.count ? resource_of(mark.device, group, step, split)
					 : (CUdevResource){.type = CU_DEV_RESOURCE_TYPE_INVALID};
	return CUDA_SUCCESS;
}

/* Adds what follows it, or what it follows. */
static bool grow(struct gdev_part *part, struct gdev_part more)
{
	if (more.first + more.count == part->first)
		part->first = more.first;
	else if (more.first != part->first + part->count)
		return false;
	part->count += more.count;
	return true;
}

CUresult cuDevResourceGenerateDesc(
	CUdevResourceDesc *made, CUdevResource *resources, unsigned int count)
{
	struct CUdevResourceDesc_st *description, wanted;
	struct mark first, mark;
	struct gdev_part part;

	TRY(initialised());
	if (!made || !resources || !count)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the pointer for the descriptor is NULL, or there are no resources");
	TRY(read_resource(&resources[0], &first, &wanted.part));
	for (unsigned i = 1; i < count; i++) {
		TRY(read_resource(&resources[i], &mark, &part));
		if (!first.split || mark.split != first.split || mark.device != first.device)
			return fail(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION,
				"the resources are not of one split");
		if (!grow(&wanted.part, part))
			return fail(CUDA_ERROR_NOT_SUPPORTED,
				"resource %u does not lie next to those before: a part is of "
				"multiprocessors that follow each other",
				i);
	}
	description = handle_create(HANDLE_RESOURCES, sizeof *description);
	if (!description)
		return no_memory();
	description->device = first.device;
	description->part = wanted.part;
	*made = description; /* for good: CUDA has no call that gives it back */
	return CUDA_SUCCESS;
}

/* ---- life ---- */

static CUresult check(CUgreenCtx green)
{
	TRY(initialised());
	if (!handle_is(HANDLE_GREEN, green) || !green->view)
		return fail(
			CUDA_ERROR_INVALID_CONTEXT, "%p is no living green context", (void *)green);
	if (!green->stream)
		return fail(CUDA_ERROR_CONTEXT_IS_DESTROYED,
			"the primary context of the device was reset or released");
	return CUDA_SUCCESS;
}

/* NULL: none of its streams captures. */
static CUstream capturing_stream(CUgreenCtx green)
{
	CUstream stream, found = NULL;

	pthread_mutex_lock(&green->primary->lock);
	list_for_each (stream, &green->primary->streams, link)
		if (stream->green == green && stream->capture)
			found = stream;
	pthread_mutex_unlock(&green->primary->lock);
	return found;
}

/* What it has in the primary context goes; its streams stay, and are of no use. What they capture ends. */
static void leave(CUgreenCtx green)
{
	CUcontext primary = green->primary;
	CUstream stream;

	if (!green->stream)
		return;
	while ((stream = capturing_stream(green)))
		capture_stream_gone(stream);
	stream_release(steal_pointer(&green->stream));
	gdev_stream_destroy(steal_pointer(&green->joint));
	pthread_mutex_lock(&primary->lock);
	list_remove(&green->link);
	list_for_each (stream, &primary->streams, link)
		if (stream->green == green) {
			stream->green = NULL;
			stream->detached = true;
		}
	pthread_mutex_unlock(&primary->lock);
	green->view->session = NULL;
}

void greens_leave_context(CUcontext context)
{
	while (!list_empty(&context->greens))
		leave(list_first(&context->greens, struct CUgreenCtx_st, link));
}

static CUresult make(CUcontext primary, struct gdev_part part, CUgreenCtx *made)
{
	CUgreenCtx green = handle_create(HANDLE_GREEN, sizeof *green);
	CUresult result;

	if (!green)
		return no_memory();
	green->primary = primary;
	green->part = part;
	result = context_view_create(green, &green->view);
	if (result == CUDA_SUCCESS)
		result = stream_create(primary, green, CU_STREAM_DEFAULT, 0, true, &green->stream);
	if (result != CUDA_SUCCESS) {
		if (green->view)
			context_view_destroy(green->view);
		handle_destroy(HANDLE_GREEN, green);
		return result;
	}
	pthread_mutex_lock(&primary->lock);
	list_append(&primary->greens, &green->link);
	pthread_mutex_unlock(&primary->lock);
	*made = green;
	return CUDA_SUCCESS;
}

CUresult cuGreenCtxCreate(
	CUgreenCtx *green, CUdevResourceDesc description, CUdevice device, unsigned int flags)
{
	struct device *found;
	CUcontext primary;
	CUresult result;

	TRY(device_find(device, &found));
	if (!green || flags != CU_GREEN_CTX_DEFAULT_STREAM)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the pointer for the context is NULL, or flags %#x are not "
			"CU_GREEN_CTX_DEFAULT_STREAM",
			flags);
	if (!handle_is(HANDLE_RESOURCES, description) || description->device != device)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"%p is no descriptor of resources of device %d", (void *)description,
			device);
	TRY(cuDevicePrimaryCtxRetain(&primary, device));
	result = make(primary, description->part, green);
	if (result != CUDA_SUCCESS)
		cuDevicePrimaryCtxRelease_v2(device);
	return result;
}

CUresult cuGreenCtxDestroy(CUgreenCtx green)
{
	CUdevice device;
	bool retained;

	TRY(initialised());
	if (!handle_is(HANDLE_GREEN, green))
		return fail(
			CUDA_ERROR_INVALID_CONTEXT, "%p is no living green context", (void *)green);
	device = green->view->device;
	retained = green->stream; /* a reset has given up what was retained */
	leave(green);
	context_view_destroy(green->view);
	handle_destroy(HANDLE_GREEN, green);
	return retained ? cuDevicePrimaryCtxRelease_v2(device) : CUDA_SUCCESS;
}

/* ---- the calls ---- */

CUresult cuGreenCtxGetDevResource(CUgreenCtx green, CUdevResource *resource, CUdevResourceType type)
{
	TRY(check(green));
	TRY(check_type(resource, type));
	return green_resource(green, resource);
}

CUresult cuCtxFromGreenCtx(CUcontext *context, CUgreenCtx green)
{
	TRY(check(green));
	if (!context)
		return fail(CUDA_ERROR_INVALID_VALUE, "context is NULL");
	*context = green->view;
	return CUDA_SUCCESS;
}

CUresult cuGreenCtxRecordEvent(CUgreenCtx green, CUevent event)
{
	TRY(check(green));
	return cuCtxRecordEvent(green->view, event);
}

CUresult cuGreenCtxWaitEvent(CUgreenCtx green, CUevent event)
{
	TRY(check(green));
	return cuCtxWaitEvent(green->view, event);
}

CUresult cuGreenCtxStreamCreate(
	CUstream *stream, CUgreenCtx green, unsigned int flags, int priority)
{
	TRY(check(green));
	if (!stream || flags != CU_STREAM_NON_BLOCKING)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the pointer for the stream is NULL, or flags %#x are not "
			"CU_STREAM_NON_BLOCKING",
			flags);
	return stream_create(green->primary, green, flags, priority, false, stream);
}

CUresult cuGreenCtxGetId(CUgreenCtx given, unsigned long long *id)
{
	CUgreenCtx green = given;
	CUcontext context;

	if (!given) {
		TRY(current_and_green(&context, &green));
		if (!green)
			return fail(
				CUDA_ERROR_INVALID_CONTEXT, "the current context is no green one");
	}
	TRY(check(green));
	if (!id)
		return fail(CUDA_ERROR_INVALID_VALUE, "id is NULL");
	*id = green->view->id;
	return CUDA_SUCCESS;
}

CUresult cuStreamGetGreenCtx(CUstream handle, CUgreenCtx *green)
{
	CUstream stream;

	TRY(stream_resolve(handle, &stream));
	if (!green)
		return fail(CUDA_ERROR_INVALID_VALUE, "the pointer for the context is NULL");
	*green = stream->green;
	return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext *context, CUgreenCtx *green)
{
	CUstream stream;

	TRY(stream_resolve(handle, &stream));
	if (!context || !green)
		return fail(CUDA_ERROR_INVALID_VALUE, "a pointer for a context is NULL");
	*context = stream->context;
	*green = stream->green;
	return CUDA_SUCCESS;
}
