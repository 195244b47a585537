/* SPDX-License-Identifier: MIT
 *
 * Events.
 */
#include "lib/cuda/exports.h"
#include "lib/cuda/internal.h"

#define FLAGS (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS)

static CUresult check(CUevent event)
{
	TRY(initialised());
	return handle_is(HANDLE_EVENT, event)
		       ? CUDA_SUCCESS
		       : fail(CUDA_ERROR_INVALID_HANDLE, "%p is no living event", (void *)event);
}

CUresult cuEventCreate(CUevent *created, unsigned int flags)
{
	CUcontext context;
	CUevent event;
	CUresult result;

	TRY(current_context(&context));
	if (!created || flags & ~(unsigned)FLAGS)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the pointer for the event is NULL, or flags %#x have bits that mean nothing",
			flags);
	if (flags & CU_EVENT_INTERPROCESS && !(flags & CU_EVENT_DISABLE_TIMING))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"an event between processes cannot take times: CU_EVENT_DISABLE_TIMING "
			"must be set, too");
	TRY(event_create(context, flags, &event));
	result = flags & CU_EVENT_INTERPROCESS ? event_page_create(event) : CUDA_SUCCESS;
	if (result != CUDA_SUCCESS)
		event_release(event);
	else
		*created = event;
	return result;
}

CUresult event_create(CUcontext context, unsigned flags, CUevent *created)
{
	CUevent event;
	CUresult result;

	event = handle_create(HANDLE_EVENT, sizeof *event);
	if (!event)
		return no_memory();
	result = result_of(gdev_event_create(context->session, !(flags & CU_EVENT_DISABLE_TIMING),
				   &event->event),
		"an event cannot be made");
	if (result != CUDA_SUCCESS) {
		handle_destroy(HANDLE_EVENT, event);
		return result;
	}
	event->context = context;
	event->flags = flags;
	pthread_mutex_lock(&context->lock);
	list_append(&context->events, &event->link);
	pthread_mutex_unlock(&context->lock);
	*created = event;
	return CUDA_SUCCESS;
}

void event_release(CUevent event)
{
	CUcontext context = event->context;

	pthread_mutex_lock(&context->lock);
	list_remove(&event->link);
	pthread_mutex_unlock(&context->lock);
	ends_clear(&event->ends);
	event_page_release(event);
	gdev_event_destroy(event->event);
	handle_destroy(HANDLE_EVENT, event);
}

CUresult event_await(CUevent event, struct gdev_session *session, struct gdev_stream *stream)
{
	uint64_t id;

	if (event->context->session == session)
		return result_of(gdev_stream_wait_event(stream, event->event),
			"the stream cannot wait for the event");
	if (!atomic_load(&event->recorded))
		return CUDA_SUCCESS;
	TRY_GDEV(gdev_event_share(event->event, &id), "the event cannot be shared");
	return result_of(gdev_stream_wait_shared(stream, id),
		"the stream cannot wait for the event of another device");
}

CUresult cuEventDestroy_v2(CUevent event)
{
	TRY(check(event));
	event_release(event);
	return CUDA_SUCCESS;
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream handle, unsigned int flags)
{
	CUstream stream;

	TRY(check(event));
	if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
		return fail(
			CUDA_ERROR_INVALID_VALUE, "flags %#x have bits that mean nothing", flags);
	TRY(stream_record(handle, &stream));
	if (stream->context != event->context)
		return fail(CUDA_ERROR_INVALID_HANDLE,
			"the event is of another context than the stream");
	if (stream->capture)
		return capture_event_record(stream, event, flags & CU_EVENT_RECORD_EXTERNAL);
	event->capture_id = 0;
	TRY_GDEV(gdev_event_record(event->event, stream->stream), "the event cannot be recorded");
	atomic_store(&event->recorded, true);
	return event_page_publish(event);
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
	return cuEventRecordWithFlags(event, stream, CU_EVENT_RECORD_DEFAULT);
}

CUresult cuEventQuery(CUevent event)
{
	TRY(check(event));
	TRY(capture_event_look(event));
	if (event_is_foreign(event))
		return event_look_foreign(event, false);
	return result_of(gdev_event_query(event->event), "the event is not reached");
}

CUresult cuEventSynchronize(CUevent event)
{
	TRY(check(event));
	TRY(capture_event_look(event));
	if (event_is_foreign(event))
		return event_look_foreign(event, true);
	return result_of(gdev_event_sync(event->event), "the work before the event failed");
}

CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end)
{
	int64_t ns;

	TRY(check(start));
	TRY(check(end));
	if (!milliseconds) /* as in CUDA */
		return fail(CUDA_ERROR_INVALID_HANDLE, "milliseconds is NULL");
	if ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING ||
		!atomic_load(&start->recorded) || !atomic_load(&end->recorded) ||
		start->context != end->context)
		return fail(CUDA_ERROR_INVALID_HANDLE,
			"an event takes no times, was not recorded, or is of another context "
			"than the other");
	TRY_GDEV(gdev_event_elapsed(start->event, end->event, &ns),
		"the time between the events is not known");
	*milliseconds = (float)((double)ns / 1e6);
	return CUDA_SUCCESS;
}
