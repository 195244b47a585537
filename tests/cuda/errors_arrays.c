/* SPDX-License-Identifier: MIT
 *
 * Errors of arrays and of copies from and to them. A device without arrays answers every call that it does not support
 * them: there the tests are skipped.
 */
#include "errors.h"

#define HUGE_WIDTH (1ull << 50)
#define NO_ARRAY GARBAGE(CUarray)

static CUarray array; /* of 64 x 16 floats */
static CUmipmappedArray levels;
static CUarray gone_array;
static CUmipmappedArray gone_levels;

static CUDA_ARRAY3D_DESCRIPTOR of(size_t width, size_t height, size_t depth, unsigned flags)
{
	return (CUDA_ARRAY3D_DESCRIPTOR){width, height, depth, CU_AD_FORMAT_FLOAT, 1, flags};
}

static int setup(void **state)
{
	CUDA_ARRAY3D_DESCRIPTOR flat = of(64, 16, 0, 0);
	CUresult result;

	if (errors_setup(state))
		return -1;
	result = cuArray3DCreate(&array, &flat);
	if (result == CUDA_ERROR_NOT_SUPPORTED) {
		array = NULL;
		return 0;
	}
	assert_success(result);
	assert_success(cuMipmappedArrayCreate(&levels, &flat, 3));
	assert_success(cuArray3DCreate(&gone_array, &flat));
	assert_success(cuMipmappedArrayCreate(&gone_levels, &flat, 3));
	assert_success(cuArrayDestroy(gone_array));
	assert_success(cuMipmappedArrayDestroy(gone_levels));
	return 0;
}

static int teardown(void **state)
{
	if (array) {
		assert_success(cuArrayDestroy(array));
		assert_success(cuMipmappedArrayDestroy(levels));
	}
	return errors_teardown(state);
}

static void with_description(CUDA_ARRAY3D_DESCRIPTOR bad)
{
	CUmipmappedArray mipmapped;
	CUarray made;

	INVALID_VALUE(cuArray3DCreate(&made, &bad));
	INVALID_VALUE(cuMipmappedArrayCreate(&mipmapped, &bad, 2));
}

static void of_descriptions(void **state)
{
	CUDA_ARRAY3D_DESCRIPTOR good = of(8, 8, 0, 0), bad;
	CUDA_ARRAY_DESCRIPTOR flat = {8, 8, CU_AD_FORMAT_FLOAT, 1};
	CUmipmappedArray mipmapped;
	CUarray made;
	size_t width;

	if (!array)
		skip();
	with_description(of(0, 8, 0, 0));
	with_description(of(HUGE_WIDTH, 0, 0, 0));
	with_description(of(HUGE_WIDTH, HUGE_WIDTH, HUGE_WIDTH, 0));
	with_description(of(8, HUGE_WIDTH, 0, 0));
	with_description(of(8, 8, 1 << 20, 0));
	with_description(of(8, 0, 8, 0));                    /* a depth, and no height */
	with_description(of(8, 8, 0, CUDA_ARRAY3D_LAYERED)); /* no layers */
	with_description(of(8, 8, 1 << 20, CUDA_ARRAY3D_LAYERED));
	with_description(of(8, 4, 6, CUDA_ARRAY3D_CUBEMAP)); /* faces that are no squares */
	with_description(of(8, 8, 5, CUDA_ARRAY3D_CUBEMAP));
	with_description(of(8, 8, 7, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED));
	with_description(of(8, 8, 0, 0x1000));
	bad = good, bad.NumChannels = 3;
	with_description(bad);
	bad = good, bad.NumChannels = 0;
	with_description(bad);
	bad = good, bad.Format = (CUarray_format)0;
	with_description(bad);
	bad = good, bad.Format = (CUarray_format)0x77777;
	with_description(bad);
	if (!errors_of_vendor()) {
		bad = good, bad.Flags = CUDA_ARRAY3D_SPARSE;
		REFUSED(CUDA_ERROR_NOT_SUPPORTED, cuArray3DCreate(&made, &bad));
		bad = good, bad.Format = CU_AD_FORMAT_BC1_UNORM, bad.NumChannels = 4;
		REFUSED(CUDA_ERROR_NOT_SUPPORTED, cuArray3DCreate(&made, &bad));
	}
	INVALID_VALUE(cuArray3DCreate(NULL, &good));
	INVALID_VALUE(cuArray3DCreate(&made, NULL));
	INVALID_VALUE(cuArrayCreate(NULL, &flat));
	INVALID_VALUE(cuArrayCreate(&made, NULL));
	flat.Width = 0;
	INVALID_VALUE(cuArrayCreate(&made, &flat));
	INVALID_VALUE(cuMipmappedArrayCreate(NULL, &good, 1));
	INVALID_VALUE(cuMipmappedArrayCreate(&mipmapped, NULL, 1));
	INVALID_VALUE(
		cuDeviceGetTexture1DLinearMaxWidth(NULL, CU_AD_FORMAT_FLOAT, 1, fixture_device));
	INVALID_VALUE(
		cuDeviceGetTexture1DLinearMaxWidth(&width, CU_AD_FORMAT_FLOAT, 3, fixture_device));
	INVALID_DEVICE(
		cuDeviceGetTexture1DLinearMaxWidth(&width, CU_AD_FORMAT_FLOAT, 1, NO_DEVICE));
}

static void with_array(CUarray bad, CUmipmappedArray bad_levels)
{
	CUDA_ARRAY3D_DESCRIPTOR description;
	CUDA_ARRAY_MEMORY_REQUIREMENTS needs;
	CUDA_ARRAY_SPARSE_PROPERTIES sparse;
	CUDA_ARRAY_DESCRIPTOR flat;
	CUarray level;
	char host[64];

	INVALID_HANDLE(cuArray3DGetDescriptor(&description, bad));
	INVALID_HANDLE(cuArrayGetDescriptor(&flat, bad));
	INVALID_HANDLE(cuArrayDestroy(bad));
	INVALID_HANDLE(cuMipmappedArrayGetLevel(&level, bad_levels, 0));
	INVALID_HANDLE(cuMipmappedArrayDestroy(bad_levels));
	INVALID_HANDLE(cuArrayGetSparseProperties(&sparse, bad));
	INVALID_HANDLE(cuMipmappedArrayGetSparseProperties(&sparse, bad_levels));
	INVALID_HANDLE(cuArrayGetMemoryRequirements(&needs, bad, fixture_device));
	INVALID_HANDLE(cuMipmappedArrayGetMemoryRequirements(&needs, bad_levels, fixture_device));
	INVALID_HANDLE(cuArrayGetPlane(&level, bad, 0));
	INVALID_HANDLE(cuMemcpyHtoA(bad, 0, host, 16));
	INVALID_HANDLE(cuMemcpyAtoH(host, bad, 0, 16));
	INVALID_HANDLE(cuMemcpyDtoA(bad, 0, alive.memory, 16));
	INVALID_HANDLE(cuMemcpyAtoD(alive.memory, bad, 0, 16));
	INVALID_HANDLE(cuMemcpyAtoA(bad, 0, array, 0, 16));
	INVALID_HANDLE(cuMemcpyAtoA(array, 0, bad, 0, 16));
	INVALID_HANDLE(cuMemcpyHtoAAsync(bad, 0, host, 16, alive.stream));
	INVALID_HANDLE(cuMemcpyAtoHAsync(host, bad, 0, 16, alive.stream));
}

static void of_handles(void **state)
{
	CUDA_ARRAY_MEMORY_REQUIREMENTS needs;
	CUDA_ARRAY_SPARSE_PROPERTIES sparse;
	CUarray level;

	if (!array)
		skip();
	if (!errors_of_vendor()) {
		with_array(NULL, NULL);
		with_array(NO_ARRAY, GARBAGE(CUmipmappedArray));
		with_array(gone_array, gone_levels);
		with_array((CUarray)levels, (CUmipmappedArray)array);
		assert_success(cuMipmappedArrayGetLevel(&level, levels, 1));
		INVALID_HANDLE(cuArrayDestroy(level));
	}
	INVALID_VALUE(cuArray3DGetDescriptor(NULL, array));
	INVALID_VALUE(cuArrayGetDescriptor(NULL, array));
	INVALID_VALUE(cuMipmappedArrayGetLevel(NULL, levels, 0));
	INVALID_VALUE(cuMipmappedArrayGetLevel(&level, levels, 3));
	INVALID_VALUE(cuArrayGetSparseProperties(&sparse, array));
	INVALID_VALUE(cuMipmappedArrayGetSparseProperties(&sparse, levels));
	INVALID_VALUE(cuArrayGetMemoryRequirements(&needs, array, fixture_device));
	INVALID_VALUE(cuMipmappedArrayGetMemoryRequirements(&needs, levels, fixture_device));
	INVALID_VALUE(cuArrayGetPlane(&level, array, 0));
}

static void of_copies(void **state)
{
	char host[16384];
	CUDA_MEMCPY2D good = {.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = host,
		.srcPitch = 256,
		.dstMemoryType = CU_MEMORYTYPE_ARRAY,
		.dstArray = array,
		.WidthInBytes = 256,
		.Height = 16};
	CUDA_MEMCPY2D bad;

	if (!array)
		skip();
	assert_success(cuMemcpy2D(&good));
	bad = good, bad.Height = 17;
	INVALID_VALUE(cuMemcpy2D(&bad));
	bad = good, bad.dstY = 1;
	INVALID_VALUE(cuMemcpy2D(&bad));
	bad = good, bad.dstY = SIZE_MAX - 2;
	INVALID_VALUE(cuMemcpy2D(&bad));
	bad = good, bad.dstXInBytes = 4;
	INVALID_VALUE(cuMemcpy2D(&bad));
	bad = good, bad.dstXInBytes = SIZE_MAX - 3;
	INVALID_VALUE(cuMemcpy2D(&bad));
	bad = good, bad.WidthInBytes = 254; /* half an element */
	INVALID_VALUE(cuMemcpy2D(&bad));
	if (!errors_of_vendor()) {
		INVALID_VALUE(cuMemcpyHtoA(array, 0, host, 4100));
		INVALID_VALUE(cuMemcpyHtoA(array, 4096, host, 4));
		INVALID_VALUE(cuMemcpyHtoA(array, SIZE_MAX - 3, host, 8));
		INVALID_VALUE(cuMemcpyHtoA(array, 2, host, 4));
		INVALID_VALUE(cuMemcpyHtoA(array, 0, NULL, 4));
		INVALID_VALUE(cuMemcpyAtoH(host, array, 0, 4100));
		INVALID_VALUE(cuMemcpyAtoH(NULL, array, 0, 4));
		INVALID_VALUE(cuMemcpyDtoA(array, 0, 0, 16));
		INVALID_VALUE(cuMemcpyAtoD(0, array, 0, 16));
		INVALID_VALUE(cuMemcpyAtoA(array, 0, array, 4096, 16));
	}
	INVALID_HANDLE(cuMemcpyHtoAAsync(array, 0, host, 16, GARBAGE(CUstream)));
	INVALID_HANDLE(cuMemcpyAtoHAsync(host, array, 0, 16, GARBAGE(CUstream)));
}

#define ARRAYS_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int errors_of_arrays(void)
{
	const struct CMUnitTest tests[] = {
		ARRAYS_TEST(of_descriptions),
		ARRAYS_TEST(of_handles),
		ARRAYS_TEST(of_copies),
	};

	return ERRORS_RUN(tests);
}
