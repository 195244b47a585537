/* SPDX-License-Identifier: MIT
 *
 * Stream capture: a stream that captures writes what it is given into a graph instead of doing it. What it is
 * given next depends on the stream's ends, the nodes that nothing of the stream follows yet. Other streams
 * join by waiting for an event that was recorded in the capture, and must be joined again the same way before
 * it ends, also when they are destroyed before that. What cannot be captured (a synchronisation, a copy that waits) is refused, and the capture is
 * invalid from then on.
 *
 * A capture is used by one thread at a time, as streams of one capture are in CUDA.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/cuda/graph.h"

struct capture {
	struct list link; /* of all captures */
	CUgraph graph;
	bool own_graph; /* not given by the program */
	CUstream origin;
	unsigned long long id;
	CUstreamCaptureMode mode;
	pthread_t thread;
	bool invalid;
	struct list streams; /* that take part, of whatever contexts */
	struct ends left;    /* of streams that were destroyed: to be joined like others */
};

/* Guards what follows, each capture's list of streams, and which capture a stream is in. Taken after a context's lock. */
static pthread_mutex_t *const lock = &process_locks[LOCK_CAPTURES];
static struct list captures = {&captures, &captures};
static unsigned long long next_id = 1;

void captures_forget(void)
{
	list_init(&captures);
}

/* ---- the ends of a stream ---- */

static bool contains(const struct ends *ends, CUgraphNode node)
{
	for (size_t i = 0; i < ends->count; i++)
		if (ends->nodes[i] == node)
			return true;
	return false;
}

static CUresult add_end(struct ends *ends, CUgraphNode node)
{
	CUgraphNode *more;

	if (contains(ends, node))
		return CUDA_SUCCESS;
	more = realloc(ends->nodes, (ends->count + 1) * sizeof *more);
	if (!more)
		return no_memory();
	ends->nodes = more;
	more[ends->count++] = node;
	return CUDA_SUCCESS;
}

static CUresult add_ends(struct ends *ends, const struct ends *more)
{
	for (size_t i = 0; i < more->count; i++)
		TRY(add_end(ends, more->nodes[i]));
	return CUDA_SUCCESS;
}

void ends_clear(struct ends *ends)
{
	free(ends->nodes);
	*ends = (struct ends){0};
}

/* ---- taking part ---- */

/* With the captures' lock. */
static void stream_leave(CUstream stream)
{
	if (!(stream->flags & CU_STREAM_NON_BLOCKING))
		stream->context->capturing_blocking--;
	stream->context->capturing--;
	stream->capture = NULL;
	list_remove(&stream->capture_link);
	ends_clear(&stream->ends);
}

static void stream_join(CUstream stream, struct capture *capture)
{
	if (!(stream->flags & CU_STREAM_NON_BLOCKING))
		stream->context->capturing_blocking++;
	stream->context->capturing++;
	pthread_mutex_lock(lock);
	stream->capture = capture;
	list_append(&capture->streams, &stream->capture_link);
	pthread_mutex_unlock(lock);
}

CUresult capture_refuse(CUstream stream, CUresult result)
{
	if (stream->capture)
		stream->capture->invalid = true;
	return result;
}

CUresult capture_refuse_all(CUcontext context, CUresult result)
{
	CUstream stream;

	pthread_mutex_lock(&context->lock);
	pthread_mutex_lock(lock);
	list_for_each (stream, &context->streams, link)
		capture_refuse(stream, result);
	pthread_mutex_unlock(lock);
	pthread_mutex_unlock(&context->lock);
	return result;
}

static CUgraph dissolve(struct capture *capture, bool good);

/* With the origin goes what it captures. */
void capture_stream_gone(CUstream stream)
{
	struct capture *capture;
	bool is_origin;

	pthread_mutex_lock(lock);
	capture = stream->capture; /* none: another thread has just ended it */
	is_origin = capture && capture->origin == stream;
	if (capture && add_ends(&capture->left, &stream->ends) != CUDA_SUCCESS)
		capture->invalid = true;
	if (capture)
		stream_leave(stream);
	pthread_mutex_unlock(lock);
	if (is_origin)
		dissolve(capture, false);
}

static CUresult check_valid(CUstream stream)
{
	return stream->capture->invalid
		       ? fail(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
				 "the capture has become invalid: a call before did what a "
				 "capture cannot hold")
		       : CUDA_SUCCESS;
}

/* A new node behind the stream's ends, its only end from now on. */
static CUresult append(CUstream stream, CUgraphNodeType type, CUgraphNode *node)
{
	TRY(check_valid(stream));
	TRY(graph_add(stream->capture->graph, type, stream->ends.nodes, stream->ends.count, node));
	if (type != CU_GRAPH_NODE_TYPE_HOST && type != CU_GRAPH_NODE_TYPE_WAIT_EVENT)
		(*node)->home = home_of(stream->context);
	ends_clear(&stream->ends);
	return add_end(&stream->ends, *node);
}

/* A node without its payload does not stay, since the graph may be the program's. */
static CUresult finish(CUstream stream, CUgraphNode node, CUresult result)
{
	if (result == CUDA_SUCCESS)
		return result;
	ends_clear(&stream->ends);
	graph_remove(node);
	return capture_refuse(stream, result);
}

/* ---- what streams are given ---- */

CUresult capture_kernel(CUstream stream, CUfunction function, const CUlaunchConfig *config,
	void **params, void **extra)
{
	CUgraphNode node;

	TRY(append(stream, CU_GRAPH_NODE_TYPE_KERNEL, &node));
	return finish(stream, node, node_set_kernel(node, function, config, params, extra));
}

static CUmemorytype type_of(enum gdev_side side)
{
	return side == GDEV_SIDE_HOST     ? CU_MEMORYTYPE_HOST
	       : side == GDEV_SIDE_DEVICE ? CU_MEMORYTYPE_DEVICE
					  : CU_MEMORYTYPE_UNIFIED;
}

CUresult capture_copy(CUstream stream, const struct gdev_copy *copy)
{
	CUDA_MEMCPY3D params = {
		.srcMemoryType = type_of(copy->source_side),
		.srcHost = (const void *)copy->source,
		.srcDevice = copy->source,
		.srcPitch = copy->source_pitch,
		.dstMemoryType = type_of(copy->destination_side),
		.dstHost = (void *)copy->destination,
		.dstDevice = copy->destination,
		.dstPitch = copy->destination_pitch,
		.WidthInBytes = copy->width,
		.Height = copy->height,
		.Depth = copy->depth,
	};
	CUgraphNode node;

	if (copy->source_pitch)
		params.srcHeight = copy->source_slice / copy->source_pitch;
	if (copy->destination_pitch)
		params.dstHeight = copy->destination_slice / copy->destination_pitch;
	TRY(append(stream, CU_GRAPH_NODE_TYPE_MEMCPY, &node));
	return finish(stream, node, node_set_copy(node, &params));
}

CUresult capture_fill(CUstream stream, const struct gdev_fill *fill)
{
	CUDA_MEMSET_NODE_PARAMS params = {fill->destination, fill->pitch, fill->value,
		fill->element_bytes, fill->width, fill->height};
	CUgraphNode node;

	TRY(append(stream, CU_GRAPH_NODE_TYPE_MEMSET, &node));
	return finish(stream, node, node_set_fill(node, &params));
}

CUresult capture_host(CUstream stream, CUhostFn function, void *argument)
{
	CUgraphNode node;

	TRY(append(stream, CU_GRAPH_NODE_TYPE_HOST, &node));
	node->host = (CUDA_HOST_NODE_PARAMS){function, argument};
	return CUDA_SUCCESS;
}

CUresult capture_memops(
	CUstream stream, const CUstreamBatchMemOpParams *ops, unsigned count, unsigned flags)
{
	CUgraphNode node;

	TRY(append(stream, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, &node));
	return finish(stream, node, node_set_memops(node, stream->context, ops, count, flags));
}

/* The graph's memory, whatever the pool. */
CUresult capture_alloc(CUstream stream, size_t bytes, CUdeviceptr *pointer)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = {.bytesize = bytes};
	CUgraphNode node;

	if (!pointer)
		return capture_refuse(stream, fail(CUDA_ERROR_INVALID_VALUE, "pointer is NULL"));
	if (!bytes) {
		*pointer = 0;
		return check_valid(stream);
	}
	params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	params.poolProps.location.id = stream->context->device;
	TRY(append(stream, CU_GRAPH_NODE_TYPE_MEM_ALLOC, &node));
	TRY(finish(stream, node, node_set_alloc(node, &params)));
	*pointer = params.dptr;
	return CUDA_SUCCESS;
}

CUresult capture_free(CUstream stream, CUdeviceptr pointer)
{
	CUgraphNode node;

	if (!pointer)
		return check_valid(stream);
	TRY(append(stream, CU_GRAPH_NODE_TYPE_MEM_FREE, &node));
	return finish(stream, node, node_set_free(node, pointer));
}

CUresult capture_event_record(CUstream stream, CUevent event, bool external)
{
	CUgraphNode node;

	TRY(check_valid(stream));
	if (external) {
		TRY(append(stream, CU_GRAPH_NODE_TYPE_EVENT_RECORD, &node));
		node->event = event;
		return CUDA_SUCCESS;
	}
	ends_clear(&event->ends);
	TRY(add_ends(&event->ends, &stream->ends));
	event->capture_id = stream->capture->id;
	return CUDA_SUCCESS;
}

/* The capture in which the event was recorded last, if it still goes on. */
static struct capture *capture_of(CUevent event)
{
	struct capture *capture, *found = NULL;

	pthread_mutex_lock(lock);
	list_for_each (capture, &captures, link)
		if (event->capture_id && capture->id == event->capture_id)
			found = capture;
	pthread_mutex_unlock(lock);
	return found;
}

bool capture_has_event(CUevent event)
{
	return capture_of(event);
}

CUresult capture_event_look(CUevent event)
{
	struct capture *capture = capture_of(event);

	if (!capture)
		return CUDA_SUCCESS;
	capture->invalid = true;
	return fail(CUDA_ERROR_CAPTURED_EVENT,
		"the event was recorded last in a capture that goes on; asking about it makes "
		"that capture invalid");
}

CUresult capture_event_wait(CUstream stream, CUevent event, bool external)
{
	struct capture *capture = capture_of(event);
	CUgraphNode node;

	if (external && stream->capture) {
		TRY(append(stream, CU_GRAPH_NODE_TYPE_WAIT_EVENT, &node));
		node->event = event;
		return CUDA_SUCCESS;
	}
	if (!capture) /* and the stream captures: the event is from outside */
		return atomic_load(&event->recorded)
			       ? capture_refuse(stream,
					 fail(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
						 "the event was recorded outside of the "
						 "capture, and a stream that captures cannot wait for it"))
			       : CUDA_SUCCESS;
	if (capture->invalid)
		return fail(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
			"the capture in which the event was recorded has become invalid");
	if (stream == stream_legacy(stream)) {
		capture->invalid = true;
		return fail(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
			"the default stream cannot take part in a capture, which waiting for "
			"the event would make it do");
	}
	if (stream->capture && stream->capture != capture) {
		capture->invalid = true;
		return capture_refuse(
			stream, fail(CUDA_ERROR_STREAM_CAPTURE_MERGE,
					"the stream and the event are of two captures"));
	}
	if (!stream->capture)
		stream_join(stream, capture);
	return add_ends(&stream->ends, &event->ends);
}

/* ---- begin and end ---- */

static CUresult begin(CUstream handle, CUgraph graph, const CUgraphNode *dependencies, size_t count,
	CUstreamCaptureMode mode)
{
	struct capture *capture;
	CUstream stream;

	TRY(stream_resolve(handle, &stream));
	if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return fail(CUDA_ERROR_INVALID_VALUE, "the mode %d is none", (int)mode);
	if (stream == stream_legacy(stream))
		return fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
			"the default stream cannot capture; use a stream that the program made");
	if (stream->capture)
		return capture_refuse(
			stream, fail(CUDA_ERROR_ILLEGAL_STATE, "the stream captures already"));
	capture = calloc(1, sizeof *capture);
	if (!capture)
		return no_memory();
	capture->own_graph = !graph;
	capture->graph = graph;
	if (!graph && graph_create(&capture->graph) != CUDA_SUCCESS) {
		free(capture);
		return no_memory();
	}
	list_init(&capture->streams);
	capture->origin = stream;
	capture->mode = mode;
	capture->thread = pthread_self();
	stream_join(stream, capture);
	pthread_mutex_lock(lock);
	capture->id = next_id++;
	list_append(&captures, &capture->link);
	pthread_mutex_unlock(lock);
	for (size_t i = 0; i < count; i++)
		TRY(add_end(&stream->ends, dependencies[i]));
	return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
	return begin(stream, NULL, NULL, 0, mode);
}

CUresult cuStreamBeginCapture(CUstream stream)
{
	return cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph,
	const CUgraphNode *dependencies, const CUgraphEdgeData *data, size_t count,
	CUstreamCaptureMode mode)
{
	TRY(graph_check(graph));
	if (count && !dependencies)
		return fail(
			CUDA_ERROR_INVALID_VALUE, "dependencies is NULL, and their count is not 0");
	for (size_t i = 0; i < count; i++)
		if (!handle_is(HANDLE_NODE, dependencies[i]) || dependencies[i]->graph != graph)
			return fail(CUDA_ERROR_INVALID_VALUE,
				"dependency %zu is no node of the graph", i);
	return begin(stream, graph, dependencies, count, mode);
}

/* Whether all that other streams did is behind the origin's ends: nothing is an end but these. */
static bool is_followed(const struct capture *capture, CUgraphNode end)
{
	CUgraphNode node;

	if (contains(&capture->origin->ends, end))
		return true;
	list_for_each (node, &capture->graph->nodes, link)
		for (size_t i = 0; i < node->dependency_count; i++)
			if (node->dependencies[i] == end)
				return true;
	return false;
}

static bool are_followed(const struct capture *capture, const struct ends *ends)
{
	for (size_t i = 0; i < ends->count; i++)
		if (!is_followed(capture, ends->nodes[i]))
			return false;
	return true;
}

static bool is_joined(const struct capture *capture)
{
	bool joined = true;
	CUstream stream;

	pthread_mutex_lock(lock);
	list_for_each (stream, &capture->streams, capture_link)
		joined = joined && are_followed(capture, &stream->ends);
	pthread_mutex_unlock(lock);
	return joined && are_followed(capture, &capture->left);
}

/* Lets all streams go; returns the graph, or NULL when it is no good. */
static CUgraph dissolve(struct capture *capture, bool good)
{
	CUgraph graph = capture->graph;

	pthread_mutex_lock(lock);
	list_remove(&capture->link);
	while (!list_empty(&capture->streams))
		stream_leave(list_first(&capture->streams, struct CUstream_st, capture_link));
	pthread_mutex_unlock(lock);
	if (!good) {
		if (capture->own_graph)
			graph_release(graph);
		graph = NULL;
	}
	ends_clear(&capture->left);
	free(capture);
	return graph;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph)
{
	CUresult result = CUDA_SUCCESS;
	struct capture *capture;
	CUstream stream;

	TRY(stream_resolve(handle, &stream));
	capture = stream->capture;
	if (!capture)
		return fail(CUDA_ERROR_ILLEGAL_STATE, "the stream does not capture");
	if (!graph)
		return fail(CUDA_ERROR_INVALID_VALUE, "graph is NULL");
	*graph = NULL;
	if (capture->origin != stream)
		return capture_refuse(
			stream, fail(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
					"the capture began on another stream, and must end there"));
	if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
		!pthread_equal(capture->thread, pthread_self()))
		return fail(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
			"the capture began in another thread, and is not of the relaxed mode");
	if (capture->invalid)
		result = fail(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
			"a call during the capture did what a capture cannot hold");
	else if (!is_joined(capture))
		result = fail(CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
			"a stream that joined the capture was not joined back: the origin does "
			"not wait for its last work");
	*graph = dissolve(capture, result == CUDA_SUCCESS);
	return result;
}

/* ---- questions ---- */

static CUstreamCaptureStatus status_of(CUstream stream)
{
	if (!stream->capture)
		return CU_STREAM_CAPTURE_STATUS_NONE;
	return stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
					: CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status)
{
	CUstream stream;

	TRY(stream_resolve(handle, &stream));
	if (!status)
		return fail(CUDA_ERROR_INVALID_VALUE, "status is NULL");
	if (stream == stream_legacy(stream) && stream->context->capturing_blocking)
		return fail(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
			"a blocking stream of the context captures, with which the default "
			"stream would synchronise");
	*status = status_of(stream);
	return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus *status, uint64_t *id,
	CUgraph *graph, const CUgraphNode **nodes, const CUgraphEdgeData **data, size_t *count)
{
	CUstream stream;

	TRY(stream_resolve(handle, &stream));
	if (!status)
		return fail(CUDA_ERROR_INVALID_VALUE, "status is NULL");
	if (stream == stream_legacy(stream) && stream->context->capturing_blocking)
		return fail(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
			"a blocking stream of the context captures, with which the default "
			"stream would synchronise");
	*status = status_of(stream);
	if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		return CUDA_SUCCESS;
	if (id)
		*id = stream->capture->id;
	if (graph)
		*graph = stream->capture->graph;
	if (nodes)
		*nodes = stream->ends.nodes;
	if (data)
		*data = NULL; /* every edge is the plain one */
	if (count)
		*count = stream->ends.count;
	return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status, uint64_t *id,
	CUgraph *graph, const CUgraphNode **nodes, size_t *count)
{
	return cuStreamGetCaptureInfo_v3(stream, status, id, graph, nodes, NULL, count);
}

CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, uint64_t *id)
{
	return cuStreamGetCaptureInfo_v3(stream, status, id, NULL, NULL, NULL, NULL);
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream handle, CUgraphNode *nodes,
	const CUgraphEdgeData *data, size_t count, unsigned int flags)
{
	CUstream stream;

	TRY(stream_resolve(handle, &stream));
	if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (count && !nodes))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"flags are %#x, or nodes is NULL and their count is not 0", flags);
	if (!stream->capture)
		return fail(CUDA_ERROR_ILLEGAL_STATE, "the stream does not capture");
	TRY(check_valid(stream));
	for (size_t i = 0; i < count; i++)
		if (!handle_is(HANDLE_NODE, nodes[i]) || nodes[i]->graph != stream->capture->graph)
			return fail(CUDA_ERROR_INVALID_VALUE,
				"node %zu is no node of the graph that is captured", i);
	if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
		ends_clear(&stream->ends);
	for (size_t i = 0; i < count; i++)
		TRY(add_end(&stream->ends, nodes[i]));
	return CUDA_SUCCESS;
}

CUresult cuStreamUpdateCaptureDependencies(
	CUstream stream, CUgraphNode *nodes, size_t count, unsigned int flags)
{
	return cuStreamUpdateCaptureDependencies_v2(stream, nodes, NULL, count, flags);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	static _Thread_local CUstreamCaptureMode current = CU_STREAM_CAPTURE_MODE_GLOBAL;
	CUstreamCaptureMode before = current;

	TRY(initialised());
	if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return fail(CUDA_ERROR_INVALID_VALUE, "mode is NULL, or points to no mode");
	current = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}
