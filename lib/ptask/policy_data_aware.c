/* SPDX-License-Identifier: MIT
 *
 * Data-aware (section 5.1): in the order of effective priority, a ptask goes to the device where most of its input is. While
 * that is not available the ptask waits for it, and others go; but one whose effective priority and wait together make
 * the threshold goes to the strongest device that is available. So devices may idle while ptasks wait: moving the data costs
 * more than that, as a rule.
 */
#include "lib/ptask/policy.h"

#define THRESHOLD 1000 /* priorities, of which a millisecond of waiting is one */

/* -1: its input is on no device that is fit. */
static int preferred(const struct candidate *of, unsigned place_count)
{
	int best = -1;

	for (int i = 0; i < (int)place_count; i++)
		if (!of->unfit[i] && of->bytes_on[i] &&
			(best < 0 || of->bytes_on[i] > of->bytes_on[best]))
			best = i;
	return best;
}

static bool choose(const struct candidate *candidates, unsigned candidate_count,
	const struct place *places, unsigned place_count, struct choice *choice)
{
	unsigned order[CANDIDATES_MAX];

	order_by_priority(candidates, candidate_count, order);
	for (unsigned i = 0; i < candidate_count; i++) {
		const struct candidate *of = &candidates[order[i]];
		int place = preferred(of, place_count);
		double urgency = effective_priority(candidates, candidate_count, of) + of->wait_ms;

		if (place >= 0 && !places[place].available && urgency < THRESHOLD)
			continue;
		if (place < 0 || !places[place].available)
			place = match(of, places, place_count);
		if (place < 0)
			continue;
		*choice = (struct choice){order[i], (unsigned)place};
		return true;
	}
	return false;
}

const struct policy policy_data_aware = {.name = "data-aware", .choose = choose};
