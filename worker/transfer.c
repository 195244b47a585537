/* SPDX-License-Identifier: MIT
 *
 * Copies, writes and fills, from the record to what the device executes. The ranges are looked up when
 * the command is about to pass, so a range that was freed meanwhile is an illegal address and nothing
 * worse. A long copy goes to the device in pieces, one after another, so that copies of other streams
 * and a revoked grant wait for a piece at most.
 */

#include "base/cleanup.h"
#include "gdev/error.h"
#include "worker/command.h"
#include "worker/core.h"

#define PIECE_BYTES (4ull << 20)
#define WITHIN_PIECE_BYTES (64ull << 20)
/* A guess, low: what a copy is taken to need of the window, until one is measured. */
#define BYTES_PER_US 4096
#define MEASURED_BYTES (64u << 10) /* shorter ones say nothing about the rate */

static bool on_device(const struct range *range)
{
	return range->kind == RANGE_DEVICE || range->kind == RANGE_SHARED ||
	       range->kind == RANGE_VARIABLE || range->kind == RANGE_ARRAY;
}

static int out_of_range(struct command *command, uint64_t address)
{
	command->device.fault_address = address;
	return -GDEV_E_ILLEGAL_ADDRESS;
}

static void set_direction(struct command *command, const struct range *to, const struct range *from)
{
	struct device_copy *copy = &command->device.copy;

	if (on_device(to) == on_device(from))
		copy->direction = COPY_WITHIN;
	else
		copy->direction = on_device(to) ? COPY_TO_DEVICE : COPY_FROM_DEVICE;
	command->resource = copy_resource(copy->direction);
}

/* The next piece: some planes, or some rows of a plane, or some bytes of a row. */
static void cut_piece(struct command *command, const struct record_copy *whole, uint64_t limit)
{
	struct device_copy *copy = &command->device.copy;
	uint64_t plane_bytes;
	bool small_row = whole->width <= limit && !command->column;

	copy->width = whole->width - command->column;
	copy->height = copy->depth = 1;
	if (small_row && !command->row &&
		!__builtin_mul_overflow(whole->width, whole->height, &plane_bytes) &&
		plane_bytes <= limit) {
		copy->height = whole->height;
		copy->depth = min_of(whole->depth - command->plane, limit / plane_bytes);
	} else if (small_row) {
		copy->height = min_of(whole->height - command->row, limit / whole->width);
	} else {
		copy->width = min_of(copy->width, limit);
	}
	copy->destination = whole->destination + command->plane * whole->destination_slice +
			    command->row * whole->destination_pitch + command->column;
	copy->source = whole->source + command->plane * whole->source_slice +
		       command->row * whole->source_pitch + command->column;
	copy->destination_pitch = whole->destination_pitch;
	copy->source_pitch = whole->source_pitch;
	copy->destination_slice = whole->destination_slice;
	copy->source_slice = whole->source_slice;
}

static bool next_piece_begins(
	const struct command *command, uint64_t *column, uint64_t *row, uint64_t *plane)
{
	const struct record_copy *whole = command->request.copy;
	const struct device_copy *copy = &command->device.copy;

	*column = command->column + copy->width;
	*row = command->row;
	*plane = command->plane;
	if (*column == whole->width) {
		*column = 0;
		*row += copy->height;
	}
	if (*row == whole->height) {
		*row = 0;
		*plane += copy->depth;
	}
	return *plane != whole->depth;
}

void command_next_piece(struct command *command)
{
	const struct device_fill *fill = &command->device.fill;

	if (command->request.header->opcode == RECORD_COPY) {
		next_piece_begins(command, &command->column, &command->row, &command->plane);
		return;
	}
	command->column += fill->width;
	if (command->column == command->request.fill->width) {
		command->column = 0;
		command->row += fill->height;
	}
}

/* ---- one piece of an object ---- */

void device_copy_spans(const struct device_copy *copy, uint64_t *to, uint64_t *from)
{
	*to = (copy->depth - 1) * copy->destination_slice +
	      (copy->height - 1) * copy->destination_pitch + copy->width;
	*from = (copy->depth - 1) * copy->source_slice + (copy->height - 1) * copy->source_pitch +
		copy->width;
}

uint64_t device_fill_span(const struct device_fill *fill)
{
	return (fill->height - 1) * fill->pitch + fill->width * fill->element_bytes;
}

/* How many of the rows (`pitch` apart, of `width` bytes, at most `height`) lie in the `left` bytes that
 * the first one begins; if not even that one does, 0. */
static uint64_t rows_within(uint64_t left, uint64_t width, uint64_t height, uint64_t pitch)
{
	if (width > left)
		return 0;
	if (height == 1 || !pitch)
		return height;
	return min_of(height, (left - width) / pitch + 1);
}

static struct piece *piece_at(struct command *command, uint64_t address, uint64_t *left)
{
	struct range *range = memory_find(command->core, address, 1);
	struct piece *piece;

	if (!range || !range_swaps(range))
		return NULL;
	piece = memory_piece(range, address);
	*left = range->address + piece->offset + piece->bytes - address;
	return piece;
}

struct piece *command_clip_copy(struct command *command)
{
	struct device_copy *copy = &command->device.copy;
	uint64_t left, rows, column, row, plane;
	struct piece *piece = piece_at(command, copy->source, &left);

	if (!piece)
		return NULL;
	rows = rows_within(left, copy->width, copy->height, copy->source_pitch);
	if (copy->depth > 1 && (rows < copy->height || copy->height * copy->depth > 1))
		copy->depth = 1;
	copy->height = rows ? rows : 1;
	if (!rows)
		copy->width = left;
	command->in_pieces = next_piece_begins(command, &column, &row, &plane);
	return piece;
}

struct piece *command_clip_fill(struct command *command)
{
	const struct record_fill *whole = command->request.fill;
	struct device_fill *fill = &command->device.fill;
	uint64_t left, rows;
	struct piece *piece = piece_at(command, fill->destination, &left);

	if (!piece)
		return NULL;
	/* Pieces begin at multiples of their size, elements at multiples of theirs. */
	rows = rows_within(left, fill->width * fill->element_bytes, fill->height, fill->pitch);
	fill->height = rows ? rows : 1;
	if (!rows)
		fill->width = left / fill->element_bytes;
	command->in_pieces = command->column + fill->width < whole->width ||
			     command->row + fill->height < whole->height;
	return piece;
}

/* Between two pieces the device waits for us, and the next session for the end of one. While nobody else wants
 * the engine, the pieces of a backend that says how long they are (a GPU) are four times as long. */
static uint64_t piece_bytes(struct command *command)
{
	uint64_t of_backend = command->core->ops->piece_bytes;
	uint64_t bytes = of_backend ? of_backend : PIECE_BYTES;

	if (command->device.copy.direction == COPY_WITHIN)
		bytes = WITHIN_PIECE_BYTES;
	if (of_backend && grant_is_uncontended(command->core, command->resource))
		bytes *= 4;
	return bytes;
}

static void estimate_copy(struct command *command, uint64_t bytes)
{
	uint64_t rate = command->core->copy_rates[command->device.copy.direction];

	command->estimate_ns = command->doubt_ns = bytes * 1000 / (rate ? rate : BYTES_PER_US);
}

void copy_measured(const struct command *command)
{
	const struct device_copy *copy = &command->device.copy;
	uint64_t *rate = &command->core->copy_rates[copy->direction];
	uint64_t bytes = copy->width * copy->height * copy->depth, seen;

	if (bytes < MEASURED_BYTES || !command->device.busy_ns)
		return;
	seen = bytes * 1000 / command->device.busy_ns;
	if (seen)
		*rate = *rate ? (7 * *rate + seen) / 8 : seen;
}

int command_prepare_copy(struct command *command)
{
	const struct record_copy *whole = command->request.copy;
	const struct request *request = &command->request;
	struct device_copy *copy = &command->device.copy;
	struct range *to, *from;
	uint64_t column, row, plane;

	if (!request->destination_span || command->plane == whole->depth)
		return 1;
	to = memory_find(command->core, whole->destination, request->destination_span);
	if (!to || to->read_only)
		return out_of_range(command, whole->destination);
	from = memory_find(command->core, whole->source, request->source_span);
	if (!from)
		return out_of_range(command, whole->source);
	command->device.kind = DEVICE_COPY;
	set_direction(command, to, from);
	cut_piece(command, whole, piece_bytes(command));
	command->in_pieces = next_piece_begins(command, &column, &row, &plane);
	estimate_copy(command, copy->width * copy->height * copy->depth);
	return 0;
}

/* The bytes are in our copy of the record, which lives until the command is done. */
int command_prepare_write(struct command *command)
{
	const struct record_write *write = command->request.write;
	struct range *to;

	if (!write->bytes)
		return 1;
	to = memory_find(command->core, write->destination, write->bytes);
	if (!to || to->read_only)
		return out_of_range(command, write->destination);
	command->device.kind = DEVICE_COPY;
	command->device.copy = (struct device_copy){
		.destination = write->destination,
		.source = (uintptr_t)command->request.tail,
		.width = write->bytes,
		.height = 1,
		.depth = 1,
		.direction = on_device(to) ? COPY_TO_DEVICE : COPY_WITHIN,
	};
	command->resource = on_device(to) ? RESOURCE_COPY_TO_DEVICE : RESOURCE_COMPUTE;
	estimate_copy(command, write->bytes);
	return 0;
}

int command_prepare_fill(struct command *command)
{
	const struct record_fill *fill = command->request.fill;
	uint64_t span = command->request.destination_span;
	struct range *to;

	if (!span || command->row == fill->height)
		return 1;
	to = memory_find(command->core, fill->destination, span);
	if (!to || to->read_only || to->kind == RANGE_ARRAY)
		return out_of_range(command, fill->destination);
	command->device.kind = DEVICE_FILL;
	command->in_pieces = false;
	command->device.fill = (struct device_fill){
		.destination = fill->destination + command->row * fill->pitch +
			       command->column * fill->element_bytes,
		.width = fill->width - command->column,
		.height = command->column ? 1 : fill->height - command->row,
		.pitch = fill->pitch,
		.element_bytes = fill->element_bytes,
		.value = fill->value,
	};
	if (command->column) /* the rest of a row, and then the rows below it */
		command->in_pieces = command->row + 1 < fill->height;
	command->resource = RESOURCE_COMPUTE;
	command->estimate_ns = command->doubt_ns =
		fill->width * fill->element_bytes * fill->height / BYTES_PER_US * 1000;
	return 0;
}
