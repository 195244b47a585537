/* SPDX-License-Identifier: MIT
 *
 * Copies and fills, on the legacy default stream. The calls on a thread's own stream are in per_thread.c.
 */
#include <errno.h>

#include "lib/cuda/exports.h"
#include "lib/cuda/internal.h"

CUresult copy_result(const struct gdev_copy *copy, int error)
{
	if (error == -EINVAL)
		return fail(cuda_result(error),
			"%llu x %llu x %llu bytes from %#llx to %#llx are not within memory of this context",
			(unsigned long long)copy->width, (unsigned long long)copy->height,
			(unsigned long long)copy->depth, (unsigned long long)copy->source,
			(unsigned long long)copy->destination);
	return result_of(error,
		"%llu x %llu x %llu bytes cannot be copied from %#llx to %#llx, or work before "
		"the copy failed",
		(unsigned long long)copy->width, (unsigned long long)copy->height,
		(unsigned long long)copy->depth, (unsigned long long)copy->source,
		(unsigned long long)copy->destination);
}

CUresult copy_send(CUstream stream, const struct gdev_copy *copy, bool sync)
{
	CUresult result;
	bool across;

	result = peer_copy(stream, copy, sync, &across);
	if (across || result != CUDA_SUCCESS)
		return result;
	return copy_result(copy,
		sync ? gdev_copy(stream->stream, copy) : gdev_copy_async(stream->stream, copy));
}

CUresult copy_submit(const struct gdev_copy *copy, CUstream handle, bool sync)
{
	CUstream stream;

	TRY(sync ? stream_enter(handle, &stream) : stream_record(handle, &stream));
	return stream->capture ? capture_copy(stream, copy) : copy_send(stream, copy, sync);
}

CUresult copy_linear(CUdeviceptr destination, enum gdev_side destination_side, CUdeviceptr source,
	enum gdev_side source_side, size_t bytes, CUstream stream, bool sync)
{
	struct gdev_copy copy = gdev_copy_linear(destination, source, bytes);

	copy.destination_side = destination_side;
	copy.source_side = source_side;
	if (bytes && (!destination || !source)) {
		CUcontext context;
		TRY(current_context(&context));
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the %s is NULL, and there are %zu bytes to copy",
			destination ? "source" : "destination", bytes);
	}
	return copy_submit(&copy, stream, sync);
}

/* ---- two and three dimensions ---- */

/* One side of a copy as CUDA describes it. */
struct side {
	CUmemorytype type;
	CUdeviceptr host, device;
	CUarray array;
	size_t x, y, z, pitch, height;
};

static CUresult resolve_side(const struct side *side, const struct gdev_copy *copy,
	uint64_t *address, enum gdev_side *where, uint64_t *pitch, uint64_t *slice)
{
	switch (side->type) {
	case CU_MEMORYTYPE_HOST:
		*address = side->host;
		*where = GDEV_SIDE_HOST;
		break;
	case CU_MEMORYTYPE_DEVICE:
		*address = side->device;
		*where = GDEV_SIDE_DEVICE;
		break;
	case CU_MEMORYTYPE_UNIFIED:
		*address = side->device;
		*where = GDEV_SIDE_ANY;
		break;
	case CU_MEMORYTYPE_ARRAY:
		*where = GDEV_SIDE_DEVICE;
		return array_place(
			side->array, side->x, side->y, side->z, copy, address, pitch, slice);
	default:
		return fail(CUDA_ERROR_INVALID_VALUE, "%d is no type of memory", (int)side->type);
	}
	if (!*address)
		return fail(CUDA_ERROR_INVALID_VALUE, "a side of the copy has the address NULL");
	*pitch = side->pitch ? side->pitch : side->x + copy->width;
	if (side->x + copy->width < copy->width || side->x + copy->width > *pitch)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"a row of %zu bytes from column %zu on does not fit into the pitch of "
			"%zu bytes",
			copy->width, side->x, (size_t)*pitch);
	size_t rows = side->height ? side->height : side->y + copy->height;
	if (side->y + copy->height > rows || __builtin_mul_overflow(*pitch, rows, slice))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"%zu rows from row %zu on do not fit into a slice of %zu rows",
			copy->height, side->y, rows);
	*address += side->z * *slice + side->y * *pitch + side->x;
	return CUDA_SUCCESS;
}

static CUresult shape_sides(
	const struct side *destination, const struct side *source, struct gdev_copy *copy)
{
	TRY(resolve_side(destination, copy, &copy->destination, &copy->destination_side,
		&copy->destination_pitch, &copy->destination_slice));
	return resolve_side(source, copy, &copy->source, &copy->source_side, &copy->source_pitch,
		&copy->source_slice);
}

static CUresult copy_sides(const struct side *destination, const struct side *source, size_t width,
	size_t height, size_t depth, CUstream stream, bool sync)
{
	struct gdev_copy copy = {.width = width, .height = height, .depth = depth};
	CUcontext context;

	TRY(current_context(&context));
	if (!width || !height || !depth)
		return CUDA_SUCCESS;
	TRY(shape_sides(destination, source, &copy));
	return copy_submit(&copy, stream, sync);
}

CUresult copy_2d(const CUDA_MEMCPY2D *copy, CUstream stream, bool sync)
{
	if (!copy)
		return fail(CUDA_ERROR_INVALID_VALUE, "the description of the copy is NULL");
	struct side destination = {copy->dstMemoryType, (CUdeviceptr)copy->dstHost, copy->dstDevice,
		copy->dstArray, copy->dstXInBytes, copy->dstY, 0, copy->dstPitch, 0};
	struct side source = {copy->srcMemoryType, (CUdeviceptr)copy->srcHost, copy->srcDevice,
		copy->srcArray, copy->srcXInBytes, copy->srcY, 0, copy->srcPitch, 0};
	return copy_sides(&destination, &source, copy->WidthInBytes, copy->Height, 1, stream, sync);
}

static struct side destination_of(const CUDA_MEMCPY3D *copy)
{
	return (struct side){copy->dstMemoryType, (CUdeviceptr)copy->dstHost, copy->dstDevice,
		copy->dstArray, copy->dstXInBytes, copy->dstY, copy->dstZ, copy->dstPitch,
		copy->dstHeight};
}

static struct side source_of(const CUDA_MEMCPY3D *copy)
{
	return (struct side){copy->srcMemoryType, (CUdeviceptr)copy->srcHost, copy->srcDevice,
		copy->srcArray, copy->srcXInBytes, copy->srcY, copy->srcZ, copy->srcPitch,
		copy->srcHeight};
}

CUresult copy_3d(const CUDA_MEMCPY3D *copy, CUstream stream, bool sync)
{
	if (!copy || copy->srcLOD || copy->dstLOD)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the description of the copy is NULL, or names a level of detail, "
			"which must be 0");
	struct side destination = destination_of(copy), source = source_of(copy);
	return copy_sides(
		&destination, &source, copy->WidthInBytes, copy->Height, copy->Depth, stream, sync);
}

CUresult copy_shape(const CUDA_MEMCPY3D *copy, struct gdev_copy *shape)
{
	struct side destination = destination_of(copy), source = source_of(copy);

	if (copy->srcLOD || copy->dstLOD || !copy->WidthInBytes || !copy->Height || !copy->Depth)
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the copy has nothing to copy (a size is 0), or names a level of "
			"detail, which must be 0");
	*shape = (struct gdev_copy){
		.width = copy->WidthInBytes, .height = copy->Height, .depth = copy->Depth};
	return shape_sides(&destination, &source, shape);
}

/* A copy between contexts that returns when it is done follows all that was sent to both. One that is asynchronous follows
 * what is on its stream, as every command. */
static CUresult follow_contexts(CUcontext to, CUcontext from, bool sync)
{
	CUcontext current;

	TRY(current_context(&current));
	if (!to || !from)
		return fail(CUDA_ERROR_INVALID_CONTEXT, "one of the two contexts is NULL");
	TRY(context_or_current(to, &to));
	TRY(context_or_current(from, &from));
	if (sync && to != current)
		TRY(context_synchronise(to));
	return sync && from != current && from != to ? context_synchronise(from) : CUDA_SUCCESS;
}

CUresult copy_3d_peer(const CUDA_MEMCPY3D_PEER *peer, CUstream stream, bool sync)
{
	TRY(initialised());
	if (!peer)
		return fail(CUDA_ERROR_INVALID_VALUE, "the description of the copy is NULL");
	TRY(follow_contexts(peer->dstContext, peer->srcContext, sync));
	struct side destination = {peer->dstMemoryType, (CUdeviceptr)peer->dstHost, peer->dstDevice,
		peer->dstArray, peer->dstXInBytes, peer->dstY, peer->dstZ, peer->dstPitch,
		peer->dstHeight};
	struct side source = {peer->srcMemoryType, (CUdeviceptr)peer->srcHost, peer->srcDevice,
		peer->srcArray, peer->srcXInBytes, peer->srcY, peer->srcZ, peer->srcPitch,
		peer->srcHeight};
	return copy_sides(
		&destination, &source, peer->WidthInBytes, peer->Height, peer->Depth, stream, sync);
}

CUresult copy_peer(CUdeviceptr destination, CUcontext destination_context, CUdeviceptr source,
	CUcontext source_context, size_t bytes, CUstream stream, bool sync)
{
	TRY(follow_contexts(destination_context, source_context, sync));
	return copy_linear(
		destination, GDEV_SIDE_DEVICE, source, GDEV_SIDE_DEVICE, bytes, stream, sync);
}

/* ---- fills ---- */

CUresult fill_result(const struct gdev_fill *fill, int error)
{
	return result_of(error,
		"%llu x %llu elements at %#llx, which must be memory of CUDA, cannot be filled",
		(unsigned long long)fill->width, (unsigned long long)fill->height,
		(unsigned long long)fill->destination);
}

CUresult fill(CUdeviceptr destination, size_t pitch, uint32_t value, unsigned element_bytes,
	size_t width, size_t height, CUstream handle, bool sync)
{
	struct gdev_fill wanted = {
		.destination = destination,
		.width = width,
		.height = height,
		.pitch = pitch,
		.element_bytes = element_bytes,
		.value = value,
	};
	struct allocation allocation;
	struct gdev_range range;
	CUstream stream;
	CUresult result;
	bool across;

	TRY(sync ? stream_enter(handle, &stream) : stream_record(handle, &stream));
	if (height > 1 && (pitch < width * element_bytes || pitch % element_bytes))
		return fail(CUDA_ERROR_INVALID_VALUE,
			"the pitch of %zu bytes is less than a row, or no multiple of its elements",
			pitch);
	if (stream->capture)
		return capture_fill(stream, &wanted);
	result = peer_fill(stream, &wanted, sync, &across);
	if (across || result != CUDA_SUCCESS)
		return result;
	TRY(fill_result(&wanted, gdev_fill_async(stream->stream, &wanted)));
	/* A copy to memory that the process can read is done when the call returns. */
	if (sync && memory_find(destination, &range, &allocation) && range.mapped)
		return result_of(gdev_stream_sync(stream->stream), "the fill failed");
	return CUDA_SUCCESS;
}

/* ---- the calls ---- */

CUresult cuMemcpy(CUdeviceptr destination, CUdeviceptr source, size_t bytes)
{
	return copy_linear(destination, GDEV_SIDE_ANY, source, GDEV_SIDE_ANY, bytes, NULL, true);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr destination, const void *source, size_t bytes)
{
	return copy_linear(destination, GDEV_SIDE_DEVICE, (CUdeviceptr)source, GDEV_SIDE_HOST,
		bytes, NULL, true);
}

CUresult cuMemcpyDtoH_v2(void *destination, CUdeviceptr source, size_t bytes)
{
	return copy_linear((CUdeviceptr)destination, GDEV_SIDE_HOST, source, GDEV_SIDE_DEVICE,
		bytes, NULL, true);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr destination, CUdeviceptr source, size_t bytes)
{
	return copy_linear(
		destination, GDEV_SIDE_DEVICE, source, GDEV_SIDE_DEVICE, bytes, NULL, true);
}

CUresult cuMemcpyPeer(CUdeviceptr destination, CUcontext destination_context, CUdeviceptr source,
	CUcontext source_context, size_t bytes)
{
	return copy_peer(
		destination, destination_context, source, source_context, bytes, NULL, true);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy)
{
	return copy_2d(copy, NULL, true);
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *copy)
{
	return copy_2d(copy, NULL, true);
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *copy)
{
	return copy_3d(copy, NULL, true);
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *copy)
{
	return copy_3d_peer(copy, NULL, true);
}

CUresult cuMemcpyAsync(CUdeviceptr destination, CUdeviceptr source, size_t bytes, CUstream stream)
{
	return copy_linear(destination, GDEV_SIDE_ANY, source, GDEV_SIDE_ANY, bytes, stream, false);
}

CUresult cuMemcpyHtoDAsync_v2(
	CUdeviceptr destination, const void *source, size_t bytes, CUstream stream)
{
	return copy_linear(destination, GDEV_SIDE_DEVICE, (CUdeviceptr)source, GDEV_SIDE_HOST,
		bytes, stream, false);
}

CUresult cuMemcpyDtoHAsync_v2(void *destination, CUdeviceptr source, size_t bytes, CUstream stream)
{
	return copy_linear((CUdeviceptr)destination, GDEV_SIDE_HOST, source, GDEV_SIDE_DEVICE,
		bytes, stream, false);
}

CUresult cuMemcpyDtoDAsync_v2(
	CUdeviceptr destination, CUdeviceptr source, size_t bytes, CUstream stream)
{
	return copy_linear(
		destination, GDEV_SIDE_DEVICE, source, GDEV_SIDE_DEVICE, bytes, stream, false);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr destination, CUcontext destination_context,
	CUdeviceptr source, CUcontext source_context, size_t bytes, CUstream stream)
{
	return copy_peer(
		destination, destination_context, source, source_context, bytes, stream, false);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream)
{
	return copy_2d(copy, stream, false);
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *copy, CUstream stream)
{
	return copy_3d(copy, stream, false);
}

CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *copy, CUstream stream)
{
	return copy_3d_peer(copy, stream, false);
}

CUresult cuMemsetD8_v2(CUdeviceptr destination, unsigned char value, size_t count)
{
	return fill(destination, 0, value, 1, count, 1, NULL, true);
}

CUresult cuMemsetD16_v2(CUdeviceptr destination, unsigned short value, size_t count)
{
	return fill(destination, 0, value, 2, count, 1, NULL, true);
}

CUresult cuMemsetD32_v2(CUdeviceptr destination, unsigned int value, size_t count)
{
	return fill(destination, 0, value, 4, count, 1, NULL, true);
}

CUresult cuMemsetD2D8_v2(
	CUdeviceptr destination, size_t pitch, unsigned char value, size_t width, size_t height)
{
	return fill(destination, pitch, value, 1, width, height, NULL, true);
}

CUresult cuMemsetD2D16_v2(
	CUdeviceptr destination, size_t pitch, unsigned short value, size_t width, size_t height)
{
	return fill(destination, pitch, value, 2, width, height, NULL, true);
}

CUresult cuMemsetD2D32_v2(
	CUdeviceptr destination, size_t pitch, unsigned int value, size_t width, size_t height)
{
	return fill(destination, pitch, value, 4, width, height, NULL, true);
}

CUresult cuMemsetD8Async(
	CUdeviceptr destination, unsigned char value, size_t count, CUstream stream)
{
	return fill(destination, 0, value, 1, count, 1, stream, false);
}

CUresult cuMemsetD16Async(
	CUdeviceptr destination, unsigned short value, size_t count, CUstream stream)
{
	return fill(destination, 0, value, 2, count, 1, stream, false);
}

CUresult cuMemsetD32Async(
	CUdeviceptr destination, unsigned int value, size_t count, CUstream stream)
{
	return fill(destination, 0, value, 4, count, 1, stream, false);
}

CUresult cuMemsetD2D8Async(CUdeviceptr destination, size_t pitch, unsigned char value, size_t width,
	size_t height, CUstream stream)
{
	return fill(destination, pitch, value, 1, width, height, stream, false);
}

CUresult cuMemsetD2D16Async(CUdeviceptr destination, size_t pitch, unsigned short value,
	size_t width, size_t height, CUstream stream)
{
	return fill(destination, pitch, value, 2, width, height, stream, false);
}

CUresult cuMemsetD2D32Async(CUdeviceptr destination, size_t pitch, unsigned int value, size_t width,
	size_t height, CUstream stream)
{
	return fill(destination, pitch, value, 4, width, height, stream, false);
}
