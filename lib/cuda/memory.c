/* SPDX-License-Identifier: MIT
 *
 * Allocations: device, page-locked, managed and registered memory, and what a pointer is. gdev knows the
 * addresses; here is which context an allocation belongs to and how it was asked for.
 *
 * Registered memory stays the program's: copies of it are staged like those of any memory, so registering
 * only has to keep the books that CUDA's errors need.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/cuda/array.h"
#include "lib/cuda/exports.h"

#define BUCKETS 4096
#define PITCH_ALIGN 512

/* Guards what follows: allocations by base, and registered ranges. */
static pthread_mutex_t *const lock = &process_locks[LOCK_ALLOCATIONS];
static struct allocation *buckets[BUCKETS];

struct registration {
	struct list link;
	uint64_t base, bytes;
	unsigned flags;
};

static struct list registrations = {&registrations, &registrations};

static size_t bucket_of(uint64_t base)
{
	return (base >> 9) * 0x9e3779b97f4a7c15ull >> 52;
}

/* The link that points to the allocation at `base`, or to the end of its chain. */
static struct allocation **link_to(uint64_t base)
{
	struct allocation **at = &buckets[bucket_of(base)];

	while (*at && (*at)->base != base)
		at = &(*at)->next;
	return at;
}

static CUresult remember_allocation(const struct allocation *wanted)
{
	struct allocation *allocation = malloc(sizeof *allocation), **at;

	if (!allocation)
		return no_memory();
	pthread_mutex_lock(lock);
	at = link_to(wanted->base);
	/* Entries that are still there are of a session that is gone, whose addresses are used again. */
	struct allocation *stale = *at;
	*allocation = *wanted;
	allocation->next = stale ? stale->next : NULL;
	*at = allocation;
	free(stale);
	pthread_mutex_unlock(lock);
	return CUDA_SUCCESS;
}

CUresult memory_remember(
	CUcontext context, uint64_t base, uint64_t bytes, enum allocation_kind kind, unsigned flags)
{
	return remember_allocation(&(struct allocation){.base = base,
		.bytes = bytes,
		.context = context,
		.session = context->session,
		.kind = kind,
		.flags = flags});
}

CUresult memory_remember_object(
	CUcontext context, uint64_t base, uint64_t bytes, enum allocation_kind kind, void *object)
{
	return remember_allocation(&(struct allocation){.base = base,
		.bytes = bytes,
		.context = context,
		.session = context->session,
		.kind = kind,
		.object = object});
}

CUresult memory_remember_pooled(CUcontext context, uint64_t base, uint64_t bytes, CUmemoryPool pool)
{
	return remember_allocation(&(struct allocation){.base = base,
		.bytes = bytes,
		.context = context,
		.session = context->session,
		.kind = ALLOCATION_DEVICE,
		.pool = pool});
}

void memory_advise(const struct allocation *allocation)
{
	struct allocation *found;

	pthread_mutex_lock(lock);
	found = *link_to(allocation->base);
	if (found)
		found->advice = allocation->advice;
	pthread_mutex_unlock(lock);
}

bool memory_forget(uint64_t base, struct allocation *allocation)
{
	struct allocation **at, *found;

	pthread_mutex_lock(lock);
	at = link_to(base);
	found = *at;
	if (found) {
		*at = found->next;
		*allocation = *found;
		free(found);
	}
	pthread_mutex_unlock(lock);
	return found;
}

/* Takes all allocations of the context out of the table, as a chain. */
static struct allocation *take_all(CUcontext context)
{
	struct allocation *taken = NULL;

	pthread_mutex_lock(lock);
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct allocation **at = &buckets[i]; *at;) {
			struct allocation *allocation = *at;
			if (allocation->context != context) {
				at = &allocation->next;
				continue;
			}
			*at = allocation->next;
			allocation->next = taken;
			taken = allocation;
		}
	pthread_mutex_unlock(lock);
	return taken;
}

static bool is_listed(const struct allocation *allocation, CUcontext context)
{
	return !context || allocation->context == context;
}

CUresult memory_list(CUcontext context, struct allocation **list, size_t *count)
{
	struct allocation *at;
	size_t room = 0;

	*count = 0;
	pthread_mutex_lock(lock);
	for (size_t i = 0; i < BUCKETS; i++)
		for (at = buckets[i]; at; at = at->next)
			room += is_listed(at, context);
	*list = malloc((room + 1) * sizeof **list);
	for (size_t i = 0; i < BUCKETS && *list; i++)
		for (at = buckets[i]; at; at = at->next)
			if (is_listed(at, context))
				(*list)[(*count)++] = *at;
	pthread_mutex_unlock(lock);
	return *list ? CUDA_SUCCESS : no_memory();
}

static void release_object(const struct allocation *allocation)
{
	switch (allocation->kind) {
	case ALLOCATION_ARRAY:
		array_release(allocation->object);
		break;
	case ALLOCATION_LEVELS:
		mipmapped_release(allocation->object);
		break;
	default:
		free(allocation->object);
	}
}

CUresult memory_free_object(uint64_t base)
{
	struct allocation allocation;

	if (!memory_forget(base, &allocation))
		return fail(CUDA_ERROR_INVALID_HANDLE, "the object was destroyed meanwhile");
	release_object(&allocation);
	return result_of(
		gdev_memory_free(allocation.session, base), "the object's memory cannot be freed");
}

void memory_release_context(CUcontext context)
{
	struct allocation *allocation = take_all(context), *next;

	for (; allocation; allocation = next) {
		next = allocation->next;
		if (allocation->kind == ALLOCATION_SHARED)
			gdev_shm_detach(allocation->session, allocation->base);
		else
			gdev_memory_free(allocation->session, allocation->base);
		if (allocation->pool)
			pool_gone(allocation);
		release_object(allocation);
		free(allocation);
	}
}

bool memory_is_managed(const struct allocation *allocation)
{
	return allocation->kind == ALLOCATION_MANAGED || allocation->kind == ALLOCATION_VARIABLES;
}

bool memory_find_base(uint64_t base, struct allocation *allocation)
{
	const struct allocation *found;

	pthread_mutex_lock(lock);
	found = *link_to(base);
	if (found)
		*allocation = *found;
	pthread_mutex_unlock(lock);
	return found;
}

/* The allocation of a range that `context` has, if nobody else knows of one. */
static void allocation_of(
	const struct gdev_range *range, CUcontext context, struct allocation *allocation)
{
	if (!memory_find_base(range->base, allocation))
		*allocation = (struct allocation){.base = range->base,
			.bytes = range->bytes,
			.context = context,
			.session = context->session};
}

bool memory_find(uint64_t address, struct gdev_range *range, struct allocation *allocation)
{
	CUcontext context;

	if (current_context(&context) != CUDA_SUCCESS)
		return false;
	gdev_memory_lookup(context->session, address, range);
	if (range->kind == GDEV_MEMORY_UNKNOWN)
		return false;
	/* Of what another device lets this one use only whole objects are known here. */
	if (devices_used() > 1 && !peer_find(address, context->session, range))
		return false;
	allocation_of(range, context, allocation);
	return true;
}

bool memory_find_anywhere(uint64_t address, struct gdev_range *range, struct allocation *allocation)
{
	CUcontext context;

	if (memory_find(address, range, allocation))
		return true;
	return current_context(&context) == CUDA_SUCCESS &&
	       peer_find(address, context->session, range) &&
	       memory_find_base(range->base, allocation);
}

/* ---- device memory ---- */

CUresult memory_alloc(size_t bytes, enum allocation_kind kind, CUdeviceptr *pointer)
{
	CUcontext context;
	uint64_t address;
	CUresult result;

	TRY(current_context(&context));
	if (!pointer || !bytes)
		return fail(CUDA_ERROR_INVALID_VALUE, "the pointer is NULL, or the size 0");
	TRY_GDEV(gdev_memory_alloc(context->session, bytes, &address),
		"%zu bytes of device memory cannot be had", bytes);
	result = memory_remember(context, address, bytes, kind, 0);
	if (result != CUDA_SUCCESS) {
		gdev_memory_free(context->session, address);
		return result;
	}
	result = access_new_memory(context, address);
	if (result != CUDA_SUCCESS) {
		cuMemFree_v2(address);
		return result;
	}
	*pointer = address;
	return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
	return memory_alloc(bytes, ALLOCATION_DEVICE, pointer);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height,
	unsigned int element_bytes)
{
	size_t row, bytes;

	if (!pointer || !pitch || !width || !height ||
		(element_bytes != 4 && element_bytes != 8 && element_bytes != 16))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"a pointer is NULL, a size 0, or the element not of 4, 8 or 16 bytes");
	row = align_up(width, PITCH_ALIGN);
	if (row < width || __builtin_mul_overflow(row, height, &bytes))
		return fail(CUDA_ERROR_OUT_OF_MEMORY,
			"%zu rows of %zu bytes are more than any device has", height, width);
	TRY(memory_alloc(bytes, ALLOCATION_DEVICE, pointer));
	*pitch = row;
	return CUDA_SUCCESS;
}

/* As in CUDA, an address says whose it is: no context need be current. */
static CUresult may_free(void)
{
	CUcontext context;
	CUresult result = current_context(&context);

	return result == CUDA_ERROR_INVALID_CONTEXT ? CUDA_SUCCESS : result;
}

static CUresult free_memory(uint64_t base, bool host)
{
	struct allocation allocation;

	TRY(may_free());
	if (!base)
		return CUDA_SUCCESS;
	if (!memory_find_base(base, &allocation) || (allocation.kind == ALLOCATION_HOST) != host ||
		allocation.kind >= ALLOCATION_SHARED)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"%#llx is not the beginning of memory that this call frees",
			(unsigned long long)base);
	if (allocation.kind == ALLOCATION_GRAPH)
		return graph_memory_free(base, NULL);
	if (allocation.kind == ALLOCATION_IMPORTED)
		return ipc_close(allocation.context, base, ALLOCATION_IMPORTED);
	if (!memory_forget(base, &allocation))
		return fail(CUDA_ERROR_INVALID_VALUE, "%#llx was freed meanwhile",
			(unsigned long long)base);
	if (allocation.pool)
		pool_gone(&allocation);
	return result_of(gdev_memory_free(allocation.session, base), "the memory cannot be freed");
}

CUresult cuMemFree_v2(CUdeviceptr pointer)
{
	return free_memory(pointer, false);
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
	uint64_t available, total;
	CUcontext context;

	TRY(current_context(&context));
	TRY_GDEV(gdev_memory_info(context->session, &available, &total),
		"how much memory there is is not known");
	if (free_bytes)
		*free_bytes = available;
	if (total_bytes)
		*total_bytes = total;
	return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr pointer)
{
	struct allocation allocation;
	struct gdev_range range;
	CUcontext context;

	TRY(current_context(&context));
	if (!memory_find_anywhere(pointer, &range, &allocation))
		return fail(CUDA_ERROR_NOT_FOUND, "%#llx is in no memory of a device",
			(unsigned long long)pointer);
	if (base)
		*base = range.base;
	if (size)
		*size = range.bytes;
	return CUDA_SUCCESS;
}

/* ---- page-locked memory ---- */

#define HOST_FLAGS                                                                                 \
	(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED)

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned int flags)
{
	CUcontext context;
	CUresult result;
	void *memory;

	TRY(current_context(&context));
	if (!pointer || flags & ~(unsigned)HOST_FLAGS)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the pointer is NULL, or flags %#x have bits that mean nothing", flags);
	if (!bytes) {
		*pointer = NULL;
		return CUDA_SUCCESS;
	}
	TRY_GDEV(gdev_host_alloc(context->session, bytes, &memory),
		"%zu bytes of page-locked memory cannot be had", bytes);
	result = memory_remember(context, (uint64_t)memory, bytes, ALLOCATION_HOST, flags);
	if (result != CUDA_SUCCESS) {
		gdev_memory_free(context->session, (uint64_t)memory);
		return result;
	}
	access_new_host_memory(context, (uint64_t)memory);
	*pointer = memory;
	return CUDA_SUCCESS;
}

CUresult cuMemAllocHost_v2(void **pointer, size_t bytes)
{
	return cuMemHostAlloc(pointer, bytes, 0);
}

CUresult cuMemFreeHost(void *pointer)
{
	return free_memory((uint64_t)pointer, true);
}

CUresult cuMemHostGetFlags(unsigned int *flags, void *pointer)
{
	struct allocation allocation;
	struct gdev_range range;
	CUcontext context;

	TRY(current_context(&context));
	if (!flags || !memory_find_anywhere((uint64_t)pointer, &range, &allocation) ||
		allocation.kind != ALLOCATION_HOST)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"flags is NULL, or %p is in no memory of cuMemHostAlloc", pointer);
	*flags = allocation.flags | CU_MEMHOSTALLOC_DEVICEMAP; /* as it always is */
	return CUDA_SUCCESS;
}

/* ---- registered memory ---- */

static struct registration *registered_at(uint64_t address, uint64_t bytes)
{
	struct registration *registration;

	list_for_each (registration, &registrations, link)
		if (address < registration->base + registration->bytes &&
			registration->base < address + bytes)
			return registration;
	return NULL;
}

CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned int flags)
{
	const unsigned known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
			       CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
	uint64_t base = (uint64_t)pointer;
	struct registration *registration;
	struct allocation allocation;
	struct gdev_range range;
	CUcontext context;
	CUresult result = CUDA_SUCCESS;

	TRY(current_context(&context));
	if (!pointer || !bytes || base + bytes < base || flags & ~known)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the pointer is NULL, the size 0, the range ends behind all addresses, "
			"or flags %#x have bits that mean nothing",
			flags);
	if (flags & CU_MEMHOSTREGISTER_IOMEMORY)
		return fail(
			CUDA_ERROR_NOT_SUPPORTED, "memory of devices cannot be registered here");
	if (memory_find_anywhere(base, &range, &allocation))
		return fail(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
			"%p is in memory of CUDA already", pointer);
	registration = malloc(sizeof *registration);
	if (!registration)
		return no_memory();
	*registration = (struct registration){.base = base, .bytes = bytes, .flags = flags};
	pthread_mutex_lock(lock);
	if (registered_at(base, bytes)) {
		result = fail(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
			"a part of the range, which begins at %p, is registered already", pointer);
	} else {
		list_append(&registrations, &registration->link);
		registration = NULL;
	}
	pthread_mutex_unlock(lock);
	free(registration);
	return result;
}

CUresult cuMemHostUnregister(void *pointer)
{
	struct registration *registration;
	CUcontext context;

	TRY(current_context(&context));
	if (!pointer)
		return fail(CUDA_ERROR_INVALID_VALUE, "the pointer is NULL");
	pthread_mutex_lock(lock);
	registration = registered_at((uint64_t)pointer, 1);
	if (registration && registration->base != (uint64_t)pointer)
		registration = NULL;
	if (registration)
		list_remove(&registration->link);
	pthread_mutex_unlock(lock);
	free(registration);
	return registration ? CUDA_SUCCESS
			    : fail(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
				      "no registered memory begins at %p", pointer);
}

static bool is_registered(uint64_t address)
{
	bool registered;

	pthread_mutex_lock(lock);
	registered = registered_at(address, 1);
	pthread_mutex_unlock(lock);
	return registered;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *pointer, unsigned int flags)
{
	struct allocation allocation;
	struct gdev_range range;
	CUcontext context;

	TRY(current_context(&context));
	if (!device || !pointer || flags)
		return fail(CUDA_ERROR_INVALID_VALUE, "a pointer is NULL, or flags are not 0");
	if (memory_find((uint64_t)pointer, &range, &allocation) &&
		(range.kind == GDEV_MEMORY_HOST || range.mapped ||
			memory_is_managed(&allocation))) {
		*device = (CUdeviceptr)pointer;
		return CUDA_SUCCESS;
	}
	return is_registered((uint64_t)pointer)
		       ? fail(CUDA_ERROR_NOT_SUPPORTED,
				 "kernels do not reach memory that was registered; allocate it "
				 "by cuMemHostAlloc")
		       : fail(CUDA_ERROR_INVALID_VALUE, "%p is in no page-locked memory", pointer);
}

/* ---- what a pointer is ---- */

/* Everything about a pointer; that of an unknown one is what CUDA says of the program's own memory. */
struct pointer {
	bool known;
	uint64_t address;
	struct gdev_range range;
	struct allocation allocation;
};

static bool is_host(const struct pointer *pointer)
{
	return pointer->range.kind == GDEV_MEMORY_HOST;
}

static void *host_pointer(const struct pointer *pointer)
{
	/* Device memory that libgdev has mapped for itself is none of the program's. */
	bool readable =
		!pointer->known || is_host(pointer) || memory_is_managed(&pointer->allocation);

	return readable ? (void *)pointer->address : NULL;
}

static unsigned memory_type(const struct pointer *pointer)
{
	if (!pointer->known)
		return is_registered(pointer->address) ? CU_MEMORYTYPE_HOST : 0;
	return is_host(pointer) && !memory_is_managed(&pointer->allocation) ? CU_MEMORYTYPE_HOST
									    : CU_MEMORYTYPE_DEVICE;
}

#define ANSWER(type, value)                                                                        \
	do {                                                                                       \
		*(type *)data = (value);                                                           \
		return CUDA_SUCCESS;                                                               \
	} while (0)

static CUresult pointer_attribute(
	const struct pointer *pointer, CUpointer_attribute attribute, void *data)
{
	bool known = pointer->known;

	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		ANSWER(CUcontext, known ? pointer->allocation.context : NULL);
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		ANSWER(unsigned, memory_type(pointer));
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		ANSWER(CUdeviceptr, known ? pointer->address : 0);
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		ANSWER(void *, host_pointer(pointer));
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		ANSWER(unsigned, 0);
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		ANSWER(unsigned long long, pointer->range.id);
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		ANSWER(unsigned, known ? memory_is_managed(&pointer->allocation) : 0);
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		ANSWER(int, known ? pointer->allocation.context->device : CU_DEVICE_INVALID);
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		ANSWER(unsigned, 0);
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		ANSWER(CUdeviceptr, pointer->range.base);
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		ANSWER(size_t, pointer->range.bytes);
	case CU_POINTER_ATTRIBUTE_MAPPED:
		ANSWER(unsigned, known);
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		ANSWER(unsigned long long, 0);
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		ANSWER(unsigned, known ? 3 : 0);
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		ANSWER(CUmemoryPool, known ? pointer->allocation.pool : NULL);
	default:
		return fail(
			CUDA_ERROR_INVALID_VALUE, "%d is no attribute of pointers", (int)attribute);
	}
}

static CUresult find_pointer(CUdeviceptr address, struct pointer *pointer)
{
	CUcontext context;

	*pointer = (struct pointer){.address = address};
	TRY(initialised());
	/* Without a context every pointer is unknown. */
	if (current_context(&context) == CUDA_SUCCESS)
		pointer->known =
			memory_find_anywhere(address, &pointer->range, &pointer->allocation);
	return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
	struct pointer pointer;

	TRY(find_pointer(address, &pointer));
	if (!data || (!pointer.known && !is_registered(address)))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"data is NULL, or %#llx is in no memory of CUDA",
			(unsigned long long)address);
	return pointer_attribute(&pointer, attribute, data);
}

CUresult cuPointerGetAttributes(
	unsigned int count, CUpointer_attribute *attributes, void **data, CUdeviceptr address)
{
	struct pointer pointer;

	TRY(find_pointer(address, &pointer));
	if (!count || !attributes || !data)
		return fail(CUDA_ERROR_INVALID_VALUE, "a list is NULL or empty");
	for (unsigned i = 0; i < count; i++)
		TRY(pointer_attribute(&pointer, attributes[i], data[i]));
	return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(
	const void *value, CUpointer_attribute attribute, CUdeviceptr address)
{
	struct pointer pointer;

	TRY(find_pointer(address, &pointer));
	if (!value || !pointer.known || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"value is NULL, %#llx is in no memory of CUDA, or the attribute cannot be set",
			(unsigned long long)address);
	return CUDA_SUCCESS; /* copies that CUDA calls synchronous always are */
}
