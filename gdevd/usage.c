/* SPDX-License-Identifier: MIT
 *
 * See usage.h.
 */
#include "gdevd/usage.h"

#include "base/cleanup.h"

static bool counts(const struct usage *usage)
{
	return usage->waiting && (usage->device || !usage->holding);
}

static void advance(struct usage *usage, uint64_t now_ns)
{
	if (counts(usage))
		usage->charged.waited_ns += now_ns - usage->since_ns;
	usage->since_ns = now_ns;
}

void usage_waits(struct usage *usage, int change, uint64_t now_ns)
{
	advance(usage, now_ns);
	usage->waiting += (unsigned)change;
}

void usage_holds(struct usage *usage, int change, uint64_t now_ns)
{
	advance(usage, now_ns);
	usage->holding += (unsigned)change;
	usage->overlapped |= usage->holding > 1;
}

struct usage_counters usage_now(const struct usage *usage, uint64_t running_ns, uint64_t now_ns)
{
	struct usage_counters counters = usage->charged;

	counters.used_ns += running_ns;
	if (counts(usage))
		counters.waited_ns += now_ns - usage->since_ns;
	return counters;
}

struct usage_counters usage_at_once(
	struct usage *usage, struct usage_counters counters, uint64_t longest_ns, uint64_t now_ns)
{
	uint64_t begun_ns = usage->looked_ns - min_of(usage->looked_ns, longest_ns);
	uint64_t from_ns = min_of(max_of(usage->filled_ns, begun_ns), now_ns);
	uint64_t used_ns = counters.used_ns - min_of(counters.used_ns, usage->looked_used_ns);

	if (usage->overlapped)
		usage->doubled_ns += used_ns - min_of(used_ns, now_ns - from_ns);
	if (used_ns)
		usage->filled_ns = from_ns + min_of(used_ns, now_ns - from_ns);
	usage->looked_used_ns = max_of(usage->looked_used_ns, counters.used_ns);
	usage->looked_ns = now_ns;
	usage->overlapped = usage->holding > 1;
	counters.used_ns -= min_of(counters.used_ns, usage->doubled_ns);
	return counters;
}

void usage_count_lost(struct usage *usage, uint64_t used_ns, uint64_t now_ns)
{
	uint64_t waited_ns;

	advance(usage, now_ns);
	waited_ns = usage->charged.waited_ns - usage->lost_waited_ns;
	usage->lost_ns += waited_ns - min_of(waited_ns, used_ns);
	usage->lost_waited_ns = usage->charged.waited_ns;
}

void usage_clock_tick(struct usage_clock *clock, bool quiet, uint64_t now_ns)
{
	unsigned at = clock->count++ % USAGE_SAMPLES;

	clock->at_ns[at] = now_ns;
	clock->quiet[at] = quiet;
}

void usage_sample(
	struct usage *usage, const struct usage_clock *clock, struct usage_counters counters)
{
	usage->samples[(clock->count - 1) % USAGE_SAMPLES] = counters;
}

struct usage_counters usage_since(const struct usage *usage, const struct usage_clock *clock,
	struct usage_counters counters, uint64_t window_ns, uint64_t now_ns, uint64_t *over_ns)
{
	uint64_t known = min_of(clock->count, (uint64_t)USAGE_SAMPLES);
	const struct usage_counters *then = NULL;
	bool quiet = false; /* between the last two samples that were looked at */

	*over_ns = 0;
	for (uint64_t i = 1; i <= known && *over_ns < window_ns; i++) {
		uint64_t at = (clock->count - i) % USAGE_SAMPLES;
		then = &usage->samples[at];
		*over_ns = now_ns - clock->at_ns[at];
		if (quiet && *over_ns > window_ns) /* it was the same when the window began */
			*over_ns = window_ns;
		quiet = clock->quiet[at];
	}
	if (!then)
		return (struct usage_counters){0};
	/* The counters may have become less: a worker said that it was using something, and did not charge it then. */
	return (struct usage_counters){
		.used_ns = counters.used_ns - min_of(counters.used_ns, then->used_ns),
		.waited_ns = counters.waited_ns - min_of(counters.waited_ns, then->waited_ns),
	};
}

/* What the part would have used without the others, as a part of all time. */
static double demand(const struct usage_part *part, double over_ns)
{
	double used = (double)part->counters.used_ns / over_ns;
	double waited = (double)part->counters.waited_ns / over_ns;
	double paused = 1 - used - waited;

	if (paused <= 0)
		return part->most;
	if (used <= 0) /* it waited for its first, and nobody knows for how much */
		return min_of(waited, part->most);
	return min_of(used / (used + paused), part->most);
}

void usage_expect(struct usage_part *parts, size_t count, uint64_t over_ns)
{
	double left = 0, weight = 0;
	bool again = true;

	for (size_t i = 0; i < count; i++) {
		parts[i].expected = -1;
		left += over_ns ? (double)parts[i].counters.used_ns / (double)over_ns : 0;
		weight += parts[i].weight;
	}
	/* A part that wants less than its weight gives it has what it wants; then the parts of all others grow. */
	while (again && over_ns) {
		again = false;
		for (size_t i = 0; i < count; i++) {
			double wanted = demand(&parts[i], (double)over_ns);
			if (parts[i].expected >= 0 || wanted > left * parts[i].weight / weight)
				continue;
			parts[i].expected = wanted;
			left -= wanted;
			weight -= parts[i].weight;
			again = true;
		}
	}
	for (size_t i = 0; i < count; i++)
		if (parts[i].expected < 0)
			parts[i].expected = weight > 0 ? left * parts[i].weight / weight : 0;
}
