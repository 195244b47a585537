/* SPDX-License-Identifier: MIT
 *
 * See places.h.
 */
#include "worker/places.h"

#include <sched.h>
#include <stdbool.h>

/* False: another lender is there. */
static bool note_place(struct places *places, int *place)
{
	int processor = sched_getcpu();

	if (processor < 0 || processor >= PLACES_MAX)
		return true;
	*place = processor;
	return !__atomic_fetch_add(&places->lenders[processor], 1, __ATOMIC_RELAXED);
}

/* Moves the thread to any processor without a lender. Afterwards it may run where it might before. */
static void move_thread(const struct places *places)
{
	cpu_set_t all, vacant;

	if (sched_getaffinity(0, sizeof all, &all))
		return;
	vacant = all;
	for (int i = 0; i < PLACES_MAX; i++)
		if (__atomic_load_n(&places->lenders[i], __ATOMIC_RELAXED))
			CPU_CLR(i, &vacant);
	if (CPU_COUNT(&vacant) && !sched_setaffinity(0, sizeof vacant, &vacant))
		sched_setaffinity(0, sizeof all, &all);
}

void places_take(struct places *places, int *place)
{
	if (*place != PLACE_NONE && *place == sched_getcpu())
		return;
	places_leave(places, place);
	if (note_place(places, place))
		return;
	move_thread(places);
	places_leave(places, place);
	note_place(places, place);
}

void places_leave(struct places *places, int *place)
{
	if (*place != PLACE_NONE)
		__atomic_sub_fetch(&places->lenders[*place], 1, __ATOMIC_RELAXED);
	*place = PLACE_NONE;
}
