/* SPDX-License-Identifier: MIT
 *
 * Policies: which ptask that waits goes to which device (section 5.1). Pure: a policy looks at what it is given and reads no
 * clock. A policy is a file and a line in schedule.c.
 */
#ifndef GDEV_LIB_PTASK_POLICY_H
#define GDEV_LIB_PTASK_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "gdev/ptask.h"

#define CANDIDATES_MAX 64

/* A ptask that waits for a device; the one that has waited longest comes first. */
struct candidate {
	int priority, proxy;
	double wait_ms;         /* until now */
	double average_wait_ms; /* of its earlier invocations, decayed */
	double average_run_ms;
	uint64_t bytes_on[GDEV_GRAPH_DEVICES_MAX]; /* of its inputs, up to date there */
	bool unfit[GDEV_GRAPH_DEVICES_MAX];        /* that device cannot run it */
};

struct place {
	bool available;
	double strength; /* cores times clocks */
	unsigned ahead;  /* invocations that it has not done yet */
};

struct choice {
	unsigned candidate, place;
};

struct policy {
	const char *name;
	/* False: none of them goes now. 1 to CANDIDATES_MAX candidates, and at least one place that is available. */
	bool (*choose)(const struct candidate *candidates, unsigned candidate_count,
		const struct place *places, unsigned place_count, struct choice *choice);
};

extern const struct policy policy_fifo, policy_priority, policy_data_aware;

/* match_gpu of Figure 9: of the places that are fit and available, the strongest; of equals, the one with least to do. -1:
 * none. */
int match(const struct candidate *of, const struct place *places, unsigned count);
/* The first of the candidates, in that order (NULL: their own), that has a place. */
bool match_first(const struct candidate *candidates, unsigned candidate_count,
	const unsigned *order, const struct place *places, unsigned place_count,
	struct choice *choice);
/* update_eff_prio of Figure 9, of one among those that wait. */
double effective_priority(
	const struct candidate *candidates, unsigned count, const struct candidate *of);
/* Indices of candidates in descending order of it; of equals, those that have waited longer first. */
void order_by_priority(const struct candidate *candidates, unsigned count, unsigned *order);

#endif
