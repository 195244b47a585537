/* SPDX-License-Identifier: MIT
 *
 * The software GPU as a device backend: opening it, address spaces, chunks, and the table by which
 * the registry knows it. The plugin's only exported symbol is here.
 */
#include "device/cpu/cpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "device/cpu/checking/checking.h"
#include "device/cpu/fault.h"
#include "device/cpu/ptx/tensor.h"

extern const struct device_ops gdev_device_backend;

static void slots_finish(struct device *device)
{
	for (unsigned i = 0; i < device->threads; i++)
		cpu_slot_finish(&device->slots[i]);
	free(device->slots);
}

static void device_init(
	struct device *device, const struct device_config *config, const struct device_host *host)
{
	device->host = host;
	device->threads = cpu_thread_count(config);
	device->context_bytes = config->context_bytes;
	pthread_mutex_init(&device->lock, NULL);
	list_init(&device->slots_free);
	list_init(&device->jobs);
	for (int unit = 0; unit < RESOURCES; unit++)
		list_init(&device->runnable[unit]);
}

static void cpu_close(struct device *device)
{
	if (device->slots)
		slots_finish(device);
	cpu_dump_close(device);
	pthread_mutex_destroy(&device->lock);
	free(device);
}

static int cpu_open(
	const struct device_config *config, const struct device_host *host, struct device **out)
{
	struct device *device;
	int error;

	if (config->index > 0)
		return -ENODEV;
	log_init("gdev-cpu", LOG_LEVEL_WARNING); /* a plugin has a log of its own */
	error = fault_init();
	if (error)
		return error;
	device = calloc(1, sizeof *device);
	if (!device)
		return -ENOMEM;
	device_init(device, config, host);
	cpu_dump_open(device);
	device->slots = calloc(device->threads, sizeof *device->slots);
	if (!device->slots) {
		cpu_close(device);
		return -ENOMEM;
	}
	for (unsigned i = 0; i < device->threads; i++) {
		device->slots[i].scratch.pool_thread = i;
		list_append(&device->slots_free, &device->slots[i].free);
	}
	ptx_prepare(); /* a worker opens its device before it has a client */
	*out = device;
	return 0;
}

static uint64_t cpu_overhead_bytes(struct device *device)
{
	return device->context_bytes;
}

static int cpu_space_create(struct device *device, struct device_space **out)
{
	struct device_space *space = calloc(1, sizeof *space);

	if (!space)
		return -ENOMEM;
	space->device = device;
	pthread_mutex_init(&space->heap_lock, NULL);
	space->heap_limit = 8 << 20; /* CUDA's defaults */
	space->stack_bytes = 1 << 10;
	*out = space;
	return 0;
}

static int set_capability(struct device_space *space, unsigned capability)
{
	space->capability = capability;
	return 0;
}

static void cpu_limit(struct device_space *space, enum device_limit which, uint64_t bytes)
{
	bytes = min_of(bytes, (uint64_t)1 << 40); /* there is no more, and sums do not wrap */
	if (which == DEVICE_LIMIT_STACK) {
		atomic_store(&space->stack_bytes, bytes);
		return;
	}
	pthread_mutex_lock(&space->heap_lock);
	space->heap_limit = bytes;
	pthread_mutex_unlock(&space->heap_lock);
}

static int cpu_space_reserve(struct device_space *space, uint64_t base, uint64_t bytes)
{
	return memfd_reserve(&space->ranges, base, bytes);
}

static void cpu_space_destroy(struct device_space *space)
{
	cpu_heap_finish(space);
	checking_destroy(space->checking);
	memfd_release(&space->ranges);
	pthread_mutex_destroy(&space->heap_lock);
	free(space);
}

static int cpu_check_begin(struct device_space *space, uint32_t checks)
{
	return checking_begin(&space->checking, checks);
}

static int cpu_check_add(struct device_space *space, uint64_t base, uint64_t bytes, bool defined)
{
	return checking_add(space->checking, base, bytes, defined);
}

static void cpu_check_remove(struct device_space *space, uint64_t base)
{
	checking_remove(space->checking, base);
}

static int cpu_check_report(struct device_space *space, uint32_t index, struct reply_check *report)
{
	return checking_report(space->checking, index, report);
}

/* There is no context. But a caller that uses the device without one is found out, as on hardware. */
static uint32_t cpu_keeps(struct device_space *space)
{
	return KEPT_BY_NOTHING;
}

static int cpu_retire(struct device_space *space)
{
	atomic_store(&space->device->retired, true);
	return 0;
}

static int cpu_revive(struct device_space *space)
{
	atomic_store(&space->device->retired, false);
	return 0;
}

/* Devices of this backend are parts of one machine, which gdevd alone tells apart. */
static int cpu_rehome(struct device_space *space, unsigned index)
{
	return index ? -ENODEV : 0;
}

static int cpu_chunk_create(struct device *device, uint64_t bytes, struct device_chunk **chunk)
{
	if (atomic_load(&device->retired))
		return -ENODEV;
	return memfd_chunk_create(bytes, chunk);
}

static int cpu_chunk_import(
	struct device *device, int fd, uint64_t bytes, struct device_chunk **chunk)
{
	return memfd_chunk_import(fd, bytes, chunk);
}

static int cpu_map(
	struct device_space *space, uint64_t address, struct device_chunk *chunk, bool read_only)
{
	return memfd_map(&space->ranges, address, chunk, read_only);
}

static void cpu_unmap(struct device_space *space, uint64_t address, struct device_chunk *chunk)
{
	memfd_unmap(address, chunk);
}

static int cpu_tensor_map(struct device *device, const struct record_tensor_map *wanted,
	uint8_t map[TENSOR_MAP_BYTES])
{
	struct tensor tensor;

	if (wanted->mode != TENSOR_MAP_MOVED)
		return tensor_encode(wanted, map);
	memcpy(&tensor, map, sizeof tensor);
	if (tensor.magic != TENSOR_MAGIC || wanted->address % 16)
		return -EINVAL;
	tensor.address = wanted->address;
	memcpy(map, &tensor, sizeof tensor);
	return 0;
}

__attribute__((visibility("default"))) const struct device_ops gdev_device_backend = {
	.name = "cpu",
	.timing =
		{
			.quantum_ns = 2 * NS_PER_MS,
			.switch_ns = {30 * NS_PER_US, 250 * NS_PER_US}, /* messages; caches */
			.idle_ns = {100 * NS_PER_US, 300 * NS_PER_US},
			.window_ns = NS_PER_MS,
		},
	.tells_start = true,
	.probe = cpu_probe,
	.open = cpu_open,
	.close = cpu_close,
	.overhead_bytes = cpu_overhead_bytes,
	.limit = cpu_limit,
	.space_create = cpu_space_create,
	.capability = set_capability,
	.space_reserve = cpu_space_reserve,
	.space_destroy = cpu_space_destroy,
	.grain_bytes = MEMFD_GRAIN,
	.chunk_create = cpu_chunk_create,
	.chunk_destroy = memfd_chunk_destroy,
	.chunk_export = memfd_chunk_export,
	.chunk_import = cpu_chunk_import,
	.map = cpu_map,
	.unmap = cpu_unmap,
	.chunk_host_fd = memfd_chunk_export,
	.is_host_memory = true,
	.module_load = cpu_module_load,
	.module_open = cpu_module_open,
	.module_unload = cpu_module_unload,
	.module_bytes = cpu_module_bytes,
	.module_managed_bytes = cpu_module_managed_bytes,
	.module_place = cpu_module_place,
	.function_get = cpu_function_get,
	.function_info = cpu_function_info,
	.function_param = cpu_function_param,
	.function_occupancy = cpu_function_occupancy,
	.function_clusters = cpu_function_clusters,
	.tensor_map = cpu_tensor_map,
	.function_name = cpu_function_name,
	.global_get = cpu_global_get,
	.global_is_managed = cpu_global_is_managed,
	.image_check = cpu_image_check,
	.check_begin = cpu_check_begin,
	.check_add = cpu_check_add,
	.check_remove = cpu_check_remove,
	.check_report = cpu_check_report,
	.queue_create = cpu_queue_create,
	.queue_destroy = cpu_queue_destroy,
	.queue_bind = cpu_queue_bind,
	.graph_set = cpu_graph_set,
	.graph_destroy = cpu_graph_destroy,
	.submit = cpu_submit,
	.work = cpu_work,
	.pause = cpu_pause,
	.presence = cpu_presence,
	.keeps = cpu_keeps,
	.retire = cpu_retire,
	.revive = cpu_revive,
	.rehome = cpu_rehome,
};
