/* SPDX-License-Identifier: MIT
 *
 * The reference backend: the least that is a device. Its memory works, copies and fills are executed,
 * launches complete without doing anything, and it accepts any module and any function name. For
 * reading first, and for measuring what everything but the device costs.
 *
 * All queues are one list, and a thread that lends itself executes the first command of it; `busy`
 * keeps a second thread out, so that commands of a queue are done in their order.
 */
#include "device/null/null.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "device/memfd.h"
#include "gdev/error.h"

#define PEERS_NULL 1 /* memory is memfds, which every process can map */

struct device {
	const struct device_host *host;
	pthread_mutex_t lock; /* guards what follows */
	struct device_command *first, **end;
	bool busy;
};

struct device_space {
	struct device *device;
	struct memfd_ranges ranges;
};

struct device_function {
	struct device_function *next;
};

struct device_module {
	pthread_mutex_t lock; /* guards functions */
	struct device_function *functions;
};

struct device_queue {
	struct device *device;
};

static int null_probe(
	const struct device_config *config, struct device_info *infos, size_t capacity)
{
	uint64_t bytes = config->memory_bytes ? config->memory_bytes : memfd_default_bytes();

	if (capacity)
		infos[0] = (struct device_info){.name = "gdev null device",
			.uuid = "gdev-null-device",
			.peers = PEERS_NULL,
			.memory_bytes = bytes,
			.properties = {
				[PROPERTY_MAX_THREADS_PER_BLOCK] = 1024,
				[PROPERTY_MAX_BLOCK_X] = 1024,
				[PROPERTY_MAX_BLOCK_Y] = 1024,
				[PROPERTY_MAX_BLOCK_Z] = 64,
				[PROPERTY_MAX_GRID_X] = 0x7fffffff,
				[PROPERTY_MAX_GRID_Y] = 65535,
				[PROPERTY_MAX_GRID_Z] = 65535,
				[PROPERTY_WARP_SIZE] = 32,
				[PROPERTY_MULTIPROCESSORS] = 1,
				[PROPERTY_COMPUTE_MAJOR] = 9,
			}};
	return 1;
}

static int null_open(
	const struct device_config *config, const struct device_host *host, struct device **out)
{
	struct device *device = calloc(1, sizeof *device);

	if (!device)
		return -ENOMEM;
	device->host = host;
	device->end = &device->first;
	pthread_mutex_init(&device->lock, NULL);
	*out = device;
	return 0;
}

static void null_close(struct device *device)
{
	pthread_mutex_destroy(&device->lock);
	free(device);
}

static uint64_t null_overhead_bytes(struct device *device)
{
	return 0;
}

static int null_space_create(struct device *device, struct device_space **out)
{
	struct device_space *space = calloc(1, sizeof *space);

	if (!space)
		return -ENOMEM;
	space->device = device;
	*out = space;
	return 0;
}

static int null_space_reserve(struct device_space *space, uint64_t base, uint64_t bytes)
{
	return memfd_reserve(&space->ranges, base, bytes);
}

static void null_space_destroy(struct device_space *space)
{
	memfd_release(&space->ranges);
	free(space);
}

static int null_chunk_create(struct device *device, uint64_t bytes, struct device_chunk **chunk)
{
	return memfd_chunk_create(bytes, chunk);
}

static int null_chunk_import(
	struct device *device, int fd, uint64_t bytes, struct device_chunk **chunk)
{
	return memfd_chunk_import(fd, bytes, chunk);
}

static int null_map(
	struct device_space *space, uint64_t address, struct device_chunk *chunk, bool read_only)
{
	return memfd_map(&space->ranges, address, chunk, read_only);
}

static void null_unmap(struct device_space *space, uint64_t address, struct device_chunk *chunk)
{
	memfd_unmap(address, chunk);
}

static int null_module_load(struct device_space *space, const void *image, size_t length,
	struct device_log *log, struct device_module **out)
{
	struct device_module *module = calloc(1, sizeof *module);

	if (!module)
		return -ENOMEM;
	pthread_mutex_init(&module->lock, NULL);
	*out = module;
	return 0;
}

static void null_module_unload(struct device_module *module)
{
	struct device_function *function, *next;

	for (function = module->functions; function; function = next) {
		next = function->next;
		free(function);
	}
	pthread_mutex_destroy(&module->lock);
	free(module);
}

static uint64_t null_module_bytes(struct device_module *module)
{
	return 0;
}

static int null_function_get(
	struct device_module *module, const char *name, struct device_function **out)
{
	struct device_function *function = malloc(sizeof *function);

	if (!function)
		return -ENOMEM;
	pthread_mutex_lock(&module->lock);
	function->next = module->functions;
	module->functions = function;
	pthread_mutex_unlock(&module->lock);
	*out = function;
	return 0;
}

static void null_function_info(struct device_function *function, struct device_function_info *info)
{
	*info = (struct device_function_info){.max_threads = 1024, .registers = 1};
}

static void null_function_param(
	struct device_function *function, unsigned index, uint32_t *offset, uint32_t *bytes)
{
	*offset = *bytes = 0;
}

static uint32_t null_function_occupancy(
	struct device_function *function, uint32_t block_threads, uint32_t shared_bytes)
{
	return 1;
}

static int null_global_get(
	struct device_module *module, const char *name, uint64_t *address, uint64_t *bytes)
{
	return -GDEV_E_SYMBOL_NOT_FOUND;
}

static int null_queue_create(struct device_space *space, int priority, struct device_queue **out)
{
	struct device_queue *queue = malloc(sizeof *queue);

	if (!queue)
		return -ENOMEM;
	queue->device = space->device;
	*out = queue;
	return 0;
}

static void null_queue_destroy(struct device_queue *queue)
{
	free(queue);
}

static void null_submit(struct device_queue *queue, struct device_command *command)
{
	struct device *device = queue->device;

	command->next = NULL;
	pthread_mutex_lock(&device->lock);
	*device->end = command;
	device->end = &command->next;
	pthread_mutex_unlock(&device->lock);
	device->host->kick(device->host->owner);
}

static void copy(const struct device_copy *c)
{
	for (uint64_t z = 0; z < c->depth; z++)
		for (uint64_t y = 0; y < c->height; y++)
			memmove((void *)(c->destination + z * c->destination_slice +
					 y * c->destination_pitch),
				(void *)(c->source + z * c->source_slice + y * c->source_pitch),
				c->width);
}

static void fill(const struct device_fill *f)
{
	for (uint64_t y = 0; y < f->height; y++)
		for (uint64_t x = 0; x < f->width;
			x++) /* little-endian: the value's low bytes come first */
			memcpy((void *)(f->destination + y * f->pitch + x * f->element_bytes),
				&f->value, f->element_bytes);
}

static bool null_work(struct device *device)
{
	struct device_command *command;

	pthread_mutex_lock(&device->lock);
	command = device->busy ? NULL : device->first;
	if (command) {
		device->busy = true;
		device->first = command->next;
		if (!device->first)
			device->end = &device->first;
	}
	pthread_mutex_unlock(&device->lock);
	if (!command)
		return false;
	device_command_start(command, clock_now_ns());
	if (command->kind == DEVICE_COPY)
		copy(&command->copy);
	else if (command->kind == DEVICE_FILL)
		fill(&command->fill);
	command->finished_ns = clock_now_ns();
	command->busy_ns = command->finished_ns - command->started_ns;
	command->done(command, 0);
	pthread_mutex_lock(&device->lock);
	device->busy = false;
	pthread_mutex_unlock(&device->lock);
	return true;
}

const struct device_ops null_device_ops = {
	.name = "null",
	.timing = {.quantum_ns = 2 * NS_PER_MS,
		.idle_ns = {100 * NS_PER_US, 300 * NS_PER_US},
		.window_ns = NS_PER_MS},
	.probe = null_probe,
	.open = null_open,
	.close = null_close,
	.overhead_bytes = null_overhead_bytes,
	.space_create = null_space_create,
	.space_reserve = null_space_reserve,
	.space_destroy = null_space_destroy,
	.grain_bytes = MEMFD_GRAIN,
	.chunk_create = null_chunk_create,
	.chunk_destroy = memfd_chunk_destroy,
	.chunk_export = memfd_chunk_export,
	.chunk_import = null_chunk_import,
	.map = null_map,
	.unmap = null_unmap,
	.chunk_host_fd = memfd_chunk_export,
	.is_host_memory = true,
	.module_load = null_module_load,
	.module_unload = null_module_unload,
	.module_bytes = null_module_bytes,
	.function_get = null_function_get,
	.function_info = null_function_info,
	.function_param = null_function_param,
	.function_occupancy = null_function_occupancy,
	.global_get = null_global_get,
	.queue_create = null_queue_create,
	.queue_destroy = null_queue_destroy,
	.submit = null_submit,
	.work = null_work,
};
