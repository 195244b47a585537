/* SPDX-License-Identifier: MIT
 *
 * First in, first out: the ptask that has waited longest, on the strongest device that is available.
 */
#include "lib/ptask/policy.h"

int strongest(const struct place *places, unsigned count)
{
	int best = -1;

	for (int i = 0; i < (int)count; i++) {
		const struct place *place = &places[i];
		if (!place->available)
			continue;
		if (best < 0 || place->strength > places[best].strength ||
			(place->strength == places[best].strength &&
				place->ahead < places[best].ahead))
			best = i;
	}
	return best;
}

static bool choose(const struct candidate *candidates, unsigned candidate_count,
	const struct place *places, unsigned place_count, struct choice *choice)
{
	choice->candidate = 0;
	choice->place = (unsigned)strongest(places, place_count);
	return true;
}

const struct policy policy_fifo = {.name = "fifo", .choose = choose};
