/* SPDX-License-Identifier: MIT
 *
 * Memory between processes: cuIpcGetMemHandle and its counterparts. A handle names the object that the
 * allocation is in by its token (gdev/session.h), and where in it the allocation begins: the memory stays
 * where it is, and the other process maps the same chunks. To ask for a handle is to let others in: from then on a process
 * of the same user that is told a handle's bytes may open it, on any device that reaches the memory.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cuda/exports.h"
#include "lib/cuda/internal.h"

#define IPC_MAGIC 0x6d676470u /* "pdgm" */

/* What is in the 64 bytes of a CUipcMemHandle, and in those of a pool's allocation (pool_ipc.c), whose magic is another. */
struct ipc_memory {
	uint32_t magic, id;
	uint64_t session; /* the exporter's */
	uint64_t object_bytes, offset, bytes;
	uint8_t token[GDEV_TOKEN_BYTES];
	uint8_t zero[8];
};
_Static_assert(sizeof(struct ipc_memory) == sizeof(CUipcMemHandle), "CUDA's size");

/* An allocation of another process, which a context has opened `refs` times. */
struct opened {
	struct list link;
	CUcontext context;
	struct gdev_session *session;
	struct ipc_memory memory;
	enum allocation_kind kind;
	uint64_t address;
	unsigned refs;
};

/* Guards `all`. Memory is mapped before it is in the list, and unmapped when it is not any more. */
static pthread_mutex_t *const lock = &process_locks[LOCK_IPC];
static struct list all = {&all, &all};

CUresult ipc_describe(const struct gdev_range *range, const struct allocation *allocation,
	uint32_t magic, void *bytes)
{
	struct ipc_memory memory = {
		.magic = magic,
		.session = gdev_session_description(allocation->session)->session,
		.bytes = range->bytes,
	};
	struct gdev_shared shared;

	TRY_GDEV(gdev_shared_export(allocation->session, range->base, &shared, &memory.offset),
		"the memory cannot be shared");
	TRY_GDEV(gdev_shared_publish(allocation->session, &shared),
		"the memory cannot be handed out");
	memory.id = shared.id;
	memory.object_bytes = shared.bytes;
	memcpy(memory.token, shared.token, sizeof memory.token);
	memcpy(bytes, &memory, sizeof memory);
	return CUDA_SUCCESS;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr pointer)
{
	struct allocation allocation;
	struct gdev_range range;
	CUcontext context;

	TRY(current_context(&context));
	if (!handle || !memory_find_anywhere(pointer, &range, &allocation) ||
		allocation.kind != ALLOCATION_DEVICE || range.kind != GDEV_MEMORY_DEVICE)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"handle is NULL, or %#llx is not in memory of cuMemAlloc",
			(unsigned long long)pointer);
	return ipc_describe(&range, &allocation, IPC_MAGIC, handle);
}

static struct opened *find_opened(CUcontext context, const struct ipc_memory *memory)
{
	struct opened *opened;

	list_for_each (opened, &all, link)
		if (opened->context == context &&
			memcmp(&opened->memory, memory, sizeof *memory) == 0)
			return opened;
	return NULL;
}

static CUresult map_opened(struct opened *opened)
{
	const struct ipc_memory *memory = &opened->memory;
	struct gdev_shared shared = {.id = memory->id, .bytes = memory->object_bytes};
	CUresult result;
	int error;

	memcpy(shared.token, memory->token, sizeof shared.token);
	opened->address = 0;
	error = gdev_shared_map(
		opened->session, &shared, memory->offset, memory->bytes, 0, &opened->address);
	if (error)
		return error == -EINVAL
			       ? fail(CUDA_ERROR_INVALID_HANDLE,
					 "the memory is gone, or another user's, or this device does not "
					 "reach it")
			       : result_of(error, "the memory cannot be mapped");
	result = memory_remember(opened->context, opened->address, memory->bytes, opened->kind, 0);
	if (result != CUDA_SUCCESS)
		gdev_shm_detach(opened->session, opened->address);
	return result;
}

static CUresult unmap_opened(struct opened *opened)
{
	struct allocation allocation;
	CUresult result;

	memory_forget(opened->address, &allocation);
	result = result_of(
		gdev_shm_detach(opened->session, opened->address), "the memory cannot be unmapped");
	free(opened);
	return result;
}

/* If the context has the memory open already, counts this opening, too, and says where it is. */
static bool open_again(CUcontext context, const struct ipc_memory *memory, CUdeviceptr *pointer)
{
	struct opened *opened;

	pthread_mutex_lock(lock);
	opened = find_opened(context, memory);
	if (opened) {
		opened->refs++;
		*pointer = opened->address;
	}
	pthread_mutex_unlock(lock);
	return opened;
}

/* Maps the memory. If another thread has done so meanwhile, that mapping is used, and this one is taken away. */
static CUresult open_new(CUcontext context, const struct ipc_memory *memory,
	enum allocation_kind kind, CUdeviceptr *pointer)
{
	struct opened *opened = malloc(sizeof *opened), *other;
	CUresult result;

	if (!opened)
		return no_memory();
	*opened = (struct opened){.context = context,
		.session = context->session,
		.memory = *memory,
		.kind = kind,
		.refs = 1};
	result = map_opened(opened);
	if (result != CUDA_SUCCESS) {
		free(opened);
		return result;
	}
	pthread_mutex_lock(lock);
	other = find_opened(context, memory);
	if (other)
		other->refs++;
	else
		list_append(&all, &opened->link);
	*pointer = other ? other->address : opened->address;
	pthread_mutex_unlock(lock);
	if (other)
		unmap_opened(opened);
	return CUDA_SUCCESS;
}

/* Whether a session of this process made it, on whatever device. */
static bool is_ours(const struct ipc_memory *memory)
{
	struct gdev_session *sessions[DEVICES_MAX];
	unsigned count = peer_sessions(sessions);
	bool ours = false;

	for (unsigned i = 0; i < count; i++) {
		ours |= gdev_session_description(sessions[i])->session == memory->session;
		gdev_session_close(sessions[i]);
	}
	return ours;
}

CUresult ipc_open(CUcontext context, const void *bytes, uint32_t magic, enum allocation_kind kind,
	CUdeviceptr *pointer)
{
	struct ipc_memory memory;

	memcpy(&memory, bytes, sizeof memory);
	if (memory.magic != magic)
		return fail(CUDA_ERROR_INVALID_VALUE, "no memory was exported by these bytes");
	/* As in CUDA, memory of this process cannot be opened. */
	if (is_ours(&memory))
		return fail(CUDA_ERROR_INVALID_CONTEXT,
			"as in CUDA, memory is not opened in the process that made it");
	return open_again(context, &memory, pointer) ? CUDA_SUCCESS
						     : open_new(context, &memory, kind, pointer);
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pointer, CUipcMemHandle handle, unsigned int flags)
{
	CUcontext context;

	TRY(current_context(&context));
	if (!pointer || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
		return fail(CUDA_ERROR_INVALID_VALUE, "the pointer is NULL, or the flags are not "
						      "CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS");
	return ipc_open(context, &handle, IPC_MAGIC, ALLOCATION_IPC, pointer);
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *pointer, CUipcMemHandle handle, unsigned int flags)
{
	return cuIpcOpenMemHandle_v2(pointer, handle, flags);
}

CUresult ipc_close(CUcontext context, CUdeviceptr pointer, enum allocation_kind kind)
{
	struct opened *opened, *found = NULL;
	bool last = false;

	pthread_mutex_lock(lock);
	list_for_each (opened, &all, link)
		if (opened->address == pointer && opened->context == context &&
			opened->kind == kind)
			found = opened;
	if (found)
		last = --found->refs == 0;
	if (last)
		list_remove(&found->link);
	pthread_mutex_unlock(lock);
	if (!found)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"%#llx is not the beginning of another process's memory",
			(unsigned long long)pointer);
	return last ? unmap_opened(found) : CUDA_SUCCESS;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr pointer)
{
	CUcontext context;

	TRY(current_context(&context));
	return ipc_close(context, pointer, ALLOCATION_IPC);
}

void ipc_release_context(CUcontext context)
{
	struct list leaving = {&leaving, &leaving};
	struct opened *opened, *after;

	pthread_mutex_lock(lock);
	list_for_each_safe (opened, after, &all, link)
		if (opened->context == context) {
			list_remove(&opened->link);
			list_append(&leaving, &opened->link);
		}
	pthread_mutex_unlock(lock);
	list_for_each_safe (opened, after, &leaving, link)
		unmap_opened(opened);
}

void ipc_forget(void)
{
	struct opened *opened, *after;

	list_for_each_safe (opened, after, &all, link)
		free(opened);
	list_init(&all);
}
