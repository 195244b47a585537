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

#include "base/names.h"

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

/* As a value of its type, or NULL when the list is empty. */
#define list_first(head, type, member) ((type *)list_first_(head, offsetof(type, member)))

static inline void *list_first_(const struct list *head, size_t offset)
{
	return list_empty(head) ? NULL : (char *)head->next - offset;
}

/* The link of `item`, which may be the list's head taken for an item: an address, not an access. */
#define list_link(item, member)                                                                    \
	((struct list *)((uintptr_t)(item) + offsetof(__typeof__(*(item)), member)))

/* `head` is evaluated once, before the first turn. */
#define list_for_each(item, head, member) list_for_each_(item, head, member, unique_name(end_))
/* As list_for_each, and the body may remove `item`. */
#define list_for_each_safe(item, after, head, member)                                              \
	list_for_each_safe_(item, after, head, member, unique_name(end_))

#define list_for_each_(item, head, member, end_name)                                               \
	for (const struct list *end_name = list_begin_(item, head, member);                        \
		list_link(item, member) != end_name;                                               \
		item = list_entry(list_link(item, member)->next, __typeof__(*item), member))
#define list_for_each_safe_(item, after, head, member, end_name)                                   \
	for (const struct list *end_name = list_begin_(item, head, member);                        \
		after = list_entry(list_link(item, member)->next, __typeof__(*item), member),      \
			       list_link(item, member) != end_name;                                \
		item = after)
/* The head, with `item` set to what is first there. */
#define list_begin_(item, head, member)                                                            \
	({                                                                                         \
		const struct list *head_ = (head);                                                 \
		item = list_entry(head_->next, __typeof__(*item), member);                         \
		head_;                                                                             \
	})

#endif
