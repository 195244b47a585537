/* SPDX-License-Identifier: MIT
 *
 * See pool.c. No locks: whoever has the pool has one.
 */
#ifndef GDEV_LIB_PTASK_POOL_H
#define GDEV_LIB_PTASK_POOL_H

#include <stdint.h>

#include "base/cleanup.h"
#include "base/list.h"

struct pool {
	struct list free; /* struct range */
};

int pool_init(struct pool *pool, uint64_t bytes);
/* Twice is fine. */
void pool_finish(struct pool *pool);
/* At a multiple of 64; also for 0 bytes. -ENOMEM. */
int pool_take(struct pool *pool, uint64_t bytes, uint64_t *offset);
void pool_give(struct pool *pool, uint64_t offset, uint64_t bytes);

#endif
