/* SPDX-License-Identifier: MIT
 *
 * Copying memory, where memcpy is not at its best.
 */
#ifndef GDEV_BASE_COPY_H
#define GDEV_BASE_COPY_H

#include <stddef.h>

/* From here on a copy goes past the caches, which saves reading what it overwrites: twice as fast where
 * it does not fit them, and up to twice as slow where it does. The C library cannot know: it sees pieces. */
#define COPY_STREAM_BYTES (16ull << 20)
#define COPY_STREAM_ROW_BYTES 4096

/* As memcpy, past the caches where the processor can. What it wrote is visible to other processors before
 * whatever the caller stores next. */
void copy_streaming(void *destination, const void *source, size_t bytes);

/* As memcpy, also where the destination is a little ahead of the source within a page, which is how memory of
 * malloc() is to mapped memory: the C library's copies of some KiB (rep movsb) are then more than ten times
 * slower on some processors. */
void copy_cached(void *destination, const void *source, size_t bytes);

#endif
