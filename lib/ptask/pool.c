/* SPDX-License-Identifier: MIT
 *
 * Ranges of a memory that two processes share: the free ones, in the order of their places. The first that is large enough is
 * taken, so that what is touched stays small. What a pool knows is in private memory: the other process cannot spoil it.
 */
#include <errno.h>

#include "lib/ptask/pool.h"

#define GRANULE 64ull /* a line of the cache */

struct range {
	struct list link;
	uint64_t offset, bytes;
};

static struct range *range_create(uint64_t offset, uint64_t bytes)
{
	struct range *range = malloc(sizeof *range);

	if (range)
		*range = (struct range){.offset = offset, .bytes = bytes};
	return range;
}

int pool_init(struct pool *pool, uint64_t bytes)
{
	struct range *all = range_create(0, bytes & ~(GRANULE - 1));

	list_init(&pool->free);
	if (!all)
		return -ENOMEM;
	list_append(&pool->free, &all->link);
	return 0;
}

void pool_finish(struct pool *pool)
{
	struct range *range, *next;

	list_for_each_safe (range, next, &pool->free, link)
		free(range);
	list_init(&pool->free);
}

static uint64_t rounded(uint64_t bytes)
{
	return align_up(bytes ? bytes : 1, GRANULE);
}

int pool_take(struct pool *pool, uint64_t bytes, uint64_t *offset)
{
	struct range *range;

	if (bytes > UINT64_MAX - GRANULE)
		return -ENOMEM;
	bytes = rounded(bytes);
	list_for_each (range, &pool->free, link) {
		if (range->bytes < bytes)
			continue;
		*offset = range->offset;
		range->offset += bytes;
		range->bytes -= bytes;
		if (!range->bytes) {
			list_remove(&range->link);
			free(range);
		}
		return 0;
	}
	return -ENOMEM;
}

/* The range and the one behind it become one, if they touch. */
static void join_next(struct pool *pool, struct range *range)
{
	struct range *next = list_entry(range->link.next, struct range, link);

	if (&next->link == &pool->free || range->offset + range->bytes != next->offset)
		return;
	range->bytes += next->bytes;
	list_remove(&next->link);
	free(next);
}

void pool_give(struct pool *pool, uint64_t offset, uint64_t bytes)
{
	struct range *before = NULL, *range;

	bytes = rounded(bytes);
	list_for_each (range, &pool->free, link) {
		if (range->offset > offset)
			break;
		before = range;
	}
	if (before && before->offset + before->bytes == offset) {
		before->bytes += bytes;
		join_next(pool, before);
		return;
	}
	range = range_create(offset, bytes);
	if (!range)
		return; /* it is lost to the pool, and to nobody else */
	list_insert(before ? &before->link : &pool->free, &range->link);
	join_next(pool, range);
}
