/* SPDX-License-Identifier: MIT
 *
 * Device memory of a graph. Freed buffers stay with the graph, by size: the next datablock takes one, and its first command
 * comes after those that have used it. The next datablock gets the one that was freed last, as that is in caches. Double
 * buffering follows from the flow alone: while a buffer is in use by the device another one is taken, up to BUFFERS_LEAST of
 * a size, or as many small ones as are AHEAD_BYTES, and then the longest unused one is waited for, on the device.
 *
 * Classes are quarters of powers of two, so that a datablock wastes at most a fifth of its memory. libgdev carves small
 * buffers out of objects of 2 MiB.
 */
#include <errno.h>

#include "lib/ptask/internal.h"

#define BYTES_LEAST_LOG2 9
#define BUFFERS_LEAST 8
#define BUFFERS_MOST 64
#define AHEAD_BYTES (4ull << 20)

/* The smallest class that has so many bytes. */
static unsigned class_of(uint64_t bytes)
{
	unsigned log2;
	uint64_t quarter;

	if (bytes <= 1ull << BYTES_LEAST_LOG2)
		return 0;
	log2 = 63 - (unsigned)__builtin_clzll(bytes - 1);
	quarter = (bytes - 1) >> (log2 - 2) & 3;
	return (log2 - BYTES_LEAST_LOG2) * 4 + (unsigned)quarter + 1;
}

static uint64_t class_bytes(unsigned class)
{
	return (4ull + class % 4) << (class / 4 + BYTES_LEAST_LOG2 - 2);
}

void buffers_init(struct device *device)
{
	for (unsigned i = 0; i < BUFFER_CLASSES; i++)
		list_init(&device->classes[i].free);
}

/* Gives back what is not in use, which waits for the device. Returns whether there was anything. */
static bool release_free(struct device *device)
{
	struct buffer *buffer, *next;
	bool some = false;

	for (unsigned i = 0; i < BUFFER_CLASSES; i++) {
		list_for_each_safe (buffer, next, &device->classes[i].free, link) {
			list_remove(&buffer->link);
			gdev_memory_free(device->session, buffer->address);
			free(buffer);
			some = true;
		}
		device->classes[i].free_count = 0;
	}
	return some;
}

void buffers_finish(struct device *device)
{
	release_free(device);
}

static int create(struct device *device, unsigned class, struct buffer **created)
{
	struct buffer *buffer = calloc(1, sizeof *buffer);
	int error;

	if (!buffer)
		return -ENOMEM;
	buffer->class = class;
	buffer->device = (unsigned)(device - device->graph->devices);
	error = gdev_memory_alloc(device->session, class_bytes(class), &buffer->address);
	if (error == -ENOMEM && release_free(device))
		error = gdev_memory_alloc(device->session, class_bytes(class), &buffer->address);
	if (error) {
		free(buffer);
		return error;
	}
	*created = buffer;
	return 0;
}

/* Whether the lane's next command may use it without waiting. */
static bool is_idle(struct gdev_graph *graph, const struct buffer *buffer, unsigned lane)
{
	for (unsigned i = 0; i < graph->lanes_used; i++) {
		struct point point = {.lane = i, .value = buffer->used[i]};
		if (i != lane && point.value > graph->lanes[lane].seen[i] &&
			!point_reached(graph, point))
			return false;
	}
	return lane % LANES_A_DEVICE != LANE_IN || !buffer->used[lane] ||
	       point_reached(graph, (struct point){.lane = lane, .value = buffer->used[lane]});
}

/* Among those that were freed last, or the one that was freed first. */
static struct buffer *find_idle(
	struct gdev_graph *graph, const struct buffer_class *class, unsigned lane)
{
	struct buffer *buffer;
	unsigned looked_at = 0;

	list_for_each (buffer, &class->free, link) {
		if (is_idle(graph, buffer, lane))
			return buffer;
		if (++looked_at == BUFFERS_LEAST)
			break;
	}
	if (looked_at < BUFFERS_LEAST)
		return NULL;
	buffer = list_entry(class->free.prev, struct buffer, link);
	return is_idle(graph, buffer, lane) ? buffer : NULL;
}

static unsigned buffers_ahead(unsigned class)
{
	uint64_t count = AHEAD_BYTES / class_bytes(class);

	return (unsigned)min_of(max_of(count, (uint64_t)BUFFERS_LEAST), (uint64_t)BUFFERS_MOST);
}

int used_follow(struct gdev_graph *graph, unsigned lane, const uint64_t used[LANES_MAX])
{
	int error = 0;

	for (unsigned i = 0; i < graph->lanes_used && !error; i++)
		if (used[i] > graph->lanes[lane].seen[i])
			error = lane_follow(
				graph, lane, (struct point){.lane = i, .value = used[i]});
	return error;
}

int buffer_take(struct gdev_graph *graph, uint64_t bytes, unsigned lane, struct buffer **taken)
{
	unsigned index = class_of(bytes);
	struct device *device = &graph->devices[device_of(lane)];
	struct buffer_class *class = &device->classes[index];
	struct buffer *buffer = find_idle(graph, class, lane);
	int error = 0;

	if (!buffer && class->free_count >= buffers_ahead(index))
		buffer = list_entry(class->free.prev, struct buffer, link);
	if (!buffer) {
		error = create(device, index, &buffer);
		if (!error)
			*taken = buffer;
		return error;
	}
	error = used_follow(graph, lane, buffer->used);
	if (error)
		return error;
	list_remove(&buffer->link);
	class->free_count--;
	*taken = buffer;
	return 0;
}

void buffer_give(struct gdev_graph *graph, struct buffer *buffer)
{
	struct device *device = &graph->devices[buffer->device];

	if (buffer->class == BUFFER_GATHERED) {
		gather_give(device, buffer);
		return;
	}
	list_insert(&device->classes[buffer->class].free, &buffer->link);
	device->classes[buffer->class].free_count++;
}
