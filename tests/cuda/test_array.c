/* SPDX-License-Identifier: MIT
 *
 * Arrays: every kind is made and described, copied to and from in every way, on the default stream, on another one and in
 * a graph; mipmapped arrays, whose levels are arrays; what a context has of them ends with it.
 */
#include "fixture.h"

#include <stdio.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Skips what is not on this device; NVIDIA's library has it. */
static void needs_arrays(void)
{
	CUDA_ARRAY_DESCRIPTOR small = {4, 0, CU_AD_FORMAT_FLOAT, 1};
	CUarray array;

	if (!getenv("TEST_VENDOR") && cuArrayCreate(&array, &small) == CUDA_ERROR_NOT_SUPPORTED)
		skip();
	else if (!getenv("TEST_VENDOR"))
		assert_success(cuArrayDestroy(array));
}

static CUarray array_of(size_t width, size_t height, size_t depth, CUarray_format format,
	unsigned channels, unsigned flags)
{
	CUDA_ARRAY3D_DESCRIPTOR description = {width, height, depth, format, channels, flags}, got;
	CUarray array;

	assert_success(cuArray3DCreate(&array, &description));
	assert_success(cuArray3DGetDescriptor(&got, array));
	assert_int_equal(got.Width, width);
	assert_int_equal(got.Height, height);
	assert_int_equal(got.Depth, depth);
	assert_int_equal(got.Format, format);
	assert_int_equal(got.NumChannels, channels);
	assert_int_equal(got.Flags & flags, flags);
	return array;
}

static uint8_t *numbered(size_t bytes, unsigned seed)
{
	uint8_t *memory = malloc(bytes);

	assert_non_null(memory);
	for (size_t i = 0; i < bytes; i++)
		memory[i] = (uint8_t)(i * 7 + (i >> 8) * 3 + seed);
	return memory;
}

static CUDA_MEMCPY3D whole(CUarray array, size_t width, size_t height, size_t depth)
{
	return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcPitch = width,
		.srcHeight = height,
		.dstMemoryType = CU_MEMORYTYPE_ARRAY,
		.dstArray = array,
		.WidthInBytes = width,
		.Height = height,
		.Depth = depth};
}

/* The other way round. */
static CUDA_MEMCPY3D back(const CUDA_MEMCPY3D *copy, void *host)
{
	return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_ARRAY,
		.srcArray = copy->dstArray,
		.srcXInBytes = copy->dstXInBytes,
		.srcY = copy->dstY,
		.srcZ = copy->dstZ,
		.dstMemoryType = CU_MEMORYTYPE_HOST,
		.dstHost = host,
		.dstPitch = copy->srcPitch,
		.dstHeight = copy->srcHeight,
		.WidthInBytes = copy->WidthInBytes,
		.Height = copy->Height,
		.Depth = copy->Depth};
}

/* 5 x 3 x 2 elements from (2, 1, 1) on of an array of 9 x 6 x 4: from the middle of memory whose rows have 7 elements and
 * whose layers 4 rows, and back into memory without gaps. */
static void boxes_are_copied_in_a_batch(void **state)
{
	enum { X = 5, Y = 3, Z = 2, ROW = 7, ROWS = 4, ELEMENT = 8 };
	CUarray array = array_of(9, 6, 4, CU_AD_FORMAT_FLOAT, 2, 0);
	uint8_t *source = numbered(ROW * ROWS * Z * ELEMENT, 3), got[X * Y * Z * ELEMENT];
	CUDA_MEMCPY3D_BATCH_OP copy = {
		.extent = {X, Y, Z}, .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL};
	CUmemcpy3DOperand box = {.type = CU_MEMCPY_OPERAND_TYPE_ARRAY};
	CUmemcpy3DOperand memory = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER};
	CUstream stream;

	assert_success(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	box.op.array.array = array;
	box.op.array.offset = (CUoffset3D){2, 1, 1};
	memory.op.ptr.ptr = (CUdeviceptr)source;
	memory.op.ptr.rowLength = ROW;
	memory.op.ptr.layerHeight = ROWS;
	copy.dst = box;
	copy.src = memory;
	assert_success(cuMemcpy3DBatchAsync(1, &copy, 0, stream));
	memory.op.ptr.ptr = (CUdeviceptr)got;
	memory.op.ptr.rowLength = memory.op.ptr.layerHeight = 0;
	copy.dst = memory;
	copy.src = box;
	copy.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
	assert_success(cuMemcpy3DBatchAsync(1, &copy, 0, stream));
	assert_success(cuStreamSynchronize(stream));
	for (size_t z = 0; z < Z; z++)
		for (size_t y = 0; y < Y; y++)
			assert_memory_equal(&got[(z * Y + y) * X * ELEMENT],
				&source[(z * ROWS + y) * ROW * ELEMENT], X * ELEMENT);
	copy.extent.width = 8; /* two columns are not there */
	assert_result(cuMemcpy3DBatchAsync(1, &copy, 0, stream), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuStreamDestroy(stream));
	assert_success(cuArrayDestroy(array));
	free(source);
}

static const struct kind {
	size_t width, height, depth;
	CUarray_format format;
	unsigned channels, flags;
	size_t element;
} kinds[] = {
	{1000, 0, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0, 1},
	{37, 0, 0, CU_AD_FORMAT_FLOAT, 4, 0, 16},
	{37, 21, 0, CU_AD_FORMAT_SIGNED_INT8, 2, 0, 2},
	{640, 480, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4, CUDA_ARRAY3D_SURFACE_LDST, 4},
	{33, 5, 0, CU_AD_FORMAT_HALF, 1, 0, 2},
	{64, 64, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_TEXTURE_GATHER, 4},
	{17, 9, 5, CU_AD_FORMAT_SIGNED_INT16, 4, 0, 8},
	{16, 16, 16, CU_AD_FORMAT_UNSIGNED_INT32, 2, CUDA_ARRAY3D_SURFACE_LDST, 8},
	{19, 0, 7, CU_AD_FORMAT_SIGNED_INT32, 1, CUDA_ARRAY3D_LAYERED, 4},
	{19, 11, 3, CU_AD_FORMAT_UNSIGNED_INT16, 1, CUDA_ARRAY3D_LAYERED, 2},
	{8, 8, 6, CU_AD_FORMAT_FLOAT, 2, CUDA_ARRAY3D_CUBEMAP, 8},
	{4, 4, 12, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED, 4},
};

static void arrays_keep_what_is_copied_to_them(void **state)
{
	needs_arrays();
	for (size_t k = 0; k < COUNT_OF(kinds); k++) {
		const struct kind *kind = &kinds[k];
		size_t height = kind->height ? kind->height : 1,
		       depth = kind->depth ? kind->depth : 1;
		size_t row = kind->width * kind->element, bytes = row * height * depth;
		CUarray array = array_of(kind->width, kind->height, kind->depth, kind->format,
			kind->channels, kind->flags);
		uint8_t *from = numbered(bytes, (unsigned)k), *to = calloc(1, bytes);
		CUDA_MEMCPY3D copy = whole(array, row, height, depth), again = back(&copy, to);

		copy.srcHost = from;
		assert_success(cuMemcpy3D(&copy));
		assert_success(cuMemcpy3D(&again));
		assert_memory_equal(from, to, bytes);
		assert_success(cuArrayDestroy(array));
		free(from);
		free(to);
	}
}

static void a_part_of_an_array_is_copied(void **state)
{
	size_t bytes = 16 * 8 * 4 * 4;
	uint8_t *from = numbered(bytes, 3), *to = calloc(1, bytes), part[2 * 4 * 3 * 5];
	CUDA_MEMCPY3D copy, again, all;
	CUarray array;

	needs_arrays();
	array = array_of(16, 8, 4, CU_AD_FORMAT_FLOAT, 1, 0);
	copy = whole(array, 64, 8, 4);
	copy.srcHost = from;
	assert_success(cuMemcpy3D(&copy));
	all = back(&copy, to);
	copy = whole(array, 20, 3, 2);
	memset(part, 0xee, sizeof part);
	copy.srcHost = part, copy.dstXInBytes = 8, copy.dstY = 4, copy.dstZ = 1;
	assert_success(cuMemcpy3D(&copy));
	assert_success(cuMemcpy3D(&all));
	for (size_t i = 0; i < bytes; i++) {
		size_t x = i % 64, y = i / 64 % 8, z = i / 512;
		bool inside = x >= 8 && x < 28 && y >= 4 && y < 7 && z >= 1 && z < 3;

		assert_int_equal(to[i], inside ? 0xee : from[i]);
	}
	memset(part, 0, sizeof part);
	again = back(&copy, part);
	assert_success(cuMemcpy3D(&again));
	for (size_t i = 0; i < sizeof part; i++)
		assert_int_equal(part[i], 0xee);
	assert_success(cuArrayDestroy(array));
	free(from);
	free(to);
}

static void rows_are_copied_between_arrays_and_memory(void **state)
{
	uint8_t *from = numbered(100 * 30, 9), *to = calloc(1, 100 * 30);
	CUDA_ARRAY_DESCRIPTOR description = {50, 30, CU_AD_FORMAT_UNSIGNED_INT16, 1}, got;
	CUarray one, other;
	CUdeviceptr memory;
	CUstream stream;
	size_t pitch;

	needs_arrays();
	assert_success(cuStreamCreate(&stream, 0));
	assert_success(cuArrayCreate(&one, &description));
	assert_success(cuArrayCreate(&other, &description));
	assert_success(cuArrayGetDescriptor(&got, one));
	assert_int_equal(got.Width, 50);
	assert_int_equal(got.Height, 30);
	assert_int_equal(got.Format, CU_AD_FORMAT_UNSIGNED_INT16);
	assert_success(cuMemAllocPitch(&memory, &pitch, 100, 30, 4));
	CUDA_MEMCPY2D in = {.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = from,
		.srcPitch = 100,
		.dstMemoryType = CU_MEMORYTYPE_ARRAY,
		.dstArray = one,
		.WidthInBytes = 100,
		.Height = 30};
	CUDA_MEMCPY2D across = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
		.srcArray = one,
		.dstMemoryType = CU_MEMORYTYPE_ARRAY,
		.dstArray = other,
		.WidthInBytes = 100,
		.Height = 30};
	CUDA_MEMCPY2D out = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
		.srcArray = other,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = memory,
		.dstPitch = pitch,
		.WidthInBytes = 100,
		.Height = 30};
	CUDA_MEMCPY2D host = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = memory,
		.srcPitch = pitch,
		.dstMemoryType = CU_MEMORYTYPE_HOST,
		.dstHost = to,
		.dstPitch = 100,
		.WidthInBytes = 100,
		.Height = 30};
	assert_success(cuMemcpy2DAsync(&in, stream));
	assert_success(cuMemcpy2DAsync(&across, stream));
	assert_success(cuMemcpy2DAsync(&out, stream));
	assert_success(cuStreamSynchronize(stream));
	assert_success(cuMemcpy2DUnaligned(&host));
	assert_memory_equal(from, to, 100 * 30);
	assert_success(cuMemFree(memory));
	assert_success(cuArrayDestroy(one));
	assert_success(cuArrayDestroy(other));
	assert_success(cuStreamDestroy(stream));
	free(from);
	free(to);
}

static void bytes_are_copied_in_the_order_of_elements(void **state)
{
	float in[256], out[256] = {0};
	CUarray one, other;
	CUdeviceptr memory;
	CUstream stream;

	needs_arrays();
	for (int i = 0; i < 256; i++)
		in[i] = (float)i;
	one = array_of(256, 0, 0, CU_AD_FORMAT_FLOAT, 1, 0);
	other = array_of(256, 0, 0, CU_AD_FORMAT_FLOAT, 1, 0);
	assert_success(cuStreamCreate(&stream, 0));
	assert_success(cuMemAlloc(&memory, sizeof in));
	assert_success(cuMemcpyHtoA(one, 0, in, sizeof in));
	assert_success(cuMemcpyAtoH(out, one, 0, sizeof out));
	assert_memory_equal(in, out, sizeof in);
	assert_success(cuMemcpyAtoD(memory, one, 512, 512));
	assert_success(cuMemcpyDtoA(one, 0, memory, 512));
	assert_success(cuMemcpyAtoA(other, 256, one, 0, 768));
	assert_success(cuMemcpyHtoAAsync(other, 0, in, 256, stream));
	assert_success(cuMemcpyAtoHAsync(out, other, 0, sizeof out, stream));
	assert_success(cuStreamSynchronize(stream));
	for (int i = 0; i < 256; i++)
		assert_int_equal(out[i], i < 64 ? i : i < 192 ? 128 + i - 64 : i - 64);
	assert_success(cuMemFree(memory));
	assert_success(cuArrayDestroy(one));
	assert_success(cuArrayDestroy(other));
	assert_success(cuStreamDestroy(stream));
}

/* CUDA's documentation has them of arrays of one dimension; ours goes on in the next row. */
static void rows_follow_each_other(void **state)
{
	uint8_t *from = numbered(30 * 20, 1), *to = calloc(1, 30 * 20);
	CUarray one, other;

	if (getenv("TEST_VENDOR"))
		skip();
	needs_arrays();
	one = array_of(30, 20, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0);
	other = array_of(60, 10, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0);
	assert_success(cuMemcpyHtoA(one, 0, from, 10));
	assert_success(cuMemcpyHtoA(one, 10, from + 10, 500));
	assert_success(cuMemcpyHtoA(one, 510, from + 510, 90));
	assert_success(cuMemcpyAtoA(other, 0, one, 0, 7));
	assert_success(cuMemcpyAtoA(other, 7, one, 7, 593));
	assert_success(cuMemcpyAtoH(to, other, 0, 600));
	assert_memory_equal(from, to, 600);
	assert_success(cuArrayDestroy(one));
	assert_success(cuArrayDestroy(other));
	free(from);
	free(to);
}

static void graphs_copy_arrays(void **state)
{
	uint32_t in[64], out[64] = {0};
	CUDA_MEMCPY3D there, here;
	CUgraphNode first, second;
	CUgraphExec exec;
	CUgraph graph;
	CUarray array;
	CUstream stream;

	needs_arrays();
	for (uint32_t i = 0; i < 64; i++)
		in[i] = i * i;
	array = array_of(8, 8, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, 0);
	there = whole(array, 32, 8, 1);
	there.srcHost = in;
	here = back(&there, out);
	assert_success(cuGraphCreate(&graph, 0));
	assert_success(cuGraphAddMemcpyNode(&first, graph, NULL, 0, &there, fixture_context));
	assert_success(cuGraphAddMemcpyNode(&second, graph, &first, 1, &here, fixture_context));
	assert_success(cuGraphMemcpyNodeGetParams(second, &there));
	assert_int_equal(there.srcMemoryType, CU_MEMORYTYPE_ARRAY);
	assert_ptr_equal(there.srcArray, array);
	assert_success(cuGraphInstantiate(&exec, graph, 0));
	assert_success(cuGraphLaunch(exec, NULL));
	assert_success(cuCtxSynchronize());
	assert_memory_equal(in, out, sizeof in);
	assert_success(cuGraphExecDestroy(exec));
	assert_success(cuGraphDestroy(graph));

	memset(out, 0, sizeof out);
	assert_success(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	assert_success(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	assert_success(cuMemcpy3DAsync(&here, stream));
	assert_success(cuStreamEndCapture(stream, &graph));
	assert_success(cuGraphInstantiate(&exec, graph, 0));
	assert_success(cuGraphLaunch(exec, stream));
	assert_success(cuStreamSynchronize(stream));
	assert_memory_equal(in, out, sizeof in);
	assert_success(cuGraphExecDestroy(exec));
	assert_success(cuGraphDestroy(graph));
	assert_success(cuStreamDestroy(stream));
	assert_success(cuArrayDestroy(array));
}

static void levels_are_arrays(void **state)
{
	static const size_t widths[] = {20, 10, 5, 2, 1}, heights[] = {12, 6, 3, 1, 1};
	CUDA_ARRAY3D_DESCRIPTOR description = {20, 12, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4, 0}, got;
	uint8_t *images[5], back_here[20 * 12 * 4];
	CUmipmappedArray levels;
	CUarray level;

	needs_arrays();
	assert_success(cuMipmappedArrayCreate(&levels, &description, 100));
	for (unsigned l = 0; l < 5; l++) {
		CUDA_MEMCPY3D copy;

		assert_success(cuMipmappedArrayGetLevel(&level, levels, l));
		assert_success(cuArray3DGetDescriptor(&got, level));
		assert_int_equal(got.Width, widths[l]);
		assert_int_equal(got.Height, heights[l]);
		images[l] = numbered(widths[l] * heights[l] * 4, l);
		copy = whole(level, widths[l] * 4, heights[l], 1);
		copy.srcHost = images[l];
		assert_success(cuMemcpy3D(&copy));
	}
	assert_result(cuMipmappedArrayGetLevel(&level, levels, 5), CUDA_ERROR_INVALID_VALUE);
	for (unsigned l = 0; l < 5; l++) {
		CUDA_MEMCPY3D copy;

		assert_success(cuMipmappedArrayGetLevel(&level, levels, l));
		copy = whole(level, widths[l] * 4, heights[l], 1);
		copy = back(&copy, back_here);
		assert_success(cuMemcpy3D(&copy));
		assert_memory_equal(back_here, images[l], widths[l] * heights[l] * 4);
		free(images[l]);
	}
	assert_success(cuMipmappedArrayDestroy(levels));
}

/* All memory is there again when the arrays are gone. */
static void a_context_ends_with_its_arrays(void **state)
{
	CUDA_ARRAY3D_DESCRIPTOR description = {256, 256, 0, CU_AD_FORMAT_FLOAT, 4, 0};
	size_t before, after, total;
	CUmipmappedArray levels;
	CUcontext context;
	CUarray array;

	needs_arrays();
	if (getenv("TEST_VENDOR"))
		skip();
	assert_success(cuMemGetInfo(&before, &total));
	for (int i = 0; i < 20; i++) {
		context = fixture_context_create();
		assert_success(cuArray3DCreate(&array, &description));
		assert_success(cuMipmappedArrayCreate(&levels, &description, 9));
		assert_success(cuCtxDestroy(context));
		assert_success(cuCtxSetCurrent(fixture_context));
	}
	assert_result(cuArrayDestroy(array), CUDA_ERROR_INVALID_HANDLE);
	assert_result(cuMipmappedArrayDestroy(levels), CUDA_ERROR_INVALID_HANDLE);
	assert_success(cuMemGetInfo(&after, &total));
	assert_true(after + (16u << 20) >= before);
}

static void widths_of_linear_textures_are_told(void **state)
{
	size_t width = 0;

	if (cuDeviceGetTexture1DLinearMaxWidth(&width, CU_AD_FORMAT_FLOAT, 4, fixture_device) ==
		CUDA_ERROR_NOT_SUPPORTED)
		skip();
	assert_int_equal(
		width, fixture_attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(arrays_keep_what_is_copied_to_them),
		TEST(a_part_of_an_array_is_copied),
		TEST(rows_are_copied_between_arrays_and_memory),
		TEST(bytes_are_copied_in_the_order_of_elements),
		TEST(rows_follow_each_other),
		TEST(boxes_are_copied_in_a_batch),
		TEST(graphs_copy_arrays),
		TEST(levels_are_arrays),
		TEST(a_context_ends_with_its_arrays),
		TEST(widths_of_linear_textures_are_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
