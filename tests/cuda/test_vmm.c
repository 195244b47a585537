/* SPDX-License-Identifier: MIT
 *
 * Virtual memory management in one process: addresses, memory, and mappings, each by itself. Between
 * processes: test_ipc.c.
 */
#include "fixture.h"

static size_t granularity;

static CUmemAllocationProp properties(void)
{
	return (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, fixture_device},
	};
}

static int setup(void **state)
{
	CUmemAllocationProp wanted;

	fixture_setup(state);
	wanted = properties();
	assert_success(cuMemGetAllocationGranularity(
		&granularity, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	assert_true(granularity >= 4096);
	assert_int_equal(granularity & (granularity - 1), 0);
	return 0;
}

static CUmemGenericAllocationHandle create(size_t bytes)
{
	CUmemGenericAllocationHandle handle;
	CUmemAllocationProp wanted = properties();

	assert_success(cuMemCreate(&handle, bytes, &wanted, 0));
	return handle;
}

static CUresult set_access(CUdeviceptr memory, size_t bytes, int access)
{
	CUmemAccessDesc desc = {
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, fixture_device},
		.flags = (CUmemAccess_flags)access,
	};

	return cuMemSetAccess(memory, bytes, &desc, 1);
}

static void memory_is_where_it_is_mapped(void **state)
{
	size_t bytes = 3 * granularity;
	CUmemGenericAllocationHandle handle = create(bytes);
	unsigned long long access;
	CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, fixture_device};
	CUdeviceptr memory, base;
	size_t size;

	assert_success(cuMemAddressReserve(&memory, bytes, 0, 0, 0));
	assert_int_equal(memory % granularity, 0);
	assert_success(cuMemMap(memory, bytes, 0, handle, 0));
	assert_success(set_access(memory, bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	assert_success(cuMemGetAccess(&access, &location, memory + 100));
	assert_int_equal(access, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	assert_success(cuMemsetD32(memory, 3, bytes / 4));
	words_check(memory, bytes / 4, 3);
	assert_success(cuMemGetAddressRange(&base, &size, memory + 5000));
	assert_int_equal(base, memory);
	assert_result(cuMemFree(memory), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemUnmap(memory, bytes));
	assert_success(cuMemAddressFree(memory, bytes));
	assert_success(cuMemRelease(handle));
}

static void contents_stay_when_memory_moves(void **state)
{
	size_t bytes = 2 * granularity;
	CUmemGenericAllocationHandle handle = create(bytes);
	CUdeviceptr memory;

	assert_success(cuMemAddressReserve(&memory, 4 * bytes, 0, 0, 0));
	for (uint32_t i = 0; i < 4; i++) {
		CUdeviceptr at = memory + i * bytes;
		assert_success(cuMemMap(at, bytes, 0, handle, 0));
		assert_success(set_access(at, bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
		if (i)
			words_check(at, bytes / 4, i);
		assert_success(cuMemsetD32(at, i + 1, bytes / 4));
		assert_success(cuCtxSynchronize()); /* unmapping waits for nothing */
		assert_success(cuMemUnmap(at, bytes));
	}
	assert_success(cuMemAddressFree(memory, 4 * bytes));
	assert_success(cuMemRelease(handle));
}

/* As allocators with growing segments do it. */
static void a_segment_grows(void **state)
{
	enum { PARTS = 8 };
	uint32_t count = (uint32_t)(PARTS * granularity / 4), one = 1;
	CUdeviceptr memory;

	assert_success(cuMemAddressReserve(&memory, PARTS * granularity, 0, 0, 0));
	for (int i = 0; i < PARTS; i++) {
		CUmemGenericAllocationHandle handle = create(granularity);
		assert_success(cuMemMap(memory + i * granularity, granularity, 0, handle, 0));
		assert_success(cuMemRelease(handle));
	}
	assert_success(set_access(memory, PARTS * granularity, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	for (int i = 0; i < PARTS; i++)
		assert_success(cuMemsetD32(memory + i * granularity, 5, granularity / 4));
	assert_success(launch_on(NULL, "add", count / 256, 256, &memory, &count, &one));
	assert_success(cuCtxSynchronize());
	for (int i = 0; i < PARTS; i++)
		words_check(memory + i * granularity, granularity / 4, 6);
	assert_success(cuMemUnmap(memory, PARTS * granularity));
	assert_success(cuMemAddressFree(memory, PARTS * granularity));
}

static void one_memory_at_two_addresses(void **state)
{
	size_t bytes = granularity;
	CUmemGenericAllocationHandle handle = create(bytes);
	CUdeviceptr memory;

	assert_success(cuMemAddressReserve(&memory, 2 * bytes, 0, 0, 0));
	assert_success(cuMemMap(memory, bytes, 0, handle, 0));
	assert_success(cuMemMap(memory + bytes, bytes, 0, handle, 0));
	assert_success(set_access(memory, 2 * bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	assert_success(cuMemsetD32(memory, 8, bytes / 4));
	words_check(memory + bytes, bytes / 4, 8);
	assert_success(cuMemUnmap(memory, 2 * bytes));
	assert_success(cuMemAddressFree(memory, 2 * bytes));
	assert_success(cuMemRelease(handle));
}

static void handles_are_counted(void **state)
{
	size_t bytes = granularity;
	CUmemGenericAllocationHandle handle = create(bytes), retained;
	CUmemAllocationProp found;
	CUdeviceptr memory;

	assert_success(cuMemGetAllocationPropertiesFromHandle(&found, handle));
	assert_int_equal(found.type, CU_MEM_ALLOCATION_TYPE_PINNED);
	assert_int_equal(found.location.id, fixture_device);
	assert_success(cuMemAddressReserve(&memory, bytes, 0, 0, 0));
	assert_success(cuMemMap(memory, bytes, 0, handle, 0));
	assert_success(cuMemRelease(handle));
	assert_success(cuMemRetainAllocationHandle(&retained, (void *)memory));
	assert_success(cuMemRelease(retained));
	assert_success(cuMemUnmap(memory, bytes));
	assert_success(cuMemAddressFree(memory, bytes));
	assert_result(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
}

static void alignment_is_kept(void **state)
{
	CUdeviceptr memory[4];

	for (int i = 0; i < 4; i++) {
		assert_success(cuMemAddressReserve(
			&memory[i], granularity, (size_t)(16 << i) << 20, 0, 0));
		assert_int_equal(memory[i] % ((size_t)(16 << i) << 20), 0);
	}
	for (int i = 0; i < 4; i++)
		assert_success(cuMemAddressFree(memory[i], granularity));
}

static void created_memory_comes_back(void **state)
{
	size_t before, after, total;

	assert_success(cuMemGetInfo(&before, &total));
	for (int i = 0; i < 40; i++)
		assert_success(cuMemRelease(create(32 * granularity)));
	assert_success(cuMemGetInfo(&after, &total));
	/* Half of what was made: other programs, and what gets ready for them, take memory meanwhile. */
	assert_true(after + 20 * 32 * granularity >= before);
}

static void what_makes_no_sense_is_refused(void **state)
{
	CUmemAllocationProp wanted = properties();
	CUmemGenericAllocationHandle handle = create(2 * granularity), other;
	CUdeviceptr memory, none;
	size_t bytes = 2 * granularity, got;

	assert_success(cuMemAddressReserve(&memory, 2 * bytes, 0, 0, 0));
	assert_result(cuMemAddressReserve(&none, 0, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemAddressReserve(NULL, bytes, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemAddressReserve(&none, bytes + 1, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemCreate(&other, granularity + 1, &wanted, 0), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemCreate(&other, 0, &wanted, 0), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemCreate(&other, granularity, NULL, 0), CUDA_ERROR_INVALID_VALUE);
	wanted.type = CU_MEM_ALLOCATION_TYPE_INVALID;
	assert_result(cuMemCreate(&other, granularity, &wanted, 0), CUDA_ERROR_INVALID_VALUE);
	wanted = properties();
	wanted.location.id = 1000;
	assert_int_not_equal(cuMemCreate(&other, granularity, &wanted, 0), CUDA_SUCCESS);
	assert_result(cuMemGetAllocationGranularity(&got, NULL, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
		CUDA_ERROR_INVALID_VALUE);
	wanted = properties();
	wanted.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
	assert_success(
		cuMemGetAllocationGranularity(&got, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	assert_result(cuMemCreate(&other, granularity, &wanted, 0), CUDA_ERROR_NOT_SUPPORTED);
	assert_result(cuMemMap(memory, bytes, granularity, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
	assert_result(cuMemMap(memory, granularity, 0, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
	assert_result(cuMemMap(memory, 0, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemMap(memory, bytes, 0, handle, 0));
	assert_result(cuMemMap(memory + granularity, bytes, 0, handle, 0),
		CUDA_ERROR_INVALID_VALUE);                       /* something is there */
	assert_success(cuMemUnmap(memory + bytes, granularity)); /* nothing is there */
	assert_result(cuMemUnmap(memory, granularity), CUDA_ERROR_INVALID_VALUE);
	assert_result(set_access(memory + bytes, bytes, CU_MEM_ACCESS_FLAGS_PROT_READ),
		CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemUnmap(memory, bytes));
	assert_result(cuMemAddressFree(memory, 2 * bytes + granularity), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemAddressFree(memory, 2 * bytes));
	assert_success(cuMemRelease(handle));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(memory_is_where_it_is_mapped),
		TEST(contents_stay_when_memory_moves),
		TEST(a_segment_grows),
		TEST(one_memory_at_two_addresses),
		TEST(handles_are_counted),
		TEST(alignment_is_kept),
		TEST(created_memory_comes_back),
		TEST(what_makes_no_sense_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
