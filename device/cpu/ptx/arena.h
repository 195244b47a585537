/* SPDX-License-Identifier: MIT
 *
 * Memory that is freed all at once.
 */
#ifndef GDEV_DEVICE_CPU_PTX_ARENA_H
#define GDEV_DEVICE_CPU_PTX_ARENA_H

#include <stddef.h>

struct arena_block;
struct arena {
	struct arena_block *blocks;
	size_t used, size; /* of the newest block */
	size_t total;
};

/* Zeroed, 16-byte aligned; NULL when memory is exhausted. */
void *arena_alloc(struct arena *arena, size_t bytes);
/* A NUL-terminated copy; NULL when memory is exhausted. */
char *arena_string(struct arena *arena, const char *text, size_t length);
/* Room for one more in an array that doubles: returns the array (moved or not) or NULL. */
void *arena_grow(
	struct arena *arena, void *array, size_t count, size_t element, unsigned *capacity);
void arena_finish(struct arena *arena);

#endif
