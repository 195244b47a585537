/* SPDX-License-Identifier: MIT
 *
 * Memory between processes: cuIpcGetMemHandle and its counterparts. A handle names the object that the
 * allocation is in by its token (gdev/session.h), and where in it the allocation begins: the memory stays
 * where it is, and the other process maps the same chunks. Who is told a handle's bytes and is the same user
 * may open it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/cuda/exports.h"
#include "lib/cuda/internal.h"

#define IPC_MAGIC 0x6d676470u /* "pdgm" */

/* What is in the 64 bytes of a CUipcMemHandle. */
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
	uint64_t address;
	unsigned refs;
};

static pthread_mutex_t lock =
	PTHREAD_MUTEX_INITIALIZER; /* before those of memory.c; guards `all` */
static struct list all = {&all, &all};

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr pointer)
{
	struct allocation allocation;
	struct gdev_shared shared;
	struct gdev_range range;
	struct ipc_memory memory;
	CUcontext context;

	TRY(current_context(&context));
	if (!handle || !memory_find(pointer, &range, &allocation) ||
		allocation.kind != ALLOCATION_DEVICE || range.kind != GDEV_MEMORY_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	memory = (struct ipc_memory){
		.magic = IPC_MAGIC,
		.session = gdev_session_description(context->session)->session,
		.bytes = range.bytes,
	};
	TRY_GDEV(gdev_shared_export(context->session, range.base, &shared, &memory.offset));
	memory.id = shared.id;
	memory.object_bytes = shared.bytes;
	memcpy(memory.token, shared.token, sizeof memory.token);
	memcpy(handle, &memory, sizeof memory);
	return CUDA_SUCCESS;
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

static CUresult map(struct opened *opened)
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
		return error == -EINVAL ? CUDA_ERROR_INVALID_HANDLE : result_of(error);
	result =
		memory_remember(opened->context, opened->address, memory->bytes, ALLOCATION_IPC, 0);
	if (result != CUDA_SUCCESS)
		gdev_shm_detach(opened->session, opened->address);
	return result;
}

static CUresult open_new(CUcontext context, const struct ipc_memory *memory, struct opened **result)
{
	struct opened *opened = malloc(sizeof *opened);
	CUresult mapped;

	if (!opened)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*opened =
		(struct opened){.context = context, .session = context->session, .memory = *memory};
	mapped = map(opened);
	if (mapped != CUDA_SUCCESS) {
		free(opened);
		return mapped;
	}
	list_append(&all, &opened->link);
	*result = opened;
	return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pointer, CUipcMemHandle handle, unsigned int flags)
{
	CUresult result = CUDA_SUCCESS;
	struct ipc_memory memory;
	struct opened *opened;
	CUcontext context;

	TRY(current_context(&context));
	memcpy(&memory, &handle, sizeof memory);
	if (!pointer || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || memory.magic != IPC_MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	/* As in CUDA, memory of this process cannot be opened. */
	if (memory.session == gdev_session_description(context->session)->session)
		return CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&lock);
	opened = find_opened(context, &memory);
	if (!opened)
		result = open_new(context, &memory, &opened);
	if (result == CUDA_SUCCESS) {
		opened->refs++;
		*pointer = opened->address;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *pointer, CUipcMemHandle handle, unsigned int flags)
{
	return cuIpcOpenMemHandle_v2(pointer, handle, flags);
}

static CUresult close_opened(struct opened *opened)
{
	struct allocation allocation;
	CUresult result;

	if (--opened->refs)
		return CUDA_SUCCESS;
	memory_forget(opened->address, &allocation);
	result = result_of(gdev_shm_detach(opened->session, opened->address));
	list_remove(&opened->link);
	free(opened);
	return result;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr pointer)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	struct opened *opened, *after;
	CUcontext context;

	TRY(current_context(&context));
	pthread_mutex_lock(&lock);
	list_for_each_safe (opened, after, &all, link)
		if (opened->address == pointer && opened->context == context) {
			result = close_opened(opened);
			break;
		}
	pthread_mutex_unlock(&lock);
	return result;
}

void ipc_release_context(CUcontext context)
{
	struct opened *opened, *after;

	pthread_mutex_lock(&lock);
	list_for_each_safe (opened, after, &all, link)
		if (opened->context == context) {
			opened->refs = 1;
			close_opened(opened);
		}
	pthread_mutex_unlock(&lock);
}

void ipc_forget(void)
{
	struct opened *opened, *after;

	pthread_mutex_init(&lock, NULL);
	list_for_each_safe (opened, after, &all, link)
		free(opened);
	list_init(&all);
}
