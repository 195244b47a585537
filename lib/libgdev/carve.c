/* SPDX-License-Identifier: MIT
 *
 * Small blocks carved out of larger memory objects, so that most allocations need no word with the worker.
 * Best fit among bins of powers of two; neighbours that are both free become one. The book-keeping is
 * beside the memory, not in it. Called with memory.change held.
 */
#include <errno.h>

#include "lib/libgdev/managed.h"

static unsigned bin_of(uint64_t bytes)
{
	unsigned log2 = 63 - (unsigned)__builtin_clzll(bytes);

	return min_of(log2, CARVE_BINS - 1);
}

void pool_init(struct pool *pool, enum gdev_memory_kind kind)
{
	pool->kind = kind;
	pool->spare = NULL;
	list_init(&pool->objects);
	for (unsigned i = 0; i < CARVE_BINS; i++)
		list_init(&pool->bins[i]);
}

static void put_in_bin(struct pool *pool, struct block *block)
{
	list_append(&pool->bins[bin_of(block->bytes)], &block->bin);
}

/* The smallest block of a bin that is large enough. */
static struct block *best_of(struct list *bin, uint64_t bytes)
{
	struct block *best = NULL, *block;

	list_for_each (block, bin, bin)
		if (block->bytes >= bytes && (!best || block->bytes < best->bytes))
			best = block;
	return best;
}

/* Leaves `bytes` in `block`; the rest becomes a free block. When there is no memory for that, the block
 * keeps it all. */
static void split(struct pool *pool, struct block *block, uint64_t bytes)
{
	struct block *rest;

	if (block->bytes == bytes)
		return;
	rest = calloc(1, sizeof *rest);
	if (!rest)
		return;
	rest->object = block->object;
	rest->base = block->base + bytes;
	rest->bytes = block->bytes - bytes;
	block->bytes = bytes;
	list_insert(&block->link, &rest->link);
	put_in_bin(pool, rest);
}

struct block *pool_take(struct pool *pool, uint64_t bytes)
{
	for (unsigned i = bin_of(bytes); i < CARVE_BINS; i++) {
		struct block *block = best_of(&pool->bins[i], bytes);
		if (!block)
			continue;
		list_remove(&block->bin);
		split(pool, block, bytes);
		block->object->used_blocks++;
		if (pool->spare == block->object)
			pool->spare = NULL;
		return block;
	}
	return NULL;
}

int object_whole_block(struct object *object, struct block **created)
{
	struct block *block = calloc(1, sizeof *block);

	if (!block)
		return -ENOMEM;
	block->object = object;
	block->base = object->base;
	block->bytes = object->bytes;
	list_init(&block->bin);
	list_append(&object->blocks, &block->link);
	*created = block;
	return 0;
}

int pool_add(struct pool *pool, struct object *object)
{
	struct block *block;
	int error = object_whole_block(object, &block);

	if (error)
		return error;
	list_append(&pool->objects, &object->link);
	put_in_bin(pool, block);
	return 0;
}

/* Joins `block` with the one after it when both are free. */
static void join(struct pool *pool, struct block *block)
{
	struct block *after;

	if (block->link.next == &block->object->blocks)
		return;
	after = list_entry(block->link.next, struct block, link);
	if (after->asked_bytes || block->asked_bytes)
		return;
	list_remove(&after->bin);
	list_remove(&after->link);
	list_remove(&block->bin);
	block->bytes += after->bytes;
	put_in_bin(pool, block);
	free(after);
}

struct object *pool_give(struct pool *pool, struct block *block)
{
	struct object *object = block->object;

	block->asked_bytes = 0;
	put_in_bin(pool, block);
	join(pool, block);
	if (block->link.prev != &object->blocks)
		join(pool, list_entry(block->link.prev, struct block, link));
	if (--object->used_blocks)
		return NULL;
	if (!pool->spare) {
		pool->spare = object;
		return NULL;
	}
	list_remove(&list_first(&object->blocks, struct block, link)->bin);
	list_remove(&object->link);
	return object;
}

void object_free(struct object *object)
{
	struct block *block, *after;

	list_for_each_safe (block, after, &object->blocks, link)
		free(block);
	direct_forget(object);
	managed_forget(object);
	free(object);
}
