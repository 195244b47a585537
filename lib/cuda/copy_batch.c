/* SPDX-License-Identifier: MIT
 *
 * Batches of copies. They are sent one after the other; what may happen out of the stream's order here happens in it. A
 * source that is to be read before the call returns (it may be a variable of the caller's) is waited for.
 */
#include "lib/cuda/array.h"
#include "lib/cuda/exports.h"

static CUresult enter(CUstream handle, bool sound, CUstream *stream)
{
	TRY(stream_enter(handle, stream));
	if (!sound)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"a list is NULL, or a count 0, or there are more attributes than copies, or the "
			"first attribute is not for the first copy, or flags are not 0");
	if (!handle || handle == CU_STREAM_LEGACY)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"CUDA refuses the legacy default stream here; use a stream that the "
			"program made");
	return CUDA_SUCCESS;
}

static bool is_order(CUmemcpySrcAccessOrder order)
{
	return order > CU_MEMCPY_SRC_ACCESS_ORDER_INVALID &&
	       order <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
}

CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *destinations, CUdeviceptr *sources, size_t *sizes,
	size_t count, CUmemcpyAttributes *attributes, size_t *first_of, size_t attribute_count,
	CUstream handle)
{
	bool sound = destinations && sources && sizes && count && attributes && first_of &&
		     attribute_count && attribute_count <= count && !first_of[0];
	size_t attribute = 0;
	CUstream stream;

	TRY(enter(handle, sound, &stream));
	for (size_t i = 0; i < attribute_count; i++)
		if (!is_order(attributes[i].srcAccessOrder) || first_of[i] >= count ||
			(i && first_of[i] <= first_of[i - 1]))
			return fail(CUDA_ERROR_INVALID_VALUE,
				"attribute %zu has no order of access to the source, or does "
				"not begin behind the one before",
				i);
	for (size_t i = 0; i < count; i++) {
		if (attribute + 1 < attribute_count && first_of[attribute + 1] == i)
			attribute++;
		TRY(copy_linear(destinations[i], GDEV_SIDE_ANY, sources[i], GDEV_SIDE_ANY, sizes[i],
			stream,
			attributes[attribute].srcAccessOrder ==
				CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL));
	}
	return CUDA_SUCCESS;
}

CUresult cuMemcpyBatchAsync(CUdeviceptr *destinations, CUdeviceptr *sources, size_t *sizes,
	size_t count, CUmemcpyAttributes *attributes, size_t *first_of, size_t attribute_count,
	size_t *failed, CUstream stream)
{
	if (failed)
		*failed = SIZE_MAX; /* which one is not said */
	return cuMemcpyBatchAsync_v2(
		destinations, sources, sizes, count, attributes, first_of, attribute_count, stream);
}

/* ---- in three dimensions ---- */

/* How large an element is: 0, of memory alone, for which it is a byte. */
static CUresult element_of(const CUmemcpy3DOperand *side, size_t *bytes)
{
	*bytes = 0;
	if (side->type == CU_MEMCPY_OPERAND_TYPE_POINTER)
		return side->op.ptr.ptr ? CUDA_SUCCESS
					: fail(CUDA_ERROR_INVALID_VALUE,
						  "a side of the copy has the address NULL");
	if (side->type != CU_MEMCPY_OPERAND_TYPE_ARRAY)
		return fail(CUDA_ERROR_INVALID_VALUE, "%d is no type of a side", (int)side->type);
	TRY(array_check(side->op.array.array));
	*bytes = texture_element_bytes(&side->op.array.array->plain);
	return CUDA_SUCCESS;
}

/* `copy` has its sizes. */
static CUresult place(const CUmemcpy3DOperand *side, size_t element, const struct gdev_copy *copy,
	uint64_t *address, enum gdev_side *where, uint64_t *pitch, uint64_t *slice)
{
	const CUoffset3D *at = &side->op.array.offset;
	size_t rows = copy->height, x;

	if (side->type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
		*where = GDEV_SIDE_DEVICE;
		if (__builtin_mul_overflow(at->x, element, &x))
			return fail(CUDA_ERROR_INVALID_VALUE,
				"the array has no element %zu in a row", at->x);
		return array_place(
			side->op.array.array, x, at->y, at->z, copy, address, pitch, slice);
	}
	*where = GDEV_SIDE_ANY;
	*address = side->op.ptr.ptr;
	*pitch = copy->width;
	if (side->op.ptr.layerHeight)
		rows = side->op.ptr.layerHeight;
	if ((side->op.ptr.rowLength &&
		    __builtin_mul_overflow(side->op.ptr.rowLength, element, pitch)) ||
		*pitch < copy->width || rows < copy->height ||
		__builtin_mul_overflow(*pitch, rows, slice))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"rows of %zu elements, or layers of %zu rows, are less than the copy has",
			side->op.ptr.rowLength, side->op.ptr.layerHeight);
	return CUDA_SUCCESS;
}

static CUresult shape(const CUDA_MEMCPY3D_BATCH_OP *wanted, struct gdev_copy *copy)
{
	const CUextent3D *extent = &wanted->extent;
	size_t to, from, element;

	if (!extent->width || !extent->height || !extent->depth || wanted->flags > 1 ||
		!is_order(wanted->srcAccessOrder))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"a size of the copy is 0, or it has no order of access to the source, or flags "
			"%#x have bits that mean nothing",
			wanted->flags);
	TRY(element_of(&wanted->dst, &to));
	TRY(element_of(&wanted->src, &from));
	if (to && from && to != from)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the arrays have elements of %zu and of %zu bytes", to, from);
	element = to ? to : from ? from : 1;
	*copy = (struct gdev_copy){.height = extent->height, .depth = extent->depth};
	if (__builtin_mul_overflow(extent->width, element, &copy->width))
		return fail(CUDA_ERROR_INVALID_VALUE, "rows of %zu elements are too long",
			extent->width);
	TRY(place(&wanted->dst, element, copy, &copy->destination, &copy->destination_side,
		&copy->destination_pitch, &copy->destination_slice));
	return place(&wanted->src, element, copy, &copy->source, &copy->source_side,
		&copy->source_pitch, &copy->source_slice);
}

CUresult cuMemcpy3DBatchAsync_v2(
	size_t count, CUDA_MEMCPY3D_BATCH_OP *wanted, unsigned long long flags, CUstream handle)
{
	struct gdev_copy copy;
	CUstream stream;

	TRY(enter(handle, count && wanted && !flags, &stream));
	for (size_t i = 0; i < count; i++)
		TRY(shape(&wanted[i], &copy));
	for (size_t i = 0; i < count; i++) {
		TRY(shape(&wanted[i], &copy));
		TRY(copy_submit(&copy, stream,
			wanted[i].srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL));
	}
	return CUDA_SUCCESS;
}

CUresult cuMemcpy3DBatchAsync(size_t count, CUDA_MEMCPY3D_BATCH_OP *wanted, size_t *failed,
	unsigned long long flags, CUstream stream)
{
	if (failed)
		*failed = SIZE_MAX;
	return cuMemcpy3DBatchAsync_v2(count, wanted, flags, stream);
}
