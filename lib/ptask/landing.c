/* SPDX-License-Identifier: MIT
 *
 * Contents on their way from a device to a member that asked for them (members.h). A small datablock is copied behind the
 * kernel that makes it, into page-locked memory of this process, and from there to the memory that the member reads: several are
 * under way at once, and the graph's thread waits for none of them. Where the process copies by itself there is nothing to
 * wait for, and large ones are waited for: then requests.c brings them when they are complete.
 */
#include <string.h>

#include "lib/ptask/elsewhere.h"
#include "lib/ptask/members.h"

#define LANDING_BYTES 16384u
#define SLOTS 64 /* the bits of device->landings */

static uint8_t *slot_at(const struct device *device, int slot)
{
	return device->landing + (size_t)slot * LANDING_BYTES;
}

/* -1: there is none. */
static int take_slot(struct device *device)
{
	void *memory;
	int slot;

	if (!device->landing && !~device->landings)
		return -1;
	if (!device->landing) {
		if (gdev_host_alloc(device->session, SLOTS * LANDING_BYTES, &memory)) {
			device->landings = ~0ull; /* and is not asked again */
			return -1;
		}
		device->landing = memory;
	}
	if (!~device->landings)
		return -1;
	slot = __builtin_ctzll(~device->landings);
	device->landings |= 1ull << slot;
	return slot;
}

static void give_slot(struct device *device, int slot)
{
	device->landings &= ~(1ull << slot);
}

void landings_finish(struct device *device)
{
	if (device->landing)
		gdev_memory_free(device->session, (uint64_t)device->landing);
	device->landing = NULL;
}

/* The copy, in the lane of what has written the datablock. The slot, or -1. */
static int send(struct gdev_datablock *block, struct point *landed)
{
	struct gdev_graph *graph = block->graph;
	int index = block_device(block), slot, error;
	struct device *device = index < 0 ? NULL : &graph->devices[index];
	struct gdev_copy copy;

	if (!device || device->direct || block->host_current || !block->bytes ||
		block->bytes > LANDING_BYTES || gdev_session_is_full(device->session))
		return -1;
	slot = take_slot(device);
	if (slot < 0)
		return -1;
	*landed = block->views[index].written;
	copy = gdev_copy_linear(
		(uint64_t)slot_at(device, slot), block->views[index].buffer->address, block->bytes);
	error = gdev_copy_async(graph->lanes[landed->lane].stream, &copy);
	if (error) {
		graph_fail(graph, error, NULL);
		give_slot(device, slot);
		return -1;
	}
	*landed = lane_end(graph, landed->lane);
	block_used(block, *landed);
	return slot;
}

bool landing_begin(struct member *member, struct end *end)
{
	struct gdev_datablock *block = end->channel->queue[end->channel->first];
	struct known *known;
	struct point landed;
	uint64_t offset;
	int slot;

	if (end->landing_count == LANDINGS || pool_take(&member->pool, block->bytes, &offset))
		return false;
	slot = send(block, &landed);
	if (slot < 0) {
		pool_give(&member->pool, offset, block->bytes);
		return false;
	}
	known = known_take(member, end, offset);
	known->landing = true;
	known->slot = slot;
	known->landed = landed;
	end->landing[(end->landing_first + end->landing_count++) % LANDINGS] = known;
	return true;
}

/* Nobody takes it. Its member may have let go of all already. */
static void drop(struct member *member, struct known *known)
{
	if (!known->block)
		return;
	pool_give(&member->pool, known->offset, known->block->bytes);
	known->offset = GRAPH_NOWHERE;
	member->held--;
	block_put(steal_pointer(&known->block));
}

bool landings_serve(struct member *member, struct end *end)
{
	struct gdev_graph *graph = member->graph;
	bool some = false;

	while (end->landing_count) {
		struct known *known = end->landing[end->landing_first];
		struct device *device = &graph->devices[device_of(known->landed.lane)];
		bool over = graph->error || graph->terminated;
		if (!over && !point_reached(graph, known->landed)) {
			host_notice(graph, known->landed, false);
			break;
		}
		over = over || lanes_error(graph) || end->closed || member->left;
		end->landing_first = (end->landing_first + 1) % LANDINGS;
		end->landing_count--;
		known->landing = false;
		if (over) {
			drop(member, known);
		} else {
			memcpy(member->ours + known->offset, slot_at(device, known->slot),
				known->block->bytes);
			known_tell(member, end, known);
		}
		give_slot(device, known->slot);
		some = true;
	}
	return some;
}
