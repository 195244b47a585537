/* SPDX-License-Identifier: MIT
 *
 * Shared device memory: cuShmGet, cuShmAt, cuShmDt, cuShmCtl of the Gdev paper (section 4.2).
 */
#include <sys/ipc.h>

#include "lib/cuda/exports.h"
#include "lib/cuda/internal.h"

CUresult cuShmGet(int *id, int key, size_t size, int flags)
{
	CUcontext context;
	uint32_t got;

	TRY(current_context(&context));
	if (!id)
		return CUDA_ERROR_INVALID_VALUE;
	TRY_GDEV(gdev_shm_get(context->session, key, size, flags, &got));
	*id = (int)got;
	return CUDA_SUCCESS;
}

CUresult cuShmAt(CUdeviceptr *pointer, int id, int flags)
{
	struct gdev_range range;
	CUcontext context;
	uint64_t address;
	CUresult result;

	TRY(current_context(&context));
	if (!pointer)
		return CUDA_ERROR_INVALID_VALUE;
	TRY_GDEV(gdev_shm_attach(context->session, (uint32_t)id, flags, &address));
	gdev_memory_lookup(context->session, address, &range);
	result = memory_remember(context, address, range.bytes, ALLOCATION_SHARED, 0);
	if (result != CUDA_SUCCESS) {
		gdev_shm_detach(context->session, address);
		return result;
	}
	*pointer = address;
	return CUDA_SUCCESS;
}

CUresult cuShmDt(CUdeviceptr pointer)
{
	struct allocation allocation;
	struct gdev_range range;
	CUcontext context;

	TRY(current_context(&context));
	if (!memory_find(pointer, &range, &allocation) || allocation.kind != ALLOCATION_SHARED ||
		range.base != pointer)
		return CUDA_ERROR_INVALID_VALUE;
	memory_forget(pointer, &allocation);
	return result_of(gdev_shm_detach(context->session, pointer));
}

CUresult cuShmCtl(int id, int command, CUshmInfo *buffer)
{
	struct gdev_shm_info info = {0};
	CUcontext context;

	TRY(current_context(&context));
	if (command != IPC_STAT && command != IPC_SET && command != IPC_RMID)
		return CUDA_ERROR_INVALID_VALUE;
	if (command != IPC_RMID && !buffer)
		return CUDA_ERROR_INVALID_VALUE;
	if (command == IPC_SET)
		info.mode = buffer->mode;
	TRY_GDEV(gdev_shm_control(context->session, (uint32_t)id, command, &info));
	if (command == IPC_STAT)
		*buffer = (CUshmInfo){
			info.id, info.uid, info.gid, info.mode, info.bytes, info.attached};
	return CUDA_SUCCESS;
}
