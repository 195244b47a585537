/* SPDX-License-Identifier: MIT
 *
 * Where the functions of a PTX text are, and what in them is in the way of leaving between blocks.
 */
#ifndef GDEV_DEVICE_PREEMPT_SCAN_H
#define GDEV_DEVICE_PREEMPT_SCAN_H

#include <stdbool.h>
#include <stddef.h>

struct scanned {
	struct scanned *next;
	bool entry;
	const char *begin; /* the first of its directives: .visible, .entry */
	const char *name;
	size_t name_length;
	const char *params;      /* behind the name, or the bracket that ends its parameters */
	bool has_list, has_some; /* brackets, parameters in them */
	const char *body,
		*end; /* behind the first brace, behind the last; NULL: it is declared only */
	bool places;  /* it asks for its block's index, or for the grid's size */
	bool inner;   /* it has barriers, or declares shared or local memory, in inner braces */
	const char *unfit; /* "it …"; NULL: nothing */
};

struct scan {
	struct scanned *functions, **tail;
	const char *unfit; /* what is in the way of all */
};

/* 0 or -ENOMEM. */
int scan_text(struct scan *scan, const char *text, size_t length);
void scan_finish(struct scan *scan);

struct token;
/* Whether the word asks for the block's index or the grid's size. */
bool scan_is_place(const struct token *token);

#endif
