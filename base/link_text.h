/* SPDX-License-Identifier: MIT
 *
 * Several modules as PTX become one, as text: for cuLink, and for what nvcc -rdc compiled. Any device takes the result.
 */
#ifndef GDEV_BASE_LINK_TEXT_H
#define GDEV_BASE_LINK_TEXT_H

#include <stddef.h>

/* The version of a fat binary's wrapper (proto/fatbin.h) whose fat binaries are to be linked. In an image that a session loads
 * they lie behind the wrapper, at multiples of 8. */
#define FATBIN_WRAPPER_UNITS 2

/* Texts end with NUL. *linked is malloc'ed; *bytes counts its NUL. 0; -EINVAL: the texts do not go together, or one of them
 * is no PTX, which `why` says; -ENOMEM. */
int link_texts(char *const *texts, size_t count, char **linked, size_t *bytes, char *why,
	size_t why_bytes);

#endif
