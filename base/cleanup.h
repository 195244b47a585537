/* SPDX-License-Identifier: MIT
 *
 * Scope-bound release and small arithmetic helpers.
 */
#ifndef GDEV_BASE_CLEANUP_H
#define GDEV_BASE_CLEANUP_H

#include <stdlib.h>
#include <unistd.h>

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
		__typeof__(*(pointer)) s_ = *(pointer);                                            \
		*(pointer) = NULL;                                                                 \
		s_;                                                                                \
	})

static inline int steal_fd(int *fd)
{
	int stolen = *fd;
	*fd = -1;
	return stolen;
}

#define array_length(array) (sizeof(array) / sizeof((array)[0]))
#define align_up(value, alignment)                                                                 \
	(((value) + (__typeof__(value))(alignment)-1) & ~((__typeof__(value))(alignment)-1))
#define min_of(a, b) ((a) < (b) ? (a) : (b))
#define max_of(a, b) ((a) > (b) ? (a) : (b))

#endif
