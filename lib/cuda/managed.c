/* SPDX-License-Identifier: MIT
 *
 * Managed memory, of three kinds:
 *   device memory that the process maps, where the device lets it;
 *   device memory that the process touches in turn with the device (gdev_managed_alloc), where it does not;
 *   page-locked memory, which kernels read over the bus, where it does not and the process sees several devices, as all of
 *   them reach it, or is in a virtual machine. Managed variables lie in page-locked memory, too.
 *
 * Devices of the last two kinds have no concurrent managed access, as CUDA calls it. Prefetches and advice are taken on all of
 * them, and given back by cuMemRangeGetAttribute; what does something is a prefetch to a device, for memory of the second
 * kind. To what stream memory is attached changes nothing: every kernel may use it, and a touch waits for all.
 */
#include <errno.h>

#include "lib/cuda/internal.h"

static CUresult alloc_apart(
	CUcontext context, size_t bytes, unsigned int flags, CUdeviceptr *pointer)
{
	struct gdev_session *session = context->session;
	bool locked = devices_used() > 1 || gdev_session_description(session)->apart;
	CUresult result;
	void *memory;

	TRY_GDEV(locked ? gdev_host_alloc(session, bytes, &memory)
			: gdev_managed_alloc(session, bytes, (uint64_t *)&memory),
		"%zu bytes of %s memory cannot be had", bytes, locked ? "page-locked" : "managed");
	result = memory_remember(context, (uint64_t)memory, bytes, ALLOCATION_MANAGED, flags);
	if (result != CUDA_SUCCESS) {
		gdev_memory_free(session, (uint64_t)memory);
		return result;
	}
	if (locked)
		access_new_host_memory(context, (uint64_t)memory);
	*pointer = (uint64_t)memory;
	return CUDA_SUCCESS;
}

CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned int flags)
{
	CUdeviceptr address;
	CUcontext context;
	void *mapped;
	int error;

	TRY(current_context(&context));
	if (!pointer || !bytes || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the pointer is NULL, the size 0, or flags %#x are neither global nor host",
			flags);
	TRY(memory_alloc(bytes, ALLOCATION_MANAGED, &address));
	error = gdev_memory_map(context->session, address, bytes, &mapped);
	if (error) {
		cuMemFree_v2(address);
		return error == -ENOTSUP ? alloc_apart(context, bytes, flags, pointer)
					 : result_of(error, "the memory cannot be mapped");
	}
	*pointer = address;
	return CUDA_SUCCESS;
}

static CUresult find_managed(CUdeviceptr pointer, size_t count, struct allocation *allocation)
{
	struct gdev_range range;
	CUcontext context;

	TRY(current_context(&context));
	if (!count || !memory_find(pointer, &range, allocation) || !memory_is_managed(allocation) ||
		count > range.bytes - (pointer - range.base))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"%zu bytes at %#llx are not within one managed allocation", count,
			(unsigned long long)pointer);
	return CUDA_SUCCESS;
}

static CUresult check_location(const CUmemLocation *location)
{
	struct device *found;

	if (location->type == CU_MEM_LOCATION_TYPE_DEVICE)
		return device_find(location->id, &found);
	return location->type >= CU_MEM_LOCATION_TYPE_HOST &&
			       location->type <= CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT
		       ? CUDA_SUCCESS
		       : fail(CUDA_ERROR_INVALID_VALUE, "%d is no type of location",
				 (int)location->type);
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr pointer, size_t count, CUmemLocation location,
	unsigned int flags, CUstream handle)
{
	struct allocation allocation;
	CUstream stream;

	TRY(stream_enter(handle, &stream));
	if (flags)
		return fail(CUDA_ERROR_INVALID_VALUE, "flags must be 0");
	TRY(find_managed(pointer, count, &allocation));
	TRY(check_location(&location));
	if (location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		TRY_GDEV(gdev_managed_prefetch(stream->context->session, pointer, count),
			"the memory cannot be copied to the device");
	allocation.advice.prefetched = location;
	memory_advise(&allocation);
	return CUDA_SUCCESS;
}

/* ---- batches, which CUDA has for devices with concurrent managed access alone ---- */

/* All of it is checked before any of it is done. `flags` and the default stream: as CUDA wants them. */
static CUresult check_batch(CUdeviceptr *pointers, size_t *sizes, size_t count,
	unsigned long long flags, CUstream handle, CUstream *stream)
{
	struct allocation allocation;
	int concurrent;

	TRY(stream_enter(handle, stream));
	if (!pointers || !sizes || !count || flags)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"a list is NULL, or there is nothing in it, or flags are not 0");
	if (!handle || handle == CU_STREAM_LEGACY)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"CUDA refuses the legacy default stream here; use a stream that the "
			"program made");
	for (CUdevice device = 0; device < devices_count(); device++) {
		TRY(device_attribute(
			device, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, &concurrent));
		if (!concurrent)
			return fail(CUDA_ERROR_NOT_SUPPORTED,
				"device %d has no concurrent managed access", device);
	}
	for (size_t i = 0; i < count; i++)
		TRY(find_managed(pointers[i], sizes[i], &allocation));
	return CUDA_SUCCESS;
}

static CUresult check_locations(
	const CUmemLocation *locations, const size_t *first_of, size_t number, size_t count)
{
	if (!locations || !first_of || !number || number > count || first_of[0])
		return fail(CUDA_ERROR_INVALID_VALUE,
			"a list is NULL, or a count 0, or there are more locations than ranges, or the "
			"first location is not for the first range");
	for (size_t i = 0; i < number; i++) {
		if (first_of[i] >= count || (i && first_of[i] <= first_of[i - 1]))
			return fail(CUDA_ERROR_INVALID_VALUE,
				"location %zu does not begin behind the one before", i);
		TRY(check_location(&locations[i]));
	}
	return CUDA_SUCCESS;
}

CUresult cuMemPrefetchBatchAsync(CUdeviceptr *pointers, size_t *sizes, size_t count,
	CUmemLocation *locations, size_t *first_of, size_t number, unsigned long long flags,
	CUstream handle)
{
	CUstream stream;
	size_t location = 0;

	TRY(check_batch(pointers, sizes, count, flags, handle, &stream));
	TRY(check_locations(locations, first_of, number, count));
	for (size_t i = 0; i < count; i++) {
		if (location + 1 < number && first_of[location + 1] == i)
			location++;
		TRY(cuMemPrefetchAsync_v2(pointers[i], sizes[i], locations[location], 0, stream));
	}
	return CUDA_SUCCESS;
}

/* What is discarded has any contents: those that it had, here. */
CUresult cuMemDiscardBatchAsync(CUdeviceptr *pointers, size_t *sizes, size_t count,
	unsigned long long flags, CUstream handle)
{
	CUstream stream;

	return check_batch(pointers, sizes, count, flags, handle, &stream);
}

CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *pointers, size_t *sizes, size_t count,
	CUmemLocation *locations, size_t *first_of, size_t number, unsigned long long flags,
	CUstream stream)
{
	return cuMemPrefetchBatchAsync(
		pointers, sizes, count, locations, first_of, number, flags, stream);
}

/* ---- advice ---- */

/* Of one that was checked. */
static uint32_t accessor_bit(const CUmemLocation *location)
{
	return location->type == CU_MEM_LOCATION_TYPE_DEVICE ? 1u << location->id : 1u << 31;
}

CUresult cuMemAdvise_v2(
	CUdeviceptr pointer, size_t count, CUmem_advise advice, CUmemLocation location)
{
	struct allocation allocation;
	struct advice *kept = &allocation.advice;

	TRY(initialised());
	if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
		return fail(CUDA_ERROR_INVALID_VALUE, "%d is no advice", (int)advice);
	TRY(find_managed(pointer, count, &allocation));
	/* It does not matter for this one, but NVIDIA's library wants one all the same. */
	if (advice == CU_MEM_ADVISE_SET_READ_MOSTLY &&
		location.type == CU_MEM_LOCATION_TYPE_INVALID)
		return fail(CUDA_ERROR_INVALID_VALUE, "the location is none");
	if ((advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION ||
		    advice >= CU_MEM_ADVISE_SET_ACCESSED_BY) &&
		check_location(&location) != CUDA_SUCCESS)
		return fail(CUDA_ERROR_INVALID_VALUE, "the location is none");
	switch (advice) {
	case CU_MEM_ADVISE_SET_READ_MOSTLY:
	case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
		kept->read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
		break;
	case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
		kept->preferred = location;
		break;
	case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
		kept->preferred = (CUmemLocation){0};
		break;
	case CU_MEM_ADVISE_SET_ACCESSED_BY:
		kept->accessed_by |= accessor_bit(&location);
		break;
	case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
		kept->accessed_by &= ~accessor_bit(&location);
		break;
	}
	memory_advise(&allocation);
	return CUDA_SUCCESS;
}

/* ---- what a range is said to be ---- */

/* A location as a device's number. */
static int number_of(const CUmemLocation *location)
{
	switch (location->type) {
	case CU_MEM_LOCATION_TYPE_INVALID:
		return CU_DEVICE_INVALID;
	case CU_MEM_LOCATION_TYPE_DEVICE:
		return location->id;
	default:
		return CU_DEVICE_CPU;
	}
}

static void list_accessors(uint32_t accessed_by, int *devices, size_t room)
{
	size_t count = 0;

	for (int i = 0; i < 32; i++)
		if (accessed_by >> i & 1 && count < room)
			devices[count++] = i == 31 ? CU_DEVICE_CPU : i;
	while (count < room)
		devices[count++] = CU_DEVICE_INVALID;
}

static CUresult range_attribute(
	const struct advice *advice, void *data, size_t size, CUmem_range_attribute attribute)
{
	int *answer = data;

	if (!data || !size || size % sizeof *answer ||
		(size > sizeof *answer && attribute != CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"data is NULL, or %zu bytes are not what the attribute has", size);
	switch (attribute) {
	case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
		*answer = advice->read_mostly;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
		*answer = number_of(&advice->preferred);
		break;
	case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
		list_accessors(advice->accessed_by, answer, size / sizeof *answer);
		break;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
		*answer = number_of(&advice->prefetched);
		break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
		*answer = (int)advice->preferred.type;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
		*answer = advice->preferred.id;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
		*answer = (int)advice->prefetched.type;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
		*answer = advice->prefetched.id;
		break;
	default:
		return fail(
			CUDA_ERROR_INVALID_VALUE, "%d is no attribute of ranges", (int)attribute);
	}
	return CUDA_SUCCESS;
}

CUresult cuMemRangeGetAttribute(
	void *data, size_t size, CUmem_range_attribute attribute, CUdeviceptr pointer, size_t count)
{
	struct allocation allocation;

	TRY(find_managed(pointer, count, &allocation));
	return range_attribute(&allocation.advice, data, size, attribute);
}

CUresult cuMemRangeGetAttributes(void **data, size_t *sizes, CUmem_range_attribute *attributes,
	size_t attribute_count, CUdeviceptr pointer, size_t count)
{
	struct allocation allocation;

	TRY(find_managed(pointer, count, &allocation));
	if (!data || !sizes || !attributes || !attribute_count)
		return fail(CUDA_ERROR_INVALID_VALUE, "a list is NULL, or has nothing in it");
	for (size_t i = 0; i < attribute_count; i++)
		TRY(range_attribute(&allocation.advice, data[i], sizes[i], attributes[i]));
	return CUDA_SUCCESS;
}
