/* SPDX-License-Identifier: MIT
 *
 * The chunks that device memory is made of: choosing their sizes, making, mapping, keeping some for
 * reuse. Large chunks map faster, small ones waste less: objects below 64 MiB are made of the smallest.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "gdev/error.h"
#include "worker/core.h"
#include "worker/memory.h"

#define LARGE_BYTES (64ull << 20)

static uint64_t next_chunk_bytes(uint64_t whole, uint64_t left)
{
	uint64_t bytes = DEVICE_CHUNK_MIN;

	if (whole < LARGE_BYTES)
		return bytes;
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
		if (kept->piece.bytes == bytes) {
			chunk = kept->piece.chunk;
			list_remove(&kept->link);
			core->memory.kept_bytes -= bytes;
			free(kept);
			break;
		}
	}
	core_unlock(core);
	return chunk;
}

int memory_make_pieces(struct core *core, uint64_t bytes, uint64_t chunk_bytes, struct range *range)
{
	size_t count = count_chunks(bytes, chunk_bytes);
	struct piece *pieces = calloc(count, sizeof *pieces);
	bool fresh = chunk_bytes != 0; /* for another session: must be zero */
	uint64_t left = bytes;

	if (!pieces)
		return -ENOMEM;
	range->pieces = pieces;
	for (range->piece_count = 0; left; range->piece_count++) {
		struct piece *piece = &pieces[range->piece_count];
		int error = 0;
		piece->bytes = chunk_bytes ? chunk_bytes : next_chunk_bytes(bytes, left);
		piece->chunk = fresh ? NULL : take_kept(core, piece->bytes);
		if (!piece->chunk) {
			memory_trim(core, UINT64_MAX);
			error = core->ops->chunk_create(core->device, piece->bytes, &piece->chunk);
		}
		if (error) {
			memory_drop_pieces(core, range);
			return error;
		}
		left -= piece->bytes;
	}
	return 0;
}

int memory_map_pieces(struct core *core, struct range *range)
{
	uint64_t address = range->address;

	for (size_t i = 0; i < range->piece_count; i++) {
		int error = core->ops->map(
			core->space, address, range->pieces[i].chunk, range->read_only);
		if (error) {
			memory_unmap_pieces(core, range, i);
			return error;
		}
		address += range->pieces[i].bytes;
	}
	return 0;
}

void memory_unmap_pieces(struct core *core, struct range *range, size_t count)
{
	uint64_t address = range->address;

	for (size_t i = 0; i < count; i++) {
		core->ops->unmap(core->space, address, range->pieces[i].chunk);
		address += range->pieces[i].bytes;
	}
}

/* Keeps some for the next object of this session, which may see what is in them. */
void memory_drop_pieces(struct core *core, struct range *range)
{
	for (size_t i = 0; i < range->piece_count; i++) {
		struct kept_chunk *kept = NULL;
		core_lock(core);
		if (range->kind == RANGE_DEVICE &&
			core->memory.kept_bytes + range->pieces[i].bytes <= MEMORY_SLACK_BYTES)
			kept = malloc(sizeof *kept);
		if (kept) {
			kept->piece = range->pieces[i];
			list_append(&core->memory.kept, &kept->link);
			core->memory.kept_bytes += kept->piece.bytes;
		}
		core_unlock(core);
		if (!kept)
			core->ops->chunk_destroy(range->pieces[i].chunk);
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
			memory->kept_bytes -= kept->piece.bytes;
		}
		core_unlock(core);
		if (kept)
			core->ops->chunk_destroy(kept->piece.chunk);
		free(kept);
	} while (kept);
}

void memory_reserve_again(uint64_t address, uint64_t bytes)
{
	void *base = (void *)(uintptr_t)address;

	if (mmap(base, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
		    -1, 0) == MAP_FAILED)
		log_error("the arena cannot be reserved again at %p", base);
}
