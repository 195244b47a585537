/* SPDX-License-Identifier: MIT
 *
 * Graphs that the device has as a whole. Each node is a request of its own, which has what it does behind it as a record.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/libgdev/managed.h"
#include "lib/libgdev/module.h"

struct gdev_device_graph {
	struct gdev_session *session;
	uint32_t handle;
};

int gdev_device_graph_begin(struct gdev_session *session, bool from_device, uint64_t handle,
	struct gdev_device_graph **graph)
{
	struct record_graph record = {
		.graph = *graph ? (*graph)->handle : 0,
		.from_device = from_device,
		.handle = handle,
	};
	struct gdev_device_graph *made = *graph ? *graph : calloc(1, sizeof *made);
	struct reply_graph reply = {0};
	int error = made ? gdev_session_error(session, NULL) : -ENOMEM;

	if (!error)
		error = session_request(session, RECORD_GRAPH_BEGIN, &record, sizeof record, NULL,
			0, &reply, sizeof reply, sizeof reply);
	if (error) {
		if (!*graph)
			free(made);
		return error;
	}
	made->session = session;
	made->handle = reply.graph;
	*graph = made;
	return 0;
}

/* does: a record, whose header says how long it is. */
static int send_node(struct gdev_device_graph *graph, const struct record_header *does,
	const uint32_t *after, uint32_t count)
{
	struct record_graph_node record = {.graph = graph->handle, .dependencies = count};
	uint64_t room = align_up((uint64_t)count * sizeof *after, 8);
	autofree uint8_t *tail = NULL;

	if (sizeof record + room + does->length > RECORD_BYTES_MAX)
		return -GDEV_E_OUT_OF_RESOURCES;
	tail = calloc(1, room + does->length);
	if (!tail)
		return -ENOMEM;
	if (count)
		memcpy(tail, after, count * sizeof *after);
	memcpy(tail + room, does, does->length);
	return session_request(graph->session, RECORD_GRAPH_NODE, &record, sizeof record, tail,
		(uint32_t)(room + does->length), NULL, 0, 0);
}

int gdev_device_graph_launch(struct gdev_device_graph *graph, const struct gdev_launch *launch,
	const uint32_t *after, uint32_t count)
{
	autofree struct record_launch *record = NULL;
	int error = launch_record(graph->session, launch, &record);

	return error ? error : send_node(graph, &record->header, after, count);
}

int gdev_device_graph_copy(struct gdev_device_graph *graph, const struct gdev_copy *copy,
	const uint32_t *after, uint32_t count)
{
	struct record_copy record = {
		.header = {.opcode = RECORD_COPY, .length = sizeof record},
		.destination = copy->destination,
		.source = copy->source,
		.width = copy->width,
		.height = copy->height,
		.depth = copy->depth,
		.destination_pitch = copy->destination_pitch,
		.source_pitch = copy->source_pitch,
		.destination_slice = copy->destination_slice,
		.source_slice = copy->source_slice,
	};

	return send_node(graph, &record.header, after, count);
}

int gdev_device_graph_fill(struct gdev_device_graph *graph, const struct gdev_fill *fill,
	const uint32_t *after, uint32_t count)
{
	struct record_fill record = {
		.header = {.opcode = RECORD_FILL, .length = sizeof record},
		.destination = fill->destination,
		.width = fill->width,
		.height = fill->height,
		.pitch = fill->pitch,
		.element_bytes = fill->element_bytes,
		.value = fill->value,
	};

	return send_node(graph, &record.header, after, count);
}

int gdev_device_graph_end(struct gdev_device_graph *graph, uint64_t *handle)
{
	struct record_graph record = {.graph = graph->handle};
	struct reply_graph reply = {0};
	int error = session_request(graph->session, RECORD_GRAPH_END, &record, sizeof record, NULL,
		0, &reply, sizeof reply, sizeof reply);

	if (!error)
		*handle = reply.handle;
	return error;
}

/* Its kernels may use all managed memory. */
int gdev_device_graph_launch_async(
	struct gdev_stream *stream, struct gdev_device_graph *graph, bool upload)
{
	struct gdev_session *session = stream->session;
	struct record_graph_launch *record;
	int entered, error = gdev_session_error(session, NULL);

	if (error)
		return error;
	if (session != graph->session)
		return -EINVAL;
	entered = managed_enter(session, 0, UINT64_MAX);
	error = entered < 0 ? entered
			    : stream_begin(stream, RECORD_GRAPH_LAUNCH, sizeof *record, &record);
	if (!error) {
		record->graph = graph->handle;
		record->upload = upload;
		record_commit(session);
	}
	managed_leave(session, entered);
	return error;
}

void gdev_device_graph_destroy(struct gdev_device_graph *graph, bool gone)
{
	struct record_handle record;

	if (graph && !gone && !session_lost(graph->session)) {
		record = (struct record_handle){.handle = graph->handle};
		session_request(graph->session, RECORD_GRAPH_DESTROY, &record, sizeof record, NULL,
			0, NULL, 0, 0);
	}
	free(graph);
}
