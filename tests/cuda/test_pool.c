/* SPDX-License-Identifier: MIT
 *
 * Memory pools, advice on managed memory, values in memory, events of whole contexts.
 */
#include "fixture.h"

#include <pthread.h>
#include <unistd.h>

static uint64_t attribute(CUmemoryPool pool, CUmemPool_attribute which)
{
	uint64_t value = 0;

	assert_success(cuMemPoolGetAttribute(pool, which, &value));
	return value;
}

static CUmemoryPool pool_create(void)
{
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, fixture_device}};
	CUmemoryPool pool;

	assert_success(cuMemPoolCreate(&pool, &properties));
	return pool;
}

static void a_device_has_a_default_pool_and_a_current_one(void **state)
{
	CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, fixture_device};
	CUmemoryPool first, pool, mine = pool_create();

	assert_success(cuDeviceGetDefaultMemPool(&first, fixture_device));
	assert_success(cuDeviceGetMemPool(&pool, fixture_device));
	assert_ptr_equal(pool, first);
	assert_success(cuMemGetDefaultMemPool(&pool, &location, CU_MEM_ALLOCATION_TYPE_PINNED));
	assert_ptr_equal(pool, first);
	assert_success(cuDeviceSetMemPool(fixture_device, mine));
	assert_success(cuMemGetMemPool(&pool, &location, CU_MEM_ALLOCATION_TYPE_PINNED));
	assert_ptr_equal(pool, mine);
	assert_success(cuMemSetMemPool(&location, CU_MEM_ALLOCATION_TYPE_PINNED, first));
	assert_success(cuDeviceGetMemPool(&pool, fixture_device));
	assert_ptr_equal(pool, first);
	assert_result(cuDeviceGetDefaultMemPool(NULL, fixture_device), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuDeviceGetDefaultMemPool(&pool, 99), CUDA_ERROR_INVALID_DEVICE);
	assert_result(cuMemPoolDestroy(first), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemPoolDestroy(mine));
	assert_result(cuMemPoolCreate(NULL, NULL), CUDA_ERROR_INVALID_VALUE);
}

static void a_pool_keeps_what_is_freed_to_it(void **state)
{
	CUmemoryPool pool = pool_create(), got;
	CUdeviceptr first, second;
	uint64_t keep = 64 << 20;
	CUstream stream;

	assert_success(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	assert_success(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	assert_success(cuMemAllocFromPoolAsync(&first, 1 << 20, pool, stream));
	assert_success(cuPointerGetAttribute(&got, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, first));
	assert_ptr_equal(got, pool);
	assert_true(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) >= 1 << 20);
	assert_success(cuMemFreeAsync(first, stream));
	assert_success(cuMemAllocFromPoolAsync(&second, 1 << 20, pool, stream));
	assert_int_equal(first, second);
	assert_success(cuMemFreeAsync(second, stream));
	assert_success(cuCtxSynchronize());
	assert_int_equal(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
	assert_true(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= 1 << 20);
	assert_success(cuMemPoolTrimTo(pool, 0));
	assert_int_equal(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
	assert_true(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) >= 1 << 20);
	assert_success(cuStreamDestroy(stream));
	assert_success(cuMemPoolDestroy(pool));
}

static void nothing_is_allocated_and_freed(void **state)
{
	CUdeviceptr memory = 1;
	CUmemoryPool pool;
	CUstream stream;
	CUgraph graph;
	size_t count;

	assert_success(cuDeviceGetDefaultMemPool(&pool, fixture_device));
	assert_success(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	assert_success(cuMemAllocAsync(&memory, 0, stream));
	assert_int_equal(memory, 0);
	memory = 1;
	assert_success(cuMemAllocFromPoolAsync(&memory, 0, pool, stream));
	assert_int_equal(memory, 0);
	assert_success(cuMemFreeAsync(memory, stream));
	assert_success(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	assert_success(cuMemAllocAsync(&memory, 0, stream));
	assert_int_equal(memory, 0);
	assert_success(cuMemFreeAsync(memory, stream));
	assert_success(cuStreamEndCapture(stream, &graph));
	assert_success(cuGraphGetNodes(graph, NULL, &count));
	assert_int_equal(count, 0);
	assert_success(cuGraphDestroy(graph));
	assert_success(cuStreamDestroy(stream));
}

static void a_context_gives_back_what_it_has_of_a_pool(void **state)
{
	CUmemoryPool pool;
	CUcontext other;
	CUdeviceptr words;
	uint64_t before;

	if (getenv("TEST_VENDOR"))
		skip(); /* there, memory of a pool is the device's, not the context's */
	assert_success(cuDeviceGetDefaultMemPool(&pool, fixture_device));
	before = attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
	other = fixture_context_create();
	assert_success(cuMemAllocAsync(&words, 1 << 20, NULL));
	assert_true(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) > before);
	assert_success(cuMemAllocAsync(&words, 1 << 20, NULL));
	assert_success(cuMemFreeAsync(words, NULL));
	assert_success(cuCtxDestroy(other));
	assert_int_equal(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), before);
	assert_success(cuCtxSetCurrent(fixture_context));
}

static void freeing_waits_for_the_stream_and_not_for_the_caller(void **state)
{
	CUdeviceptr words, other;
	CUstream stream;
	struct gate gate;

	assert_success(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	assert_success(cuMemAllocAsync(&words, 4096, stream));
	gate_close(&gate, stream);
	assert_success(cuMemsetD32Async(words, 9, 1024, stream));
	assert_success(cuMemFreeAsync(words, stream));
	assert_success(cuMemAllocAsync(&other, 4096, stream));
	assert_result(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	gate_open(&gate);
	assert_success(cuMemsetD32Async(other, 3, 1024, stream));
	assert_success(cuStreamSynchronize(stream));
	words_check(other, 1024, 3);
	assert_success(cuMemFreeAsync(other, stream));
	assert_result(cuMemFreeAsync(0x10, stream), CUDA_ERROR_INVALID_VALUE);
	gate_free(&gate);
	assert_success(cuStreamDestroy(stream));
}

static void a_pool_is_for_its_own_device(void **state)
{
	CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, fixture_device};
	CUmemAccessDesc access = {location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemoryPool pool = pool_create();
	CUmemAccess_flags flags;

	assert_success(cuMemPoolGetAccess(&flags, pool, &location));
	assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	assert_success(cuMemPoolSetAccess(pool, &access, 1));
	assert_result(cuMemPoolSetAccess(pool, NULL, 1), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemPoolGetAccess(NULL, pool, &location), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemPoolDestroy(pool));
}

/* ---- managed memory ---- */

static void advice_is_kept(void **state)
{
	CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, fixture_device};
	CUmem_range_attribute which[] = {
		CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION};
	int read_mostly = 0, preferred = 99, accessors[2];
	void *data[] = {&read_mostly, &preferred};
	size_t sizes[] = {sizeof read_mostly, sizeof preferred};
	CUdeviceptr words;
	CUresult result = cuMemAllocManaged(&words, 1 << 20, CU_MEM_ATTACH_GLOBAL);

	if (result == CUDA_ERROR_NOT_SUPPORTED)
		skip();
	assert_success(result);
	assert_success(cuMemAdvise(words, 1 << 20, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
	if (!getenv("TEST_VENDOR")) /* where it is of no consequence, it is not looked at */
		assert_success(cuMemAdvise(words, 1 << 20, CU_MEM_ADVISE_SET_READ_MOSTLY,
			(CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, 77}));
	assert_success(cuMemAdvise(words, 1 << 20, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, here));
	assert_success(cuMemAdvise(words, 1 << 20, CU_MEM_ADVISE_SET_ACCESSED_BY, here));
	assert_success(cuMemRangeGetAttributes(data, sizes, which, 2, words, 1 << 20));
	assert_int_equal(read_mostly, 1);
	assert_int_equal(preferred, fixture_device);
	assert_success(cuMemRangeGetAttribute(
		accessors, sizeof accessors, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, words, 1 << 20));
	assert_int_equal(accessors[0], fixture_device);
	assert_int_equal(accessors[1], CU_DEVICE_INVALID);
	assert_result(
		cuMemAdvise(words, 1 << 20, (CUmem_advise)99, here), CUDA_ERROR_INVALID_VALUE);
	assert_result(
		cuMemRangeGetAttribute(NULL, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, words, 1 << 20),
		CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemFree(words));
}

/* ---- values ---- */

static void a_stream_waits_until_the_host_writes_the_value(void **state)
{
	CUdeviceptr words = words_alloc(64, 1);
	CUstream stream, other;
	uint32_t *flag;

	assert_success(cuMemHostAlloc((void **)&flag, 64, CU_MEMHOSTALLOC_DEVICEMAP));
	*flag = 0;
	assert_success(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	assert_success(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	assert_success(cuCtxSynchronize());
	assert_success(cuStreamWaitValue32(stream, (CUdeviceptr)flag, 3, CU_STREAM_WAIT_VALUE_GEQ));
	assert_success(cuMemsetD32Async(words, 2, 64, stream));
	usleep(20000);
	assert_result(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	assert_success(cuStreamSynchronize(other)); /* nobody else is held */
	__atomic_store_n(flag, 7, __ATOMIC_RELEASE);
	assert_success(cuStreamSynchronize(stream));
	words_check(words, 64, 2);
	assert_success(cuStreamDestroy(stream));
	assert_success(cuStreamDestroy(other));
	assert_success(cuMemFreeHost(flag));
	assert_success(cuMemFree(words));
}

/* Each condition, on device memory that another stream writes. */
static void streams_wait_for_each_other_by_values(void **state)
{
	static const struct {
		unsigned condition;
		uint64_t awaited, written;
	} cases[] = {
		{CU_STREAM_WAIT_VALUE_EQ, 1ull << 35, 1ull << 35},
		{CU_STREAM_WAIT_VALUE_GEQ, 100, 1000},
		{CU_STREAM_WAIT_VALUE_AND, 6, 4},
		{CU_STREAM_WAIT_VALUE_NOR, ~1ull, 0},
	};
	CUdeviceptr words = words_alloc(64, 0);
	CUstream waiting, writing;

	assert_success(cuStreamCreate(&waiting, CU_STREAM_NON_BLOCKING));
	assert_success(cuStreamCreate(&writing, CU_STREAM_NON_BLOCKING));
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		/* At first a value for which no condition holds. */
		uint64_t before = cases[i].condition == CU_STREAM_WAIT_VALUE_NOR ? ~0ull : 0;
		assert_success(cuMemcpyHtoD(words, &before, 8));
		assert_success(cuCtxSynchronize());
		assert_success(
			cuStreamWaitValue64(waiting, words, cases[i].awaited, cases[i].condition));
		usleep(3000);
		assert_result(cuStreamQuery(waiting), CUDA_ERROR_NOT_READY);
		assert_success(cuStreamWriteValue64(writing, words, cases[i].written, 0));
		assert_success(cuStreamSynchronize(waiting));
	}
	assert_success(cuStreamDestroy(waiting));
	assert_success(cuStreamDestroy(writing));
	assert_success(cuMemFree(words));
}

static void wrong_operations_are_refused(void **state)
{
	CUdeviceptr words = words_alloc(64, 0);
	CUstreamBatchMemOpParams op = {0};

	assert_result(cuStreamWaitValue32(NULL, words + 1, 0, 0), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuStreamWriteValue64(NULL, words + 4, 0, 0), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuStreamWriteValue32(NULL, words, 0, 0x10), CUDA_ERROR_INVALID_VALUE);
	if (!getenv("TEST_VENDOR")) /* it crashes there */
		assert_result(cuStreamBatchMemOp(NULL, 1, NULL, 0), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuStreamBatchMemOp(NULL, 1, &op, 0), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuStreamWriteValue32(NULL, 0x10, 0, 0), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemFree(words));
}

/* ---- events of a whole context ---- */

static void an_event_of_a_context_is_behind_all_its_streams(void **state)
{
	CUstream stream;
	struct gate gate;
	CUevent event;

	assert_success(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	assert_success(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	gate_close(&gate, stream);
	assert_success(cuCtxRecordEvent(fixture_context, event));
	assert_result(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	gate_open(&gate);
	assert_success(cuEventSynchronize(event));
	assert_success(cuStreamQuery(stream));
	assert_result(cuCtxRecordEvent(fixture_context, NULL), CUDA_ERROR_INVALID_HANDLE);
	gate_free(&gate);
	assert_success(cuEventDestroy(event));
	assert_success(cuStreamDestroy(stream));
}

static void a_context_waits_for_an_event(void **state)
{
	CUdeviceptr words = words_alloc(64, 1);
	CUstream held, before, after;
	uint32_t *copy;
	struct gate gate;
	CUevent event;

	assert_success(cuMemAllocHost((void **)&copy, 256));
	assert_success(cuStreamCreate(&held, CU_STREAM_NON_BLOCKING));
	assert_success(cuStreamCreate(&before, CU_STREAM_NON_BLOCKING));
	assert_success(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	assert_success(cuCtxSynchronize());
	gate_close(&gate, held);
	assert_success(cuEventRecord(event, held));
	assert_success(cuCtxWaitEvent(fixture_context, event));
	assert_success(cuStreamCreate(&after, CU_STREAM_NON_BLOCKING));
	assert_success(cuMemcpyDtoHAsync(copy, words, 256, before));
	assert_success(cuMemcpyDtoHAsync(copy, words, 256, after));
	usleep(5000);
	assert_result(cuStreamQuery(before), CUDA_ERROR_NOT_READY);
	assert_result(cuStreamQuery(after), CUDA_ERROR_NOT_READY);
	gate_open(&gate);
	assert_success(cuCtxSynchronize());
	assert_result(cuCtxWaitEvent(fixture_context, NULL), CUDA_ERROR_INVALID_HANDLE);
	gate_free(&gate);
	assert_success(cuEventDestroy(event));
	assert_success(cuStreamDestroy(held));
	assert_success(cuStreamDestroy(before));
	assert_success(cuStreamDestroy(after));
	assert_success(cuMemFreeHost(copy));
	assert_success(cuMemFree(words));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_device_has_a_default_pool_and_a_current_one),
		TEST(a_pool_keeps_what_is_freed_to_it),
		TEST(nothing_is_allocated_and_freed),
		TEST(a_context_gives_back_what_it_has_of_a_pool),
		TEST(freeing_waits_for_the_stream_and_not_for_the_caller),
		TEST(a_pool_is_for_its_own_device),
		TEST(advice_is_kept),
		TEST(a_stream_waits_until_the_host_writes_the_value),
		TEST(streams_wait_for_each_other_by_values),
		TEST(wrong_operations_are_refused),
		TEST(an_event_of_a_context_is_behind_all_its_streams),
		TEST(a_context_waits_for_an_event),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
