/* SPDX-License-Identifier: MIT
 *
 * See busy.h.
 */
#include "worker/busy.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "worker/command.h"
#include "worker/core.h"

#define GAP_NS (20 * NS_PER_US) /* shorter ones between commands are the device's own */
#define STARTED_MAX 64 /* a look at them takes less than GAP_NS, lest it make the next gap itself */

static uint64_t started_ns(const struct command *command)
{
	return __atomic_load_n(&command->device.started_ns, __ATOMIC_RELAXED);
}

/* The earliest start of the resource's commands in flight; UINT64_MAX: none has started. Only the first STARTED_MAX
 * are looked at: commands that have started are among them, and thousands may wait behind. */
static uint64_t earliest_ns(struct core *core, uint32_t which)
{
	uint64_t earliest_ns = UINT64_MAX;
	struct command *command;
	unsigned looked = 0;

	list_for_each (command, &core->streams.flight, flight_link) {
		if (looked++ == STARTED_MAX)
			break;
		uint64_t start_ns = command->resource == which ? started_ns(command) : 0;
		if (start_ns)
			earliest_ns = min_of(earliest_ns, start_ns);
	}
	return earliest_ns;
}

/* How much of the added time the machine gave to the device. Each part of what ops->presence counts is used once. */
static uint64_t present_ns(struct core *core, uint32_t which, uint64_t added_ns)
{
	struct device_presence *seen = &core->grants.resources[which].busy.seen, now;
	uint64_t spent_ns, lost_ns;

	if (!added_ns || !core->ops->presence)
		return added_ns;
	core->ops->presence(core->device, which, &now);
	spent_ns = now.spent_ns - seen->spent_ns;
	lost_ns = now.lost_ns - seen->lost_ns;
	*seen = now;
	if (!lost_ns)
		return added_ns;
	return (uint64_t)((double)added_ns * (1 - min_of((double)lost_ns / (double)spent_ns, 1.0)));
}

uint64_t busy_add(struct core *core, const struct command *command)
{
	struct resource *resource = &core->grants.resources[command->resource];
	struct busy *busy = &resource->busy;
	uint64_t start_ns = max_of(command->device.started_ns, busy->floor_ns);
	uint64_t end_ns = command->device.finished_ns, added_ns = 0;

	if (end_ns <= start_ns)
		return 0;
	if (!busy->until_ns)
		busy->from_ns = busy->until_ns = start_ns;
	if (start_ns < busy->from_ns) {
		added_ns = busy->from_ns - start_ns;
		busy->from_ns = start_ns;
	}
	if (end_ns > busy->until_ns) {
		if (start_ns > busy->until_ns + GAP_NS)
			busy->until_ns = min_of(start_ns,
				max_of(earliest_ns(core, command->resource), busy->until_ns));
		added_ns += end_ns - busy->until_ns;
		busy->until_ns = end_ns;
	}
	added_ns = present_ns(core, command->resource, added_ns);
	resource->used_ns += added_ns;
	return added_ns;
}

uint64_t busy_pause(struct core *core, uint32_t which)
{
	struct resource *resource = &core->grants.resources[which];
	struct busy *busy = &resource->busy;
	uint64_t now_ns = clock_now_ns();
	uint64_t from_ns = max_of(earliest_ns(core, which), max_of(busy->until_ns, busy->floor_ns));
	uint64_t added_ns = from_ns < now_ns ? now_ns - from_ns : 0;

	busy->floor_ns = now_ns;
	busy->until_ns = 0;
	added_ns = present_ns(core, which, added_ns);
	resource->used_ns += added_ns;
	return added_ns;
}

void busy_end(struct busy *busy)
{
	busy->floor_ns = max_of(busy->floor_ns, busy->until_ns);
	busy->until_ns = 0;
}
