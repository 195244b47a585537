/* SPDX-License-Identifier: MIT
 *
 * Blocks that double up to a megabyte; large requests get their own.
 */
#include "device/cpu/ptx/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct arena_block {
	struct arena_block *next;
	size_t pad;
	char bytes[];
};

void *arena_alloc(struct arena *arena, size_t bytes)
{
	if (bytes > SIZE_MAX / 2)
		return NULL;
	bytes = (bytes + 15) & ~(size_t)15;
	if (!arena->blocks || arena->size - arena->used < bytes) {
		size_t size = arena->size ? arena->size * 2 : 4096;

		if (size > 1 << 20)
			size = 1 << 20;
		if (size < bytes)
			size = bytes;
		struct arena_block *block = calloc(1, sizeof(*block) + size);
		if (!block)
			return NULL;
		block->next = arena->blocks;
		arena->blocks = block;
		arena->used = 0;
		arena->size = size;
	}
	void *p = arena->blocks->bytes + arena->used;
	arena->used += bytes;
	arena->total += bytes;
	return p;
}

char *arena_string(struct arena *arena, const char *text, size_t length)
{
	char *copy = arena_alloc(arena, length + 1);

	if (copy)
		memcpy(copy, text, length);
	return copy;
}

void *arena_grow(struct arena *arena, void *array, size_t count, size_t element, unsigned *capacity)
{
	if (count < *capacity)
		return array;
	unsigned bigger = *capacity ? *capacity * 2 : 8;
	void *moved = arena_alloc(arena, bigger * element);
	if (!moved)
		return NULL;
	if (count)
		memcpy(moved, array, count * element);
	*capacity = bigger;
	return moved;
}

void arena_finish(struct arena *arena)
{
	while (arena->blocks) {
		struct arena_block *next = arena->blocks->next;

		free(arena->blocks);
		arena->blocks = next;
	}
	*arena = (struct arena){0};
}
