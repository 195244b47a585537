/* SPDX-License-Identifier: MIT
 *
 * Datablocks (section 4.1.1): one view of contents that are in host memory, in memory of devices, or in both. A view is made when
 * somebody needs the contents there, and not before; a view that is there stays.
 *
 * Contents are written once: by the program before it pushes, by an invocation, by a callback. So who reads needs no lock
 * once they are complete, and two threads that make the same view at once make the same: the second one's is thrown away.
 */
#include <errno.h>
#include <string.h>

#include "lib/ptask/internal.h"

#define SPARE_MAX 64

/* ---- life ---- */

static int records_of(const struct gdev_template *tmpl, uint64_t *records)
{
	uint64_t elements = shape_elements(&tmpl->shape);

	if (tmpl->shape.layout != GDEV_LAYOUT_FIXED)
		return *records <= elements ? 0 : -EINVAL;
	if (*records && *records != elements)
		return -EINVAL;
	*records = elements;
	return 0;
}

static struct gdev_datablock *take_spare(struct gdev_graph *graph)
{
	struct gdev_datablock *block = list_first(&graph->spare, struct gdev_datablock, link);

	if (!block)
		return calloc(1, sizeof *block);
	list_remove(&block->link);
	graph->spare_count--;
	memset(block, 0, sizeof *block);
	return block;
}

int block_create(struct gdev_graph *graph, struct gdev_template *tmpl, uint64_t records,
	struct gdev_datablock **created)
{
	struct gdev_datablock *block;
	int error = records_of(tmpl, &records);

	if (error)
		return error;
	block = take_spare(graph);
	if (!block)
		return -ENOMEM;
	block->graph = graph;
	block->tmpl = tmpl;
	block->refs = 1;
	block->id = ++graph->next_id;
	block->records = records;
	block->bytes = records * tmpl->shape.stride;
	list_append(&graph->blocks, &block->link);
	*created = block;
	return 0;
}

static void block_free(struct gdev_datablock *block)
{
	list_remove(&block->link);
	for (unsigned i = 0; i < DEVICES_MAX; i++)
		if (block->views[i].buffer)
			buffer_give(block->graph, block->views[i].buffer);
	if (block->graph->remote)
		remote_forget(block);
	if (!block->wrapped)
		free(block->host);
	if (block->release)
		block->release(block->argument);
	if (block->graph->spare_count == SPARE_MAX) {
		free(block);
		return;
	}
	list_insert(&block->graph->spare, &block->link);
	block->graph->spare_count++;
}

void blocks_free_spare(struct gdev_graph *graph)
{
	struct gdev_datablock *block, *next;

	list_for_each_safe (block, next, &graph->spare, link)
		free(block);
}

void block_put(struct gdev_datablock *block)
{
	if (atomic_fetch_sub(&block->refs, 1) == 1)
		block_free(block);
}

void gdev_datablock_ref(struct gdev_datablock *block)
{
	atomic_fetch_add(&block->refs, 1);
}

void gdev_datablock_put(struct gdev_datablock *block)
{
	struct gdev_graph *graph;

	if (!block || !graph_is_ours(block->graph))
		return;
	graph = block->graph;
	if (graph->remote) {
		remote_put(block);
		return;
	}
	if (atomic_fetch_sub(&block->refs, 1) > 1)
		return;
	pthread_mutex_lock(&graph->lock);
	block_free(block);
	graph_release(graph);
}

int gdev_datablock_create(struct gdev_graph *graph, struct gdev_template *tmpl, uint64_t records,
	struct gdev_datablock **block)
{
	int error = tmpl->graph == graph ? 0 : -EINVAL;

	if (!error && graph->remote)
		return remote_create(graph, tmpl, records, block);
	if (!error)
		error = graph_enter(graph);
	if (error)
		return error;
	error = block_create(graph, tmpl, records, block);
	graph_leave(graph);
	return error;
}

int gdev_datablock_wrap(struct gdev_graph *graph, struct gdev_template *tmpl, uint64_t records,
	void *memory, void (*release)(void *argument), void *argument,
	struct gdev_datablock **block)
{
	struct gdev_datablock *made;
	int error = graph->remote ? -EPERM
		    : memory      ? gdev_datablock_create(graph, tmpl, records, &made)
				  : -EINVAL;

	if (error)
		return error;
	made->host = memory;
	made->wrapped = made->host_current = true;
	made->release = release;
	made->argument = argument;
	*block = made;
	return 0;
}

uint64_t gdev_datablock_bytes(const struct gdev_datablock *block)
{
	return block->bytes;
}

uint64_t gdev_datablock_records(const struct gdev_datablock *block)
{
	return block->records;
}

/* ---- views of devices ---- */

void block_used(struct gdev_datablock *block, struct point point)
{
	block->views[device_of(point.lane)].buffer->used[point.lane] = point.value;
}

int block_device(const struct gdev_datablock *block)
{
	for (int i = 0; i < DEVICES_MAX; i++)
		if (block->views[i].current)
			return i;
	return -1;
}

struct point block_written(const struct gdev_datablock *block)
{
	int device = block_device(block);

	return device < 0 ? (struct point){0} : block->views[device].written;
}

/* A device from which `device` can copy the contents; -1: there is none. */
static int peer_with(const struct gdev_datablock *block, unsigned device)
{
	const struct device *devices = block->graph->devices;

	for (int i = 0; i < DEVICES_MAX; i++)
		if (block->views[i].current &&
			gdev_peer_can(devices[device].session, devices[i].session))
			return i;
	return -1;
}

bool block_reaches(const struct gdev_datablock *block, unsigned device)
{
	return block->views[device].current || block->host_current || block_device(block) < 0 ||
	       peer_with(block, device) >= 0;
}

/* Page-locked memory is read after an asynchronous copy returns, and might be the program's again by then. */
static bool is_page_locked(struct gdev_session *session, const void *memory)
{
	struct gdev_range range;

	gdev_memory_lookup(session, (uint64_t)memory, &range);
	return range.kind == GDEV_MEMORY_HOST;
}

static int send_to_device(struct gdev_datablock *block, unsigned lane, uint64_t offset,
	const void *from, uint64_t bytes)
{
	struct gdev_graph *graph = block->graph;
	struct gdev_copy copy = gdev_copy_linear(
		block->views[device_of(lane)].buffer->address + offset, (uint64_t)from, bytes);
	struct gdev_stream *stream = graph->lanes[lane].stream;

	return is_page_locked(session_of(graph, lane), from) ? gdev_copy(stream, &copy)
							     : gdev_copy_async(stream, &copy);
}

static int send_between(struct gdev_datablock *block, unsigned from, unsigned lane)
{
	struct gdev_graph *graph = block->graph;
	struct view *source = &block->views[from];
	struct gdev_copy copy = gdev_copy_linear(block->views[device_of(lane)].buffer->address,
		source->buffer->address, block->bytes);
	int error = gdev_peer_map(
		session_of(graph, lane), graph->devices[from].session, source->buffer->address, 0);

	if (!error)
		error = lane_follow(graph, lane, source->written);
	if (!error)
		error = gdev_copy_async(graph->lanes[lane].stream, &copy);
	if (!error)
		source->buffer->used[lane] = lane_end(graph, lane).value;
	return error;
}

/* A buffer for contents that come in the lane. */
static int take_buffer(struct gdev_datablock *block, unsigned lane)
{
	struct view *view = &block->views[device_of(lane)];

	if (view->buffer)
		return 0;
	view->written.lane = lane;
	return buffer_take(block->graph, block->bytes, lane, &view->buffer);
}

void block_sent(struct gdev_datablock *block, unsigned lane)
{
	struct view *view = &block->views[device_of(lane)];

	view->written = lane_end(block->graph, lane);
	view->current = true;
	block_used(block, view->written);
}

static int bring(struct gdev_datablock *block, unsigned for_lane)
{
	unsigned lane = lane_to_bring(block->graph, for_lane, block->bytes);
	int error = gather_send(block, lane);

	if (block->views[device_of(lane)].current)
		return error;
	if (!error)
		error = take_buffer(block, lane);
	if (!error && block->bytes) {
		if (block->host_current)
			error = send_to_device(block, lane, 0, block->host, block->bytes);
		else if (block_device(block) >= 0)
			error = send_between(
				block, (unsigned)peer_with(block, device_of(lane)), lane);
	}
	if (!error)
		block_sent(block, lane);
	return error;
}

int block_on_device(struct gdev_datablock *block, unsigned lane)
{
	unsigned device = device_of(lane);
	int error = block->views[device].current ? 0 : bring(block, lane);

	return error ? error : lane_follow(block->graph, lane, block->views[device].written);
}

/* ---- the host's view ---- */

bool block_complete(struct gdev_datablock *block)
{
	int device = block_device(block);

	return block->host_current || device < 0 ||
	       point_reached(block->graph, block->views[device].written);
}

/* Waits for the point, and says whether all went well. Takes the lock. */
static int wait_for_device(struct gdev_graph *graph, struct point point)
{
	struct gdev_fence fence = point_fence(graph, point);
	int error = gdev_fence_wait(session_of(graph, point.lane), &fence);

	pthread_mutex_lock(&graph->lock);
	if (error)
		graph_fail(graph, error, NULL);
	error = lanes_error(graph);
	pthread_mutex_unlock(&graph->lock);
	return error;
}

/* A view that has the contents, as it is now: another may be made meanwhile. False: there is none. */
static bool find_view(const struct gdev_datablock *block, struct view *view)
{
	int device = block_device(block);

	if (device >= 0)
		*view = block->views[device];
	return device >= 0;
}

/* Without the lock. */
static int copy_from_device(struct gdev_graph *graph, const struct view *view, uint64_t offset,
	void *to, uint64_t bytes)
{
	struct device *device = &graph->devices[device_of(view->written.lane)];
	struct gdev_copy copy =
		gdev_copy_linear((uint64_t)to, view->buffer->address + offset, bytes);
	int error = wait_for_device(graph, view->written);

	return error || !bytes ? error : gdev_copy(device->out, &copy);
}

int block_to_host(struct gdev_datablock *block)
{
	struct gdev_graph *graph = block->graph;
	struct view view;
	void *memory;
	bool copies;
	int error = graph_enter(graph);

	if (error)
		return error;
	copies = find_view(block, &view);
	if (block->host_current) {
		graph_leave(graph);
		return 0;
	}
	graph_leave(graph);
	memory = copies ? malloc(max_of(block->bytes, (uint64_t)1))
			: calloc(1, max_of(block->bytes, (uint64_t)1));
	if (!memory)
		return -ENOMEM;
	error = copies ? copy_from_device(graph, &view, 0, memory, block->bytes) : 0;
	pthread_mutex_lock(&graph->lock);
	if (!error && !block->host_current) {
		void *before = block->host;
		block->host = memory;
		memory = before;
		block->host_current = true;
	}
	graph_leave(graph);
	free(memory);
	return error;
}

/* ---- the program's access ---- */

/* The program has the host memory until the datablock is gone, so that it is not the graph's. If the program changes it, what is under
 * way to a device from there is awaited. */
static int give_to_program(struct gdev_datablock *block, bool write)
{
	struct gdev_graph *graph = block->graph;
	struct point written = {0};
	int error = graph_enter(graph);

	if (error)
		return error;
	error = gather_leave(block);
	if (!error && write) {
		gather_hold(block);
		written = block_written(block);
		for (unsigned i = 0; i < DEVICES_MAX; i++)
			block->views[i].current = false;
	}
	graph_leave(graph);
	return !error && written.value ? wait_for_device(graph, written) : error;
}

int gdev_datablock_map(struct gdev_datablock *block, bool write, void **data)
{
	int error = write && block->pushed ? -EPERM : 0;

	if (!error && block->graph->remote)
		return remote_map(block, write, data);
	if (!error)
		error = block_to_host(block);
	if (!error)
		error = give_to_program(block, write);
	if (!error)
		*data = block->host;
	return error;
}

static bool is_within(const struct gdev_datablock *block, uint64_t offset, uint64_t bytes)
{
	return offset <= block->bytes && bytes <= block->bytes - offset;
}

/* The one device gets the contents at once. All parts of them come in one lane. */
static int write_to_device(
	struct gdev_datablock *block, uint64_t offset, const void *data, uint64_t bytes)
{
	struct gdev_graph *graph = block->graph;
	const struct view *view = &block->views[0];
	unsigned lane;
	int error = graph_enter(graph);

	if (error)
		return error;
	lane = view->buffer ? view->written.lane
			    : lane_to_bring(graph, lane_of_all(graph), block->bytes);
	error = take_buffer(block, lane);
	graph_leave(graph);
	if (!error)
		error = send_to_device(block, lane, offset, data, bytes);
	if (error)
		return error;
	pthread_mutex_lock(&graph->lock);
	block_sent(block, lane);
	graph_leave(graph);
	return 0;
}

/* Writes small contents where they go to the device with others. False: they do not; else *error says how that went. */
static bool write_gathered(
	struct gdev_datablock *block, const void *data, uint64_t bytes, int *error)
{
	struct gdev_graph *graph = block->graph;
	bool taken;

	*error = graph_enter(graph);
	if (*error)
		return true;
	taken = bytes == block->bytes && gather_take(block);
	graph_leave(graph);
	if (!taken)
		return false;
	memcpy(block->host, data, bytes);
	pthread_mutex_lock(&graph->lock);
	gather_written(block);
	graph_leave(graph);
	return true;
}

int gdev_datablock_write(
	struct gdev_datablock *block, uint64_t offset, const void *data, uint64_t bytes)
{
	void *memory;
	int error;

	if (block->pushed)
		return -EPERM;
	if (!is_within(block, offset, bytes))
		return -EINVAL;
	if (!bytes)
		return 0;
	/* Which of several devices takes it is not known yet. */
	if (!block->host_current && !block->graph->remote && block->graph->device_count == 1)
		return write_gathered(block, data, bytes, &error)
			       ? error
			       : write_to_device(block, offset, data, bytes);
	error = gdev_datablock_map(block, true, &memory);
	if (!error)
		memcpy((char *)memory + offset, data, bytes);
	return error;
}

int gdev_datablock_read(struct gdev_datablock *block, uint64_t offset, void *data, uint64_t bytes)
{
	struct gdev_graph *graph = block->graph;
	bool in_host, on_device;
	struct view view;
	void *memory;
	int error;

	if (!is_within(block, offset, bytes))
		return -EINVAL;
	if (graph->remote) {
		error = remote_map(block, false, &memory);
		if (!error)
			memcpy(data, (char *)memory + offset, bytes);
		return error;
	}
	error = graph_enter(graph);
	if (error)
		return error;
	in_host = block->host_current;
	on_device = find_view(block, &view);
	graph_leave(graph);
	if (!in_host && on_device)
		return copy_from_device(graph, &view, offset, data, bytes);
	if (in_host)
		memcpy(data, (char *)block->host + offset, bytes);
	else
		memset(data, 0, bytes);
	return 0;
}
