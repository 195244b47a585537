/* SPDX-License-Identifier: MIT
 *
 * What a kernel with event loops may ask the host for: any words, of a file and a socket that it was given. The device is a
 * piece of memory of this process, of exactly its size.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/gloop/internal.h"

#define PAGE_BYTES 4096
#define PAGES 2
#define FILE_BYTES 5000
#define DEVICE_BYTES 8192
#define MAP_BYTES_MAX (1u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static char *device;

/* ---- CUDA ---- */

static bool is_on_device(CUdeviceptr at, size_t bytes)
{
	return at >= (uintptr_t)device && at - (uintptr_t)device <= DEVICE_BYTES &&
	       bytes <= DEVICE_BYTES - (at - (uintptr_t)device);
}

static CUresult memory_read(
	CUdeviceptr to, size_t bytes, int fd, uint64_t offset, int flags, int64_t *moved)
{
	if (!is_on_device(to, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	*moved = pread(fd, (void *)(uintptr_t)to, bytes, (off_t)offset);
	if (*moved < 0)
		*moved = -errno;
	return CUDA_SUCCESS;
}

static CUresult memory_write(
	CUdeviceptr from, size_t bytes, int fd, uint64_t offset, int flags, int64_t *moved)
{
	if (!is_on_device(from, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	*moved = pwrite(fd, (void *)(uintptr_t)from, bytes, (off_t)offset);
	if (*moved < 0)
		*moved = -errno;
	return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
	return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
	return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream stream)
{
	return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream)
{
	return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr *memory, size_t bytes)
{
	void *made = bytes <= MAP_BYTES_MAX ? malloc(bytes) : NULL;

	*memory = (uintptr_t)made;
	return made ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemFree(CUdeviceptr memory)
{
	free((void *)(uintptr_t)memory);
	return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
	memcpy((void *)(uintptr_t)to, from, bytes);
	return CUDA_SUCCESS;
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream)
{
	memset((void *)(uintptr_t)to, value, bytes);
	return CUDA_SUCCESS;
}

/* ---- the host event loop, without its waiting ---- */

static void serve(struct host *host, struct request *r)
{
	int error = request_take(host, r);

	if (error) {
		r->result = error;
	} else if (request_copies(r)) {
		r->result = -EFAULT; /* engine.c does it */
	} else if (!request_try(host, r)) {
		if (!request_needs_page(r) && request_blocks(r))
			request_complete(host, r);
		if (request_needs_page(r) || r->result == -EAGAIN)
			r->result = -ECANCELED; /* it waits */
	}
	if (r->result > PAGE_BYTES && !r->placed && (r->op == GLOOP_READ || r->op == GLOOP_RECEIVE))
		abort(); /* so much is not in the page */
	request_finish(host, r);
}

static void give(struct host *host, int fd)
{
	if (table_add_copy(&host->table, fd) < 0)
		abort();
	close(fd);
}

static void open_host(struct host *host, int other[2])
{
	int file = memfd_create("fuzz", MFD_CLOEXEC);

	*host = (struct host){.page_bytes = PAGE_BYTES,
		.page_count = PAGES,
		.confined = true,
		.read = memory_read,
		.write = memory_write};
	list_init(&host->maps);
	table_init(&host->table);
	host->pages = malloc(PAGES * PAGE_BYTES);
	device = malloc(DEVICE_BYTES);
	if (!host->pages || !device || file < 0 || ftruncate(file, FILE_BYTES) < 0 ||
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, other) < 0 ||
		send(other[0], "hello", 5, 0) != 5)
		abort();
	memset(host->pages, 'p', PAGES * PAGE_BYTES);
	memset(device, 'd', DEVICE_BYTES);
	give(host, file);
	give(host, other[1]);
}

/* Each 64 bytes are a request; of destination and source the low bits count from the device's memory. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct host host;
	int other[2];

	open_host(&host, other);
	for (size_t at = 0; at + 64 <= length; at += 64) {
		struct gloop_rpc rpc = {0};
		struct request r = {.rpc = &rpc};

		memcpy(&rpc, bytes + at, 64);
		rpc.op %= GLOOP_UNMAP + 2;
		if (rpc.destination >> 63)
			rpc.destination = (uintptr_t)device + (rpc.destination & 0xffff);
		if (rpc.source >> 63)
			rpc.source = (uintptr_t)device + (rpc.source & 0xffff);
		serve(&host, &r);
	}
	table_finish(&host.table);
	maps_finish(&host);
	close(other[0]);
	free(host.pages);
	free(device);
	return 0;
}
