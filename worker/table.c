/* SPDX-License-Identifier: MIT
 *
 * See table.h.
 */
#include "worker/table.h"

#include <errno.h>
#include <stdlib.h>

#define INDEX_BITS 20
#define INDEX_MASK ((1u << INDEX_BITS) - 1)
#define GENERATION_MASK ((1u << (32 - INDEX_BITS)) - 1)

void table_finish(struct table *table)
{
	free(table->slots);
	*table = (struct table){0};
}

static int grow_table(struct table *table)
{
	uint32_t capacity = table->capacity ? 2 * table->capacity : 64;
	struct table_slot *slots;

	if (capacity > INDEX_MASK + 1)
		return -ENOMEM;
	slots = realloc(table->slots, capacity * sizeof *slots);
	if (!slots)
		return -ENOMEM;
	table->slots = slots;
	table->capacity = capacity;
	return 0;
}

int table_add(struct table *table, void *object, uint32_t *handle)
{
	uint32_t index;

	if (table->first_free) {
		index = table->first_free - 1;
		table->first_free = table->slots[index].next_free;
	} else {
		if (table->count == table->capacity && grow_table(table))
			return -ENOMEM;
		index = table->count++;
		table->slots[index].generation = 1;
	}
	table->slots[index].object = object;
	*handle = table->slots[index].generation << INDEX_BITS | index;
	return 0;
}

void *table_find(const struct table *table, uint32_t handle)
{
	uint32_t index = handle & INDEX_MASK;

	if (index >= table->count || table->slots[index].generation != handle >> INDEX_BITS)
		return NULL;
	return table->slots[index].object;
}

void table_remove(struct table *table, uint32_t handle)
{
	uint32_t index = handle & INDEX_MASK;
	struct table_slot *slot;

	if (!table_find(table, handle))
		return;
	slot = &table->slots[index];
	slot->object = NULL;
	slot->generation = (slot->generation + 1) & GENERATION_MASK;
	if (!slot->generation)
		slot->generation = 1;
	slot->next_free = table->first_free;
	table->first_free = index + 1;
}
