/* SPDX-License-Identifier: MIT
 *
 * See residency.h: copies from, and fills of, pieces that are in host swap (rules 2 and 3). A job moves the
 * bytes; nothing is brought in. The commands before it on its stream are done when it starts: what is
 * on the device and what is in swap could otherwise overtake each other.
 */
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "worker/command.h"
#include "worker/core.h"
#include "worker/memory/residency.h"
#include "worker/memory/swap.h"

#define FILL_BYTES (16ull << 10) /* a part that stays in the processor's cache */

/* `at`: where it begins in the slot. */
static int copy_from(struct core *core, const struct device_copy *copy,
	const struct swap_slot *slot, uint64_t at)
{
	int error = 0;

	for (uint64_t y = 0; y < copy->height && !error; y++) {
		void *to = (void *)(uintptr_t)(copy->destination + y * copy->destination_pitch);
		if (slot)
			error = swap_read(core, slot, at + y * copy->source_pitch, to, copy->width);
		else
			memset(to, 0, copy->width);
	}
	return error;
}

static void fill_piece(const struct device_fill *fill, uint8_t *to)
{
	uint64_t bytes = fill->width * fill->element_bytes;

	for (uint64_t y = 0; y < fill->height; y++) {
		uint8_t *row = to + y * fill->pitch;
		uint64_t filled = min_of(bytes, fill->element_bytes);
		if (fill->element_bytes == 1) {
			memset(row, (int)fill->value, bytes);
			continue;
		}
		memcpy(row, &fill->value, filled);
		for (uint64_t part; filled < bytes; filled += part) { /* what is there, again */
			part = min_of(min_of(filled, FILL_BYTES), bytes - filled);
			memcpy(row + filled, row, part);
		}
	}
}

static int fill_slot(struct core *core, const struct device_fill *fill_all,
	const struct swap_slot *slot, uint64_t at)
{
	uint64_t row = fill_all->width * fill_all->element_bytes;
	struct device_fill part = *fill_all;
	uint8_t pattern[FILL_BYTES];
	int error = 0;

	if (slot->pool == SWAP_MEMORY) {
		fill_piece(fill_all, (uint8_t *)slot->base + at);
		return 0;
	}
	part.height = 1;
	part.width = min_of(fill_all->width, FILL_BYTES / fill_all->element_bytes);
	fill_piece(&part, pattern);
	for (uint64_t y = 0; y < fill_all->height; y++)
		for (uint64_t x = 0, bytes; x < row && !error; x += bytes) {
			bytes = min_of(row - x, part.width * part.element_bytes);
			error = swap_write(
				core, slot, at + y * fill_all->pitch + x, pattern, bytes);
		}
	return error;
}

static void serve_job(struct job *job)
{
	struct command *command = container_of(job, struct command, job);
	struct core *core = command->core;
	struct piece *piece = command->piece;
	uint64_t base = piece->range->address + piece->offset;
	int error = 0;

	device_command_start(&command->device, clock_now_ns());
	if (command->device.kind == DEVICE_COPY) {
		error = copy_from(core, &command->device.copy, piece->slot,
			command->device.copy.source - base);
	} else {
		if (!piece->slot)
			error = swap_get(core, piece->bytes, &piece->slot);
		if (!error)
			error = fill_slot(core, &command->device.fill, piece->slot,
				command->device.fill.destination - base);
	}
	command->device.finished_ns = clock_now_ns();
	command->device.busy_ns = 0;
	command->device.done(&command->device, error);
}

/* With the lock. A FRESH piece has one command at a time, which may give it a slot. */
void swap_serve(
	struct core *core, struct stream *stream, struct command *command, struct piece *piece)
{
	struct command *last = list_empty(&stream->passed)
				       ? NULL
				       : list_entry(stream->passed.prev, struct command, link);

	if (last || (piece->served && piece->state == PIECE_FRESH)) {
		stream->ordered = last != NULL;
		if (!last)
			stream_wait_in(&core->residency.waiting, stream);
		return;
	}
	command->piece = piece;
	command->served = true;
	command->in_pieces = true; /* it stays the first of its stream until it is done */
	piece->served++;
	memory_pin(piece->range);
	stream_submit_served(core, command);
	service_job(core, LANE_LOADING, &command->job, serve_job);
}

void swap_served(struct core *core, struct command *command)
{
	struct piece *piece = command->piece;
	struct range *range = piece->range;

	command->served = false;
	if (piece->slot && piece->state == PIECE_FRESH) {
		piece->state = PIECE_SWAPPED;
		piece->written = true;
	}
	range->copied_at = ++core->residency.copies;
	piece->served--;
	residency_pump(core);
	residency_wake(core);
	memory_unpin(core, range);
}
