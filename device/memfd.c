/* SPDX-License-Identifier: MIT
 *
 * See memfd.h.
 */
#include "device/memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "device/ops.h"

static bool size_valid(uint64_t bytes)
{
	if (bytes < DEVICE_CHUNK_MIN)
		return bytes && !(bytes % MEMFD_GRAIN);
	return bytes <= DEVICE_CHUNK_MAX && !(bytes & (bytes - 1));
}

/* Takes over `fd`. */
static int chunk_wrap(int fd, uint64_t bytes, struct device_chunk **out)
{
	struct device_chunk *chunk = malloc(sizeof *chunk);

	if (!chunk) {
		close(fd);
		return -ENOMEM;
	}
	*chunk = (struct device_chunk){.fd = fd, .bytes = bytes};
	*out = chunk;
	return 0;
}

int memfd_chunk_create(uint64_t bytes, struct device_chunk **chunk)
{
	int fd;

	if (!size_valid(bytes))
		return -EINVAL;
	fd = fd_shared_memory("gdev-chunk", bytes);
	return fd < 0 ? fd : chunk_wrap(fd, bytes, chunk);
}

int memfd_chunk_import(int fd, uint64_t bytes, struct device_chunk **chunk)
{
	uint64_t actual;
	int copy;

	/* Sealed, or another process could shrink it under our kernels. */
	if (!size_valid(bytes) || fd_shared_memory_size(fd, &actual) || actual != bytes)
		return -EINVAL;
	copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return copy < 0 ? -errno : chunk_wrap(copy, bytes, chunk);
}

void memfd_chunk_destroy(struct device_chunk *chunk)
{
	close(chunk->fd);
	free(chunk);
}

int memfd_chunk_export(struct device_chunk *chunk, int *fd)
{
	int copy = fcntl(chunk->fd, F_DUPFD_CLOEXEC, 0);

	if (copy < 0)
		return -errno;
	*fd = copy;
	return 0;
}

int memfd_reserve(struct memfd_ranges *ranges, uint64_t base, uint64_t bytes)
{
	unsigned count = ranges->count;
	void *wanted = (void *)(uintptr_t)base, *mapped;

	if (count == DEVICE_RANGES_MAX)
		return -ENOSPC;
	mapped = mmap(wanted, bytes, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	if (mapped == MAP_FAILED)
		return errno == EEXIST ? -EADDRINUSE : -errno;
	if (mapped != wanted) { /* a kernel that does not know the flag */
		munmap(mapped, bytes);
		return -EADDRINUSE;
	}
	ranges->list[count].base = base;
	ranges->list[count].bytes = bytes;
	ranges->count = count + 1;
	return 0;
}

void memfd_release(const struct memfd_ranges *ranges)
{
	for (unsigned i = 0; i < ranges->count; i++)
		munmap((void *)(uintptr_t)ranges->list[i].base, ranges->list[i].bytes);
}

static bool are_reserved(const struct memfd_ranges *ranges, uint64_t address, uint64_t bytes)
{
	unsigned count = ranges->count;

	for (unsigned i = 0; i < count; i++) {
		uint64_t offset = address - ranges->list[i].base;
		if (address >= ranges->list[i].base && offset <= ranges->list[i].bytes &&
			bytes <= ranges->list[i].bytes - offset)
			return true;
	}
	return false;
}

int memfd_map(const struct memfd_ranges *ranges, uint64_t address, struct device_chunk *chunk,
	bool read_only)
{
	int protection = read_only ? PROT_READ : PROT_READ | PROT_WRITE;
	void *at = (void *)(uintptr_t)address;

	if (address % DEVICE_CHUNK_MIN || !are_reserved(ranges, address, chunk->bytes))
		return -EINVAL;
	if (mmap(at, chunk->bytes, protection, MAP_SHARED | MAP_FIXED, chunk->fd, 0) == MAP_FAILED)
		return -errno;
	/* Takes effect where the administrator set shmem_enabled to advise; a hint in any case. */
	madvise(at, chunk->bytes, MADV_HUGEPAGE);
	return 0;
}

void memfd_unmap(uint64_t address, struct device_chunk *chunk)
{
	mmap((void *)(uintptr_t)address, chunk->bytes, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

uint64_t memfd_default_bytes(void)
{
	uint64_t half = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;

	return min_of(half, 4ull << 30) & ~(DEVICE_CHUNK_MIN - 1);
}
