/* SPDX-License-Identifier: MIT
 *
 * Memory of one process in another: by IPC handles, and by descriptors of the virtual memory management. The
 * other process is this program again, with arguments: `KIND COUNT VALUE` reads handles from its standard
 * input, finds COUNT words VALUE behind each, makes them VALUE + 1, and ends with 0. TEST_OTHER_DEVICES: which devices it sees,
 * as CUDA_VISIBLE_DEVICES; by itself the same.
 */
#include "fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1ull << 20)
#define POOL_FD 99

/* ---- the other process ---- */

static void open_handle(CUdeviceptr *memory)
{
	CUipcMemHandle handle;
	CUdeviceptr again;

	assert_int_equal(read(STDIN_FILENO, &handle, sizeof handle), sizeof handle);
	assert_result(cuIpcOpenMemHandle(memory, handle, 0), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuIpcOpenMemHandle(memory, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	/* Opened again it is the same, and has to be closed twice. */
	assert_success(cuIpcOpenMemHandle(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	assert_int_equal(again, *memory);
	assert_success(cuIpcCloseMemHandle(again));
}

static CUmemAllocationProp properties(void)
{
	return (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, fixture_device},
	};
}

static void map_handle(
	CUmemGenericAllocationHandle handle, size_t bytes, int access, CUdeviceptr *memory)
{
	CUmemAccessDesc desc = {
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, fixture_device},
		.flags = (CUmemAccess_flags)access,
	};

	assert_success(cuMemAddressReserve(memory, bytes, 0, 0, 0));
	assert_success(cuMemMap(*memory, bytes, 0, handle, 0));
	assert_success(cuMemSetAccess(*memory, bytes, &desc, 1));
}

static void import_handle(size_t bytes, CUdeviceptr *memory)
{
	CUmemGenericAllocationHandle handle;
	CUmemAllocationProp imported;

	/* NVIDIA's library takes no descriptor 0. */
	assert_success(cuMemImportFromShareableHandle(&handle, (void *)(uintptr_t)dup(STDIN_FILENO),
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	assert_success(cuMemGetAllocationPropertiesFromHandle(&imported, handle));
	assert_int_equal(imported.location.type, CU_MEM_LOCATION_TYPE_DEVICE);
	map_handle(handle, bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, memory);
	assert_success(cuMemRelease(handle));
}

/* Where the other process's device is one that is not current here, and has a context: a device without a right to the pool
 * leaves the memory to it. */
static void import_where_it_is(CUmemPoolPtrExportData *data)
{
	const char *devices = getenv("TEST_OTHER_DEVICES");
	CUdevice place = 1; /* of "1,0" */
	CUmemoryPool pool;
	CUdeviceptr memory;
	CUcontext primary;
	int device;

	if (!devices || strcmp(devices, "1,0"))
		return;
	assert_success(cuDevicePrimaryCtxRetain(&primary, place));
	assert_success(cuMemPoolImportFromShareableHandle(
		&pool, (void *)POOL_FD, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	assert_success(cuMemPoolImportPointer(&memory, pool, data));
	assert_success(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory));
	assert_int_equal(device, place);
	assert_success(cuMemFree(memory));
	assert_success(cuMemPoolDestroy(pool));
	assert_success(cuDevicePrimaryCtxRelease(place));
}

/* Of a pool, whose descriptor is POOL_FD here. */
static void import_pointer(CUmemoryPool *pool, CUdeviceptr *memory)
{
	CUmemPoolPtrExportData data;
	CUdeviceptr none;

	assert_int_equal(read(STDIN_FILENO, &data, sizeof data), sizeof data);
	assert_success(cuMemPoolImportFromShareableHandle(
		pool, (void *)POOL_FD, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	assert_true(cuMemAllocFromPoolAsync(&none, 4096, *pool, NULL) != CUDA_SUCCESS);
	assert_success(cuMemPoolImportPointer(memory, *pool, &data));
	import_where_it_is(&data);
}

static int other_process(char **arguments)
{
	uint32_t count = (uint32_t)atoi(arguments[1]), value = (uint32_t)atoi(arguments[2]);
	uint32_t one = 1;
	CUmemoryPool pool;
	CUdeviceptr memory;

	if (getenv("TEST_OTHER_DEVICES"))
		setenv("CUDA_VISIBLE_DEVICES", getenv("TEST_OTHER_DEVICES"), 1);
	fixture_setup(NULL);
	if (strcmp(arguments[0], "open") == 0)
		open_handle(&memory);
	else if (strcmp(arguments[0], "pool") == 0)
		import_pointer(&pool, &memory);
	else
		import_handle(count * sizeof value, &memory);
	words_check(memory, count, value);
	assert_success(launch_on(NULL, "add", (count + 255) / 256, 256, &memory, &count, &one));
	assert_success(cuCtxSynchronize());
	if (strcmp(arguments[0], "open") == 0) {
		assert_success(cuIpcCloseMemHandle(memory));
		assert_result(cuIpcCloseMemHandle(memory), CUDA_ERROR_INVALID_VALUE);
	} else if (strcmp(arguments[0], "pool") == 0) {
		assert_success(cuMemFreeAsync(memory, NULL));
		assert_success(cuCtxSynchronize());
		assert_success(cuMemPoolDestroy(pool));
	} else {
		assert_success(cuMemUnmap(memory, count * sizeof value));
		assert_success(cuMemAddressFree(memory, count * sizeof value));
	}
	fixture_teardown(NULL);
	return 0;
}

static int pool_fd = -1; /* that it is to have as POOL_FD */

/* Runs it, with `input` as its standard input. */
static void run_other(const char *kind, int input, size_t count, uint32_t value)
{
	char counted[16], valued[16];
	int status;
	pid_t child = fork();

	if (!child) {
		snprintf(counted, sizeof counted, "%zu", count);
		snprintf(valued, sizeof valued, "%u", value);
		dup2(input, STDIN_FILENO);
		if (pool_fd >= 0)
			dup2(pool_fd, POOL_FD);
		execl("/proc/self/exe", "test_ipc", kind, counted, valued, NULL);
		_exit(3);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void run_opener(const CUipcMemHandle *handle, size_t count, uint32_t value)
{
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(write(ends[1], handle, sizeof *handle), sizeof *handle);
	run_other("open", ends[0], count, value);
	close(ends[0]);
	close(ends[1]);
}

/* ---- IPC handles ---- */

static void share(CUdeviceptr memory, size_t count, uint32_t value)
{
	CUipcMemHandle handle;

	assert_success(cuIpcGetMemHandle(&handle, memory));
	assert_success(cuCtxSynchronize()); /* which orders processes */
	run_opener(&handle, count, value);
	words_check(memory, count, value + 1);
	/* It stays shareable, and stays what it is. */
	run_opener(&handle, count, value + 1);
	words_check(memory, count, value + 2);
	assert_success(cuMemFree(memory));
}

static void large_memory_is_shared(void **state)
{
	size_t count = 102 * MIB / 4; /* not of one size of chunks */

	share(words_alloc(count, 7), count, 7);
}

static void small_memory_is_shared_and_its_neighbours_are_left_alone(void **state)
{
	CUdeviceptr before = words_alloc(1000, 1), memory = words_alloc(1000, 5),
		    after = words_alloc(1000, 2);

	share(memory, 1000, 5);
	words_check(before, 1000, 1);
	words_check(after, 1000, 2);
	assert_success(cuMemFree(before));
	assert_success(cuMemFree(after));
}

static void allocations_of_a_pool_are_shared(void **state)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, fixture_device}};
	const size_t counts[] = {1000, 3 * MIB / 4};
	CUmemPoolPtrExportData data;
	CUdeviceptr memory;
	CUmemoryPool pool;
	int ends[2];

	assert_success(cuMemPoolCreate(&pool, &props));
	assert_success(cuMemPoolExportToShareableHandle(
		&pool_fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	for (int i = 0; i < 2; i++) {
		assert_success(
			cuMemAllocFromPoolAsync(&memory, counts[i] * sizeof(uint32_t), pool, NULL));
		assert_success(cuMemsetD32Async(memory, 40, counts[i], NULL));
		if (!getenv("TEST_VENDOR"))
			assert_result(cuMemPoolExportPointer(&data, memory + 4),
				CUDA_ERROR_INVALID_VALUE);
		assert_success(cuMemPoolExportPointer(&data, memory));
		assert_success(cuCtxSynchronize());
		assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
		assert_int_equal(write(ends[1], &data, sizeof data), sizeof data);
		run_other("pool", ends[0], counts[i], 40);
		close(ends[0]);
		close(ends[1]);
		words_check(memory, counts[i], 41);
		assert_success(cuMemFreeAsync(memory, NULL));
	}
	close(pool_fd);
	pool_fd = -1;
	assert_success(cuMemPoolDestroy(pool));
}

static void a_handle_of_an_inner_address_is_that_of_the_allocation(void **state)
{
	CUdeviceptr memory = words_alloc(100000, 3);
	CUipcMemHandle handle;

	assert_success(cuIpcGetMemHandle(&handle, memory + 4000));
	assert_success(cuCtxSynchronize());
	run_opener(&handle, 100000, 3);
	words_check(memory, 100000, 4);
	assert_success(cuMemFree(memory));
}

static void shared_memory_is_worked_on_while_it_is_exported(void **state)
{
	uint32_t count = 4 * MIB / 4, one = 1;
	CUdeviceptr memory = words_alloc(count, 0);
	CUipcMemHandle handle;

	for (int i = 0; i < 100; i++)
		assert_success(launch_on(NULL, "add", count / 256, 256, &memory, &count, &one));
	assert_success(cuIpcGetMemHandle(&handle, memory));
	for (int i = 0; i < 100; i++)
		assert_success(launch_on(NULL, "add", count / 256, 256, &memory, &count, &one));
	words_check(memory, count, 200);
	assert_success(cuMemFree(memory));
}

static void exported_memory_comes_back(void **state)
{
	size_t before, after, total;
	CUipcMemHandle handle;
	CUdeviceptr memory;

	assert_success(cuMemAlloc(&memory, 64 * MIB));
	assert_success(cuMemFree(memory));
	assert_success(cuMemGetInfo(&before, &total));
	for (int i = 0; i < 30; i++) {
		assert_success(cuMemAlloc(&memory, 64 * MIB));
		assert_success(cuIpcGetMemHandle(&handle, memory));
		assert_success(cuMemFree(memory));
	}
	after = 0;
	for (int ms = 0; ms < 120000 && after + (64 << 20) < before; ms++) { /* gdevd hears of it */
		usleep(1000);
		assert_success(cuMemGetInfo(&after, &total));
	}
	assert_true(after + (64 << 20) >= before);
}

static void wrong_handles_are_refused(void **state)
{
	CUdeviceptr memory = words_alloc(1000, 1), opened;
	CUipcMemHandle handle, garbage;
	uint32_t mine;
	void *host;

	assert_success(cuIpcGetMemHandle(&handle, memory));
	/* Not in the process that it is of. */
	assert_result(cuIpcOpenMemHandle(&opened, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
		CUDA_ERROR_INVALID_CONTEXT);
	memset(&garbage, 0x5a, sizeof garbage);
	assert_int_not_equal(
		cuIpcOpenMemHandle(&opened, garbage, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
		CUDA_SUCCESS);
	assert_result(cuIpcGetMemHandle(NULL, memory), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuIpcGetMemHandle(&handle, (CUdeviceptr)&mine), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemAllocHost(&host, 4096));
	assert_result(cuIpcGetMemHandle(&handle, (CUdeviceptr)host), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemFreeHost(host));
	assert_result(cuIpcCloseMemHandle(memory), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemFree(memory));
}

/* ---- descriptors ---- */

static void created_memory_is_shared_by_descriptor(void **state)
{
	CUmemAllocationProp wanted = properties();
	CUmemGenericAllocationHandle handle;
	size_t bytes = 8 * MIB;
	CUdeviceptr memory;
	int fd;

	assert_success(cuMemCreate(&handle, bytes, &wanted, 0));
	map_handle(handle, bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, &memory);
	assert_success(cuMemsetD32(memory, 9, bytes / 4));
	assert_success(cuCtxSynchronize());
	assert_success(cuMemExportToShareableHandle(
		&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	run_other("import", fd, bytes / 4, 9);
	words_check(memory, bytes / 4, 10);
	close(fd);
	/* The mapping alone keeps it. */
	assert_success(cuMemRelease(handle));
	words_check(memory, bytes / 4, 10);
	assert_success(cuMemUnmap(memory, bytes));
	assert_success(cuMemAddressFree(memory, bytes));
}

static void what_is_not_for_export_is_not_exported(void **state)
{
	CUmemAllocationProp wanted = properties();
	CUmemGenericAllocationHandle handle;
	int fd, null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	wanted.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
	assert_success(cuMemCreate(&handle, 2 * MIB, &wanted, 0));
	assert_int_not_equal(cuMemExportToShareableHandle(
				     &fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
		CUDA_SUCCESS);
	assert_success(cuMemRelease(handle));
	assert_int_not_equal(cuMemImportFromShareableHandle(&handle, (void *)(uintptr_t)null,
				     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
		CUDA_SUCCESS);
	close(null);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(large_memory_is_shared),
		TEST(small_memory_is_shared_and_its_neighbours_are_left_alone),
		TEST(allocations_of_a_pool_are_shared),
		TEST(a_handle_of_an_inner_address_is_that_of_the_allocation),
		TEST(shared_memory_is_worked_on_while_it_is_exported),
		TEST(exported_memory_comes_back),
		TEST(wrong_handles_are_refused),
		TEST(created_memory_is_shared_by_descriptor),
		TEST(what_is_not_for_export_is_not_exported),
	};

	if (argc == 4)
		return other_process(argv + 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
