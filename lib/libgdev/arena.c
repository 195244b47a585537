/* SPDX-License-Identifier: MIT
 *
 * Addresses of a session's arena: a sorted list of free extents, first fit. What it hands out has
 * ARENA_ALIGN of free addresses after it, so that running over the end of an object touches nothing.
 * Called with memory.change held.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/libgdev/internal.h"

int arena_init(struct arena *arena, uint64_t base, uint64_t bytes)
{
	arena->capacity = 16;
	arena->free = malloc(arena->capacity * sizeof *arena->free);
	if (!arena->free)
		return -ENOMEM;
	arena->free[0] = (struct extent){base, bytes};
	arena->count = 1;
	arena->out = 0;
	return 0;
}

void arena_finish(struct arena *arena)
{
	free(arena->free);
}

static void remove_extent(struct arena *arena, size_t index)
{
	arena->count--;
	memmove(&arena->free[index], &arena->free[index + 1],
		(arena->count - index) * sizeof *arena->free);
}

/* Every range that is out may come back as an extent of its own: giving back must not fail. */
static int make_room(struct arena *arena)
{
	size_t need = arena->count + arena->out + 2, capacity = arena->capacity;
	struct extent *more;

	while (capacity < need)
		capacity *= 2;
	if (capacity == arena->capacity)
		return 0;
	more = realloc(arena->free, capacity * sizeof *more);
	if (!more)
		return -ENOMEM;
	arena->free = more;
	arena->capacity = capacity;
	return 0;
}

static void insert_extent(struct arena *arena, size_t index, uint64_t base, uint64_t bytes)
{
	memmove(&arena->free[index + 1], &arena->free[index],
		(arena->count - index) * sizeof *arena->free);
	arena->free[index] = (struct extent){base, bytes};
	arena->count++;
}

/* Takes [at, at + bytes) out of the extent. */
static void cut(struct arena *arena, size_t index, uint64_t at, uint64_t bytes)
{
	struct extent *extent = &arena->free[index];
	uint64_t before = at - extent->base, after = extent->bytes - before - bytes;

	if (before && after) {
		extent->bytes = before;
		insert_extent(arena, index + 1, at + bytes, after);
	} else if (before) {
		extent->bytes = before;
	} else if (after) {
		*extent = (struct extent){at + bytes, after};
	} else {
		remove_extent(arena, index);
	}
	arena->out++;
}

int arena_take_aligned(struct arena *arena, uint64_t bytes, uint64_t alignment, uint64_t *base)
{
	uint64_t with_gap = bytes + ARENA_ALIGN;
	int error = make_room(arena);

	if (error || with_gap < bytes)
		return -ENOMEM;
	for (size_t i = 0; i < arena->count; i++) {
		const struct extent *extent = &arena->free[i];
		uint64_t at = align_up(extent->base, alignment);
		if (at < extent->base || at - extent->base > extent->bytes ||
			extent->bytes - (at - extent->base) < with_gap)
			continue;
		cut(arena, i, at, with_gap);
		*base = at;
		return 0;
	}
	return -ENOMEM;
}

int arena_take(struct arena *arena, uint64_t bytes, uint64_t *base)
{
	return arena_take_aligned(arena, bytes, ARENA_ALIGN, base);
}

void arena_give(struct arena *arena, uint64_t base, uint64_t bytes)
{
	uint64_t with_gap = bytes + ARENA_ALIGN;
	size_t i = 0;

	while (i < arena->count && arena->free[i].base < base)
		i++;
	bool joins_before = i > 0 && arena->free[i - 1].base + arena->free[i - 1].bytes == base;
	bool joins_after = i < arena->count && base + with_gap == arena->free[i].base;
	if (joins_before) {
		arena->free[i - 1].bytes += with_gap;
		if (joins_after) {
			arena->free[i - 1].bytes += arena->free[i].bytes;
			remove_extent(arena, i);
		}
	} else if (joins_after) {
		arena->free[i].base = base;
		arena->free[i].bytes += with_gap;
	} else {
		insert_extent(arena, i, base, with_gap);
	}
	arena->out--;
}

/* ---- of the process ---- */

bool arena_reserve(uint64_t base, uint64_t bytes)
{
	void *got = mmap((void *)base, bytes, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

	if (got == (void *)base) {
		madvise(got, bytes, MADV_DONTFORK);
		return true;
	}
	if (got != MAP_FAILED) /* a kernel that does not know MAP_FIXED_NOREPLACE */
		munmap(got, bytes);
	return false;
}
