/* SPDX-License-Identifier: MIT
 *
 * Errors of memory pools, and of memory and addresses apart.
 */
#include "errors.h"

#define CHUNK (2u << 20) /* a multiple of every granularity */

static void with_pool(CUmemoryPool bad)
{
	CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, fixture_device};
	CUmemAccessDesc access = {here, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemPoolPtrExportData data = {{0}};
	CUmemAccess_flags flags;
	CUdeviceptr memory;
	uint64_t value = 0;
	int fd;

	INVALID_VALUE(cuMemPoolTrimTo(bad, 0));
	INVALID_VALUE(cuMemPoolSetAttribute(bad, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value));
	INVALID_VALUE(cuMemPoolGetAttribute(bad, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value));
	INVALID_VALUE(cuMemPoolSetAccess(bad, &access, 1));
	INVALID_VALUE(cuMemPoolGetAccess(&flags, bad, &here));
	INVALID_VALUE(cuMemPoolDestroy(bad));
	INVALID_VALUE(cuMemPoolExportToShareableHandle(
		&fd, bad, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	INVALID_VALUE(cuMemPoolImportPointer(&memory, bad, &data));
	INVALID_VALUE(cuDeviceSetMemPool(fixture_device, bad));
	INVALID_VALUE(cuMemSetMemPool(&here, CU_MEM_ALLOCATION_TYPE_PINNED, bad));
	INVALID_VALUE(cuMemAllocFromPoolAsync(&memory, 16, bad, alive.stream));
}

static void of_pool_handles(void **state)
{
	with_pool(NULL);
	OURS(with_pool(GARBAGE(CUmemoryPool)));
	OURS(with_pool(gone.pool));
	OURS(with_pool((CUmemoryPool)(void *)alive.stream));
}

static void of_pools(void **state)
{
	CUmemAllocationType pinned = CU_MEM_ALLOCATION_TYPE_PINNED;
	CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, fixture_device};
	CUmemLocation nowhere = {CU_MEM_LOCATION_TYPE_DEVICE, NO_DEVICE};
	CUmemAccessDesc access = {nowhere, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = nowhere};
	CUmemAccess_flags flags;
	CUmemPoolPtrExportData data = {{0}};
	CUmemoryPool pool;
	CUdeviceptr memory;
	uint64_t value = 0;
	int fd;

	INVALID_VALUE(cuMemPoolCreate(NULL, &props));
	INVALID_VALUE(cuMemPoolCreate(&pool, NULL));
	INVALID_VALUE(cuMemPoolCreate(&pool, &props));
	props.allocType = CU_MEM_ALLOCATION_TYPE_INVALID;
	INVALID_VALUE(cuMemPoolCreate(&pool, &props));
	INVALID_VALUE(cuDeviceGetDefaultMemPool(NULL, fixture_device));
	INVALID_DEVICE(cuDeviceGetDefaultMemPool(&pool, NO_DEVICE));
	INVALID_VALUE(cuDeviceGetMemPool(NULL, fixture_device));
	INVALID_VALUE(cuDeviceGetMemPool(&pool, NO_DEVICE));
	INVALID_VALUE(cuDeviceSetMemPool(NO_DEVICE, alive.pool));
	INVALID_VALUE(cuMemGetDefaultMemPool(NULL, &here, pinned));
	INVALID_VALUE(cuMemGetDefaultMemPool(&pool, NULL, pinned));
	INVALID_VALUE(cuMemGetDefaultMemPool(&pool, &nowhere, pinned));
	INVALID_VALUE(cuMemGetMemPool(NULL, &here, pinned));
	INVALID_VALUE(cuMemGetMemPool(&pool, NULL, pinned));
	INVALID_VALUE(cuMemGetMemPool(&pool, &nowhere, pinned));
	INVALID_VALUE(cuMemSetMemPool(NULL, pinned, alive.pool));
	INVALID_VALUE(cuMemSetMemPool(&nowhere, pinned, alive.pool));
	INVALID_VALUE(cuMemPoolSetAttribute(alive.pool, (CUmemPool_attribute)99, &value));
	CRASHES(CUDA_ERROR_INVALID_VALUE,
		cuMemPoolSetAttribute(alive.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, NULL));
	INVALID_VALUE(cuMemPoolGetAttribute(alive.pool, (CUmemPool_attribute)99, &value));
	INVALID_VALUE(cuMemPoolGetAttribute(alive.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, NULL));
	INVALID_VALUE(cuMemPoolSetAccess(alive.pool, NULL, 1));
	INVALID_DEVICE(cuMemPoolSetAccess(alive.pool, &access, 1));
	INVALID_VALUE(cuMemPoolGetAccess(NULL, alive.pool, &here));
	INVALID_VALUE(cuMemPoolGetAccess(&flags, alive.pool, NULL));
	INVALID_VALUE(cuMemPoolGetAccess(&flags, alive.pool, &nowhere));
	assert_success(cuDeviceGetDefaultMemPool(&pool, fixture_device));
	INVALID_VALUE(cuMemPoolDestroy(pool));

	/* Pools that do not leave the process, and what is of no other. */
	INVALID_VALUE(cuMemPoolExportToShareableHandle(
		&fd, alive.pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	OURS(INVALID_VALUE(cuMemPoolImportFromShareableHandle(
		&pool, (void *)-1, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)));
	INVALID_VALUE(cuMemPoolImportFromShareableHandle(
		NULL, (void *)-1, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	INVALID_VALUE(cuMemPoolExportPointer(NULL, alive.memory));
	INVALID_VALUE(cuMemPoolExportPointer(&data, alive.memory));
	INVALID_VALUE(cuMemPoolImportPointer(&memory, alive.pool, &data));

	INVALID_VALUE(cuMemAllocAsync(NULL, 16, alive.stream));
	INVALID_HANDLE(cuMemAllocAsync(&memory, 16, GARBAGE(CUstream)));
	INVALID_HANDLE(cuMemAllocAsync(&memory, 16, gone.stream));
	INVALID_VALUE(cuMemAllocFromPoolAsync(NULL, 16, alive.pool, alive.stream));
	INVALID_HANDLE(cuMemAllocFromPoolAsync(&memory, 16, alive.pool, gone.stream));
	INVALID_VALUE(cuMemFreeAsync(gone.memory, alive.stream));
	INVALID_VALUE(cuMemFreeAsync((CUdeviceptr)garbage, alive.stream));
	INVALID_HANDLE(cuMemFreeAsync(alive.memory, gone.stream));
	assert_success(cuMemAllocAsync(&memory, 16, alive.stream));
	assert_success(cuMemFreeAsync(memory, alive.stream));
	INVALID_VALUE(cuMemFreeAsync(memory, alive.stream));
}

static void with_allocation(CUmemGenericAllocationHandle bad, CUdeviceptr addresses)
{
	CUmemAllocationProp prop;
	int fd;

	INVALID_VALUE(cuMemRelease(bad));
	INVALID_VALUE(cuMemMap(addresses, CHUNK, 0, bad, 0));
	INVALID_VALUE(cuMemGetAllocationPropertiesFromHandle(&prop, bad));
	INVALID_VALUE(cuMemExportToShareableHandle(
		&fd, bad, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
}

static void of_addresses_apart(void **state)
{
	CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, fixture_device};
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = here,
	};
	CUmemAllocationProp elsewhere = prop, odd = prop;
	CUmemAccessDesc access = {here, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle, released;
	unsigned long long flags;
	CUdeviceptr addresses;
	size_t size;
	int fd;

	elsewhere.location.id = NO_DEVICE;
	odd.type = CU_MEM_ALLOCATION_TYPE_INVALID;
	INVALID_VALUE(cuMemAddressReserve(NULL, CHUNK, 0, 0, 0));
	INVALID_VALUE(cuMemAddressReserve(&addresses, 0, 0, 0, 0));
	INVALID_VALUE(cuMemAddressReserve(&addresses, 1, 0, 0, 0));
	INVALID_VALUE(cuMemAddressReserve(&addresses, CHUNK, 3, 0, 0));
	INVALID_VALUE(cuMemAddressReserve(&addresses, CHUNK, 0, 0, 1));
	INVALID_VALUE(cuMemCreate(NULL, CHUNK, &prop, 0));
	INVALID_VALUE(cuMemCreate(&handle, 0, &prop, 0));
	INVALID_VALUE(cuMemCreate(&handle, 1, &prop, 0));
	INVALID_VALUE(cuMemCreate(&handle, CHUNK, NULL, 0));
	INVALID_VALUE(cuMemCreate(&handle, CHUNK, &odd, 0));
	INVALID_VALUE(cuMemCreate(&handle, CHUNK, &prop, 1));
	INVALID_DEVICE(cuMemCreate(&handle, CHUNK, &elsewhere, 0));
	INVALID_VALUE(cuMemGetAllocationGranularity(NULL, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	INVALID_VALUE(cuMemGetAllocationGranularity(&size, NULL, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	INVALID_VALUE(
		cuMemGetAllocationGranularity(&size, &prop, (CUmemAllocationGranularity_flags)9));
	assert_success(cuMemAddressReserve(&addresses, CHUNK, 0, 0, 0));
	assert_success(cuMemCreate(&released, CHUNK, &prop, 0));
	assert_success(cuMemRelease(released));
	with_allocation(0, addresses);
	OURS(with_allocation((CUmemGenericAllocationHandle)garbage, addresses));
	OURS(with_allocation((CUmemGenericAllocationHandle)alive.stream, addresses));
	OURS(with_allocation(released, addresses));

	assert_success(cuMemCreate(&handle, CHUNK, &prop, 0));
	INVALID_VALUE(cuMemMap(gone.memory, CHUNK, 0, handle, 0)); /* not reserved */
	INVALID_VALUE(cuMemMap(addresses, 0, 0, handle, 0));
	REFUSED(CUDA_ERROR_NOT_SUPPORTED, cuMemMap(addresses, 2 * CHUNK, 0, handle, 0));
	REFUSED(CUDA_ERROR_NOT_SUPPORTED, cuMemMap(addresses, CHUNK, CHUNK, handle, 0));
	INVALID_VALUE(cuMemMap(addresses, CHUNK, 0, handle, 1));
	INVALID_VALUE(cuMemUnmap(addresses, 0));
	INVALID_VALUE(cuMemUnmap(alive.memory, OBJECT_BYTES));
	INVALID_VALUE(cuMemSetAccess(addresses, CHUNK, &access, 1));
	INVALID_VALUE(cuMemSetAccess(addresses, CHUNK, NULL, 1));
	INVALID_VALUE(cuMemSetAccess(addresses, CHUNK, &access, 0));
	INVALID_VALUE(cuMemGetAccess(NULL, &here, addresses));
	INVALID_VALUE(cuMemGetAccess(&flags, NULL, addresses));
	INVALID_VALUE(cuMemGetAccess(&flags, &here, (CUdeviceptr)garbage));
	INVALID_VALUE(cuMemRetainAllocationHandle(NULL, (void *)addresses));
	INVALID_VALUE(cuMemRetainAllocationHandle(&released, (void *)addresses));
	INVALID_VALUE(cuMemRetainAllocationHandle(&released, NULL));
	INVALID_VALUE(cuMemGetAllocationPropertiesFromHandle(NULL, handle));
	INVALID_VALUE(cuMemExportToShareableHandle(
		NULL, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	INVALID_VALUE(cuMemExportToShareableHandle(
		&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1));
	INVALID_VALUE(cuMemImportFromShareableHandle(
		NULL, (void *)0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	DIFFERS(CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_UNKNOWN, "does not say what is wrong",
		cuMemImportFromShareableHandle(
			&released, (void *)-1, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	assert_success(cuMemRelease(handle));
	INVALID_VALUE(cuMemAddressFree(addresses + CHUNK, CHUNK));
	INVALID_VALUE(cuMemAddressFree(addresses, 2 * CHUNK));
	assert_success(cuMemAddressFree(addresses, CHUNK));
	INVALID_VALUE(cuMemAddressFree(addresses, CHUNK));
}

int errors_of_pools(void)
{
	const struct CMUnitTest tests[] = {
		ERRORS_TEST(of_pool_handles),
		ERRORS_TEST(of_pools),
		ERRORS_TEST(of_addresses_apart),
	};

	return ERRORS_RUN(tests);
}
