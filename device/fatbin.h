/* SPDX-License-Identifier: MIT
 *
 * Images that programs hand to a module load, and the PTX in them. Pure: no state, no I/O; the bytes
 * are a stranger's.
 */
#ifndef GDEV_DEVICE_FATBIN_H
#define GDEV_DEVICE_FATBIN_H

#include <stddef.h>
#include <stdint.h>

/* Finds the PTX in `image`, which is PTX text (a NUL ends it), a fat binary from its header on, or a
 * fat binary's wrapper with the fat binary right behind it or where its pointer says, if that is
 * within the image. Of several PTX texts it takes the one for the highest target that is at most
 * `target` (90 for sm_90), else the lowest. *text is malloc'ed and NUL-terminated.
 * -GDEV_E_INVALID_IMAGE, -GDEV_E_NO_BINARY (machine code of a GPU, and no PTX), -ENOMEM; then *why
 * is a sentence for the caller's log. */
int fatbin_ptx(const void *image, size_t length, unsigned target, char **text, size_t *text_length,
	const char **why);

/* Calls `visit` for every program in an image as above: PTX (NUL-terminated) or machine code (ELF), unpacked and
 * aligned, to be read until it returns. 0; what `visit` returned, if not 0; -EINVAL: the image is none of these, or
 * something in it cannot be unpacked; -ENOMEM. */
int fatbin_each(const void *image, size_t length,
	int (*visit)(void *owner, const void *program, size_t length), void *owner);

/* Of fat binaries that lie one behind the other, with padding between them: the length of the first that
 * begins at *offset or behind, to which *offset is set; 0: none does. */
size_t fatbin_next(const void *bytes, size_t length, size_t *offset);

#endif
