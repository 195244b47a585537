/* SPDX-License-Identifier: MIT
 *
 * How long resources were used and waited for: the figures of `gdev top` and of the metrics. A
 * session and a virtual GPU have one struct usage a resource, and the device has too.
 *
 * grants.c keeps the counters as it grants and charges; what the present holder has used since its grant
 * comes from its worker page. Five times a second, while somebody uses the device or looks, all counters
 * are written down (usage_clock, samples), so that a use in the last second or ten can be told.
 * Pure: time comes in as an argument.
 */
#ifndef GDEV_GDEVD_USAGE_H
#define GDEV_GDEVD_USAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define USAGE_INTERVAL_NS (200ull * 1000 * 1000)
#define USAGE_SAMPLES 52 /* ten seconds and a little */

struct usage_counters {
	uint64_t used_ns; /* device time */
	/* Somebody waited, and nobody held; the device's: while somebody waited. */
	uint64_t waited_ns;
};

enum { USAGE_SECOND, USAGE_TEN_SECONDS, USAGE_WINDOWS };

/* Parts of all time; 0 to 1, or a little more for what was counted before it was over. */
struct usage_window {
	uint64_t over_ns; /* how long it really is; 0: nothing is known yet */
	double used, waited;
	double expected; /* what it should have used: usage_expect() */
};

struct usage {
	struct usage_counters charged; /* as of `since_ns`, and without what the holders use now */
	uint64_t since_ns;
	unsigned waiting, holding; /* sessions */
	bool device;               /* waits although somebody holds */
	uint64_t grants;
	uint64_t overdue;         /* holds that others did not wait for any longer */
	uint64_t longest_over_ns; /* from the order to leave until it left, at most */
	uint64_t longest_ns;      /* of one command */
	/* The device's: */
	bool overlapped; /* several have held at once since the last look, */
	uint64_t looked_ns,
		looked_used_ns; /* which was then, and found that so much had been used by all; */
	uint64_t filled_ns;     /* what that was fills all time until then; */
	/* How much, ever, was used at the same time as something else. */
	uint64_t doubled_ns;
	uint64_t handovers;      /* from one session to another */
	uint64_t lost_ns;        /* somebody waited, and nobody used it */
	uint64_t lost_waited_ns; /* waited_ns when that was last counted */
	struct usage_counters samples[USAGE_SAMPLES];
	struct usage_window windows[USAGE_WINDOWS]; /* as of the last look: measure_look() */
};

/* When the samples were taken: one for all. */
struct usage_clock {
	uint64_t at_ns[USAGE_SAMPLES];
	bool quiet[USAGE_SAMPLES]; /* nobody used anything, or waited, since the sample before */
	uint64_t count;            /* ever; the newest is (count - 1) % USAGE_SAMPLES */
};

/* Somebody begins (1) or ends (-1) to wait, or to hold. */
void usage_waits(struct usage *usage, int change, uint64_t now_ns);
void usage_holds(struct usage *usage, int change, uint64_t now_ns);
/* The counters now; `running_ns`: what the present holders have used since their grants. */
struct usage_counters usage_now(const struct usage *usage, uint64_t running_ns, uint64_t now_ns);
/* Of the device: what `counters` says that all holders have used, each for itself, is use of the device but for what they
 * have used at the same time. Of what was used since the last call, `longest_ns`, one command's, may have begun before it.
 * Where several have held at once, it is no more than there was time. */
struct usage_counters usage_at_once(
	struct usage *usage, struct usage_counters counters, uint64_t longest_ns, uint64_t now_ns);
/* Of the device: a holder has left after `used_ns`. */
void usage_count_lost(struct usage *usage, uint64_t used_ns, uint64_t now_ns);

/* Begins a sample; usage_sample() then writes down each usage. */
void usage_clock_tick(struct usage_clock *clock, bool quiet, uint64_t now_ns);
void usage_sample(
	struct usage *usage, const struct usage_clock *clock, struct usage_counters counters);

/* What was used in the last `window_ns`, or since the first sample if that is later; in *over_ns, how
 * long that is (0: nothing is known yet). Longer than the window by what lies between two samples, unless that
 * time was quiet. */
struct usage_counters usage_since(const struct usage *usage, const struct usage_clock *clock,
	struct usage_counters counters, uint64_t window_ns, uint64_t now_ns, uint64_t *over_ns);

/* One that contends with others, and what it should have had. */
struct usage_part {
	double weight;
	double most; /* no more than this part of all time: strict; 1: as much as is there */
	struct usage_counters counters;
	double expected; /* the result: a part of all time */
};

/* What each should have had of the time that all together used: its part by weight, or what it could
 * have used if that is less, and then the others have the rest. What one could have used is what it used,
 * measured against the time in which it did not wait for the others. */
void usage_expect(struct usage_part *parts, size_t count, uint64_t over_ns);

#endif
