/* SPDX-License-Identifier: MIT
 *
 * Images that programs hand to a module load, and the PTX in them. Pure: no state, no I/O; the bytes
 * are a stranger's.
 */
#ifndef GDEV_DEVICE_FATBIN_H
#define GDEV_DEVICE_FATBIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Finds the PTX in `image`, which is PTX text (a NUL ends it), a fat binary from its header on, or a
 * fat binary's wrapper with the fat binary right behind it or where its pointer says, if that is
 * within the image. Of several PTX texts it takes the one for the highest target that is at most
 * `target` (90 for sm_90), else the lowest. Of a wrapper of version FATBIN_WRAPPER_UNITS, behind which there are several fat
 * binaries, it links the PTX of each. *text is malloc'ed and NUL-terminated.
 * -GDEV_E_INVALID_IMAGE, -GDEV_E_NO_BINARY (machine code of a GPU, and no PTX), -ENOMEM; then *why
 * is a sentence for the caller's log. */
int fatbin_ptx(const void *image, size_t length, unsigned target, char **text, size_t *text_length,
	const char **why);

/* Calls `visit` for every program in an image as above: PTX (NUL-terminated) or machine code (ELF), unpacked,
 * to be read until it returns. A NUL follows the image, too. 0; what `visit` returned, if not 0; -EINVAL: the image is none of these, or
 * something in it cannot be unpacked; -ENOMEM. */
int fatbin_each(const void *image, size_t length,
	int (*visit)(void *owner, const void *program, size_t length), void *owner);

/* Whether a fat binary has nothing in it: nvcc puts such a one before those of a program's own code. */
bool fatbin_is_empty(const void *image, size_t length);

/* Whether the text of PTX has the calls by which kernels launch kernels; whether a function of that name is one. */
bool fatbin_launches(const void *text, size_t length);
bool fatbin_launches_by(const char *name);
/* The same of those that launch graphs. */
bool fatbin_launches_graphs(const void *text, size_t length);

/* Whether an image is such a wrapper with units, which only fatbin_ptx() and fatbin_choose() read. */
bool fatbin_has_units(const void *image, size_t length);

/* Of such a wrapper: the machine code of the first unit that has no PTX for the target, malloc'ed, with a NUL behind. That is
 * the vendor's device runtime, which kernels that launch kernels call. -ENOENT: every unit has PTX, or none has such code. */
int fatbin_runtime(
	const void *image, size_t length, unsigned target, void **code, size_t *code_length);

/* What a device of compute capability `target` (90: 9.0) takes of a fat binary (or of a wrapper, as above): the machine
 * code that was made for its architecture; else the PTX for the highest target that is at most `target`. *chosen is
 * malloc'ed: the program, unpacked, with a NUL behind; or, when the driver has to choose among several or to apply
 * options, a fat binary of what comes into question. -ENOENT: there is nothing to choose, or nothing fits; -ENOMEM; of units
 * what fatbin_ptx() says. */
int fatbin_choose(
	const void *image, size_t length, unsigned target, void **chosen, size_t *chosen_length);

/* Whether what it takes is machine code for a newer architecture than any PTX that it could take. Kernels may be others in
 * that, or empty. */
bool fatbin_has_newer_code(const void *image, size_t length, unsigned target);

/* Of fat binaries that lie one behind the other, with padding between them: the length of the first that
 * begins at *offset or behind, to which *offset is set; 0: none does. */
size_t fatbin_next(const void *bytes, size_t length, size_t *offset);

#endif
