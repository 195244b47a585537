/* SPDX-License-Identifier: MIT
 *
 * See residency.h: copies from, and fills of, pieces that are in host swap (rules 2 and 3). A job moves the
 * bytes; nothing is brought in. The commands before it on its stream are done when it starts: what is
 * on the device and what is in swap could otherwise overtake each other.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "worker/command.h"
#include "worker/core.h"
#include "worker/residency.h"
#include "worker/swap.h"

#define FILL_BYTES (16ull << 10) /* a part that stays in the processor's cache */

static void copy_from(const struct device_copy *copy, const uint8_t *from)
{
	for (uint64_t y = 0; y < copy->height; y++) {
		void *to = (void *)(uintptr_t)(copy->destination + y * copy->destination_pitch);
		if (from)
			memcpy(to, from + y * copy->source_pitch, copy->width);
		else
			memset(to, 0, copy->width);
	}
}

static void fill(const struct device_fill *fill, uint8_t *to)
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

static void serve_job(struct job *job)
{
	struct command *command = container_of(job, struct command, job);
	struct core *core = command->core;
	struct piece *piece = command->piece;
	uint64_t base = piece->range->address + piece->offset;
	int error = 0;

	device_command_start(&command->device, clock_now_ns());
	if (command->device.kind == DEVICE_COPY) {
		const uint8_t *slot = piece->slot ? piece->slot->base : NULL;
		copy_from(&command->device.copy,
			slot ? slot + (command->device.copy.source - base) : NULL);
	} else {
		if (!piece->slot)
			error = swap_get(core, piece->bytes, &piece->slot);
		if (!error)
			fill(&command->device.fill,
				(uint8_t *)piece->slot->base +
					(command->device.fill.destination - base));
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
	service_job(core, &command->job, serve_job);
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
