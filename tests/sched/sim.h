/* SPDX-License-Identifier: MIT
 *
 * A discrete-event simulation of one resource of a device, of workers that follow the rules of
 * proto/control.h, and of the real arbiter between them. Time is simulated: ten seconds take a fraction of
 * one, and the same seed gives the same result.
 *
 * The device runs one kernel at a time, to its end, and loses `switch_us` when the next is another context's. Where
 * several contexts have kernels on it (policy null, or an overdue holder) it changes context every 2 ms, between
 * kernels, as hardware does. A worker keeps at most a window on the device (two kernels, or as many as 1 ms; while
 * others wait one, or as many as 1.5 ms), and messages between it and the arbiter take `message_us`; with `turns` who
 * is told to leave hands over to the next one itself.
 */
#ifndef GDEV_TESTS_SCHED_SIM_H
#define GDEV_TESTS_SCHED_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "gdevd/sched/sched.h"

#define SIM_GROUPS 16
#define SIM_CONTEXTS 32

/* Lengths of a program's kernels, in microseconds: `us`, or with probability `other` `other_us`; times an
 * exponential variable of mean 1 when `random`. */
struct sim_lengths {
	double us, other_us, other;
	bool random;
};

struct sim_context {
	unsigned group;
	struct sim_lengths kernels;
	unsigned batch;  /* kernels launched before it waits for all of them; 0: it never waits */
	double pause_us; /* the host's time after such a wait, */
	bool varied;     /* … on average */
	double on_ms, off_ms; /* works and sleeps in turn; 0: works always */
	double start_s;
	int nice;
	bool lies; /* its worker says that it has used nothing */
};

struct sim_group {
	unsigned share_pct;
	int priority;
	bool strict;
	const char *policy; /* among its contexts; NULL: the same */
	/* From change_s on, its share is another. */
	double change_s;
	unsigned changed_pct;
};

struct sim_scenario {
	const char *name;
	double window_s; /* of the error; 0: one second */
	double switch_us, message_us, quantum_ms;
	bool turns; /* the holder hands over itself (proto/control.h, struct turns) */
	double seconds;
	struct sim_group groups[SIM_GROUPS];
	struct sim_context contexts[SIM_CONTEXTS];
	unsigned group_count, context_count;
};

struct sim_setting {
	const char *name;
	int64_t value;
};

struct sim_result {
	/* Against what each group should have of the device time used in a window: its share, or what it
	 * can use when that is less. In percentage points; the first two seconds and windows in which
	 * something starts or changes are left out. */
	double error_avg_pct, error_worst_pct;
	double throughput; /* sum over contexts of what they did, as part of what each does alone */
	double busy_pct;   /* of the time */
	double wait_p99_ms[SIM_GROUPS]; /* from wanting the device to the first kernel's start */
	double wait_worst_ms[SIM_GROUPS];
	double busy_group_pct[SIM_GROUPS];
	double switches_per_s;
	/* The error over the second that begins 100 ms after shares changed; -1: they do not. */
	double after_change_pct;
	/* The end of the first 100 ms after that in which the groups whose shares changed are nearer to the new ones. */
	double effect_ms;
};

/* `settings` end with a NULL name; those that the policy does not have are ignored. */
void sim_run(const struct sim_scenario *scenario, const struct sched_policy *policy,
	const struct sim_setting *settings, uint64_t seed, struct sim_result *result);

/* The scenarios there are (scenarios.c); NULL: no more. */
const struct sim_scenario *sim_scenario_at(unsigned index);
const struct sim_scenario *sim_scenario_find(const char *name);

#endif
