/* SPDX-License-Identifier: MIT
 *
 * Priority: the ptask of the highest effective priority (Figure 9 of the PTask paper), which is its static priority and boosts
 * for what it differs in from the average of those that wait: how long it has waited, how long it waits usually, how short its
 * runs are, and for whom it works. A priority is worth a millisecond of waiting.
 */
#include <string.h>

#include "lib/ptask/policy.h"

enum { WAIT, AVERAGE_WAIT, RUN, PROXY, MEASURES };
static const double weights[MEASURES] = {
	[WAIT] = 1, [AVERAGE_WAIT] = 0.5, [RUN] = -1, [PROXY] = 1}; /* W_0 to W_3 */

static void measure(const struct candidate *of, double measures[MEASURES])
{
	measures[WAIT] = of->wait_ms;
	measures[AVERAGE_WAIT] = of->average_wait_ms;
	measures[RUN] = of->average_run_ms;
	measures[PROXY] = of->proxy;
}

static void average(const struct candidate *candidates, unsigned count, double averages[MEASURES])
{
	double measures[MEASURES];

	memset(averages, 0, MEASURES * sizeof *averages);
	for (unsigned i = 0; i < count; i++) {
		measure(&candidates[i], measures);
		for (unsigned m = 0; m < MEASURES; m++)
			averages[m] += measures[m] / count;
	}
}

static double boosted(const struct candidate *of, const double averages[MEASURES])
{
	double measures[MEASURES], priority = of->priority;

	measure(of, measures);
	for (unsigned m = 0; m < MEASURES; m++)
		priority += weights[m] * (measures[m] - averages[m]);
	return priority;
}

double effective_priority(
	const struct candidate *candidates, unsigned count, const struct candidate *of)
{
	double averages[MEASURES];

	average(candidates, count, averages);
	return boosted(of, averages);
}

void order_by_priority(const struct candidate *candidates, unsigned count, unsigned *order)
{
	double averages[MEASURES], priorities[CANDIDATES_MAX];

	average(candidates, count, averages);
	for (unsigned i = 0; i < count; i++) {
		unsigned at = i;
		double priority = boosted(&candidates[i], averages);
		for (; at && priorities[at - 1] < priority; at--) {
			priorities[at] = priorities[at - 1];
			order[at] = order[at - 1];
		}
		priorities[at] = priority;
		order[at] = i;
	}
}

static bool choose(const struct candidate *candidates, unsigned candidate_count,
	const struct place *places, unsigned place_count, struct choice *choice)
{
	unsigned order[CANDIDATES_MAX];

	order_by_priority(candidates, candidate_count, order);
	return match_first(candidates, candidate_count, order, places, place_count, choice);
}

const struct policy policy_priority = {.name = "priority", .choose = choose};
