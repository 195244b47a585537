/* SPDX-License-Identifier: MIT
 *
 * Scope-bound release and small arithmetic helpers.
 */
#ifndef GDEV_BASE_CLEANUP_H
#define GDEV_BASE_CLEANUP_H

#include <stdlib.h>
#include <unistd.h>

#include "base/names.h"

static inline void cleanup_free(void *pointer)
{
	free(*(void **)pointer);
}

static inline void cleanup_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

#define autofree __attribute__((cleanup(cleanup_free)))
#define autoclose __attribute__((cleanup(cleanup_close)))

/* Takes the value out of `pointer` and leaves NULL (-1 for a descriptor): marks where ownership moves. */
#define steal_pointer(pointer)                                                                     \
	({                                                                                         \
		__typeof__(pointer) from_ = (pointer);                                             \
		__typeof__(*from_) taken_ = *from_;                                                \
		*from_ = NULL;                                                                     \
		taken_;                                                                            \
	})

static inline int steal_fd(int *fd)
{
	int stolen = *fd;
	*fd = -1;
	return stolen;
}

#define array_length(array) (sizeof(array) / sizeof((array)[0]))
/* Each evaluates each of its arguments once: an argument may call a function, or load a word that a stranger writes. */
#define align_up(value, alignment) align_up_(value, alignment, unique_name(mask_))
#define min_of(a, b) pick_of_(<, a, b, unique_name(a_), unique_name(b_))
#define max_of(a, b) pick_of_(>, a, b, unique_name(a_), unique_name(b_))

#define pick_of_(order, a, b, first_name, second_name)                                             \
	({                                                                                         \
		__typeof__(1 ? (a) : (b)) first_name = (a), second_name = (b);                     \
		first_name order second_name ? first_name : second_name;                           \
	})
#define align_up_(value, alignment, mask_name)                                                     \
	({                                                                                         \
		__typeof__(value) mask_name = (__typeof__(value))(alignment)-1;                    \
		(__typeof__(value))(((value) + mask_name) & ~mask_name);                           \
	})

#endif
