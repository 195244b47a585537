/* SPDX-License-Identifier: MIT
 *
 * Copies from and to arrays: where one of two or three dimensions begins, and those of one dimension, which go through
 * the elements of an array row by row.
 */
#include "lib/cuda/array.h"
#include "lib/cuda/exports.h"

CUresult array_place(CUarray array, size_t x, size_t y, size_t z, const struct gdev_copy *copy,
	uint64_t *address, uint64_t *pitch, uint64_t *slice)
{
	const struct texture *plain;
	size_t element, row;

	TRY(array_check(array));
	plain = &array->plain;
	element = texture_element_bytes(plain);
	row = plain->width * element;
	if (x % element || copy->width % element)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"%llu bytes from byte %zu of a row on are not whole elements of %zu bytes",
			(unsigned long long)copy->width, x, element);
	if (x > row || copy->width > row - x || y > plain->height ||
		copy->height > plain->height - y || z > plain->depth ||
		copy->depth > plain->depth - z)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"%llu bytes x %llu x %llu from (%zu, %zu, %zu) on are not within an array "
			"of %zu bytes x %u x %u",
			(unsigned long long)copy->width, (unsigned long long)copy->height,
			(unsigned long long)copy->depth, x, y, z, row, plain->height, plain->depth);
	*pitch = plain->pitch;
	*slice = plain->slice;
	*address = plain->address + z * plain->slice + y * plain->pitch + x;
	return CUDA_SUCCESS;
}

/* ---- of one dimension ---- */

/* One side of such a copy: bytes from an offset on. Memory has one row without an end. */
struct row_side {
	CUarray array; /* or NULL: memory */
	CUdeviceptr memory;
	enum gdev_side side;
	size_t offset;
};

static CUresult check_side(const struct row_side *side, size_t bytes)
{
	const struct texture *plain;
	size_t element, all;

	if (!side->array)
		return side->memory
			       ? CUDA_SUCCESS
			       : fail(CUDA_ERROR_INVALID_VALUE, "the memory's address is NULL");
	TRY(array_check(side->array));
	plain = &side->array->plain;
	element = texture_element_bytes(plain);
	all = plain->width * element * plain->height * plain->depth;
	if (side->offset % element || bytes % element)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"%zu bytes from byte %zu on are not whole elements of %zu bytes", bytes,
			side->offset, element);
	if (side->offset > all || bytes > all - side->offset)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"%zu bytes from byte %zu on are not within an array of %zu bytes", bytes,
			side->offset, all);
	return CUDA_SUCCESS;
}

static size_t row_bytes(const struct row_side *side)
{
	const struct texture *plain;

	if (!side->array)
		return SIZE_MAX;
	plain = &side->array->plain;
	return (size_t)plain->width * texture_element_bytes(plain);
}

/* How many of the bytes are in the row at hand. */
static size_t rest_of_row(const struct row_side *side, size_t bytes)
{
	size_t row = row_bytes(side), rest = row - side->offset % row;

	return rest < bytes ? rest : bytes;
}

/* Rows follow each other at the pitch, also from one plane to the next. */
static uint64_t address_of(const struct row_side *side)
{
	size_t row;

	if (!side->array)
		return side->memory + side->offset;
	row = row_bytes(side);
	return side->array->plain.address + side->offset / row * side->array->plain.pitch +
	       side->offset % row;
}

/* As many bytes as one copy of rows can take. */
static size_t next_piece(const struct row_side *to, const struct row_side *from, size_t bytes,
	struct gdev_copy *copy)
{
	size_t width = rest_of_row(to, rest_of_row(from, bytes)), rows = 1;
	bool whole = (!to->array || width == row_bytes(to)) &&
		     (!from->array || width == row_bytes(from));

	if (whole)
		rows = bytes / width;
	*copy = (struct gdev_copy){.destination = address_of(to),
		.source = address_of(from),
		.destination_side = to->side,
		.source_side = from->side,
		.width = width,
		.height = rows,
		.depth = 1,
		.destination_pitch = to->array ? to->array->plain.pitch : width,
		.source_pitch = from->array ? from->array->plain.pitch : width};
	copy->destination_slice = copy->destination_pitch * rows;
	copy->source_slice = copy->source_pitch * rows;
	return width * rows;
}

static CUresult copy_rows(
	struct row_side to, struct row_side from, size_t bytes, CUstream stream, bool sync)
{
	struct gdev_copy copy;
	CUcontext context;

	TRY(current_context(&context));
	TRY(check_side(&to, bytes));
	TRY(check_side(&from, bytes));
	while (bytes) {
		size_t done = next_piece(&to, &from, bytes, &copy);

		TRY(copy_submit(&copy, stream, sync));
		to.offset += done;
		from.offset += done;
		bytes -= done;
	}
	return CUDA_SUCCESS;
}

CUresult array_to_memory(CUdeviceptr destination, enum gdev_side side, CUarray source,
	size_t offset, size_t bytes, CUstream stream, bool sync)
{
	struct row_side to = {.memory = destination, .side = side};
	struct row_side from = {.array = source, .side = GDEV_SIDE_DEVICE, .offset = offset};

	TRY(initialised());
	TRY(array_check(source));
	return copy_rows(to, from, bytes, stream, sync);
}

CUresult array_from_memory(CUarray destination, size_t offset, CUdeviceptr source,
	enum gdev_side side, size_t bytes, CUstream stream, bool sync)
{
	struct row_side to = {.array = destination, .side = GDEV_SIDE_DEVICE, .offset = offset};
	struct row_side from = {.memory = source, .side = side};

	TRY(initialised());
	TRY(array_check(destination));
	return copy_rows(to, from, bytes, stream, sync);
}

CUresult array_to_array(CUarray destination, size_t offset, CUarray source, size_t source_offset,
	size_t bytes, CUstream stream)
{
	struct row_side to = {.array = destination, .side = GDEV_SIDE_DEVICE, .offset = offset};
	struct row_side from = {.array = source, .side = GDEV_SIDE_DEVICE, .offset = source_offset};

	TRY(initialised());
	TRY(array_check(destination));
	TRY(array_check(source));
	return copy_rows(to, from, bytes, stream, true);
}

/* ---- the calls ---- */

CUresult cuMemcpyDtoA_v2(CUarray destination, size_t offset, CUdeviceptr source, size_t bytes)
{
	return array_from_memory(destination, offset, source, GDEV_SIDE_DEVICE, bytes, NULL, true);
}

CUresult cuMemcpyAtoD_v2(CUdeviceptr destination, CUarray source, size_t offset, size_t bytes)
{
	return array_to_memory(destination, GDEV_SIDE_DEVICE, source, offset, bytes, NULL, true);
}

CUresult cuMemcpyHtoA_v2(CUarray destination, size_t offset, const void *source, size_t bytes)
{
	return array_from_memory(
		destination, offset, (CUdeviceptr)source, GDEV_SIDE_HOST, bytes, NULL, true);
}

CUresult cuMemcpyAtoH_v2(void *destination, CUarray source, size_t offset, size_t bytes)
{
	return array_to_memory(
		(CUdeviceptr)destination, GDEV_SIDE_HOST, source, offset, bytes, NULL, true);
}

CUresult cuMemcpyAtoA_v2(
	CUarray destination, size_t offset, CUarray source, size_t source_offset, size_t bytes)
{
	return array_to_array(destination, offset, source, source_offset, bytes, NULL);
}

CUresult cuMemcpyHtoAAsync_v2(
	CUarray destination, size_t offset, const void *source, size_t bytes, CUstream stream)
{
	return array_from_memory(
		destination, offset, (CUdeviceptr)source, GDEV_SIDE_HOST, bytes, stream, false);
}

CUresult cuMemcpyAtoHAsync_v2(
	void *destination, CUarray source, size_t offset, size_t bytes, CUstream stream)
{
	return array_to_memory(
		(CUdeviceptr)destination, GDEV_SIDE_HOST, source, offset, bytes, stream, false);
}
