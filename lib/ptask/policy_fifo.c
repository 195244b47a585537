/* SPDX-License-Identifier: MIT
 *
 * First in, first out: the ptask that has waited longest, on the strongest device that is fit and available; if there is none,
 * the next one.
 */
#include "lib/ptask/policy.h"

int match(const struct candidate *of, const struct place *places, unsigned count)
{
	int best = -1;

	for (int i = 0; i < (int)count; i++) {
		const struct place *place = &places[i];
		if (of->unfit[i] || !place->available)
			continue;
		if (best < 0 || place->strength > places[best].strength ||
			(place->strength == places[best].strength &&
				place->ahead < places[best].ahead))
			best = i;
	}
	return best;
}

bool match_first(const struct candidate *candidates, unsigned candidate_count,
	const unsigned *order, const struct place *places, unsigned place_count,
	struct choice *choice)
{
	for (unsigned i = 0; i < candidate_count; i++) {
		unsigned candidate = order ? order[i] : i;
		int place = match(&candidates[candidate], places, place_count);
		if (place < 0)
			continue;
		*choice = (struct choice){candidate, (unsigned)place};
		return true;
	}
	return false;
}

static bool choose(const struct candidate *candidates, unsigned candidate_count,
	const struct place *places, unsigned place_count, struct choice *choice)
{
	return match_first(candidates, candidate_count, NULL, places, place_count, choice);
}

const struct policy policy_fifo = {.name = "fifo", .choose = choose};
