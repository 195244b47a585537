/* SPDX-License-Identifier: MIT
 *
 * The plan of a kernel's code: regions, each to become one loop over the threads of a block, and
 * how control goes from one to the next.
 *
 * Structured plans. The branches that decide which barrier (or which loop that all threads run
 * together) comes next are taken once for the whole block: scalar branches when they are uniform,
 * and guarded ones when they are not: then the regions of one side run for the threads that took
 * it, then those of the other. A block's context is the chain of guards around it.
 *
 * Scheduled plans serve everything else (barriers and collectives in divergent loops or irreducible
 * code, loops that wait for other threads): each thread remembers its next region, and a dispatcher
 * runs the region of lowest number that any thread is to run. A thread that comes to a region with
 * a gate waits there. When all wait, those go on whose gates allow it: a collective when all lanes
 * of its mask wait at it or have left, a spinning loop when everybody had a turn, a barrier when
 * nobody else can go on. Threads of which none can go on wait for each other: that ends the launch.
 */
#ifndef GDEV_DEVICE_CPU_PTX_REGION_H
#define GDEV_DEVICE_CPU_PTX_REGION_H

#include "device/cpu/ptx/gates.h"
#include "device/cpu/ptx/work.h"

struct region {
	uint32_t entry;
	uint32_t *blocks, block_count;
	uint32_t *spine, spine_count; /* blocks that every thread of the region passes, in order */
	uint64_t *live_out;           /* over global registers: to be kept when the region ends */
	uint64_t *written;
	uint32_t next;   /* block that follows, block_count of the work for the end */
	uint32_t branch; /* or the split branch that ends it, PTX_NONE otherwise */
	uint32_t code;   /* scheduled: what a thread remembers (gates.h) */
	enum gate gate;  /* scheduled: what it waits for before it runs the region */
	bool border, collective, dead_end; /* dead_end: only traps leave it */
};

struct context {
	uint32_t branch, side, parent;
};

struct guard { /* of a split divergent branch */
	uint32_t branch, reg;
	bool passed; /* the whole block may come to one of its sides without it, by a uniform branch */
};

struct plan {
	struct work *work;
	bool scheduled;
	bool named; /* threads may wait at several barriers at once: scheduled, each has a gate by its number */
	uint64_t *split, *entries, *wanted;
	struct region *regions;
	uint32_t region_count;
	struct context *contexts;
	uint32_t context_count, context_capacity;
	struct guard *guards;
	uint32_t guard_count, guard_capacity;
	bool retry; /* uniformity must be analysed again: registers were marked divergent */
	bool conflict;
};

int plan_build(struct work *w, struct plan *plan);
/* guards.c */
struct guard *plan_guard(const struct plan *plan, uint32_t branch);

/* contexts.c */
/* Whether what has the context is on a side of the branch. */
bool plan_within(const struct plan *plan, uint32_t context, uint32_t branch);

/* barriers.c */
/* Whether threads may wait at barriers that are not the same one, or with a number of threads; and whether some arrive
 * without waiting. */
bool barriers_differ(const struct work *w, bool *arrives);
/* Whether threads wait at a barrier of one side of a divergent branch while those that did not take it may come to one of its number: a
 * structured plan would run that side to its end before. Or whether as many come as a barrier names is to be counted. */
bool barriers_meet(struct work *w, const struct plan *p);

#endif
