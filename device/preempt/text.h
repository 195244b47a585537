/* SPDX-License-Identifier: MIT
 *
 * What rewrite.c and loops.c share: writing a kernel anew. */
#ifndef GDEV_DEVICE_PREEMPT_TEXT_H
#define GDEV_DEVICE_PREEMPT_TEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define OURS "__gdev_" /* what our names begin with */

struct function;
struct scanned;
struct points;
struct variable;
struct work;

/* Copies the text up to `at`, which is where it goes on. */
static inline void text_copy(FILE *out, const char **from, const char *at)
{
	fwrite(*from, 1, (size_t)(at - *from), out);
	*from = at;
}

/* rewrite.c: the kernel's directives, under another name, with a hidden parameter of so many bytes; up to the first brace. */
void text_write_head(FILE *out, const struct scanned *f, const char *suffix, size_t hidden_bytes);

/* rewrite.c: dynamic shared memory has one address, whatever its arrays are called, if they are aligned alike: ours, which is called
 * OURS "shared" with its alignment in bytes behind that, is aligned as the kernel's own are at most. */
bool text_is_dynamic(const struct variable *v);
uint32_t text_dynamic_align(const struct function *entry, bool *differ);

/* loops.c: the kernel that leaves at these points. Returns how many bytes of shared memory its variables take in what is kept. */
uint32_t loops_write(
	FILE *out, const struct scanned *f, const struct work *w, const struct points *points);

#endif
