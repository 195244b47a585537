/* SPDX-License-Identifier: MIT
 *
 * Intrusive doubly-linked list. A head is a struct list that points to itself when empty; an
 * element is any struct with a struct list member. No locking of its own.
 */
#ifndef GDEV_BASE_LIST_H
#define GDEV_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct list {
	struct list *prev, *next;
};

#define container_of(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

static inline void list_init(struct list *head)
{
	head->prev = head->next = head;
}

static inline bool list_empty(const struct list *head)
{
	return head->next == head;
}

/* Inserts `element` after `position`: at the front when `position` is the head. */
static inline void list_insert(struct list *position, struct list *element)
{
	element->prev = position;
	element->next = position->next;
	position->next->prev = element;
	position->next = element;
}

static inline void list_append(struct list *head, struct list *element)
{
	list_insert(head->prev, element);
}

/* Leaves `element` as an empty list, so that removing it twice is harmless. */
static inline void list_remove(struct list *element)
{
	element->prev->next = element->next;
	element->next->prev = element->prev;
	list_init(element);
}

#define list_entry(pointer, type, member) container_of(pointer, type, member)

#define list_first(head, type, member)                                                             \
	(list_empty(head) ? NULL : list_entry((head)->next, type, member))

/* The link of `item`, which may be the list's head taken for an item: an address, not an access. */
#define list_link(item, member)                                                                    \
	((struct list *)((uintptr_t)(item) + offsetof(__typeof__(*(item)), member)))

#define list_for_each(item, head, member)                                                          \
	for (item = list_entry((head)->next, __typeof__(*item), member);                           \
		list_link(item, member) != (head);                                                 \
		item = list_entry(list_link(item, member)->next, __typeof__(*item), member))

/* As list_for_each, and the body may remove `item`. */
#define list_for_each_safe(item, after, head, member)                                              \
	for (item = list_entry((head)->next, __typeof__(*item), member),                           \
	    after = list_entry(list_link(item, member)->next, __typeof__(*item), member);          \
		list_link(item, member) != (head); item = after,                                   \
	    after = list_entry(list_link(item, member)->next, __typeof__(*item), member))

#endif
