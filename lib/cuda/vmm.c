/* SPDX-License-Identifier: MIT
 *
 * Virtual memory management: addresses, memory, and what is where, each by itself. An allocation handle is
 * memory that gdev shares by token (gdev/session.h), which the session holds without having it anywhere; a
 * mapping puts it at an address. The memory is reached from cuMemSetAccess on, which is what maps it: for
 * reading, or for both. A handle that leaves the process is a descriptor of a small sealed file that names
 * the token: the memory lives as long as some process holds the handle or maps it, not by the file. Who does not have the
 * virtual GPU that the memory is on takes it for memory of its current device.
 *
 * A reservation belongs to the session of the context that is current, or of the first device, its home: addresses
 * are a session's. What is mapped there may be of any device that reaches that one. The home device maps it, and others that
 * get a right to it are peers of that one, with rights of their own. The whole of a handle is mapped, as offsets have to be 0
 * in CUDA too.
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
	CUdevice device;
	struct gdev_session *session; /* the device's; open as long as it lives */
	uint64_t base, bytes;
};

struct mapping {
	struct list link;
	uint64_t base;
	struct memory_handle *handle;
	const struct reservation *home; /* which it is in */
	struct access_rights rights;
	CUmemAccess_flags mapped; /* what the home device has it with; NONE: nothing is there */
	bool changing;            /* a thread maps or unmaps it: others wait for `changed` */
};

/* The contents of the file that stands for a handle. */
struct handle_file {
	uint32_t magic, id;
	uint64_t bytes;
	uint8_t token[GDEV_TOKEN_BYTES];
	char vgpu[GDEV_NAME_MAX];
};

/* Guards all that follows, and handles. Memory and addresses are taken before a handle or a reservation of them can be
 * found, and given back when it cannot any more. */
static pthread_mutex_t *const lock = &process_locks[LOCK_ADDRESSES];
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct list reservations = {&reservations, &reservations};
static struct list mappings = {&mappings, &mappings};

/* Runs `call` with the lock. */
#define LOCKED(call)                                                                               \
	({                                                                                         \
		pthread_mutex_lock(lock);                                                          \
		CUresult locked_ = (call);                                                         \
		pthread_mutex_unlock(lock);                                                        \
		locked_;                                                                           \
	})

/* ---- addresses ---- */

/* That of the context that is current, or the first. */
static CUdevice current_device(void)
{
	CUcontext context;

	return cuCtxGetCurrent(&context) == CUDA_SUCCESS && context &&
			       current_context(&context) == CUDA_SUCCESS
		       ? context->device
		       : 0;
}

static CUresult reserve_addresses(uint64_t bytes, uint64_t alignment, CUdeviceptr *pointer)
{
	struct reservation *reservation = calloc(1, sizeof *reservation);
	CUresult result;

	if (!reservation)
		return no_memory();
	reservation->device = current_device();
	result = device_open_session(reservation->device, &reservation->session);
	if (result != CUDA_SUCCESS)
		goto err_free;
	result = result_of(
		gdev_address_reserve(reservation->session, bytes, alignment, &reservation->base),
		"%llu bytes of addresses cannot be reserved", (unsigned long long)bytes);
	if (result != CUDA_SUCCESS)
		goto err_close;
	reservation->bytes = bytes;
	*pointer = reservation->base;
	pthread_mutex_lock(lock);
	list_append(&reservations, &reservation->link);
	pthread_mutex_unlock(lock);
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
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the pointer is NULL, flags are not 0, the size no multiple of %llu, "
			"or the alignment no power of two",
			GRANULARITY);
	return reserve_addresses(bytes, alignment, pointer);
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

/* Takes a reservation that has nothing mapped in it. */
static CUresult take_reservation(
	CUdeviceptr pointer, size_t bytes, struct reservation **reservation)
{
	*reservation = find_reservation(pointer, bytes);
	if (!*reservation || (*reservation)->base != pointer || (*reservation)->bytes != bytes ||
		mapping_in(pointer, bytes))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"%zu bytes at %#llx are not all of a reservation, or something is mapped there",
			bytes, (unsigned long long)pointer);
	list_remove(&(*reservation)->link);
	return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr pointer, size_t bytes)
{
	struct reservation *reservation;

	TRY(initialised());
	TRY(LOCKED(take_reservation(pointer, bytes, &reservation)));
	gdev_address_free(reservation->session, pointer, bytes);
	gdev_session_close(reservation->session);
	free(reservation);
	return CUDA_SUCCESS;
}

/* ---- handles ---- */

static CUresult check_properties(const CUmemAllocationProp *properties)
{
	struct device *device;

	if (!properties || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"properties is NULL, or the memory not page-locked");
	if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return properties->location.type == CU_MEM_LOCATION_TYPE_INVALID
			       ? fail(CUDA_ERROR_INVALID_VALUE, "the location is none")
			       : fail(CUDA_ERROR_NOT_SUPPORTED, "memory can only be on a device");
	if (properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE &&
		properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return fail(CUDA_ERROR_NOT_SUPPORTED,
			"memory leaves the process as a file descriptor, and in no other way");
	return device_find(properties->location.id, &device);
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *properties,
	CUmemAllocationGranularity_flags option)
{
	TRY(initialised());
	if (!granularity || (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
				    option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
		return fail(CUDA_ERROR_INVALID_VALUE, "granularity is NULL, or option %d is none",
			(int)option);
	/* Programs ask for that of host memory before they look whether it can be made, as NCCL does. */
	if (!properties || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
		(properties->location.type != CU_MEM_LOCATION_TYPE_HOST &&
			properties->location.type != CU_MEM_LOCATION_TYPE_HOST_NUMA &&
			properties->location.type != CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT))
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

/* Whether neither the program nor a mapping refers to it. Then nobody finds it, and the caller gives it to handle_end(),
 * without the lock. */
static bool is_unused(const struct memory_handle *handle)
{
	return !handle->refs && !handle->mappings;
}

static void handle_end(struct memory_handle *handle)
{
	struct gdev_session *session = handle->session;

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
		return no_memory();
	handle->device = properties->location.id;
	handle->properties = *properties;
	result = device_open_session(handle->device, &handle->session);
	if (result != CUDA_SUCCESS)
		goto err_handle;
	if (imported) {
		handle->shared = *imported;
		result = result_of(gdev_shared_hold(handle->session, &handle->shared),
			"the memory of the other process cannot be held");
	} else {
		result = result_of(gdev_shared_create(handle->session, bytes, &handle->shared),
			"%llu bytes of device memory cannot be had", (unsigned long long)bytes);
	}
	if (result != CUDA_SUCCESS)
		goto err_session;
	pthread_mutex_lock(lock);
	handle->refs = 1; /* from here on it is found */
	pthread_mutex_unlock(lock);
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
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the pointer for the handle is NULL, flags are not 0, or the size is "
			"no multiple of %llu",
			GRANULARITY);
	TRY(check_properties(properties));
	return make_handle(properties, bytes, NULL, handle);
}

/* *unused: the handle, if nothing refers to it any more; else NULL. */
static CUresult release_handle(CUmemGenericAllocationHandle value, struct memory_handle **unused)
{
	struct memory_handle *handle = find_handle(value);

	if (!handle)
		return fail(CUDA_ERROR_INVALID_VALUE, "%#llx is no living handle",
			(unsigned long long)value);
	handle->refs--;
	*unused = is_unused(handle) ? handle : NULL;
	return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle value)
{
	struct memory_handle *unused;

	TRY(initialised());
	TRY(LOCKED(release_handle(value, &unused)));
	if (unused)
		handle_end(unused);
	return CUDA_SUCCESS;
}

static CUresult retain_handle(CUmemGenericAllocationHandle *handle, uint64_t address)
{
	struct mapping *mapping = mapping_in(address, 1);

	if (!mapping)
		return fail(CUDA_ERROR_INVALID_VALUE, "nothing is mapped at %#llx",
			(unsigned long long)address);
	mapping->handle->refs++;
	*handle = (CUmemGenericAllocationHandle)mapping->handle;
	return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
	TRY(initialised());
	if (!handle)
		return fail(CUDA_ERROR_INVALID_VALUE, "handle is NULL");
	return LOCKED(retain_handle(handle, (uint64_t)address));
}

static CUresult properties_of(CUmemGenericAllocationHandle value, CUmemAllocationProp *properties)
{
	struct memory_handle *handle = find_handle(value);

	if (!handle)
		return fail(CUDA_ERROR_INVALID_VALUE, "%#llx is no living handle",
			(unsigned long long)value);
	*properties = handle->properties;
	return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationPropertiesFromHandle(
	CUmemAllocationProp *properties, CUmemGenericAllocationHandle handle)
{
	TRY(initialised());
	if (!properties)
		return fail(CUDA_ERROR_INVALID_VALUE, "properties is NULL");
	return LOCKED(properties_of(handle, properties));
}

/* ---- mappings ---- */

/* All of the handle's memory. As in CUDA, a part of it is not supported. */
static CUresult map_handle(
	uint64_t address, size_t bytes, size_t offset, CUmemGenericAllocationHandle value)
{
	struct memory_handle *handle = find_handle(value);
	struct reservation *reservation = find_reservation(address, bytes);
	struct mapping *mapping;

	if (!handle)
		return fail(CUDA_ERROR_INVALID_VALUE, "%#llx is no living handle",
			(unsigned long long)value);
	if (offset || bytes != handle->shared.bytes)
		return fail(CUDA_ERROR_NOT_SUPPORTED,
			"as in CUDA, all of a handle is mapped, and not a part");
	if (!reservation || address % GRANULARITY || mapping_in(address, bytes))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"%zu bytes at %#llx are not in a reservation, not "
			"aligned, or something is mapped there",
			bytes, (unsigned long long)address);
	mapping = calloc(1, sizeof *mapping);
	if (!mapping)
		return no_memory();
	mapping->base = address;
	mapping->home = reservation;
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
		return fail(CUDA_ERROR_INVALID_VALUE, "the size is 0, or flags are not 0");
	return LOCKED(map_handle(pointer, bytes, offset, handle));
}

/* What the home device has it mapped with. Others map what that one has, so that for their sake it has the least of rights
 * where it was given none. */
static CUmemAccess_flags home_right(
	const struct mapping *mapping, const struct access_rights *rights)
{
	CUmemAccess_flags right = rights->of[mapping->home->device];

	for (CUdevice i = 0; i < DEVICES_MAX && right == CU_MEM_ACCESS_FLAGS_PROT_NONE; i++)
		if (rights->of[i] != CU_MEM_ACCESS_FLAGS_PROT_NONE)
			right = CU_MEM_ACCESS_FLAGS_PROT_READ;
	return right;
}

/* By unmapping and mapping, which those of other devices go with. *now: what the home device has, before and after. */
static CUresult map_at_home(
	const struct mapping *mapping, CUmemAccess_flags wanted, CUmemAccess_flags *now)
{
	struct gdev_session *session = mapping->home->session;
	uint64_t address = mapping->base, bytes = mapping->handle->shared.bytes;

	if (*now != CU_MEM_ACCESS_FLAGS_PROT_NONE)
		TRY_GDEV(gdev_shm_detach(session, address), "the memory cannot be unmapped");
	*now = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	if (wanted != CU_MEM_ACCESS_FLAGS_PROT_NONE)
		TRY_GDEV(
			gdev_shared_map(session, &mapping->handle->shared, 0, bytes,
				wanted == CU_MEM_ACCESS_FLAGS_PROT_READ ? SHM_RDONLY : 0, &address),
			"the memory cannot be mapped");
	*now = wanted;
	return CUDA_SUCCESS;
}

/* The device's right is in `rights`, and those of the others are there already. */
static CUresult change_access(const struct mapping *mapping, const struct access_rights *rights,
	CUdevice device, CUmemAccess_flags *now)
{
	CUmemAccess_flags wanted = home_right(mapping, rights);
	struct access_rights one = {0};

	if (wanted != *now) {
		TRY(map_at_home(mapping, wanted, now));
		return access_set(rights, mapping->home->session, mapping->base);
	}
	if (device == mapping->home->device)
		return CUDA_SUCCESS;
	if (rights->of[device] == CU_MEM_ACCESS_FLAGS_PROT_NONE)
		return access_revoke(device, mapping->home->session, mapping->base);
	one.of[device] = rights->of[device];
	return access_set(&one, mapping->home->session, mapping->base);
}

/* With the lock, which it gives up meanwhile. Other threads see that the mapping is changing. */
static CUresult set_rights(
	struct mapping *mapping, const struct access_rights *rights, CUdevice device)
{
	CUmemAccess_flags now = mapping->mapped;
	CUresult result;

	mapping->changing = true;
	pthread_mutex_unlock(lock);
	result = change_access(mapping, rights, device, &now);
	pthread_mutex_lock(lock);
	mapping->changing = false;
	mapping->mapped = now;
	if (result == CUDA_SUCCESS)
		mapping->rights = *rights;
	else if (now == CU_MEM_ACCESS_FLAGS_PROT_NONE)
		mapping->rights = (struct access_rights){0};
	pthread_cond_broadcast(&changed);
	return result;
}

static CUresult check_reach(CUdevice device, CUdevice other)
{
	return device == other ? CUDA_SUCCESS : access_check(device, other);
}

/* One device gets another right to it. With the lock, which is given up meanwhile. */
static CUresult set_access(struct mapping *mapping, CUdevice device, CUmemAccess_flags wanted)
{
	struct access_rights rights = mapping->rights;

	TRY(check_reach(device, mapping->handle->device));
	TRY(check_reach(device, mapping->home->device));
	TRY(check_reach(mapping->home->device, mapping->handle->device));
	if (rights.of[device] == wanted)
		return CUDA_SUCCESS;
	rights.of[device] = wanted;
	return set_rights(mapping, &rights, device);
}

/* As mapping_in(), when no other thread changes it any more. The lock is given up meanwhile. */
static struct mapping *settled_mapping_in(uint64_t address, uint64_t bytes)
{
	struct mapping *mapping;

	while ((mapping = mapping_in(address, bytes)) && mapping->changing)
		pthread_cond_wait(&changed, lock);
	return mapping;
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

static CUresult check_unmap(uint64_t address, uint64_t bytes)
{
	return bytes && find_reservation(address, bytes) && mapped_bytes(address, bytes) >= 0
		       ? CUDA_SUCCESS
		       : fail(CUDA_ERROR_INVALID_VALUE,
				 "%llu bytes at %#llx are not in a reservation, or end within a "
				 "mapping",
				 (unsigned long long)bytes, (unsigned long long)address);
}

/* Takes away the first mapping in the range. *any: whether there was one; *unused: its handle, if nothing refers to that
 * any more; else NULL. */
static CUresult unmap_first(
	uint64_t address, uint64_t bytes, bool *any, struct memory_handle **unused)
{
	struct mapping *mapping = settled_mapping_in(address, bytes);
	const struct access_rights none = {0};
	struct memory_handle *handle;
	CUresult result;

	*any = mapping;
	*unused = NULL;
	if (!mapping)
		return CUDA_SUCCESS;
	result = mapping->mapped == CU_MEM_ACCESS_FLAGS_PROT_NONE
			 ? CUDA_SUCCESS
			 : set_rights(mapping, &none, mapping->home->device);
	handle = mapping->handle;
	list_remove(&mapping->link);
	free(mapping);
	handle->mappings--;
	*unused = is_unused(handle) ? handle : NULL;
	return result;
}

/* As in CUDA, nothing may be mapped there. */
CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes)
{
	struct memory_handle *unused;
	CUresult result;
	bool any;

	TRY(initialised());
	TRY(LOCKED(check_unmap(pointer, bytes)));
	do {
		result = LOCKED(unmap_first(pointer, bytes, &any, &unused));
		if (unused)
			handle_end(unused);
	} while (any && result == CUDA_SUCCESS);
	return result;
}

static CUresult set_accesses(uint64_t address, uint64_t bytes, const CUmemAccessDesc *desc)
{
	struct mapping *mapping;

	if (!bytes || !find_reservation(address, bytes) ||
		mapped_bytes(address, bytes) != (int64_t)bytes)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"%llu bytes at %#llx are not mapped as a whole", (unsigned long long)bytes,
			(unsigned long long)address);
	for (uint64_t at = address; at < address + bytes;
		at = mapping->base + mapping->handle->shared.bytes) {
		mapping = settled_mapping_in(at, 1);
		if (!mapping)
			return fail(CUDA_ERROR_INVALID_VALUE,
				"what was mapped at %#llx was unmapped meanwhile",
				(unsigned long long)at);
		TRY(set_access(mapping, desc->location.id, desc->flags));
	}
	return CUDA_SUCCESS;
}

static CUresult check_access(const CUmemAccessDesc *desc)
{
	struct device *device;

	if (desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return fail(CUDA_ERROR_INVALID_VALUE, "the location is no device");
	if (!access_is_right(desc->flags))
		return fail(CUDA_ERROR_INVALID_VALUE, "flags %d are no rights", (int)desc->flags);
	return device_find(desc->location.id, &device);
}

CUresult cuMemSetAccess(
	CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc *desc, size_t count)
{
	TRY(initialised());
	if (!desc || !count)
		return fail(CUDA_ERROR_INVALID_VALUE, "the list is NULL or empty");
	for (size_t i = 0; i < count; i++)
		TRY(check_access(&desc[i]));
	for (size_t i = 0; i < count; i++)
		TRY(LOCKED(set_accesses(pointer, bytes, &desc[i])));
	return CUDA_SUCCESS;
}

static CUresult get_access(
	unsigned long long *flags, const CUmemLocation *location, uint64_t address)
{
	struct mapping *mapping = mapping_in(address, 1);

	if (!mapping)
		return fail(CUDA_ERROR_INVALID_VALUE, "nothing is mapped at %#llx",
			(unsigned long long)address);
	*flags = location->id >= 0 && location->id < DEVICES_MAX ? mapping->rights.of[location->id]
								 : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return CUDA_SUCCESS;
}

CUresult cuMemGetAccess(
	unsigned long long *flags, const CUmemLocation *location, CUdeviceptr pointer)
{
	TRY(initialised());
	if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return fail(CUDA_ERROR_INVALID_VALUE, "flags is NULL, or the location no device");
	return LOCKED(get_access(flags, location, pointer));
}

/* ---- between processes ---- */

CUresult shareable_write(const void *contents, size_t bytes, int *fd)
{
	int created = memfd_create("gdev-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (created < 0)
		return fail(CUDA_ERROR_OPERATING_SYSTEM,
			"the file that stands for the handle cannot be made: %m");
	if (write(created, contents, bytes) != (ssize_t)bytes ||
		fcntl(created, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_WRITE)) {
		close(created);
		return fail(CUDA_ERROR_OPERATING_SYSTEM,
			"the file that stands for the handle cannot be written: %m");
	}
	*fd = created;
	return CUDA_SUCCESS;
}

/* What is to leave the process, and its session, referenced. */
static CUresult find_for_export(CUmemGenericAllocationHandle value, struct gdev_shared *shared,
	struct gdev_session **session)
{
	struct memory_handle *handle = find_handle(value);

	if (!handle ||
		handle->properties.requestedHandleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"%#llx is no living handle, or was not made to leave the process",
			(unsigned long long)value);
	*shared = handle->shared;
	*session = handle->session;
	gdev_session_ref(*session);
	return CUDA_SUCCESS;
}

/* Other processes find the memory from now on, and the file says how. */
static CUresult publish(
	struct gdev_session *session, const struct gdev_shared *shared, struct handle_file *file)
{
	TRY_GDEV(gdev_shared_publish(session, shared), "the memory cannot be handed out");
	*file = (struct handle_file){.magic = FILE_MAGIC, .id = shared->id, .bytes = shared->bytes};
	memcpy(file->token, shared->token, sizeof file->token);
	memcpy(file->vgpu, gdev_session_description(session)->vgpu, sizeof file->vgpu);
	return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
	CUmemAllocationHandleType type, unsigned long long flags)
{
	struct gdev_session *session;
	struct gdev_shared shared;
	struct handle_file file;
	CUresult result;

	TRY(initialised());
	if (!shareable || flags)
		return fail(CUDA_ERROR_INVALID_VALUE, "the pointer is NULL, or flags are not 0");
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return fail(CUDA_ERROR_NOT_SUPPORTED,
			"memory leaves the process as a file descriptor, and in no other way");
	TRY(LOCKED(find_for_export(handle, &shared, &session)));
	result = publish(session, &shared, &file);
	gdev_session_close(session);
	return result == CUDA_SUCCESS ? shareable_write(&file, sizeof file, shareable) : result;
}

CUdevice shareable_device(const char vgpu[GDEV_NAME_MAX])
{
	struct device *device;

	for (CUdevice i = 0; i < devices_count(); i++)
		if (device_find(i, &device) == CUDA_SUCCESS &&
			strncmp(device->vgpu, vgpu, GDEV_NAME_MAX) == 0)
			return i;
	return current_device();
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
		return fail(CUDA_ERROR_INVALID_VALUE, "handle is NULL");
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return fail(CUDA_ERROR_NOT_SUPPORTED,
			"memory leaves the process as a file descriptor, and in no other way");
	if (pread((int)(uintptr_t)os_handle, &file, sizeof file, 0) != sizeof file ||
		file.magic != FILE_MAGIC)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the descriptor is none of cuMemExportToShareableHandle");
	file.vgpu[GDEV_NAME_MAX - 1] = '\0';
	properties.location.id = shareable_device(file.vgpu);
	shared = (struct gdev_shared){.id = file.id, .bytes = file.bytes};
	memcpy(shared.token, file.token, sizeof shared.token);
	return make_handle(&properties, file.bytes, &shared, handle);
}

void vmm_forget(void)
{
	struct reservation *reservation, *next_reservation;
	struct mapping *mapping, *next_mapping;

	pthread_cond_init(&changed, NULL);
	list_for_each_safe (reservation, next_reservation, &reservations, link)
		free(reservation);
	list_for_each_safe (mapping, next_mapping, &mappings, link)
		free(mapping);
	list_init(&reservations);
	list_init(&mappings);
}
