/* SPDX-License-Identifier: MIT
 *
 * Virtual memory management: addresses, memory, and what is where, each by itself. An allocation handle is
 * memory that gdev shares by token (gdev/session.h), which the session holds without having it anywhere; a
 * mapping puts it at an address. The memory is reached from cuMemSetAccess on, which is what maps it: for
 * reading, or for both. A handle that leaves the process is a descriptor of a small sealed file that names
 * the token: the memory lives as long as some process holds the handle or maps it, not by the file.
 *
 * A reservation belongs to the session of the context that is current, or of the first device: addresses
 * are a session's. The whole of a handle is mapped, as offsets have to be 0 in CUDA too.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#include "lib/cuda/exports.h"
#include "lib/cuda/internal.h"

#define GRANULARITY (2ull << 20)
#define FILE_MAGIC 0x66676470u /* "pdgf" */

/* What CUmemGenericAllocationHandle points to. */
struct memory_handle {
	uint32_t handle_word;
	CUdevice device;
	struct gdev_session *session; /* open as long as the handle lives */
	struct gdev_shared shared;
	CUmemAllocationProp properties;
	unsigned refs;     /* of the program; 0: it lives by its mappings alone */
	unsigned mappings; /* of it */
};

struct reservation {
	struct list link;
	struct gdev_session *session; /* open as long as it lives */
	uint64_t base, bytes;
};

struct mapping {
	struct list link;
	uint64_t base;
	struct memory_handle *handle;
	CUmemAccess_flags access; /* NONE: nothing is there yet */
};

/* The contents of the file that stands for a handle. */
struct handle_file {
	uint32_t magic, id;
	uint64_t bytes;
	uint8_t token[GDEV_TOKEN_BYTES];
	char vgpu[GDEV_NAME_MAX];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all that follows, and handles */
static struct list reservations = {&reservations, &reservations};
static struct list mappings = {&mappings, &mappings};

/* Runs `call` with the lock. */
#define LOCKED(call)                                                                               \
	({                                                                                         \
		pthread_mutex_lock(&lock);                                                         \
		CUresult locked_ = (call);                                                         \
		pthread_mutex_unlock(&lock);                                                       \
		locked_;                                                                           \
	})

/* ---- addresses ---- */

static CUresult open_session(struct gdev_session **session)
{
	CUcontext context;

	if (cuCtxGetCurrent(&context) == CUDA_SUCCESS && context &&
		current_context(&context) == CUDA_SUCCESS)
		return device_open_session(context->device, session);
	return device_open_session(0, session);
}

static CUresult reserve(uint64_t bytes, uint64_t alignment, CUdeviceptr *pointer)
{
	struct reservation *reservation = calloc(1, sizeof *reservation);
	CUresult result;

	if (!reservation)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = open_session(&reservation->session);
	if (result != CUDA_SUCCESS)
		goto err_free;
	result = result_of(
		gdev_address_reserve(reservation->session, bytes, alignment, &reservation->base));
	if (result != CUDA_SUCCESS)
		goto err_close;
	reservation->bytes = bytes;
	list_append(&reservations, &reservation->link);
	*pointer = reservation->base;
	return CUDA_SUCCESS;

err_close:
	gdev_session_close(reservation->session);
err_free:
	free(reservation);
	return result;
}

/* `address` is a wish, which CUDA need not fulfil either. */
CUresult cuMemAddressReserve(CUdeviceptr *pointer, size_t bytes, size_t alignment,
	CUdeviceptr address, unsigned long long flags)
{
	TRY(initialised());
	if (!pointer || !bytes || bytes % GRANULARITY || alignment & (alignment - 1) || flags)
		return CUDA_ERROR_INVALID_VALUE;
	return LOCKED(reserve(bytes, alignment, pointer));
}

static struct reservation *find_reservation(uint64_t address, uint64_t bytes)
{
	struct reservation *reservation;

	list_for_each (reservation, &reservations, link)
		if (address >= reservation->base &&
			address - reservation->base <= reservation->bytes &&
			bytes <= reservation->bytes - (address - reservation->base))
			return reservation;
	return NULL;
}

/* A mapping that has bytes in the range. */
static struct mapping *mapping_in(uint64_t address, uint64_t bytes)
{
	struct mapping *mapping;

	list_for_each (mapping, &mappings, link)
		if (mapping->base < address + bytes &&
			address < mapping->base + mapping->handle->shared.bytes)
			return mapping;
	return NULL;
}

static CUresult unreserve(CUdeviceptr pointer, size_t bytes)
{
	struct reservation *reservation = find_reservation(pointer, bytes);

	if (!reservation || reservation->base != pointer || reservation->bytes != bytes ||
		mapping_in(pointer, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	gdev_address_free(reservation->session, pointer, bytes);
	list_remove(&reservation->link);
	gdev_session_close(reservation->session);
	free(reservation);
	return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr pointer, size_t bytes)
{
	TRY(initialised());
	return LOCKED(unreserve(pointer, bytes));
}

/* ---- handles ---- */

static CUresult check_properties(const CUmemAllocationProp *properties)
{
	struct device *device;

	if (!properties || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return properties->location.type == CU_MEM_LOCATION_TYPE_INVALID
			       ? CUDA_ERROR_INVALID_VALUE
			       : CUDA_ERROR_NOT_SUPPORTED;
	if (properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE &&
		properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	return device_find(properties->location.id, &device);
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *properties,
	CUmemAllocationGranularity_flags option)
{
	TRY(initialised());
	if (!granularity || (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
				    option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
		return CUDA_ERROR_INVALID_VALUE;
	TRY(check_properties(properties));
	*granularity = GRANULARITY;
	return CUDA_SUCCESS;
}

/* The handle, while the program has a reference to it. */
static struct memory_handle *find_handle(CUmemGenericAllocationHandle value)
{
	struct memory_handle *handle = (void *)value;

	return handle_is(HANDLE_MEMORY, handle) && handle->refs ? handle : NULL;
}

static void maybe_destroy(struct memory_handle *handle)
{
	struct gdev_session *session = handle->session;

	if (handle->refs || handle->mappings)
		return;
	gdev_shared_drop(session, &handle->shared);
	handle_destroy(HANDLE_MEMORY, handle);
	gdev_session_close(session);
}

/* shared: held already, or NULL: to be made. */
static CUresult make_handle(const CUmemAllocationProp *properties, uint64_t bytes,
	const struct gdev_shared *imported, CUmemGenericAllocationHandle *created)
{
	struct memory_handle *handle = handle_create(HANDLE_MEMORY, sizeof *handle);
	CUresult result;

	if (!handle)
		return CUDA_ERROR_OUT_OF_MEMORY;
	handle->device = properties->location.id;
	handle->properties = *properties;
	handle->refs = 1;
	result = device_open_session(handle->device, &handle->session);
	if (result != CUDA_SUCCESS)
		goto err_handle;
	if (imported) {
		handle->shared = *imported;
		result = result_of(gdev_shared_hold(handle->session, &handle->shared));
	} else {
		result = result_of(gdev_shared_create(handle->session, bytes, &handle->shared));
	}
	if (result != CUDA_SUCCESS)
		goto err_session;
	*created = (CUmemGenericAllocationHandle)handle;
	return CUDA_SUCCESS;

err_session:
	gdev_session_close(handle->session);
err_handle:
	handle_destroy(HANDLE_MEMORY, handle);
	return result;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
	const CUmemAllocationProp *properties, unsigned long long flags)
{
	TRY(initialised());
	if (!handle || !bytes || bytes % GRANULARITY || flags)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(check_properties(properties));
	return LOCKED(make_handle(properties, bytes, NULL, handle));
}

static CUresult release(CUmemGenericAllocationHandle value)
{
	struct memory_handle *handle = find_handle(value);

	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	handle->refs--;
	maybe_destroy(handle);
	return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	TRY(initialised());
	return LOCKED(release(handle));
}

static CUresult retain(CUmemGenericAllocationHandle *handle, uint64_t address)
{
	struct mapping *mapping = mapping_in(address, 1);

	if (!mapping)
		return CUDA_ERROR_INVALID_VALUE;
	mapping->handle->refs++;
	*handle = (CUmemGenericAllocationHandle)mapping->handle;
	return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
	TRY(initialised());
	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	return LOCKED(retain(handle, (uint64_t)address));
}

static CUresult properties_of(CUmemGenericAllocationHandle value, CUmemAllocationProp *properties)
{
	struct memory_handle *handle = find_handle(value);

	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	*properties = handle->properties;
	return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationPropertiesFromHandle(
	CUmemAllocationProp *properties, CUmemGenericAllocationHandle handle)
{
	TRY(initialised());
	if (!properties)
		return CUDA_ERROR_INVALID_VALUE;
	return LOCKED(properties_of(handle, properties));
}

/* ---- mappings ---- */

/* All of the handle's memory. As in CUDA, a part of it is not supported. */
static CUresult map(
	uint64_t address, size_t bytes, size_t offset, CUmemGenericAllocationHandle value)
{
	struct memory_handle *handle = find_handle(value);
	struct reservation *reservation = find_reservation(address, bytes);
	struct mapping *mapping;

	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	if (offset || bytes != handle->shared.bytes)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!reservation || handle->session != reservation->session || address % GRANULARITY ||
		mapping_in(address, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	mapping = calloc(1, sizeof *mapping);
	if (!mapping)
		return CUDA_ERROR_OUT_OF_MEMORY;
	mapping->base = address;
	mapping->handle = handle;
	handle->mappings++;
	list_append(&mappings, &mapping->link);
	return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset,
	CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	TRY(initialised());
	if (!bytes || flags)
		return CUDA_ERROR_INVALID_VALUE;
	return LOCKED(map(pointer, bytes, offset, handle));
}

static CUresult set_access(struct mapping *mapping, CUmemAccess_flags access)
{
	struct gdev_session *session = mapping->handle->session;
	uint64_t address = mapping->base, bytes = mapping->handle->shared.bytes;

	if (mapping->access == access)
		return CUDA_SUCCESS;
	if (mapping->access != CU_MEM_ACCESS_FLAGS_PROT_NONE)
		TRY_GDEV(gdev_shm_detach(session, address));
	mapping->access = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	if (access != CU_MEM_ACCESS_FLAGS_PROT_NONE)
		TRY_GDEV(gdev_shared_map(session, &mapping->handle->shared, 0, bytes,
			access == CU_MEM_ACCESS_FLAGS_PROT_READ ? SHM_RDONLY : 0, &address));
	mapping->access = access;
	return CUDA_SUCCESS;
}

/* How much of the range is mapped, or -1 when a mapping ends outside of it. */
static int64_t mapped_bytes(uint64_t address, uint64_t bytes)
{
	uint64_t mapped = 0;
	struct mapping *mapping;

	list_for_each (mapping, &mappings, link) {
		uint64_t size = mapping->handle->shared.bytes;
		if (mapping->base >= address + bytes || address >= mapping->base + size)
			continue;
		if (mapping->base < address || mapping->base + size > address + bytes)
			return -1;
		mapped += size;
	}
	return (int64_t)mapped;
}

/* What is mapped there; as in CUDA, there may be nothing. */
static CUresult unmap(uint64_t address, uint64_t bytes)
{
	struct mapping *mapping;

	if (!bytes || !find_reservation(address, bytes) || mapped_bytes(address, bytes) < 0)
		return CUDA_ERROR_INVALID_VALUE;
	while ((mapping = mapping_in(address, bytes))) {
		struct memory_handle *handle = mapping->handle;
		CUresult result = set_access(mapping, CU_MEM_ACCESS_FLAGS_PROT_NONE);
		list_remove(&mapping->link);
		free(mapping);
		handle->mappings--;
		maybe_destroy(handle);
		TRY(result);
	}
	return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes)
{
	TRY(initialised());
	return LOCKED(unmap(pointer, bytes));
}

static CUresult set_accesses(uint64_t address, uint64_t bytes, const CUmemAccessDesc *desc)
{
	struct mapping *mapping;

	if (!bytes || !find_reservation(address, bytes) ||
		mapped_bytes(address, bytes) != (int64_t)bytes)
		return CUDA_ERROR_INVALID_VALUE;
	list_for_each (mapping, &mappings, link) {
		if (mapping->base < address || mapping->base >= address + bytes)
			continue;
		if (mapping->handle->device != desc->location.id)
			return CUDA_ERROR_NOT_SUPPORTED; /* no device reaches another's memory */
		TRY(set_access(mapping, desc->flags));
	}
	return CUDA_SUCCESS;
}

static CUresult check_access(const CUmemAccessDesc *desc)
{
	struct device *device;

	if (desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	if (desc->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
		desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
		desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		return CUDA_ERROR_INVALID_VALUE;
	return device_find(desc->location.id, &device);
}

CUresult cuMemSetAccess(
	CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc *desc, size_t count)
{
	TRY(initialised());
	if (!desc || !count)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		TRY(check_access(&desc[i]));
		TRY(LOCKED(set_accesses(pointer, bytes, &desc[i])));
	}
	return CUDA_SUCCESS;
}

static CUresult get_access(
	unsigned long long *flags, const CUmemLocation *location, uint64_t address)
{
	struct mapping *mapping = mapping_in(address, 1);

	if (!mapping)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = mapping->handle->device == location->id ? mapping->access
							 : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return CUDA_SUCCESS;
}

CUresult cuMemGetAccess(
	unsigned long long *flags, const CUmemLocation *location, CUdeviceptr pointer)
{
	TRY(initialised());
	if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	return LOCKED(get_access(flags, location, pointer));
}

/* ---- between processes ---- */

static CUresult write_file(const struct memory_handle *handle, int *fd)
{
	const struct gdev_description *description = gdev_session_description(handle->session);
	struct handle_file file = {
		.magic = FILE_MAGIC, .id = handle->shared.id, .bytes = handle->shared.bytes};
	int created = memfd_create("gdev-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (created < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	memcpy(file.token, handle->shared.token, sizeof file.token);
	memcpy(file.vgpu, description->vgpu, sizeof file.vgpu);
	if (write(created, &file, sizeof file) != sizeof file ||
		fcntl(created, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_WRITE)) {
		close(created);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	*fd = created;
	return CUDA_SUCCESS;
}

static CUresult export(void *shareable, CUmemGenericAllocationHandle value)
{
	struct memory_handle *handle = find_handle(value);

	if (!handle ||
		handle->properties.requestedHandleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	return write_file(handle, shareable);
}

CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
	CUmemAllocationHandleType type, unsigned long long flags)
{
	TRY(initialised());
	if (!shareable || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	return LOCKED(export(shareable, handle));
}

/* The device that is the virtual GPU of that name in this process. */
static CUresult find_device(const char vgpu[GDEV_NAME_MAX], CUdevice *found)
{
	struct device *device;

	for (CUdevice i = 0; i < devices_count(); i++)
		if (device_find(i, &device) == CUDA_SUCCESS &&
			strncmp(device->vgpu, vgpu, GDEV_NAME_MAX) == 0) {
			*found = i;
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuMemImportFromShareableHandle(
	CUmemGenericAllocationHandle *handle, void *os_handle, CUmemAllocationHandleType type)
{
	CUmemAllocationProp properties = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location.type = CU_MEM_LOCATION_TYPE_DEVICE,
	};
	struct handle_file file;
	struct gdev_shared shared;

	TRY(initialised());
	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (pread((int)(uintptr_t)os_handle, &file, sizeof file, 0) != sizeof file ||
		file.magic != FILE_MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	TRY(find_device(file.vgpu, &properties.location.id));
	shared = (struct gdev_shared){.id = file.id, .bytes = file.bytes};
	memcpy(shared.token, file.token, sizeof shared.token);
	return LOCKED(make_handle(&properties, file.bytes, &shared, handle));
}

void vmm_forget(void)
{
	struct reservation *reservation, *next_reservation;
	struct mapping *mapping, *next_mapping;

	pthread_mutex_init(&lock, NULL);
	list_for_each_safe (reservation, next_reservation, &reservations, link)
		free(reservation);
	list_for_each_safe (mapping, next_mapping, &mappings, link)
		free(mapping);
	list_init(&reservations);
	list_init(&mappings);
}
