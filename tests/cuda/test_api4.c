/* SPDX-License-Identifier: MIT
 *
 * A program of 2011: nothing but CUDA 4.0, as its header and its guides had it. It is compiled with
 * GDEV_CUDA_API_VERSION=4000; where the vendor's library has no more of it (the calls before
 * cuLaunchKernel), the cases are skipped with TEST_VENDOR.
 */
#include "fixture.h"

#define CHECK(call) assert_int_equal(call, CUDA_SUCCESS)

static int aligned(int offset, int alignment)
{
	return (offset + alignment - 1) & ~(alignment - 1);
}

static CUdevice device;
static CUcontext context;
static CUmodule module;

static int start(void **state)
{
	int count;

	CHECK(cuInit(0));
	CHECK(cuDeviceGetCount(&count));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuCtxCreate(&context, CU_CTX_SCHED_AUTO | CU_CTX_MAP_HOST, device));
	CHECK(cuModuleLoadData(&module, kernels_ptx));
	return 0;
}

static int end(void **state)
{
	CHECK(cuModuleUnload(module));
	CHECK(cuCtxDestroy(context));
	return 0;
}

static void the_version_is_that_of_the_program(void **state)
{
	assert_int_equal(CUDA_VERSION, 4000);
	assert_int_equal(sizeof(CUdeviceptr), 8);
}

/* The way of matrixMulDrv, in which the parameters are set one after the other. */
static void parameters_are_set_one_after_the_other(void **state)
{
	uint32_t words[1000], n = 1000, v = 41;
	CUfunction function;
	CUdeviceptr memory;
	CUstream stream;
	int offset = 0;

	if (getenv("TEST_VENDOR"))
		skip();
	CHECK(cuModuleGetFunction(&function, module, "add"));
	CHECK(cuMemAlloc(&memory, sizeof words));
	CHECK(cuMemsetD32(memory, 1, 1000));
	offset = aligned(offset, (int)__alignof(memory));
	CHECK(cuParamSetv(function, offset, &memory, sizeof memory));
	offset += sizeof memory;
	offset = aligned(offset, (int)__alignof(n));
	CHECK(cuParamSeti(function, offset, n));
	offset += sizeof n;
	CHECK(cuParamSeti(function, offset, v));
	offset += sizeof v;
	CHECK(cuParamSetSize(function, (unsigned)offset));
	CHECK(cuFuncSetSharedSize(function, 0));
	CHECK(cuFuncSetBlockShape(function, 100, 1, 1));
	CHECK(cuStreamCreate(&stream, 0));
	CHECK(cuLaunchGrid(function, 10, 1));
	CHECK(cuLaunchGridAsync(function, 10, 1, stream));
	CHECK(cuFuncSetBlockShape(function, 1000, 1, 1));
	CHECK(cuLaunch(function));
	CHECK(cuCtxSynchronize());
	CHECK(cuMemcpyDtoH(words, memory, sizeof words));
	for (int i = 0; i < 1000; i++)
		assert_int_equal(words[i], 1 + 3 * 41);
	assert_int_equal(cuParamSetf(NULL, 0, 1.0f), CUDA_ERROR_INVALID_HANDLE);
	CHECK(cuParamSetf(function, 12, 0.0f)); /* a zero of either kind */
	CHECK(cuLaunch(function));
	CHECK(cuMemcpyDtoH(words, memory, sizeof words));
	assert_int_equal(words[999], 1 + 3 * 41);
	CHECK(cuStreamDestroy(stream));
	CHECK(cuMemFree(memory));
}

/* What 4.0 brought: cuLaunchKernel, registered memory, pointers of one address space. */
static void what_4_0_brought(void **state)
{
	uint32_t *words = aligned_alloc(4096, 4096), n = 1024, v = 1;
	CUdeviceptr memory;
	CUmemorytype type;
	void *params[] = {&memory, &n, &v};
	CUfunction function;

	CHECK(cuModuleGetFunction(&function, module, "add"));
	CHECK(cuMemAlloc(&memory, 4096));
	memset(words, 0, 4096);
	CHECK(cuMemHostRegister(words, 4096, 0));
	CHECK(cuMemcpyHtoDAsync(memory, words, 4096, NULL));
	CHECK(cuLaunchKernel(function, 4, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
	CHECK(cuMemcpyDtoHAsync(words, memory, 4096, NULL));
	CHECK(cuCtxSynchronize());
	assert_int_equal(words[1023], 1);
	CHECK(cuMemHostUnregister(words));
	CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory));
	assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
	CHECK(cuMemFree(memory));
	free(words);
}

static void contexts_are_attached_pushed_and_popped(void **state)
{
	CUcontext other, popped;

	CHECK(cuCtxCreate(&other, 0, device));
	CHECK(cuCtxPopCurrent(&popped));
	assert_ptr_equal(popped, other);
	CHECK(cuCtxPushCurrent(other));
	CHECK(cuCtxDestroy(other));
	CHECK(cuCtxSetCurrent(context));
	if (getenv("TEST_VENDOR"))
		return;
	CHECK(cuCtxAttach(&other, 0));
	assert_ptr_equal(other, context);
	CHECK(cuCtxDetach(other)); /* once for the attach: it is still there */
	CHECK(cuCtxSynchronize());
}

static void events_measure(void **state)
{
	CUevent begin, finish;
	float ms = -1;

	CHECK(cuEventCreate(&begin, CU_EVENT_DEFAULT));
	CHECK(cuEventCreate(&finish, CU_EVENT_DEFAULT));
	CHECK(cuEventRecord(begin, 0));
	CHECK(cuEventRecord(finish, 0));
	CHECK(cuEventSynchronize(finish));
	CHECK(cuEventElapsedTime(&ms, begin, finish));
	assert_true(ms >= 0);
	CHECK(cuEventDestroy(begin));
	CHECK(cuEventDestroy(finish));
}

/* They compile and link, and say that they are not supported. */
static void textures_say_that_they_are_not_there(void **state)
{
	CUDA_ARRAY_DESCRIPTOR description = {64, 64, CU_AD_FORMAT_FLOAT, 1};
	CUtexref texture;

	if (getenv("TEST_VENDOR"))
		skip();
	assert_int_equal(cuModuleGetTexRef(&texture, module, "texture"), CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(
		cuTexRefSetFilterMode(NULL, CU_TR_FILTER_MODE_LINEAR), CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(
		cuTexRefSetAddress2D(NULL, &description, 0, 256), CUDA_ERROR_NOT_SUPPORTED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)

/* As the first Gdev added it, by the names that mean something else today. */
static void device_memory_is_mapped(void **state)
{
	CUdeviceptr memory;
	CUresult result;
	uint32_t *words;

	if (getenv("TEST_VENDOR"))
		skip();
	CHECK(cuMemAlloc(&memory, 4096));
	result = cuMemMap((void **)&words, memory, 4096);
	if (result != CUDA_ERROR_NOT_SUPPORTED) { /* an NVIDIA GPU's cannot be */
		CHECK(result);
		words[5] = 4711;
		words[6] = 0;
		CHECK(cuMemcpyDtoD(memory + 24, memory + 20, 4));
		CHECK(cuCtxSynchronize());
		assert_int_equal(words[6], 4711);
		CHECK(cuMemUnmap(words));
	}
	CHECK(cuMemFree(memory));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(device_memory_is_mapped),
		TEST(the_version_is_that_of_the_program),
		TEST(parameters_are_set_one_after_the_other),
		TEST(what_4_0_brought),
		TEST(contexts_are_attached_pushed_and_popped),
		TEST(events_measure),
		TEST(textures_say_that_they_are_not_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
