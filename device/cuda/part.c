/* SPDX-License-Identifier: MIT
 *
 * Streams on a part of the multiprocessors: the driver makes them in a green context, which has the same modules and memory
 * as the device's primary one. There is a green context for each part that has queues. The driver numbers no
 * multiprocessors: it splits all of them into groups, always the same ones, and a part is some of these that follow each
 * other.
 */
#include "device/cuda/cuda.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"

struct part {
	struct list link; /* device->parts */
	uint32_t first, count;
	unsigned queues; /* that have streams of it */
	CUgreenCtx green;
};

/* All multiprocessors, in groups of as few as there may be, and those that make no group. */
struct split {
	CUdevResource *groups; /* malloc'ed; then one more, for the rest */
	unsigned count;        /* groups */
	uint32_t step, all;    /* multiprocessors of a group; of the device */
};

static int split_device(const struct driver *driver, CUdevice ordinal, struct split *split)
{
	CUdevResource all;
	CUresult result = CUDA_ERROR_NOT_SUPPORTED;

	*split = (struct split){0};
	if (driver->has_parts)
		result = driver->cuDeviceGetDevResource(ordinal, &all, CU_DEV_RESOURCE_TYPE_SM);
	if (!result)
		result = driver->cuDevSmResourceSplitByCount(
			NULL, &split->count, &all, NULL, 0, all.sm.minSmPartitionSize);
	if (!result && !split->count)
		result = CUDA_ERROR_NOT_SUPPORTED;
	if (result)
		return driver_error(result);
	split->groups = calloc(split->count + 1, sizeof *split->groups);
	if (!split->groups)
		return -ENOMEM;
	result = driver->cuDevSmResourceSplitByCount(split->groups, &split->count, &all,
		&split->groups[split->count], 0, all.sm.minSmPartitionSize);
	if (result) {
		free(steal_pointer(&split->groups));
		return driver_error(result);
	}
	split->step = split->groups[0].sm.smCount;
	split->all = all.sm.smCount;
	return 0;
}

uint32_t part_step(const struct driver *driver, CUdevice ordinal)
{
	struct split split;

	if (split_device(driver, ordinal, &split))
		return 0;
	free(split.groups);
	return split.step;
}

static int make_green(struct device *device, struct part *part)
{
	const struct driver *driver = device->driver;
	CUdevResourceDesc description;
	struct split split;
	CUresult result;
	unsigned first, end;
	bool last;
	int error = split_device(driver, device->ordinal, &split);

	if (error)
		return error;
	if (part->first >= split.all || part->count > split.all - part->first) {
		free(split.groups);
		return -EINVAL;
	}
	first = part->first / split.step;
	end = (part->first + part->count) / split.step;
	last = part->first + part->count == split.all; /* with what makes no group */
	if (last)
		end = split.count + (split.groups[split.count].type == CU_DEV_RESOURCE_TYPE_SM);
	if (part->first % split.step || (part->count % split.step && !last) ||
		part->count < split.step)
		error = -EINVAL;
	else {
		result = driver->cuDevResourceGenerateDesc(
			&description, &split.groups[first], end - first);
		if (!result)
			result = driver->cuGreenCtxCreate(&part->green, description,
				device->ordinal, CU_GREEN_CTX_DEFAULT_STREAM);
		error = driver_error(result);
	}
	free(split.groups);
	return error;
}

/* With device->lock. */
static int part_get(struct device *device, uint32_t first, uint32_t count, struct part **got)
{
	struct part *part;
	int error;

	list_for_each (part, &device->parts, link)
		if (part->first == first && part->count == count) {
			*got = part;
			return 0;
		}
	part = calloc(1, sizeof *part);
	if (!part)
		return -ENOMEM;
	part->first = first;
	part->count = count;
	error = make_green(device, part);
	if (error) {
		free(part);
		return error;
	}
	list_append(&device->parts, &part->link);
	*got = part;
	return 0;
}

/* With device->lock. */
static void part_put(struct device *device, struct part *part)
{
	if (part->queues)
		return;
	list_remove(&part->link);
	device->driver->cuGreenCtxDestroy(part->green);
	free(part);
}

static int open_in_part(struct device_queue *queue)
{
	struct device *device = queue->space->device;
	struct part *part;
	int error;

	pthread_mutex_lock(&device->lock);
	error = part_get(device, queue->part_first, queue->part_count, &part);
	if (!error) {
		error = driver_error(device->driver->cuGreenCtxStreamCreate(
			&queue->stream, part->green, CU_STREAM_NON_BLOCKING, queue->priority));
		if (!error)
			queue->part = part;
		part->queues += !error;
		part_put(device, part);
	}
	pthread_mutex_unlock(&device->lock);
	return error;
}

int queue_open_stream(struct device_queue *queue)
{
	if (queue->part_count)
		return open_in_part(queue);
	return driver_error(queue->space->device->driver->cuStreamCreateWithPriority(
		&queue->stream, CU_STREAM_NON_BLOCKING, queue->priority));
}

void queue_close_stream(struct device_queue *queue)
{
	struct device *device = queue->space->device;
	struct part *part = steal_pointer(&queue->part);

	if (queue->stream)
		device->driver->cuStreamDestroy(steal_pointer(&queue->stream));
	if (!part)
		return;
	pthread_mutex_lock(&device->lock);
	part->queues--;
	part_put(device, part);
	pthread_mutex_unlock(&device->lock);
}

int cuda_queue_bind(struct device_queue *queue, uint32_t first, uint32_t count)
{
	device_enter(queue->space->device);
	queue_close_stream(queue);
	queue->part_first = first;
	queue->part_count = count;
	return queue_open_stream(queue);
}
