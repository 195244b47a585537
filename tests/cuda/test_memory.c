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
		TEST(a_range_is_found_from_any_address_in_it),
		TEST(pitched_rows_are_aligned),
		TEST(page_locked_memory_is_reached_by_kernels),
		TEST(managed_memory_is_reached_by_both),
		TEST(registered_memory_can_be_copied),
		TEST(pointers_say_what_they_are),
		TEST(many_attributes_of_an_unknown_pointer_are_no_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
