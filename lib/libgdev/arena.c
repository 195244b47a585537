/* SPDX-License-Identifier: MIT
 *
 * Addresses of a session's arena: a sorted list of free extents, first fit. What it hands out has
 * ARENA_ALIGN of free addresses after it, so that running over the end of an object touches nothing.
 * Called with memory.change held.
 */
#include <errno.h>
#include <string.h>

#include "lib/libgdev/internal.h"

int arena_init(struct arena *arena, uint64_t base, uint64_t bytes)
{
	arena->capacity = 16;
	arena->free = malloc(arena->capacity * sizeof *arena->free);
	if (!arena->free)
		return -ENOMEM;
	arena->free[0] = (struct extent){base, bytes};
	arena->count = 1;
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

int arena_take(struct arena *arena, uint64_t bytes, uint64_t *base)
{
	uint64_t with_gap = bytes + ARENA_ALIGN;

	/* Giving back can always be done: there is room for one extent more than now. */
	if (arena->count + 1 >= arena->capacity) {
		size_t capacity = 2 * arena->capacity;
		struct extent *more = realloc(arena->free, capacity * sizeof *more);
		if (!more)
			return -ENOMEM;
		arena->free = more;
		arena->capacity = capacity;
	}
	if (with_gap < bytes)
		return -ENOMEM;
	for (size_t i = 0; i < arena->count; i++) {
		struct extent *extent = &arena->free[i];
		if (extent->bytes < with_gap)
			continue;
		*base = extent->base;
		extent->base += with_gap;
		extent->bytes -= with_gap;
		if (!extent->bytes)
			remove_extent(arena, i);
		return 0;
	}
	return -ENOMEM;
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
		memmove(&arena->free[i + 1], &arena->free[i],
			(arena->count - i) * sizeof *arena->free);
		arena->free[i] = (struct extent){base, with_gap};
		arena->count++;
	}
}
