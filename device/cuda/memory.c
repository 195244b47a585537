/* SPDX-License-Identifier: MIT
 *
 * Address space and physical memory of the NVIDIA backend, through the driver's virtual memory
 * management.
 *
 * A range is reserved once, before anything is mapped there on the host: the driver reserves the host
 * range with it, and only then lets page-locked memory have the same address on the host and on the
 * device. (A range that the process had reserved before is refused: the driver answers another address.)
 */
#include "device/cuda/cuda.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

static CUmemLocation on_device(const struct device *device)
{
	return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->ordinal};
}

int cuda_space_create(struct device *device, struct device_space **out)
{
	struct device_space *space = calloc(1, sizeof *space);

	if (!space)
		return -ENOMEM;
	space->device = device;
	pthread_mutex_init(&space->lock, NULL);
	pthread_mutex_init(&space->making, NULL);
	list_init(&space->queues);
	list_init(&space->modules);
	list_init(&space->registered);
	list_init(&space->arrays);
	list_init(&space->textures);
	*out = space;
	return 0;
}

int cuda_space_reserve(struct device_space *space, uint64_t base, uint64_t bytes)
{
	const struct driver *driver = device_enter(space->device);
	unsigned count = space->range_count;
	CUdeviceptr address = 0;
	CUresult result;

	if (count == DEVICE_RANGES_MAX)
		return -ENOSPC;
	result = driver->cuMemAddressReserve(&address, bytes, 0, base, 0);
	if (result)
		return driver_error(result);
	if (address != base) {
		driver->cuMemAddressFree(address, bytes);
		return -EADDRINUSE;
	}
	space->ranges[count].base = base;
	space->ranges[count].bytes = bytes;
	space->range_count = count + 1;
	return 0;
}

void cuda_space_destroy(struct device_space *space)
{
	const struct driver *driver = device_enter(space->device);
	struct registration *registration, *next;

	textures_finish(space);
	for (unsigned i = 0; i < space->range_count; i++)
		driver->cuMemAddressFree(space->ranges[i].base, space->ranges[i].bytes);
	list_for_each_safe (registration, next, &space->registered, link)
		free(registration);
	pthread_mutex_destroy(&space->making);
	pthread_mutex_destroy(&space->lock);
	free(space);
}

/* Takes `handle` and `fd` over. */
static int wrap_chunk(struct device *device, CUmemGenericAllocationHandle handle, uint64_t bytes,
	int fd, struct device_array *array, struct device_chunk **out)
{
	struct device_chunk *chunk = calloc(1, sizeof *chunk);

	if (!chunk) {
		device->driver->cuMemRelease(handle);
		if (fd >= 0)
			close(fd);
		return -ENOMEM;
	}
	*chunk = (struct device_chunk){
		.device = device, .handle = handle, .bytes = bytes, .fd = fd, .array = array};
	*out = chunk;
	return 0;
}

int chunk_create(struct device *device, uint64_t bytes, struct device_array *array,
	struct device_chunk **chunk)
{
	const struct driver *driver = device_enter(device);
	CUmemAllocationProp properties = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = on_device(device),
	};
	CUmemGenericAllocationHandle handle;
	uint64_t begin_ns = clock_now_ns();

	if (array) {
		properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
		properties.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL;
	}
	CUresult result = driver->cuMemCreate(&handle, bytes, &properties, 0);

	device_spent("making a chunk", begin_ns);
	return result ? driver_error(result) : wrap_chunk(device, handle, bytes, -1, array, chunk);
}

int cuda_chunk_create(struct device *device, uint64_t bytes, struct device_chunk **chunk)
{
	if (bytes < DEVICE_CHUNK_MIN || bytes > DEVICE_CHUNK_MAX || (bytes & (bytes - 1)))
		return -EINVAL;
	return chunk_create(device, bytes, NULL, chunk);
}

void cuda_chunk_destroy(struct device_chunk *chunk)
{
	device_enter(chunk->device)->cuMemRelease(chunk->handle);
	if (chunk->fd >= 0)
		close(chunk->fd);
	free(chunk);
}

/* The driver exports no memory that it has imported. */
int cuda_chunk_export(struct device_chunk *chunk, int *fd)
{
	CUresult result;

	if (chunk->fd >= 0) {
		*fd = fcntl(chunk->fd, F_DUPFD_CLOEXEC, 0);
		return *fd < 0 ? -errno : 0;
	}
	result = device_enter(chunk->device)
			 ->cuMemExportToShareableHandle(
				 fd, chunk->handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	return driver_error(result);
}

int cuda_chunk_import(struct device *device, int fd, uint64_t bytes, struct device_chunk **chunk)
{
	const struct driver *driver = device_enter(device);
	CUmemGenericAllocationHandle handle;
	autoclose int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	CUresult result;

	if (copy < 0)
		return -errno;
	result = driver->cuMemImportFromShareableHandle(
		&handle, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	return result ? -EINVAL : wrap_chunk(device, handle, bytes, steal_fd(&copy), NULL, chunk);
}

static bool are_reserved(const struct device_space *space, uint64_t address, uint64_t bytes)
{
	unsigned count = space->range_count;

	for (unsigned i = 0; i < count; i++) {
		uint64_t offset = address - space->ranges[i].base;
		if (address >= space->ranges[i].base && offset <= space->ranges[i].bytes &&
			bytes <= space->ranges[i].bytes - offset)
			return true;
	}
	return false;
}

int cuda_map(
	struct device_space *space, uint64_t address, struct device_chunk *chunk, bool read_only)
{
	const struct driver *driver = device_enter(space->device);
	CUmemAccessDesc access = {
		.location = on_device(space->device),
		.flags = read_only ? CU_MEM_ACCESS_FLAGS_PROT_READ
				   : CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};

	if (chunk->array)
		return array_map(chunk);
	if (address % DEVICE_CHUNK_MIN || !are_reserved(space, address, chunk->bytes))
		return -EINVAL;
	CUresult result = driver->cuMemMap(address, chunk->bytes, 0, chunk->handle, 0);

	if (result ==
		CUDA_ERROR_NOT_SUPPORTED) /* an imported one is smaller than it was said to be */
		return -EINVAL;
	if (result)
		return driver_error(result);
	result = driver->cuMemSetAccess(address, chunk->bytes, &access, 1);
	if (result)
		driver->cuMemUnmap(address, chunk->bytes);
	return driver_error(result);
}

void cuda_unmap(struct device_space *space, uint64_t address, struct device_chunk *chunk)
{
	if (chunk->array)
		array_unmap(chunk);
	else
		device_enter(space->device)->cuMemUnmap(address, chunk->bytes);
}

int host_register(struct device *device, uint64_t address, uint64_t bytes)
{
	const struct driver *driver = device_enter(device);
	CUdeviceptr seen = 0;
	CUresult result = driver->cuMemHostRegister(
		(void *)address, bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);

	if (result)
		return driver_error(result);
	result = driver->cuMemHostGetDevicePointer(&seen, (void *)address, 0);
	if (result || seen != address) {
		driver->cuMemHostUnregister((void *)address);
		return result ? driver_error(result) : -ENOTSUP;
	}
	return 0;
}

int cuda_host_register(struct device_space *space, uint64_t address, uint64_t bytes)
{
	struct registration *registration = malloc(sizeof *registration);
	int error;

	if (!registration)
		return -ENOMEM;
	error = host_register(space->device, address, bytes);
	if (error) {
		free(registration);
		return error;
	}
	*registration = (struct registration){.address = address, .bytes = bytes, .done = true};
	pthread_mutex_lock(&space->lock);
	list_append(&space->registered, &registration->link);
	pthread_mutex_unlock(&space->lock);
	return 0;
}

static struct registration *take_registration(struct device_space *space, uint64_t address)
{
	struct registration *registration, *found = NULL;

	pthread_mutex_lock(&space->lock);
	list_for_each (registration, &space->registered, link)
		if (registration->address == address)
			found = registration;
	if (found)
		list_remove(&found->link);
	pthread_mutex_unlock(&space->lock);
	return found;
}

void cuda_host_unregister(struct device_space *space, uint64_t address, uint64_t bytes)
{
	struct registration *registration = take_registration(space, address);

	if (registration && registration->done)
		device_enter(space->device)->cuMemHostUnregister((void *)address);
	free(registration);
}
