/* SPDX-License-Identifier: MIT
 *
 * Parts of files as device memory, each its kernel's own copy. One is made on a thread that may block, and is in the list of the
 * run when the request is answered.
 */
#include "lib/gloop/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define MAPS_MAX 4096
#define PIECE_BYTES ((size_t)1 << 20)

struct map {
	struct list link;
	CUdeviceptr memory;
};

/* What the file does not have any more is zero. */
static int copy_file(const struct request *r, CUdeviceptr memory, size_t bytes, CUstream stream)
{
	autofree char *piece = malloc(PIECE_BYTES);
	size_t at = 0;

	if (!piece)
		return -ENOMEM;
	while (at < bytes) {
		ssize_t n = pread(r->file->fd, piece, min_of(PIECE_BYTES, bytes - at),
			(off_t)(r->offset + at));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		if (cuMemcpyHtoDAsync(memory + at, piece, (size_t)n, stream) != CUDA_SUCCESS ||
			cuStreamSynchronize(stream) != CUDA_SUCCESS)
			return -EIO;
		at += (size_t)n;
	}
	if (at < bytes && (cuMemsetD8Async(memory + at, 0, bytes - at, stream) != CUDA_SUCCESS ||
				  cuStreamSynchronize(stream) != CUDA_SUCCESS))
		return -EIO;
	return 0;
}

int64_t map_file(const struct host *host, struct request *r)
{
	CUdeviceptr memory;
	CUstream stream;
	struct stat stat;
	size_t bytes;
	int error;

	if (fstat(r->file->fd, &stat) < 0)
		return -errno;
	if (!r->length || r->offset >= (uint64_t)stat.st_size)
		return -EINVAL;
	bytes = min_of(r->length, (uint64_t)stat.st_size - r->offset);
	if (cuCtxSetCurrent(host->context) != CUDA_SUCCESS ||
		cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
		return -EIO;
	error = cuMemAlloc(&memory, bytes) == CUDA_SUCCESS ? 0 : -ENOMEM;
	if (!error) {
		error = copy_file(r, memory, bytes, stream);
		if (error)
			cuMemFree(memory);
		else
			r->mapped = memory;
	}
	cuStreamDestroy(stream);
	return error ? error : (int64_t)memory;
}

int map_add(struct host *host, CUdeviceptr memory)
{
	struct map *map = host->map_count < MAPS_MAX ? malloc(sizeof(*map)) : NULL;

	if (!map) {
		cuMemFree(memory);
		return -ENOMEM;
	}
	map->memory = memory;
	list_append(&host->maps, &map->link);
	host->map_count++;
	return 0;
}

static void end(struct host *host, struct map *map)
{
	cuMemFree(map->memory);
	list_remove(&map->link);
	host->map_count--;
	free(map);
}

int map_remove(struct host *host, CUdeviceptr memory)
{
	struct map *map;

	list_for_each (map, &host->maps, link)
		if (map->memory == memory) {
			end(host, map);
			return 0;
		}
	return -EINVAL;
}

void maps_finish(struct host *host)
{
	struct map *map;

	while ((map = list_first(&host->maps, struct map, link)))
		end(host, map);
}
