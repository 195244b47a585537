/* SPDX-License-Identifier: MIT
 *
 * Memory: allocations of all kinds, and what pointers are.
 */
#include <stdio.h>

#include "fixture.h"

static void allocations_are_aligned_and_do_not_overlap(void **state)
{
	enum { COUNT = 300 };
	CUdeviceptr memory[COUNT];
	uint32_t value;

	for (uint32_t i = 0; i < COUNT; i++) {
		assert_success(cuMemAlloc(&memory[i], 4 + i * 97 % 5000));
		assert_int_equal(memory[i] % 256, 0);
		assert_success(cuMemcpyHtoD(memory[i], &i, sizeof i));
	}
	for (uint32_t i = 0; i < COUNT; i++) {
		assert_success(cuMemcpyDtoH(&value, memory[i], sizeof value));
		assert_int_equal(value, i);
	}
	for (uint32_t i = 0; i < COUNT; i += 2)
		assert_success(cuMemFree(memory[i]));
	for (uint32_t i = 1; i < COUNT; i += 2) {
		assert_success(cuMemcpyDtoH(&value, memory[i], sizeof value));
		assert_int_equal(value, i);
		assert_success(cuMemFree(memory[i]));
	}
}

static void freed_memory_comes_back(void **state)
{
	size_t before, after, total;

	assert_success(cuMemGetInfo(&before, &total));
	for (int i = 0; i < 50; i++) {
		CUdeviceptr memory;
		assert_success(cuMemAlloc(&memory, 32 << 20));
		assert_success(cuMemFree(memory));
	}
	assert_success(cuMemGetInfo(&after, &total));
	assert_true(after + (4 << 20) >= before);
}

static void too_much_is_out_of_memory(void **state)
{
	size_t available, total;
	CUdeviceptr memory;

	assert_success(cuMemGetInfo(&available, &total));
	assert_result(cuMemAlloc(&memory, total + (1ull << 39)), CUDA_ERROR_OUT_OF_MEMORY);
	assert_result(cuMemAlloc(&memory, SIZE_MAX - 100), CUDA_ERROR_OUT_OF_MEMORY);
	assert_success(cuMemAlloc(&memory, 1 << 20));
	assert_success(cuMemFree(memory));
}

static void wrong_allocations_and_frees_are_refused(void **state)
{
	CUdeviceptr memory;
	uint32_t mine;

	assert_result(cuMemAlloc(&memory, 0), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemAlloc(NULL, 16), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemAlloc(&memory, 4096));
	assert_result(cuMemFree(memory + 16), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemFree(memory));
	assert_result(cuMemFree(memory), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemFree((CUdeviceptr)&mine), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemFree(0));
}

static void nothing_is_allocated_and_freed(void **state)
{
	void *host = &host;

	assert_success(cuMemAllocHost(&host, 0));
	assert_null(host);
	host = &host;
	assert_success(cuMemHostAlloc(&host, 0, 0));
	assert_null(host);
	assert_success(cuMemFreeHost(host));
	assert_success(cuMemGetInfo(NULL, NULL));
}

static void a_range_is_found_from_any_address_in_it(void **state)
{
	CUdeviceptr memory, base;
	size_t size;

	assert_success(cuMemAlloc(&memory, 100000));
	assert_success(cuMemGetAddressRange(&base, &size, memory + 99999));
	assert_int_equal(base, memory);
	assert_int_equal(size, 100000);
	assert_success(cuMemFree(memory));
	assert_result(cuMemGetAddressRange(&base, &size, memory), CUDA_ERROR_NOT_FOUND);
}

static void pitched_rows_are_aligned(void **state)
{
	CUdeviceptr memory;
	size_t pitch;

	assert_success(cuMemAllocPitch(&memory, &pitch, 1000, 10, 4));
	assert_true(pitch >= 1000);
	assert_int_equal(pitch % 256, 0);
	assert_success(cuMemsetD2D32(memory, pitch, 7, 250, 10));
	assert_success(cuMemFree(memory));
	assert_result(cuMemAllocPitch(&memory, &pitch, 1000, 10, 3), CUDA_ERROR_INVALID_VALUE);
}

static void page_locked_memory_is_reached_by_kernels(void **state)
{
	uint32_t *words, n = 1000, v = 5;
	CUdeviceptr device;
	unsigned flags;

	assert_success(cuMemHostAlloc((void **)&words, 4000, CU_MEMHOSTALLOC_DEVICEMAP));
	for (uint32_t i = 0; i < n; i++)
		words[i] = i;
	assert_success(cuMemHostGetDevicePointer(&device, words, 0));
	assert_success(launch_on(NULL, "add", 4, 256, &device, &n, &v));
	assert_success(cuCtxSynchronize());
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(words[i], i + 5);
	assert_success(cuMemHostGetFlags(&flags, words));
	assert_true(flags & CU_MEMHOSTALLOC_DEVICEMAP);
	assert_success(cuMemFreeHost(words));
	assert_result(cuMemFreeHost(words), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemHostAlloc((void **)&words, 16, 0x100), CUDA_ERROR_INVALID_VALUE);
}

static void managed_memory_is_reached_by_both(void **state)
{
	uint32_t *words, n = 1000, v = 3;
	CUdeviceptr memory;
	CUresult result = cuMemAllocManaged(&memory, 4000, CU_MEM_ATTACH_GLOBAL);

	if (result == CUDA_ERROR_NOT_SUPPORTED) {
		printf("# the device has no managed memory\n");
		skip();
	}
	assert_success(result);
	words = (uint32_t *)memory;
	for (uint32_t i = 0; i < n; i++)
		words[i] = i;
	assert_success(launch_on(NULL, "add", 4, 256, &memory, &n, &v));
	assert_success(cuCtxSynchronize());
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(words[i], i + 3);
	assert_success(cuMemFree(memory));
}

static const char managed_ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .global .attribute(.managed) .align 4 .u32 counters[4] = {1, 2, 3, 4};\n"
	".visible .global .align 4 .u32 plain = 7;\n"
	".visible .global .attribute(.managed) .align 8 .u64 pointer = generic(counters);\n"
	".visible .entry count()\n{\n"
	"	.reg .u32 %r0;\n	.reg .u64 %d0;\n"
	"	ld.global.u32 %r0, [counters];\n"
	"	add.u32 %r0, %r0, 10;\n"
	"	st.global.u32 [counters], %r0;\n"
	"	ld.global.u64 %d0, [pointer];\n"
	"	ld.u32 %r0, [%d0+4];\n"
	"	add.u32 %r0, %r0, 20;\n"
	"	st.u32 [%d0+4], %r0;\n"
	"	ret;\n}\n";

/* Skips where the device has none. */
static CUlibrary load_managed(CUdeviceptr *counters, size_t *bytes)
{
	CUlibrary library;
	CUresult result;

	assert_success(cuLibraryLoadData(&library, managed_ptx, NULL, NULL, 0, NULL, NULL, 0));
	result = cuLibraryGetManaged(counters, bytes, library, "counters");
	if (result == CUDA_ERROR_NOT_FOUND) {
		printf("# the device has no managed variables\n");
		assert_success(cuLibraryUnload(library));
		skip();
	}
	assert_success(result);
	return library;
}

static void managed_variables_are_reached_by_both(void **state)
{
	CUdeviceptr counters, pointer, plain;
	volatile uint32_t *words;
	CUfunction count;
	CUlibrary library;
	unsigned managed;
	CUmodule module;
	size_t bytes;

	library = load_managed(&counters, &bytes);
	assert_int_equal(bytes, 16);
	words = (uint32_t *)counters;
	assert_int_equal(words[3], 4);
	assert_success(cuLibraryGetManaged(&pointer, &bytes, library, "pointer"));
	if (getenv("TEST_VENDOR")) /* it is null there */
		*(CUdeviceptr *)pointer = counters;
	assert_int_equal(*(CUdeviceptr *)pointer, counters);
	assert_result(cuLibraryGetManaged(&plain, &bytes, library, "plain"), CUDA_ERROR_NOT_FOUND);
	assert_success(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, counters));
	assert_int_equal(managed & 1, 1);
	assert_success(cuLibraryGetModule(&module, library));
	assert_success(cuModuleGetGlobal(&plain, &bytes, module, "counters"));
	assert_int_equal(plain, counters);
	words[1] = 200;
	assert_success(cuModuleGetFunction(&count, module, "count"));
	assert_success(cuLaunchKernel(count, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	assert_success(cuCtxSynchronize());
	assert_int_equal(words[0], 11);
	assert_int_equal(words[1], 220);
	assert_success(cuMemsetD32(counters, 5, 4));
	assert_int_equal(words[2], 5);
	assert_result(cuMemFree(counters), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuLibraryUnload(library));
	assert_result(cuMemsetD32(counters, 5, 4), CUDA_ERROR_INVALID_VALUE);
}

/* A library has its managed variables once: gdev, which would have them twice, says that it cannot. */
static void managed_variables_are_of_one_context(void **state)
{
	CUdeviceptr counters, again;
	CUcontext other, popped;
	CUlibrary library;
	CUresult result;
	CUmodule module;
	size_t bytes;

	library = load_managed(&counters, &bytes);
	other = fixture_context_create();
	result = cuLibraryGetModule(&module, library);
	if (result == CUDA_SUCCESS) {
		assert_success(cuLibraryGetManaged(&again, &bytes, library, "counters"));
		assert_int_equal(again, counters);
	} else
		assert_int_equal(result, CUDA_ERROR_NOT_SUPPORTED);
	assert_success(cuCtxDestroy(other));
	assert_success(cuCtxGetCurrent(&popped));
	assert_ptr_equal(popped, fixture_context);
	assert_success(cuLibraryGetModule(&module, library));
	assert_success(cuLibraryUnload(library));
}

static void managed_variables_need_no_context(void **state)
{
	CUdeviceptr counters;
	CUcontext context;
	CUlibrary library;
	CUresult result;
	unsigned flags;
	size_t bytes;
	int active;

	assert_success(cuCtxGetCurrent(&context));
	assert_success(cuCtxSetCurrent(NULL));
	assert_success(cuLibraryLoadData(&library, managed_ptx, NULL, NULL, 0, NULL, NULL, 0));
	result = cuLibraryGetManaged(&counters, &bytes, library, "counters");
	if (result == CUDA_SUCCESS) {
		assert_int_equal(((uint32_t *)counters)[3], 4);
		assert_success(cuDevicePrimaryCtxGetState(0, &flags, &active));
		if (!getenv("TEST_VENDOR")) /* where it needs no context */
			assert_int_equal(active, 1);
	}
	assert_success(cuLibraryUnload(library));
	assert_success(cuDevicePrimaryCtxGetState(0, &flags, &active));
	assert_int_equal(active, 0);
	assert_success(cuCtxSetCurrent(context));
	if (result == CUDA_ERROR_NOT_FOUND) {
		printf("# the device has no managed variables\n");
		skip();
	}
	assert_success(result);
}

static void registered_memory_can_be_copied(void **state)
{
	size_t bytes = 1 << 20;
	uint32_t *words = aligned_alloc(4096, bytes);
	CUdeviceptr memory;

	assert_success(cuMemHostRegister(words, bytes, 0));
	assert_result(
		cuMemHostRegister(words, bytes, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	memory = words_alloc(bytes / 4, 9);
	assert_success(cuMemcpyDtoHAsync(words, memory, bytes, NULL));
	assert_success(cuCtxSynchronize());
	assert_int_equal(words[bytes / 4 - 1], 9);
	assert_success(cuMemHostUnregister(words));
	assert_result(cuMemHostUnregister(words), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	assert_success(cuMemFree(memory));
	free(words);
}

static void pointers_say_what_they_are(void **state)
{
	CUmemorytype type;
	CUcontext context;
	CUdeviceptr memory, base;
	unsigned managed;
	void *host;
	int mine;

	assert_success(cuMemAlloc(&memory, 4096));
	assert_success(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory + 8));
	assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
	assert_success(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, memory));
	assert_ptr_equal(context, fixture_context);
	assert_success(
		cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, memory + 8));
	assert_int_equal(base, memory);
	assert_success(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, memory));
	assert_int_equal(managed & 1, 0);
	assert_success(cuMemFree(memory));
	assert_success(cuMemAllocHost(&host, 4096));
	assert_success(
		cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)host));
	assert_int_equal(type, CU_MEMORYTYPE_HOST);
	assert_success(cuMemFreeHost(host));
	assert_result(
		cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)&mine),
		CUDA_ERROR_INVALID_VALUE);
}

static void many_attributes_of_an_unknown_pointer_are_no_error(void **state)
{
	CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_CONTEXT,
		CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_POINTER};
	CUcontext context = (CUcontext)1;
	CUmemorytype type = 99;
	CUdeviceptr device = 1;
	void *data[] = {&context, &type, &device};
	int mine;

	assert_success(cuPointerGetAttributes(3, attributes, data, (CUdeviceptr)&mine));
	assert_null(context);
	assert_int_equal(type, 0);
	assert_int_equal(device, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(allocations_are_aligned_and_do_not_overlap),
		TEST(freed_memory_comes_back),
		TEST(too_much_is_out_of_memory),
		TEST(wrong_allocations_and_frees_are_refused),
		TEST(nothing_is_allocated_and_freed),
		TEST(a_range_is_found_from_any_address_in_it),
		TEST(pitched_rows_are_aligned),
		TEST(page_locked_memory_is_reached_by_kernels),
		TEST(managed_memory_is_reached_by_both),
		TEST(managed_variables_are_reached_by_both),
		TEST(managed_variables_are_of_one_context),
		TEST(managed_variables_need_no_context),
		TEST(registered_memory_can_be_copied),
		TEST(pointers_say_what_they_are),
		TEST(many_attributes_of_an_unknown_pointer_are_no_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
