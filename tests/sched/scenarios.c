/* SPDX-License-Identifier: MIT
 *
 * The loads that policies are tried on. To add one, add it to the table. Most are hardware-like: a change
 * of context costs the device 140 us.
 */
#include "sim.h"

#include <string.h>

/* Programs. A stream always has more to launch; a synchronous one waits for its kernel, and the host
 * needs a moment before the next. */
#define STREAM(us_) .kernels = {.us = (us_)}
#define RANDOM(us_) .kernels = {.us = (us_), .random = true}
#define MIXED .kernels = {.us = 20, .other_us = 5000, .other = 0.1}
#define SYNC(us_, pause_) .kernels = {.us = (us_)}, .batch = 1, .pause_us = (pause_)
#define VARIED(us_, pause_) SYNC(us_, pause_), .varied = true
#define BATCH(n, us_, pause_) .kernels = {.us = (us_)}, .batch = (n), .pause_us = (pause_)

#define VARIED_BATCH(n, us_, pause_) BATCH(n, us_, pause_), .varied = true
#define BURSTS(us_, on_, off_) .kernels = {.us = (us_)}, .on_ms = (on_), .off_ms = (off_)

#define HARDWARE .switch_us = 140, .message_us = 15, .quantum_ms = 5, .turns = true
#define SOFTWARE .switch_us = 0, .message_us = 15, .quantum_ms = 2
#define CACHES                                                                                     \
	.switch_us = 250, .message_us = 15, .quantum_ms = 2 /* the software GPU's copy engines */
#define TEN .seconds = 12

/* As Figure 13 of the PTask paper: four that always have something to do, and differ in priority alone. */
#define PRIORITIES(name_, machine, program)                                                        \
	{                                                                                          \
		.name = name_, machine, TEN,                                                       \
		.groups = {{25, .priority = 2}, {25, .priority = 4}, {25, .priority = 6},          \
			{25, .priority = 8}},                                                      \
		.contexts = {{.group = 0, program}, {.group = 1, program}, {.group = 2, program},  \
			{.group = 3, program}},                                                    \
		.group_count = 4, .context_count = 4,                                              \
	}

#define TWO(name_, machine, a, b, one, two)                                                        \
	{                                                                                          \
		.name = name_, machine, TEN, .groups = {{a}, {b}},                                 \
		.contexts = {{.group = 0, one}, {.group = 1, two}}, .group_count = 2,              \
		.context_count = 2,                                                                \
	}

static const struct sim_scenario scenarios[] = {
	TWO("equal", HARDWARE, 50, 50, STREAM(1000), STREAM(1000)),
	TWO("short-long-50-50", HARDWARE, 50, 50, STREAM(20), STREAM(5000)),
	TWO("short-long-30-70", HARDWARE, 30, 70, STREAM(20), STREAM(5000)),
	TWO("short-long-10-90", HARDWARE, 10, 90, STREAM(20), STREAM(5000)),
	TWO("short-long-90-10", HARDWARE, 90, 10, STREAM(20), STREAM(5000)),
	TWO("tiny-batches-long", HARDWARE, 50, 50, BATCH(1000, 20, 50), SYNC(5000, 50)),
	TWO("sync-short-long", HARDWARE, 50, 50, SYNC(20, 10), STREAM(5000)),
	TWO("sync-pause-long", HARDWARE, 50, 50, SYNC(1000, 200), STREAM(5000)),
	TWO("sync-pause-long-80-20", HARDWARE, 80, 20, SYNC(1000, 200), STREAM(5000)),
	TWO("sync-pause-varied", HARDWARE, 50, 50, VARIED(1000, 200), STREAM(5000)),
	TWO("sync-pause-both", HARDWARE, 30, 70, SYNC(500, 150), SYNC(3000, 300)),
	TWO("random-30-70", HARDWARE, 30, 70, RANDOM(300), RANDOM(2000)),
	TWO("mixed-10-90", HARDWARE, 10, 90, MIXED, MIXED),
	TWO("bursts-long", HARDWARE, 50, 50, BURSTS(100, 40, 60), STREAM(5000)),
	TWO("bursts-both", HARDWARE, 20, 80, BURSTS(100, 40, 20), BURSTS(1000, 50, 10)),
	/* One that thinks about each of its long kernels: 60 % of the device is all it can use. */
	TWO("think-long-25-75", HARDWARE, 25, 75, SYNC(45000, 30000), STREAM(1000)),
	TWO("think-long-75-25", HARDWARE, 75, 25, SYNC(45000, 30000), STREAM(1000)),
	TWO("think-long-both", HARDWARE, 25, 75, SYNC(45000, 30000), SYNC(45000, 30000)),
	TWO("occasional-long", HARDWARE, 50, 50, SYNC(100, 5000), STREAM(5000)),
	TWO("copy-chunks", SOFTWARE, 30, 70, STREAM(80), SYNC(80, 5)),
	/* Copies and kernels in one queue (SDQ): short chunks from one, kernels from the other. */
	TWO("copy-compute-one-queue", SOFTWARE, 50, 50, STREAM(80), STREAM(2000)),
	TWO("software-short-long", SOFTWARE, 50, 50, STREAM(20), STREAM(5000)),
	TWO("software-copies", CACHES, 30, 70, STREAM(170), STREAM(10)),
	/* One that copies, and lets kernels run in between. */
	TWO("software-copies-between", CACHES, 50, 50, SYNC(40, 500), STREAM(170)),
	TWO("software-sync", SOFTWARE, 30, 70, SYNC(50, 20), SYNC(2000, 20)),
	{
		.name = "many-streams",
		HARDWARE,
		TEN,
		.groups = {{50}, {50}},
		.group_count = 2,
		.contexts = {{.group = 0, STREAM(20)}, {.group = 0, STREAM(500)},
			{.group = 0, SYNC(200, 10)}, {.group = 1, STREAM(5000)}},
		.context_count = 4,
	},
	{
		.name = "four",
		HARDWARE,
		TEN,
		.groups = {{25}, {25}, {25}, {25}},
		.group_count = 4,
		.contexts = {{.group = 0, STREAM(20)}, {.group = 1, STREAM(1000)},
			{.group = 2, STREAM(5000)}, {.group = 3, MIXED}},
		.context_count = 4,
	},
	{
		.name = "sixteen",
		HARDWARE,
		.seconds = 42,
		.window_s = 10,
		.groups = {{6}, {6}, {6}, {6}, {6}, {6}, {6}, {6}, {6}, {6}, {6}, {6}, {6}, {6},
			{6}, {6}},
		.group_count = 16,
		.contexts = {{.group = 0, STREAM(100)}, {.group = 1, STREAM(1000)},
			{.group = 2, STREAM(5000)}, {.group = 3, MIXED}, {.group = 4, STREAM(100)},
			{.group = 5, STREAM(1000)}, {.group = 6, STREAM(5000)}, {.group = 7, MIXED},
			{.group = 8, SYNC(100, 10)}, {.group = 9, SYNC(1000, 50)},
			{.group = 10, SYNC(5000, 50)}, {.group = 11, RANDOM(500)},
			{.group = 12, STREAM(100)}, {.group = 13, STREAM(1000)},
			{.group = 14, STREAM(5000)}, {.group = 15, MIXED}},
		.context_count = 16,
	},
	{
		.name = "huge-kernels",
		HARDWARE,
		.seconds = 42,
		.window_s = 10,
		.groups = {{30}, {70}},
		.contexts = {{.group = 0, STREAM(20)}, {.group = 1, STREAM(50000)}},
		.group_count = 2,
		.context_count = 2,
	},
	{
		.name = "priority",
		HARDWARE,
		TEN,
		.groups = {{40, .priority = 10}, {30}, {30}},
		.contexts = {{.group = 0, SYNC(500, 10000)}, {.group = 1, STREAM(1000)},
			{.group = 2, STREAM(1000)}},
		.group_count = 3,
		.context_count = 3,
	},
	{
		/* The others stop now and then, and the one of high priority has the device for itself. */
		.name = "priority-pauses",
		HARDWARE,
		TEN,
		.groups = {{40, .priority = 10}, {60}},
		.contexts = {{.group = 0, SYNC(500, 9500)},
			{.group = 1, STREAM(1000), .on_ms = 200, .off_ms = 100},
			{.group = 1, STREAM(1000), .on_ms = 170, .off_ms = 130}},
		.group_count = 2,
		.context_count = 3,
	},
	{
		/* Two that wait for users, and two that compute on and on. */
		.name = "guests",
		HARDWARE,
		TEN,
		.groups = {{25}, {25}, {25}, {25}},
		.contexts = {{.group = 0, SYNC(2000, 12000)}, {.group = 1, SYNC(500, 9500)},
			{.group = 2, STREAM(1000)}, {.group = 3, STREAM(1000)}},
		.group_count = 4,
		.context_count = 4,
	},
	PRIORITIES("priorities", HARDWARE, RANDOM(300)),
	PRIORITIES("priorities-sync", HARDWARE, SYNC(200, 10)),
	/* Turns end when they have nothing to do for a moment: rounds of 0.9 and 0.3 ms, as those of a graph. */
	PRIORITIES("priorities-rounds", HARDWARE, BATCH(108, 8, 200)),
	PRIORITIES("priorities-varied", HARDWARE, VARIED_BATCH(36, 8, 100)),
	PRIORITIES("software-priorities", SOFTWARE, STREAM(70)),
	{
		.name = "nice",
		HARDWARE,
		TEN,
		.groups = {{100}},
		.contexts = {{SYNC(2000, 20), .nice = 0}, {STREAM(1000), .nice = 19},
			{STREAM(1000), .nice = 19}},
		.group_count = 1,
		.context_count = 3,
	},
	{
		.name = "change",
		HARDWARE,
		TEN,
		.groups = {{50, .change_s = 5, .changed_pct = 20},
			{50, .change_s = 5, .changed_pct = 80}},
		.contexts = {{.group = 0, STREAM(20)}, {.group = 1, STREAM(5000)}},
		.group_count = 2,
		.context_count = 2,
	},
	{
		.name = "change-beside",
		HARDWARE,
		TEN,
		.groups = {{50, .change_s = 5, .changed_pct = 20},
			{25, .change_s = 5, .changed_pct = 55}, {25}},
		.contexts = {{.group = 0, STREAM(20)}, {.group = 1, STREAM(2000)},
			{.group = 2, STREAM(1000)}},
		.group_count = 3,
		.context_count = 3,
	},
	{
		.name = "second-comes-later",
		HARDWARE,
		TEN,
		.groups = {{50}, {50}},
		.contexts = {{.group = 0, STREAM(300)}, {.group = 1, STREAM(4000), .start_s = 4}},
		.group_count = 2,
		.context_count = 2,
	},
};

const struct sim_scenario *sim_scenario_at(unsigned index)
{
	return index < sizeof scenarios / sizeof scenarios[0] ? &scenarios[index] : NULL;
}

const struct sim_scenario *sim_scenario_find(const char *name)
{
	for (unsigned i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++)
		if (!strcmp(scenarios[i].name, name))
			return &scenarios[i];
	return NULL;
}
