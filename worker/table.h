/* SPDX-License-Identifier: MIT
 *
 * Handles that a client can hold: a small index and a generation, so that a handle of something that
 * is gone names nothing, also when its place is taken again. Guarded by the core's lock.
 */
#ifndef GDEV_WORKER_TABLE_H
#define GDEV_WORKER_TABLE_H

#include <stdint.h>

struct table_slot {
	void *object; /* NULL: free */
	uint32_t generation;
	uint32_t next_free; /* index + 1; 0: none */
};

struct table {
	struct table_slot *slots;
	uint32_t count, capacity;
	uint32_t first_free; /* index + 1; 0: none */
};

void table_finish(struct table *table);

/* 0, or -ENOMEM (also when there are a million of them). Never gives the handle 0. */
int table_add(struct table *table, void *object, uint32_t *handle);
/* NULL: nothing has that handle. */
void *table_find(const struct table *table, uint32_t handle);
void table_remove(struct table *table, uint32_t handle);

#endif
