/* SPDX-License-Identifier: MIT
 *
 * The NVIDIA backend: devices, and the ops table. Called by the worker; see device/ops.h.
 */
#include "device/cuda/cuda.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

/* The highest of CUDA's device attributes that programs ask at start. */
#define LAST_ATTRIBUTE 143
#define MANY_CARDS 64 /* of a machine; others reach themselves alone */

/* Of the device's memory the driver keeps some for itself and for page tables: 0.7 % of an H200's. gdevd's count must
 * come to its end before the driver does. */
#define DRIVER_PART 100

/* What the driver can do with its own managed memory, and with a program's pages, and gdev cannot: the process and the device
 * have managed memory in turn here, and on the bus to page-locked memory an atomic operation of a kernel and one of the
 * processor do not see each other. */
static const enum device_property not_ours[] = {
	PROPERTY_HOST_NATIVE_ATOMICS,
	PROPERTY_PAGEABLE_MEMORY_ACCESS,
	PROPERTY_CONCURRENT_MANAGED_ACCESS,
	PROPERTY_PAGEABLE_BY_HOST_TABLES,
	PROPERTY_DIRECT_MANAGED_ACCESS_FROM_HOST,
};

/* The cards whose memory this one reaches, and that reach its own, by bits; itself among them. */
static uint64_t reached_by(const struct driver *driver, CUdevice ordinal, int count)
{
	uint64_t reached = 1ull << ordinal;

	for (int other = 0; other < count; other++) {
		int there = 0, back = 0;
		if (other != ordinal && !driver->cuDeviceCanAccessPeer(&there, ordinal, other) &&
			there && !driver->cuDeviceCanAccessPeer(&back, other, ordinal) && back)
			reached |= 1ull << other;
	}
	return reached;
}

/* Cards that reach the same ones have the same number, and map each other's memory. It is made of the lowest of their UUIDs,
 * so that it is one whatever the order of the cards is, and is far from those of other backends. */
static uint32_t peers_of(const struct driver *driver, CUdevice ordinal, CUuuid lowest)
{
	uint32_t hash = 2166136261;
	int count = 0;

	driver->cuDeviceGetCount(&count);
	count = min_of(count, MANY_CARDS);
	for (int other = 0; ordinal < count && other < count; other++) {
		CUuuid uuid;
		if (reached_by(driver, other, count) == reached_by(driver, ordinal, count) &&
			!driver->cuDeviceGetUuid(&uuid, other) &&
			memcmp(&uuid, &lowest, sizeof uuid) < 0)
			lowest = uuid;
	}
	for (size_t i = 0; i < sizeof lowest.bytes; i++)
		hash = (hash ^ (uint8_t)lowest.bytes[i]) * 16777619;
	return hash | 1u << 31;
}

static void describe(const struct driver *driver, CUdevice ordinal, struct device_info *info)
{
	size_t bytes = 0;
	CUuuid uuid = {0};

	memset(info, 0, sizeof *info);
	driver->cuDeviceGetName(info->name, sizeof info->name, ordinal);
	driver->cuDeviceGetUuid(&uuid, ordinal);
	memcpy(info->uuid, &uuid, sizeof info->uuid);
	info->peers = peers_of(driver, ordinal, uuid);
	driver->cuDeviceTotalMem(&bytes, ordinal);
	info->memory_bytes = bytes - bytes / DRIVER_PART;
	for (int i = 1; i <= LAST_ATTRIBUTE; i++)
		if (driver->cuDeviceGetAttribute(
			    &info->properties[i], (CUdevice_attribute)i, ordinal))
			info->properties[i] = 0;
	for (size_t i = 0; i < array_length(not_ours); i++)
		info->properties[not_ours[i]] = 0;
	info->properties[PROPERTY_DRIVER_TEXTURES] = 1;
	info->properties[PROPERTY_PART_STEP] = (int32_t)part_step(driver, ordinal);
}

unsigned device_capability(const struct driver *driver, CUdevice ordinal)
{
	int major = 0, minor = 0;

	driver->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, ordinal);
	driver->cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, ordinal);
	return (unsigned)(10 * major + minor);
}

static int cuda_probe(
	const struct device_config *config, struct device_info *infos, size_t capacity)
{
	const struct driver *driver = driver_get();
	int count = 0;

	if (!driver || driver->cuDeviceGetCount(&count))
		return 0;
	for (int i = 0; i < count && (size_t)i < capacity; i++)
		describe(driver, i, &infos[i]);
	return count;
}

static bool is_lazy(const struct driver *driver)
{
	CUmoduleLoadingMode mode;

	return !driver->cuModuleGetLoadingMode(&mode) && mode == CU_MODULE_LAZY_LOADING;
}

static int cuda_open(
	const struct device_config *config, const struct device_host *host, struct device **out)
{
	const char *batch = secure_getenv("GDEV_CUDA_BATCH");
	const struct driver *driver = driver_get();
	struct device *device;
	int error;

	if (!driver)
		return -ENODEV;
	device = aligned_alloc(CACHE_LINE, sizeof *device);
	if (!device)
		return -ENOMEM;
	memset(device, 0, sizeof *device);
	device->driver = driver;
	device->host = host;
	device->one_by_one = batch && !strcmp(batch, "0");
	pthread_mutex_init(&device->lock, NULL);
	pthread_mutex_init(&device->poll_lock, NULL);
	list_init(&device->busy);
	list_init(&device->parts);
	for (uint32_t i = 0; i < COMPLETION_WORDS; i++)
		device->free_words[i] = COMPLETION_WORDS - 1 - i;
	device->free_word_count = COMPLETION_WORDS - 1; /* without START_WORD, the last of them */
	error = print_catch(device);
	if (error)
		goto err_free;
	error = driver_error(driver->cuDeviceGet(&device->ordinal, (int)config->index));
	if (!error) {
		int multiprocessors = 1, most_shared = 0;
		device->capability = device_capability(driver, device->ordinal);
		driver->cuDeviceGetAttribute(&multiprocessors,
			CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device->ordinal);
		device->multiprocessors = (uint32_t)max_of(multiprocessors, 1);
		driver->cuDeviceGetAttribute(&most_shared,
			(CUdevice_attribute)PROPERTY_MAX_SHARED_BYTES_PER_BLOCK_OPTIN,
			device->ordinal);
		device->most_shared = (uint32_t)most_shared;
		device->pins_arrays = arrays_are_pinned(driver, device->ordinal);
		error = context_open(device);
	}
	if (error)
		goto err_print;
	error = issuer_start(device);
	if (error)
		goto err_context;
	device->lazy = is_lazy(driver);
	batches_take_memory(device);
	device->overhead_bytes = footprint_bytes(device);
	*out = device;
	return 0;
err_context:
	context_close(device);
err_print:
	print_release(device);
err_free:
	pthread_mutex_destroy(&device->poll_lock);
	pthread_mutex_destroy(&device->lock);
	free(device);
	return error;
}

void device_spent(const char *step, uint64_t begin_ns)
{
	log_debug("%s took %llu ns", step, (unsigned long long)(clock_now_ns() - begin_ns));
}

static void cuda_close(struct device *device)
{
	issuer_stop(device);
	if (context_is_open(device))
		context_close(device);
	preempt_destroy(device);
	print_release(device);
	pthread_mutex_destroy(&device->poll_lock);
	pthread_mutex_destroy(&device->lock);
	free(device);
}

static uint64_t cuda_overhead_bytes(struct device *device)
{
	return device->overhead_bytes;
}

static int cuda_free_bytes(struct device *device, uint64_t *bytes)
{
	size_t free_bytes, total_bytes;
	CUresult result = device_enter(device)->cuMemGetInfo(&free_bytes, &total_bytes);

	if (!result)
		*bytes = free_bytes;
	return driver_error(result);
}

extern const struct device_ops gdev_device_backend;
__attribute__((visibility("default"))) const struct device_ops gdev_device_backend = {
	.name = "cuda",
	.timing =
		{
			.quantum_ns = 5 * NS_PER_MS,
			.switch_ns = {150 * NS_PER_US,
				150 * NS_PER_US}, /* its contexts: results/sharing.md */
			.idle_ns = {100 * NS_PER_US, 100 * NS_PER_US},
			.window_ns = NS_PER_MS,
			.look_ns = 2 * NS_PER_MS,
			.ahead_ns =
				60 *
				NS_PER_US, /* until the other has seen it, and its command is there */
		},
	.opens_files = true,
	.piece_bytes = 32 << 20,
	.staging_bytes = 64 << 20,
	.probe = cuda_probe,
	.open = cuda_open,
	.close = cuda_close,
	.overhead_bytes = cuda_overhead_bytes,
	.free_bytes = cuda_free_bytes,
	.space_create = cuda_space_create,
	.space_reserve = cuda_space_reserve,
	.space_destroy = cuda_space_destroy,
	.chunk_create = cuda_chunk_create,
	.chunk_destroy = cuda_chunk_destroy,
	.chunk_export = cuda_chunk_export,
	.chunk_import = cuda_chunk_import,
	.map = cuda_map,
	.unmap = cuda_unmap,
	.host_register = cuda_host_register,
	.host_unregister = cuda_host_unregister,
	.module_load = cuda_module_load,
	.module_open = cuda_module_open,
	.module_unload = cuda_module_unload,
	.module_bytes = cuda_module_bytes,
	.module_lighten = cuda_module_lighten,
	.module_managed_bytes = cuda_module_managed_bytes,
	.module_wants_text = cuda_module_wants_text,
	.module_place = cuda_module_place,
	.function_get = cuda_function_get,
	.function_info = cuda_function_info,
	.function_param = cuda_function_param,
	.function_occupancy = cuda_function_occupancy,
	.function_name = cuda_function_name,
	.function_clusters = cuda_function_clusters,
	.tensor_map = cuda_tensor_map,
	.global_get = cuda_global_get,
	.global_is_managed = cuda_global_is_managed,
	.array_bytes = cuda_array_bytes,
	.array_create = cuda_array_create,
	.array_chunk = cuda_array_chunk,
	.array_destroy = cuda_array_destroy,
	.texture_create = cuda_texture_create,
	.texture_destroy = cuda_texture_destroy,
	.reference_set = cuda_reference_set,
	.queue_create = cuda_queue_create,
	.queue_destroy = cuda_queue_destroy,
	.queue_bind = cuda_queue_bind,
	.submit = cuda_submit,
	.follow = cuda_follow,
	.preempt = cuda_preempt,
	.pause = cuda_pause,
	.keeps = cuda_keeps,
	.retire = cuda_retire,
	.revive = cuda_revive,
	.rehome = cuda_rehome,
	.poll = cuda_poll,
};
