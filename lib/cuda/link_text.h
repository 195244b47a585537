/* SPDX-License-Identifier: MIT
 *
 * Several modules as PTX become one, as text: what cuLink does with them here. Any device takes the result.
 */
#ifndef GDEV_CUDA_LINK_TEXT_H
#define GDEV_CUDA_LINK_TEXT_H

#include <stddef.h>

/* Texts end with NUL. *linked is malloc'ed; *bytes counts its NUL. 0; -EINVAL: the texts do not go together, or one of them
 * is no PTX, which `why` says; -ENOMEM. */
int link_texts(char *const *texts, size_t count, char **linked, size_t *bytes, char *why,
	size_t why_bytes);

#endif
