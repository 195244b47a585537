/* SPDX-License-Identifier: MIT
 *
 * See placement.h.
 *
 * `room` asks one question after another, and the first whose answers differ decides. Load comes before the number of
 * sessions: ten that are idle are better company than one that never waits. It is counted in quarters, as a smaller
 * difference is gone a second later; sessions that have just begun have no load yet, and are spread by their number.
 */
#include "gdevd/placement.h"

#define LOAD_STEPS 4
/* With less than this part of its memory free, a device has no room to speak of. */
#define TIGHT_PART 8

static bool has_room(const struct placement_device *device)
{
	return device->free_bytes >= device->context_bytes &&
	       device->free_bytes - device->context_bytes >= device->memory_bytes / TIGHT_PART;
}

static int load_steps(const struct placement_device *device)
{
	return (int)(device->load * LOAD_STEPS + .5);
}

static bool is_near(const struct placement_client *client, const struct placement_device *device)
{
	return client->node != PLACEMENT_NO_NODE && client->node == device->node;
}

static bool room_better(const struct placement_client *client, const struct placement_device *one,
	const struct placement_device *other)
{
	if (one->failing != other->failing)
		return other->failing;
	if (has_room(one) != has_room(other))
		return has_room(one);
	if (load_steps(one) != load_steps(other))
		return load_steps(one) < load_steps(other);
	if (one->sessions != other->sessions)
		return one->sessions < other->sessions;
	if (is_near(client, one) != is_near(client, other))
		return is_near(client, one);
	return one->free_bytes > other->free_bytes;
}

const struct placement placement_room = {.better = room_better};

int placement_choose(const struct placement *placement, const struct placement_client *client,
	const struct placement_device *devices, unsigned count)
{
	int best = -1;

	for (unsigned i = 0; i < count; i++)
		if (!devices[i].closed &&
			(best < 0 || placement->better(client, &devices[i], &devices[best])))
			best = (int)i;
	return best;
}
