/* SPDX-License-Identifier: MIT
 *
 * Memory pools between processes. A pool leaves the process as a file, which says only that there is one: the other process gets a
 * pool of its own for it, from which nothing is allocated. What leaves are single allocations, as cuIpcGetMemHandle() has
 * them (ipc.c): the memory stays where it is, and the other process maps it, until it frees its own pointer.
 */
#include <string.h>
#include <unistd.h>

#include "lib/cuda/exports.h"
#include "lib/cuda/internal.h"

#define POOL_MAGIC 0x6f6f7067u      /* "gpoo": of an allocation */
#define POOL_FILE_MAGIC 0x666f7067u /* "gpof" */

struct pool_file {
	uint32_t magic;
	char vgpu[GDEV_NAME_MAX];
};

CUresult cuMemPoolExportToShareableHandle(void *shareable, CUmemoryPool pool,
	CUmemAllocationHandleType type, unsigned long long flags)
{
	struct pool_file file = {.magic = POOL_FILE_MAGIC};
	struct device *device;

	TRY(pool_check(pool));
	if (!shareable || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
		!pool_is_shareable(pool))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the pointer is NULL, flags are not 0, or the pool was not made to leave the "
			"process as a file descriptor");
	TRY(device_find(pool_device(pool), &device));
	memcpy(file.vgpu, device->vgpu, sizeof file.vgpu);
	return shareable_write(&file, sizeof file, shareable);
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *os_handle,
	CUmemAllocationHandleType type, unsigned long long flags)
{
	struct pool_file file;

	TRY(initialised());
	if (!pool || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the pointer is NULL, flags are not 0, or it is no file descriptor");
	if (pread((int)(uintptr_t)os_handle, &file, sizeof file, 0) != sizeof file ||
		file.magic != POOL_FILE_MAGIC)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the descriptor is none of cuMemPoolExportToShareableHandle");
	file.vgpu[GDEV_NAME_MAX - 1] = '\0';
	return pool_import(shareable_device(file.vgpu), pool);
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr pointer)
{
	struct allocation allocation;
	struct gdev_range range;

	TRY(initialised());
	/* The other process gets the beginning of an allocation, and no address within. */
	if (!data || !memory_find_anywhere(pointer, &range, &allocation) || !allocation.pool ||
		pointer != range.base || !pool_is_shareable(allocation.pool))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the pointer for the data is NULL, or no memory of a pool that was made to leave the "
			"process begins at %#llx",
			(unsigned long long)pointer);
	return ipc_describe(&range, &allocation, POOL_MAGIC, data);
}

/* Where memory of the pool is opened: on the pool's device, by the primary context if another device's is current; but a current
 * device that has a right to the pool has the memory itself, and where the pool's has no context, so has any. */
static CUresult context_for(CUmemoryPool pool, CUcontext *context)
{
	CUmemLocation place = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
	CUcontext current, primary;
	CUmemAccess_flags right;

	TRY(current_context(&current));
	TRY(primary_handle(pool_device(pool), &primary));
	place.id = current->device;
	TRY(cuMemPoolGetAccess(&right, pool, &place));
	*context = right || !primary->session ? current : primary;
	return CUDA_SUCCESS;
}

CUresult cuMemPoolImportPointer(
	CUdeviceptr *pointer, CUmemoryPool pool, CUmemPoolPtrExportData *data)
{
	CUcontext context;

	TRY(pool_check(pool));
	if (!pointer || !data || !pool_is_imported(pool))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"a pointer is NULL, or the pool is not another process's");
	TRY(context_for(pool, &context));
	return ipc_open(context, data, POOL_MAGIC, ALLOCATION_IMPORTED, pointer);
}
