/* SPDX-License-Identifier: MIT
 *
 * What rewrite.c and loops.c share: writing a kernel anew. */
#ifndef GDEV_DEVICE_PREEMPT_TEXT_H
#define GDEV_DEVICE_PREEMPT_TEXT_H

#include <stdio.h>

#define OURS "__gdev_" /* what our names begin with */

struct scanned;
struct points;
struct work;

/* Copies the text up to `at`, which is where it goes on. */
static inline void text_copy(FILE *out, const char **from, const char *at)
{
	fwrite(*from, 1, (size_t)(at - *from), out);
	*from = at;
}

/* rewrite.c: the kernel's directives, under another name, with a hidden parameter of so many bytes; up to the first brace. */
void text_write_head(FILE *out, const struct scanned *f, const char *suffix, size_t hidden_bytes);

/* loops.c: the kernel that leaves at these points. Returns how many bytes of shared memory its variables take in what is kept. */
uint32_t loops_write(
	FILE *out, const struct scanned *f, const struct work *w, const struct points *points);

#endif
