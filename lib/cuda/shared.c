/* SPDX-License-Identifier: MIT
 *
 * What Gdev added to CUDA: shared device memory, cuShmGet, cuShmAt, cuShmDt, cuShmCtl of the paper (section 4.2), and
 * device memory that the process maps, or reads files into.
 */
#include <errno.h>
#include <sys/ipc.h>
#include <sys/uio.h>

#include "lib/cuda/exports.h"
#include "lib/cuda/internal.h"

CUresult cuShmGet(int *id, int key, size_t size, int flags)
{
	CUcontext context;
	uint32_t got;

	TRY(current_context(&context));
	if (!id)
		return fail(CUDA_ERROR_INVALID_VALUE, "id is NULL");
	TRY_GDEV(gdev_shm_get_or_make(context->session, key, size, flags, &got),
		"the segment of key %d cannot be had", key);
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
		return fail(CUDA_ERROR_INVALID_VALUE, "the pointer is NULL");
	TRY_GDEV(gdev_shm_attach(context->session, (uint32_t)id, flags, &address),
		"segment %d cannot be attached", id);
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
		return fail(CUDA_ERROR_INVALID_VALUE,
			"%#llx is not the beginning of memory of cuShmAt",
			(unsigned long long)pointer);
	memory_forget(pointer, &allocation);
	return result_of(
		gdev_shm_detach(context->session, pointer), "the segment cannot be detached");
}

CUresult cuShmCtl(int id, int command, CUshmInfo *buffer)
{
	struct gdev_shm_info info = {0};
	CUcontext context;

	TRY(current_context(&context));
	if (command != IPC_STAT && command != IPC_SET && command != IPC_RMID)
		return fail(CUDA_ERROR_INVALID_VALUE, "%d is no command", command);
	if (command != IPC_RMID && !buffer)
		return fail(CUDA_ERROR_INVALID_VALUE, "buffer is NULL");
	if (command == IPC_SET)
		info.mode = buffer->mode;
	TRY_GDEV(gdev_shm_control(context->session, (uint32_t)id, command, &info),
		"segment %d cannot be asked, changed or removed", id);
	if (command == IPC_STAT)
		*buffer = (CUshmInfo){
			info.id, info.uid, info.gid, info.mode, info.bytes, info.attached};
	return CUDA_SUCCESS;
}

CUresult cuGdevMemMap(void **buffer, CUdeviceptr pointer, unsigned int bytes)
{
	CUcontext context;

	TRY(current_context(&context));
	if (!buffer || !bytes)
		return fail(CUDA_ERROR_INVALID_VALUE, "the pointer is NULL, or the size 0");
	TRY_GDEV(gdev_memory_map(context->session, pointer, bytes, buffer),
		"%u bytes at %#llx cannot be mapped", bytes, (unsigned long long)pointer);
	return CUDA_SUCCESS;
}

CUresult cuGdevMemUnmap(void *buffer)
{
	struct allocation allocation;
	struct gdev_range range;
	CUcontext context;

	TRY(current_context(&context));
	if (!memory_find((uint64_t)buffer, &range, &allocation) || !range.mapped)
		return fail(CUDA_ERROR_INVALID_VALUE, "no device memory is mapped at %p", buffer);
	return CUDA_SUCCESS;
}

/* Moves bytes between a file and device memory, by gdev_memory_read() or gdev_memory_write(). */
static CUresult move_file(__typeof__(gdev_memory_read) *move, CUdeviceptr memory, size_t bytes,
	int fd, uint64_t offset, int flags, int64_t *moved)
{
	CUcontext context;
	int64_t got;

	TRY(current_context(&context));
	if (!moved || !bytes || flags & ~RWF_NOWAIT || offset > INT64_MAX)
		return fail(CUDA_ERROR_INVALID_VALUE, "%zu bytes at %#llx, flags %#x, or no result",
			bytes, (unsigned long long)offset, flags);
	got = move(context->session, memory, bytes, fd, offset, flags);
	if (got == -ENOTSUP)
		return fail(CUDA_ERROR_NOT_SUPPORTED,
			"the process cannot reach %zu bytes at %#llx, or not now", bytes,
			(unsigned long long)memory);
	*moved = got;
	return CUDA_SUCCESS;
}

CUresult cuGdevMemRead(
	CUdeviceptr destination, size_t bytes, int fd, uint64_t offset, int flags, int64_t *read)
{
	return move_file(gdev_memory_read, destination, bytes, fd, offset, flags, read);
}

CUresult cuGdevMemWrite(
	CUdeviceptr source, size_t bytes, int fd, uint64_t offset, int flags, int64_t *written)
{
	return move_file(gdev_memory_write, source, bytes, fd, offset, flags, written);
}

CUresult cuGdevCtxGetRevoked(int *revoked)
{
	CUcontext context;
	int told;

	TRY(current_context(&context));
	if (!revoked)
		return fail(CUDA_ERROR_INVALID_VALUE, "the pointer is NULL");
	told = gdev_session_revoked(context->session);
	*revoked = max_of(told, 0);
	return result_of(min_of(told, 0), "nobody says so in a virtual machine");
}
