/* SPDX-License-Identifier: MIT
 *
 * Which processors the threads are on that lend themselves to the device. The kernel puts a thread that is woken
 * next to the one that woke it when no processor happens to stand still; two that share one take twice as long,
 * until the kernel looks at the balance again, some milliseconds later: longer than most kernels take. So a
 * thread that comes to a processor where another lender is moves to one where none is.
 *
 * Any thread, no lock: the counts are hints. A thread notes where it is when it begins a piece of work, and may
 * be moved meanwhile.
 */
#ifndef GDEV_WORKER_PLACES_H
#define GDEV_WORKER_PLACES_H

#include <stdint.h>

#define PLACES_MAX 1024 /* threads on processors beyond are not counted, and stay where they are */
#define PLACE_NONE (-1)

struct places {
	uint16_t lenders[PLACES_MAX]; /* by processor */
};

/* Before each piece of work. *place is the thread's own, first PLACE_NONE. */
void places_take(struct places *places, int *place);
/* When the thread lends itself no longer. */
void places_leave(struct places *places, int *place);

#endif
