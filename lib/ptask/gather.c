/* SPDX-License-Identifier: MIT
 *
 * Small contents that the program writes. A copy of a few KiB to a GPU takes as long as one of a hundred: so their buffers lie beside
 * each other on the device, and are written in page-locked memory in the same places. The first that a ptask needs there takes
 * all along that have been written by then, a copy for those that lie side by side.
 *
 * Until then, and afterwards, the page-locked memory is the datablock's host memory, so that nobody else has to know. A datablock to
 * which the program gets a pointer, or which it keeps when the graph is closed, gets memory of its own instead. A slot is taken
 * again when the device has done all that used its buffer, which the host looks at. Where there is no slot, or the process copies
 * to the device by itself, each datablock is written alone.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ptask/internal.h"

#define SLOT_BYTES 16384u
#define SLOTS 32u

struct gather {
	uint8_t *host;
	uint64_t address;
	uint32_t taken; /* slots that are in use, */
	uint32_t ready; /* and of these, what is written and not sent */
	struct buffer buffers[SLOTS];
	struct gdev_datablock *blocks[SLOTS]; /* of what is ready */
};

static void gather_free(struct device *device, struct gather *gather)
{
	if (gather->host)
		gdev_memory_free(device->session, (uint64_t)gather->host);
	if (gather->address)
		gdev_memory_free(device->session, gather->address);
	free(gather);
}

/* NULL: there is none. It is asked for once. */
static struct gather *gather_of(struct device *device)
{
	struct gather *gather = device->gather;
	void *host;

	if (gather || device->ungathered)
		return gather;
	device->ungathered = true;
	gather = calloc(1, sizeof *gather);
	if (!gather)
		return NULL;
	if (!gdev_host_alloc(device->session, SLOTS * SLOT_BYTES, &host))
		gather->host = host;
	if (!gather->host ||
		gdev_memory_alloc(device->session, SLOTS * SLOT_BYTES, &gather->address)) {
		gather_free(device, gather);
		return NULL;
	}
	for (unsigned i = 0; i < SLOTS; i++) {
		gather->buffers[i].address = gather->address + i * SLOT_BYTES;
		gather->buffers[i].device = (unsigned)(device - device->graph->devices);
		gather->buffers[i].class = BUFFER_GATHERED;
	}
	device->gather = gather;
	return gather;
}

void gather_finish(struct device *device)
{
	if (device->gather)
		gather_free(device, device->gather);
	device->gather = NULL;
}

static uint32_t bit_of(const struct gather *gather, const struct buffer *buffer)
{
	return 1u << (buffer - gather->buffers);
}

/* Whether the device has done all that used it. */
static bool is_done(struct gdev_graph *graph, const struct buffer *buffer)
{
	for (unsigned i = 0; i < graph->lanes_used; i++) {
		struct point point = {.lane = i, .value = buffer->used[i]};
		if (point.value && !point_reached(graph, point))
			return false;
	}
	return true;
}

bool gather_take(struct gdev_datablock *block)
{
	struct gdev_graph *graph = block->graph;
	struct device *device = &graph->devices[0];
	struct gather *gather;

	if (device->direct || !block->bytes || block->bytes > SLOT_BYTES ||
		block->views[0].buffer || gdev_session_is_full(device->session))
		return false;
	gather = gather_of(device);
	for (unsigned i = 0; gather && i < SLOTS; i++) {
		if (gather->taken & 1u << i || !is_done(graph, &gather->buffers[i]))
			continue;
		gather->taken |= 1u << i;
		gather->blocks[i] = block;
		block->views[0].buffer = &gather->buffers[i];
		block->host = gather->host + (size_t)i * SLOT_BYTES;
		block->wrapped = true;
		return true;
	}
	return false;
}

static bool is_gathered(const struct gdev_datablock *block)
{
	const struct buffer *buffer = block->views[0].buffer;

	return buffer && buffer->class == BUFFER_GATHERED;
}

void gather_written(struct gdev_datablock *block)
{
	struct gather *gather = block->graph->devices[0].gather;

	block->host_current = true;
	gather->ready |= bit_of(gather, block->views[0].buffer);
}

void gather_give(struct device *device, struct buffer *buffer)
{
	struct gather *gather = device->gather;
	uint32_t bit = bit_of(gather, buffer);

	gather->taken &= ~bit;
	gather->ready &= ~bit;
}

void gather_hold(struct gdev_datablock *block)
{
	struct gather *gather;

	if (!is_gathered(block))
		return;
	gather = block->graph->devices[0].gather;
	gather->ready &= ~bit_of(gather, block->views[0].buffer);
}

int gather_leave(struct gdev_datablock *block)
{
	void *memory;

	if (!is_gathered(block) || !block->host_current || !block->wrapped)
		return 0;
	memory = malloc(block->bytes);
	if (!memory)
		return -ENOMEM;
	memcpy(memory, block->host, block->bytes);
	block->host = memory;
	block->wrapped = false;
	return 0;
}

/* Those from `first` on that lie side by side, in one copy. The slot after them. */
static int send_run(struct gdev_graph *graph, struct gather *gather, unsigned lane, unsigned first,
	unsigned *end)
{
	struct gdev_copy copy;
	unsigned last = first;
	int error;

	while (last + 1 < SLOTS && gather->ready & 1u << (last + 1))
		last++;
	*end = last + 1;
	copy = gdev_copy_linear(gather->buffers[first].address,
		(uint64_t)gather->host + (uint64_t)first * SLOT_BYTES,
		(uint64_t)(last - first) * SLOT_BYTES + gather->blocks[last]->bytes);
	error = gdev_copy_async(graph->lanes[lane].stream, &copy);
	for (unsigned i = first; i <= last && !error; i++) {
		gather->ready &= ~(1u << i);
		block_sent(gather->blocks[i], lane);
	}
	return error;
}

int gather_send(struct gdev_datablock *block, unsigned lane)
{
	struct gdev_graph *graph = block->graph;
	struct gather *gather;
	unsigned slot = 0;
	int error = 0;

	if (device_of(lane) || !is_gathered(block))
		return 0;
	gather = graph->devices[0].gather;
	if (!(gather->ready & bit_of(gather, block->views[0].buffer)))
		return 0;
	while (slot < SLOTS && !error) {
		if (gather->ready & 1u << slot)
			error = send_run(graph, gather, lane, slot, &slot);
		else
			slot++;
	}
	return error;
}
