/* SPDX-License-Identifier: MIT
 *
 * Devices and contexts.
 */
#include "fixture.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static int init(void **state)
{
	assert_success(cuInit(0));
	assert_success(cuDeviceGet(&fixture_device, 0));
	return 0;
}

static void a_device_says_what_it_is(void **state)
{
	int count, value, major, minor;
	char name[64];
	CUdevprop properties;
	CUuuid uuid;
	size_t bytes;

	assert_success(cuDeviceGetCount(&count));
	assert_in_range(count, 1, 64);
	assert_success(cuDeviceGetName(name, sizeof name, fixture_device));
	assert_true(strlen(name) > 0);
	assert_success(cuDeviceTotalMem(&bytes, fixture_device));
	assert_true(bytes > 0);
	assert_success(cuDeviceGetUuid(&uuid, fixture_device));
	assert_success(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, fixture_device));
	assert_int_equal(value, 32);
	assert_success(cuDeviceGetProperties(&properties, fixture_device));
	assert_int_equal(properties.SIMDWidth, 32);
	assert_success(cuDeviceComputeCapability(&major, &minor, fixture_device));
	assert_success(cuDeviceGetAttribute(
		&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, fixture_device));
	assert_int_equal(value, major);
}

/* Whatever the device's driver has: programs choose by these which calls they make. */
static void what_is_not_there_is_in_no_attribute(void **state)
{
	static const CUdevice_attribute none[] = {
		CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES,
		CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED,
		CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
		CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED,
		CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED,
		CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED,
		CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS,
		CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED,
		CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED,
		CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED,
		CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED,
		CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
		CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED,
	};

	if (getenv("TEST_VENDOR"))
		skip();
	for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
		int value = -1;

		assert_success(cuDeviceGetAttribute(&value, none[i], fixture_device));
		if (value)
			fail_msg("attribute %d is %d", (int)none[i], value);
	}
}

/* Where the host's and the device's atomic operations are atomic to each other, those are that kernels have. */
static void atomic_operations_with_the_host_are_as_the_attribute_says(void **state)
{
	static const CUatomicOperation operations[] = {CU_ATOMIC_OPERATION_INTEGER_ADD,
		CU_ATOMIC_OPERATION_CAS, CU_ATOMIC_OPERATION_FLOAT_MIN};
	const CUatomicOperation none = CU_ATOMIC_OPERATION_MAX;
	unsigned found[3] = {7, 7, 7};
	int native;

	assert_success(cuDeviceGetAttribute(
		&native, CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED, fixture_device));
	assert_success(cuDeviceGetHostAtomicCapabilities(found, operations, 3, fixture_device));
	assert_int_equal(!!(found[0] & CU_ATOMIC_CAPABILITY_SCALAR_32), native);
	assert_int_equal(!!(found[1] & CU_ATOMIC_CAPABILITY_SCALAR_64), native);
	assert_int_equal(found[2] & CU_ATOMIC_CAPABILITY_SCALAR_128, 0);
	assert_result(cuDeviceGetHostAtomicCapabilities(found, &none, 1, fixture_device),
		CUDA_ERROR_INVALID_VALUE);
}

static void a_device_that_is_not_there_is_invalid(void **state)
{
	char name[64];
	int count, value;
	CUdevice device;
	size_t bytes;

	assert_success(cuDeviceGetCount(&count));
	assert_result(cuDeviceGet(&device, count), CUDA_ERROR_INVALID_DEVICE);
	assert_result(cuDeviceGet(&device, -1), CUDA_ERROR_INVALID_DEVICE);
	assert_result(cuDeviceGetName(name, sizeof name, 99), CUDA_ERROR_INVALID_DEVICE);
	assert_result(cuDeviceTotalMem(&bytes, 99), CUDA_ERROR_INVALID_DEVICE);
	assert_result(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 99),
		CUDA_ERROR_INVALID_DEVICE);
	assert_result(cuDeviceGetAttribute(&value, (CUdevice_attribute)9999, fixture_device),
		CUDA_ERROR_INVALID_VALUE);
}

static void null_results_are_invalid_values(void **state)
{
	assert_result(cuDeviceGetCount(NULL), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuDeviceGet(NULL, 0), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuDeviceGetName(NULL, 10, fixture_device), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuDriverGetVersion(NULL), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuInit(1), CUDA_ERROR_INVALID_VALUE);
}

static void contexts_stack(void **state)
{
	CUcontext a = fixture_context_create(), b = fixture_context_create(), current;

	assert_success(cuCtxGetCurrent(&current));
	assert_ptr_equal(current, b);
	assert_success(cuCtxPopCurrent(&current));
	assert_ptr_equal(current, b);
	assert_success(cuCtxGetCurrent(&current));
	assert_ptr_equal(current, a);
	assert_success(cuCtxPushCurrent(b));
	assert_success(cuCtxSetCurrent(a));
	assert_success(cuCtxGetCurrent(&current));
	assert_ptr_equal(current, a);
	assert_success(cuCtxSetCurrent(NULL));
	assert_success(cuCtxDestroy(b));
	assert_success(cuCtxDestroy(a));
	while (cuCtxPopCurrent(&current) == CUDA_SUCCESS)
		;
	assert_success(cuCtxGetCurrent(&current));
	assert_null(current);
	assert_result(cuCtxPopCurrent(&current), CUDA_ERROR_INVALID_CONTEXT);
}

static void without_a_context_calls_fail(void **state)
{
	CUdeviceptr memory;
	CUstream stream;

	assert_result(cuMemAlloc(&memory, 16), CUDA_ERROR_INVALID_CONTEXT);
	assert_result(cuStreamCreate(&stream, 0), CUDA_ERROR_INVALID_CONTEXT);
	assert_result(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
}

static void a_context_says_what_it_is(void **state)
{
	CUcontext context = fixture_context_create();
	unsigned version, flags;
	int least, greatest;
	CUdevice device;
	size_t limit;

	assert_success(cuCtxGetDevice(&device));
	assert_int_equal(device, fixture_device);
	assert_success(cuCtxGetApiVersion(context, &version));
	assert_true(version >= 3010);
	assert_success(cuCtxGetFlags(&flags));
	assert_success(cuCtxGetLimit(&limit, CU_LIMIT_PRINTF_FIFO_SIZE));
	assert_true(limit > 0);
	assert_result(cuCtxGetLimit(&limit, (CUlimit)99), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuCtxGetStreamPriorityRange(&least, &greatest));
	assert_true(greatest <= least);
	assert_success(cuCtxDestroy(context));
}

static void a_destroyed_context_takes_its_memory_with_it(void **state)
{
	size_t before, during, after, total;
	CUcontext keeper = fixture_context_create(), context;
	CUdeviceptr memory;

	assert_success(cuMemGetInfo(&before, &total));
	context = fixture_context_create();
	assert_success(cuMemAlloc(&memory, 64 << 20));
	assert_success(cuMemGetInfo(&during, &total));
	assert_true(during + (64 << 20) <= before);
	assert_success(cuCtxDestroy(context));
	assert_success(cuCtxSetCurrent(keeper));
	assert_success(cuMemGetInfo(&after, &total));
	assert_true(after >= during + (64 << 20));
	assert_success(cuCtxDestroy(keeper));
}

static void the_primary_context_is_counted(void **state)
{
	CUcontext first, second;
	unsigned flags;
	int active;

	assert_success(cuDevicePrimaryCtxGetState(fixture_device, &flags, &active));
	assert_false(active);
	assert_success(cuDevicePrimaryCtxRetain(&first, fixture_device));
	assert_success(cuDevicePrimaryCtxRetain(&second, fixture_device));
	assert_ptr_equal(first, second);
	assert_success(cuDevicePrimaryCtxGetState(fixture_device, &flags, &active));
	assert_true(active);
	assert_success(cuDevicePrimaryCtxRelease(fixture_device));
	assert_success(cuDevicePrimaryCtxGetState(fixture_device, &flags, &active));
	assert_true(active);
	assert_success(cuDevicePrimaryCtxRelease(fixture_device));
	assert_success(cuDevicePrimaryCtxGetState(fixture_device, &flags, &active));
	assert_false(active);
	assert_result(cuDevicePrimaryCtxRelease(fixture_device), CUDA_ERROR_INVALID_CONTEXT);
	assert_result(cuDevicePrimaryCtxRetain(&first, 99), CUDA_ERROR_INVALID_DEVICE);
}

static void a_reset_primary_context_can_be_used_again(void **state)
{
	CUcontext context;
	CUdeviceptr memory;

	assert_success(cuDevicePrimaryCtxRetain(&context, fixture_device));
	assert_success(cuCtxSetCurrent(context));
	assert_success(cuMemAlloc(&memory, 4096));
	assert_success(cuDevicePrimaryCtxReset(fixture_device));
	assert_result(cuMemAlloc(&memory, 4096), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	assert_success(cuDevicePrimaryCtxRetain(&context, fixture_device));
	assert_success(cuCtxSetCurrent(context));
	assert_success(cuMemAlloc(&memory, 4096));
	assert_success(cuCtxSetCurrent(NULL));
	assert_success(cuDevicePrimaryCtxRelease(fixture_device));
}

static void *use_in_thread(void *argument)
{
	CUcontext current;
	CUdeviceptr memory;

	if (cuCtxGetCurrent(&current) || current)
		return (void *)"a new thread has a context";
	if (cuCtxSetCurrent(argument) || cuMemAlloc(&memory, 1 << 20) ||
		cuMemsetD8(memory, 1, 1 << 20) || cuCtxSynchronize() || cuMemFree(memory))
		return (void *)"a call failed";
	return NULL;
}

static void threads_share_a_context(void **state)
{
	CUcontext context = fixture_context_create();
	pthread_t threads[8];
	void *complaint;

	for (int i = 0; i < 8; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, use_in_thread, context), 0);
	for (int i = 0; i < 8; i++) {
		pthread_join(threads[i], &complaint);
		if (complaint)
			fail_msg("%s", (char *)complaint);
	}
	assert_success(cuCtxDestroy(context));
}

static int in_child(void)
{
	CUdeviceptr memory;
	int count;

	if (cuDeviceGetCount(&count) != CUDA_ERROR_NOT_INITIALIZED)
		return 1;
	if (cuMemAlloc(&memory, 16) != CUDA_ERROR_NOT_INITIALIZED)
		return 2;
	return 0;
}

static void a_forked_child_is_not_initialised_and_the_parent_goes_on(void **state)
{
	CUcontext context = fixture_context_create();
	CUdeviceptr memory = words_alloc(1024, 5);
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(in_child());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	words_check(memory, 1024, 5);
	assert_success(cuCtxDestroy(context));
}

static void errors_have_names_and_sentences(void **state)
{
	const char *text;

	assert_success(cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
	assert_string_equal(text, "CUDA_ERROR_ILLEGAL_ADDRESS");
	assert_success(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
	assert_string_equal(text, "out of memory");
	assert_result(cuGetErrorName((CUresult)12345, &text), CUDA_ERROR_INVALID_VALUE);
	assert_null(text);
}

static void functions_are_found_by_name_and_version(void **state)
{
	CUdriverProcAddressQueryResult status;
	void *old, *new, *per_thread, *none = (void *)1;

	assert_success(cuGetProcAddress("cuMemAlloc", &new, 13000, 0, &status));
	assert_int_equal(status, CU_GET_PROC_ADDRESS_SUCCESS);
	assert_ptr_equal(new, (void *)cuMemAlloc_v2);
	assert_success(cuGetProcAddress("cuMemAlloc", &old, 2000, 0, &status));
	assert_ptr_not_equal(old, new);
	assert_success(cuGetProcAddress("cuStreamQuery", &new, 13000, 0, &status));
	assert_success(cuGetProcAddress("cuStreamQuery", &per_thread, 13000,
		CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status));
	assert_ptr_not_equal(new, per_thread);
	assert_success(cuGetProcAddress("cuNoSuchCall", &none, 13000, 0, NULL));
	assert_null(none);
	none = (void *)1;
	assert_success(cuGetProcAddress("cuNoSuchCall", &none, 13000, 0, &status));
	assert_int_equal(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	assert_null(none);
	assert_success(cuGetProcAddress("cuLaunchKernelEx", &none, 4000, 0, &status));
	assert_int_equal(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_device_says_what_it_is),
		cmocka_unit_test(what_is_not_there_is_in_no_attribute),
		cmocka_unit_test(atomic_operations_with_the_host_are_as_the_attribute_says),
		cmocka_unit_test(a_device_that_is_not_there_is_invalid),
		cmocka_unit_test(null_results_are_invalid_values),
		cmocka_unit_test(contexts_stack),
		cmocka_unit_test(without_a_context_calls_fail),
		cmocka_unit_test(a_context_says_what_it_is),
		cmocka_unit_test(a_destroyed_context_takes_its_memory_with_it),
		cmocka_unit_test(the_primary_context_is_counted),
		cmocka_unit_test(a_reset_primary_context_can_be_used_again),
		cmocka_unit_test(threads_share_a_context),
		cmocka_unit_test(a_forked_child_is_not_initialised_and_the_parent_goes_on),
		cmocka_unit_test(errors_have_names_and_sentences),
		cmocka_unit_test(functions_are_found_by_name_and_version),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, init, NULL);
}
