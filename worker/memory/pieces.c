/* SPDX-License-Identifier: MIT
 *
 * The chunks that device memory is made of: choosing their sizes, making, mapping, keeping some for
 * reuse. Large chunks move faster: a chunk costs the same to make, map, unmap and give back whatever its size. Small ones
 * waste less: objects below 16 MiB are made of the smallest.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "worker/core.h"
#include "worker/memory/memory.h"
#include "worker/memory/swap.h"

#define LARGE_BYTES (16ull << 20)
#define HUGE_PAGE (2ull << 20)
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

static uint64_t next_chunk_bytes(uint64_t whole, uint64_t left)
{
	uint64_t bytes = DEVICE_CHUNK_MIN;

	if (whole < LARGE_BYTES)
		return min_of(bytes, left);
	while (2 * bytes <= left && bytes < DEVICE_CHUNK_MAX)
		bytes *= 2;
	return bytes;
}

static size_t count_chunks(uint64_t whole, uint64_t chunk_bytes)
{
	size_t count = 0;

	for (uint64_t left = whole; left; count++)
		left -= chunk_bytes ? chunk_bytes : next_chunk_bytes(whole, left);
	return count;
}

static struct device_chunk *take_kept(struct core *core, uint64_t bytes)
{
	struct device_chunk *chunk = NULL;
	struct kept_chunk *kept;

	core_lock(core);
	list_for_each (kept, &core->memory.kept, link) {
		if (kept->bytes == bytes) {
			chunk = kept->chunk;
			list_remove(&kept->link);
			core->memory.kept_bytes -= bytes;
			free(kept);
			break;
		}
	}
	core_unlock(core);
	return chunk;
}

int memory_make_chunk(struct core *core, struct piece *piece)
{
	struct device_array *array = piece->range->array;

	piece->chunk = array ? NULL : take_kept(core, piece->bytes);
	if (piece->chunk)
		return 0;
	memory_trim(core, UINT64_MAX);
	return array ? core->ops->array_chunk(array, &piece->chunk)
		     : core->ops->chunk_create(core->device, piece->bytes, &piece->chunk);
}

/* chunk_bytes not 0: for another session, and therefore of new chunks. */
static int make_chunks(struct core *core, struct range *range, bool for_another)
{
	int error = 0;

	for (size_t i = 0; i < range->piece_count && !error; i++) {
		struct piece *piece = &range->pieces[i];
		if (for_another) {
			memory_trim(core, UINT64_MAX);
			error = core->ops->chunk_create(core->device, piece->bytes, &piece->chunk);
		} else {
			error = memory_make_chunk(core, piece);
		}
	}
	return error;
}

int memory_make_pieces(
	struct core *core, uint64_t bytes, uint64_t chunk_bytes, bool fresh, struct range *range)
{
	size_t count = count_chunks(bytes, chunk_bytes);
	struct piece *pieces = calloc(count, sizeof *pieces);
	uint64_t offset = 0;
	int error;

	if (!pieces)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		pieces[i].range = range;
		pieces[i].offset = offset;
		pieces[i].bytes =
			chunk_bytes ? chunk_bytes : next_chunk_bytes(bytes, bytes - offset);
		pieces[i].state = fresh ? PIECE_FRESH : PIECE_RESIDENT;
		list_init(&pieces[i].link);
		offset += pieces[i].bytes;
	}
	range->pieces = pieces;
	range->piece_count = count;
	error = fresh ? 0 : make_chunks(core, range, chunk_bytes != 0);
	if (error)
		memory_drop_pieces(core, range);
	return error;
}

struct piece *memory_piece(const struct range *range, uint64_t address)
{
	uint64_t offset = address - range->address;
	size_t low = 0, high = range->piece_count;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;
		if (range->pieces[middle].offset > offset)
			high = middle;
		else
			low = middle;
	}
	return &range->pieces[low];
}

int memory_map_pieces(struct core *core, struct range *range)
{
	for (size_t i = 0; i < range->piece_count; i++) {
		struct piece *piece = &range->pieces[i];
		int error = 0;
		if (piece->chunk)
			error = core->ops->map(core->space, range->address + piece->offset,
				piece->chunk, range->read_only);
		if (error) {
			memory_unmap_pieces(core, range, i);
			return error;
		}
	}
	return 0;
}

void memory_unmap_pieces(struct core *core, struct range *range, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct piece *piece = &range->pieces[i];
		if (piece->chunk) {
			core->ops->unmap(core->space, range->address + piece->offset, piece->chunk);
		} else if (piece->state == PIECE_MAPPED) {
			swap_unmap(core, piece->slot);
			piece->slot = NULL;
		}
	}
}

/* Keeps some for the next object of this session, which may see what is in them. */
void memory_drop_pieces(struct core *core, struct range *range)
{
	struct memory *memory = &core->memory;

	for (size_t i = 0; i < range->piece_count; i++) {
		struct piece *piece = &range->pieces[i];
		struct kept_chunk *kept = NULL;
		core_lock(core);
		if (piece->slot)
			swap_put(core, piece->slot);
		if (piece->chunk && range->kind == RANGE_DEVICE &&
			memory->kept_bytes + piece->bytes <= MEMORY_SLACK_BYTES)
			kept = malloc(sizeof *kept);
		if (kept) {
			kept->chunk = piece->chunk;
			kept->bytes = piece->bytes;
			list_append(&memory->kept, &kept->link);
			memory->kept_bytes += kept->bytes;
		}
		core_unlock(core);
		if (piece->chunk && !kept)
			core->ops->chunk_destroy(piece->chunk);
	}
	range->piece_count = 0;
}

void memory_trim(struct core *core, uint64_t limit)
{
	struct memory *memory = &core->memory;
	struct kept_chunk *kept;

	do {
		uint64_t slack;
		kept = NULL;
		core_lock(core);
		slack = memory->charged_bytes - memory->used_bytes;
		if (memory->kept_bytes > min_of(limit, slack))
			kept = list_first(&memory->kept, struct kept_chunk, link);
		if (kept) {
			list_remove(&kept->link);
			memory->kept_bytes -= kept->bytes;
		}
		core_unlock(core);
		if (kept)
			core->ops->chunk_destroy(kept->chunk);
		free(kept);
	} while (kept);
}

/* ---- host memory ---- */

int memory_register(struct core *core, uint64_t address, uint64_t bytes)
{
	return core->ops->host_register ? core->ops->host_register(core->space, address, bytes) : 0;
}

void memory_unregister(struct core *core, uint64_t address, uint64_t bytes)
{
	if (core->ops->host_unregister)
		core->ops->host_unregister(core->space, address, bytes);
}

/* What is to be registered gets all its memory in any case; here in huge pages, if nobody has used it: the kernel opens and
 * closes small ones one by one, which takes longer than to copy what is in them (lib/libgdev/managed.c). Whatever it does
 * with files by itself, it puts huge pages together when it is asked to: not out of nothing, so that each has a small one
 * first, and not any more when they are registered. Before Linux 6.1, or if it has none, pages stay small. */
static void populate_huge(uint64_t address, uint64_t bytes)
{
	uint64_t end = bytes - bytes % HUGE_PAGE;
	unsigned char used;
	int error = 0;

	if (!end || mincore((void *)address, 1, &used) || (used & 1))
		return;
	for (uint64_t at = 0; at < end && !error; at += HUGE_PAGE)
		error = madvise((void *)(address + at), 1, MADV_POPULATE_WRITE);
	if (!error)
		madvise((void *)address, end, MADV_COLLAPSE);
}

int memory_map_host(struct core *core, uint64_t address, uint64_t bytes, int fd, uint64_t offset)
{
	void *base = (void *)(uintptr_t)address;
	int error;

	if (mmap(base, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, (off_t)offset) ==
		MAP_FAILED) {
		error = -errno; /* what was there may be gone */
	} else {
		if (core->ops->host_register)
			populate_huge(address, bytes);
		error = memory_register(core, address, bytes);
	}
	if (error)
		memory_reserve_again(address, bytes);
	return error;
}

void memory_unmap_host(struct core *core, uint64_t address, uint64_t bytes)
{
	memory_unregister(core, address, bytes);
	memory_reserve_again(address, bytes);
}

void memory_reserve_again(uint64_t address, uint64_t bytes)
{
	void *base = (void *)(uintptr_t)address;

	if (mmap(base, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
		    -1, 0) == MAP_FAILED)
		log_error("the arena cannot be reserved again at %p", base);
}
