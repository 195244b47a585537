/* SPDX-License-Identifier: MIT
 *
 * Every call that is ordered with a stream, on the default stream and on another. The program is compiled for
 * several versions of the API, and for a default stream that is one of the process or one of each thread:
 * what it names is another symbol each time.
 */
#include <stdio.h>

#include "fixture.h"

enum { N = 256, BYTES = N * 4 };

#if CUDA_VERSION >= 12000
#define CAPTURE_INFO(stream, status)                                                               \
	cuStreamGetCaptureInfo(stream, status, NULL, NULL, NULL, CAPTURE_EDGES NULL)
#else
#define CAPTURE_INFO(stream, status) cuStreamGetCaptureInfo(stream, status, NULL)
#endif
#if CUDA_VERSION >= 13000
#define CAPTURE_EDGES NULL,
#define UPDATE_CAPTURE(stream, nodes, count)                                                       \
	cuStreamUpdateCaptureDependencies(stream, nodes, NULL, count, 0)
#define PREFETCH(words, bytes, stream)                                                             \
	cuMemPrefetchAsync(words, bytes,                                                           \
		(CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, fixture_device}, 0, stream)
#define BATCH(to, from, sizes, count, attributes, first, stream)                                   \
	cuMemcpyBatchAsync(to, from, sizes, count, attributes, first, 1, stream)
#define BATCH_3D(wanted, count, stream) cuMemcpy3DBatchAsync(count, wanted, 0, stream)
#else
#define CAPTURE_EDGES
#define UPDATE_CAPTURE(stream, nodes, count)                                                       \
	cuStreamUpdateCaptureDependencies(stream, nodes, count, 0)
#define PREFETCH(words, bytes, stream) cuMemPrefetchAsync(words, bytes, fixture_device, stream)
#define BATCH(to, from, sizes, count, attributes, first, stream)                                   \
	cuMemcpyBatchAsync(to, from, sizes, count, attributes, first, 1, NULL, stream)
#define BATCH_3D(wanted, count, stream) cuMemcpy3DBatchAsync(count, wanted, NULL, 0, stream)
#endif
#if CUDA_VERSION >= 10010
#define BEGIN_CAPTURE(stream) cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
#else
#define BEGIN_CAPTURE(stream) cuStreamBeginCapture(stream)
#endif

static CUstream another;

static int setup(void **state)
{
	fixture_setup(state);
	assert_success(cuStreamCreate(&another, CU_STREAM_NON_BLOCKING));
	return 0;
}

static int teardown(void **state)
{
	assert_success(cuStreamDestroy(another));
	return fixture_teardown(state);
}

static void check(CUdeviceptr words, uint32_t value)
{
	assert_success(cuStreamSynchronize(NULL));
	assert_success(cuStreamSynchronize(another));
	words_check(words, N, value);
	assert_success(cuMemsetD32(words, 0, N));
	assert_success(cuCtxSynchronize()); /* a fill does not wait, and `another` for nobody */
}

static void fills(void **state)
{
	CUdeviceptr words = words_alloc(N, 0);

	assert_success(cuMemsetD8(words, 1, BYTES));
	check(words, 0x01010101);
	assert_success(cuMemsetD16(words, 2, N * 2));
	check(words, 0x00020002);
	assert_success(cuMemsetD32(words, 3, N));
	check(words, 3);
	assert_success(cuMemsetD2D8(words, BYTES / 2, 1, BYTES / 2, 2));
	check(words, 0x01010101);
	assert_success(cuMemsetD2D16(words, BYTES / 2, 2, N, 2));
	check(words, 0x00020002);
	assert_success(cuMemsetD2D32(words, BYTES / 2, 3, N / 2, 2));
	check(words, 3);
	for (int i = 0; i < 2; i++) {
		CUstream stream = i ? another : NULL;
		assert_success(cuMemsetD8Async(words, 1, BYTES, stream));
		check(words, 0x01010101);
		assert_success(cuMemsetD16Async(words, 2, N * 2, stream));
		check(words, 0x00020002);
		assert_success(cuMemsetD32Async(words, 3, N, stream));
		check(words, 3);
		assert_success(cuMemsetD2D8Async(words, BYTES / 2, 1, BYTES / 2, 2, stream));
		check(words, 0x01010101);
		assert_success(cuMemsetD2D16Async(words, BYTES / 2, 2, N, 2, stream));
		check(words, 0x00020002);
		assert_success(cuMemsetD2D32Async(words, BYTES / 2, 3, N / 2, 2, stream));
		check(words, 3);
	}
	assert_result(cuMemsetD16Async(words + 1, 2, 1, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemsetD32(0, 2, 1), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemFree(words));
}

static CUDA_MEMCPY2D rows(CUdeviceptr to, CUdeviceptr from)
{
	CUDA_MEMCPY2D copy = {0};

	copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	copy.srcDevice = from;
	copy.dstDevice = to;
	copy.srcPitch = copy.dstPitch = copy.WidthInBytes = BYTES / 4;
	copy.Height = 4;
	return copy;
}

static CUDA_MEMCPY3D planes(CUdeviceptr to, CUdeviceptr from)
{
	CUDA_MEMCPY3D copy = {0};

	copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	copy.srcDevice = from;
	copy.dstDevice = to;
	copy.srcPitch = copy.dstPitch = copy.WidthInBytes = BYTES / 4;
	copy.srcHeight = copy.dstHeight = copy.Height = copy.Depth = 2;
	return copy;
}

static CUDA_MEMCPY3D_PEER peer_planes(CUdeviceptr to, CUdeviceptr from)
{
	CUDA_MEMCPY3D_PEER copy = {0};

	copy.srcContext = copy.dstContext = fixture_context;
	copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	copy.srcDevice = from;
	copy.dstDevice = to;
	copy.srcPitch = copy.dstPitch = copy.WidthInBytes = BYTES / 4;
	copy.srcHeight = copy.dstHeight = copy.Height = copy.Depth = 2;
	return copy;
}

static void copies_that_wait(void **state)
{
	CUdeviceptr to = words_alloc(N, 0), from = words_alloc(N, 7);
	CUDA_MEMCPY3D_PEER peer = peer_planes(to, from);
	CUDA_MEMCPY3D volume = planes(to, from);
	CUDA_MEMCPY2D area = rows(to, from);
	uint32_t host[N];

	assert_success(cuMemcpyDtoH(host, from, BYTES));
	assert_int_equal(host[N - 1], 7);
	assert_success(cuMemcpyHtoD(to, host, BYTES));
	check(to, 7);
	assert_success(cuMemcpyDtoD(to, from, BYTES));
	check(to, 7);
	assert_success(cuMemcpy(to, from, BYTES));
	check(to, 7);
	assert_success(cuMemcpyPeer(to, fixture_context, from, fixture_context, BYTES));
	check(to, 7);
	assert_success(cuMemcpy2D(&area));
	check(to, 7);
	assert_success(cuMemcpy2DUnaligned(&area));
	check(to, 7);
	assert_success(cuMemcpy3D(&volume));
	check(to, 7);
	assert_success(cuMemcpy3DPeer(&peer));
	check(to, 7);
	assert_result(cuMemcpyHtoD(0, host, BYTES), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemcpy2D(NULL), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemFree(to));
	assert_success(cuMemFree(from));
}

static void copies_that_do_not_wait(void **state)
{
	CUdeviceptr to = words_alloc(N, 0), from = words_alloc(N, 7);
	CUDA_MEMCPY3D_PEER peer = peer_planes(to, from);
	CUDA_MEMCPY3D volume = planes(to, from);
	CUDA_MEMCPY2D area = rows(to, from);
	uint32_t *host;

	assert_success(cuMemAllocHost((void **)&host, BYTES));
	for (int i = 0; i < 2; i++) {
		CUstream stream = i ? another : NULL;
		assert_success(cuMemcpyDtoHAsync(host, from, BYTES, stream));
		assert_success(cuMemcpyHtoDAsync(to, host, BYTES, stream));
		check(to, 7);
		assert_success(cuMemcpyDtoDAsync(to, from, BYTES, stream));
		check(to, 7);
		assert_success(cuMemcpyAsync(to, from, BYTES, stream));
		check(to, 7);
		assert_success(cuMemcpyPeerAsync(
			to, fixture_context, from, fixture_context, BYTES, stream));
		check(to, 7);
		assert_success(cuMemcpy2DAsync(&area, stream));
		check(to, 7);
		assert_success(cuMemcpy3DAsync(&volume, stream));
		check(to, 7);
		assert_success(cuMemcpy3DPeerAsync(&peer, stream));
		check(to, 7);
	}
	assert_success(cuMemFreeHost(host));
	assert_success(cuMemFree(to));
	assert_success(cuMemFree(from));
}

static void copies_in_a_batch(void **state)
{
	CUdeviceptr to = words_alloc(N, 0), from = words_alloc(N, 7);
	CUdeviceptr tos[] = {to, to + BYTES / 2}, froms[] = {from, from + BYTES / 2};
	size_t sizes[] = {BYTES / 2, BYTES / 2}, first = 0;
	CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};

	assert_success(cuCtxSynchronize());
	assert_success(BATCH(tos, froms, sizes, 2, &attributes, &first, another));
	check(to, 7);
	assert_result(BATCH(tos, froms, sizes, 0, &attributes, &first, another),
		CUDA_ERROR_INVALID_VALUE);
	assert_result(BATCH(NULL, froms, sizes, 2, &attributes, &first, another),
		CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemFree(to));
	assert_success(cuMemFree(from));
}

/* A word's four bytes, two of them a copy: rows of two bytes, at a pitch of four. */
static void boxes_in_a_batch(void **state)
{
	CUdeviceptr to = words_alloc(N, 0), from = words_alloc(N, 0x0b0b0a0a);
	CUDA_MEMCPY3D_BATCH_OP wanted[2] = {{.extent = {2, N, 1}}, {.extent = {2, N, 1}}};

	assert_success(cuCtxSynchronize());
	for (int i = 0; i < 2; i++) {
		wanted[i].srcAccessOrder = i ? CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL
					     : CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
		wanted[i].src.type = wanted[i].dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
		wanted[i].src.op.ptr.ptr = from + 2 * (unsigned)i;
		wanted[i].dst.op.ptr.ptr = to + 2 * (unsigned)i;
		wanted[i].src.op.ptr.rowLength = wanted[i].dst.op.ptr.rowLength = 4;
	}
	assert_success(BATCH_3D(&wanted[0], 1, another));
	check(to, 0x0a0a);
	assert_success(BATCH_3D(wanted, 2, another));
	check(to, 0x0b0b0a0a);
	assert_success(cuMemFree(to));
	assert_success(cuMemFree(from));
}

static void note(void *argument)
{
	(*(int *)argument)++;
}

static void note_status(CUstream stream, CUresult status, void *argument)
{
	*(int *)argument += status == CUDA_SUCCESS;
}

static void launches_and_host_functions(void **state)
{
	CUdeviceptr words = words_alloc(N, 0);
	CUfunction add = fixture_function("add");
	uint32_t n = N, v = 1;
	void *params[] = {&words, &n, &v};
	int calls = 0, supported;

	assert_success(cuDeviceGetAttribute(
		&supported, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, fixture_device));
	for (int i = 0; i < 2; i++) {
		CUstream stream = i ? another : NULL;
		CUlaunchConfig config = {1, 1, 1, N, 1, 1, 0, stream, NULL, 0};
		assert_success(cuLaunchKernel(add, 1, 1, 1, N, 1, 1, 0, stream, params, NULL));
		assert_success(cuLaunchKernelEx(&config, add, params, NULL));
		assert_result(cuLaunchCooperativeKernel(add, 1, 1, 1, N, 1, 1, 0, stream, params),
			supported ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED);
		assert_success(cuLaunchHostFunc(stream, note, &calls));
		assert_success(cuStreamAddCallback(stream, note_status, &calls, 0));
		check(words, 2 + (uint32_t)(supported != 0));
		assert_success(cuStreamQuery(stream));
	}
	assert_int_equal(calls, 4);
	assert_result(cuLaunchHostFunc(NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemFree(words));
}

static void events(void **state)
{
	CUevent event;

	assert_success(cuEventCreate(&event, CU_EVENT_DEFAULT));
	assert_success(cuEventRecord(event, NULL));
	assert_success(cuStreamWaitEvent(another, event, 0));
	assert_success(cuStreamSynchronize(another));
	assert_success(cuEventQuery(event));
	assert_success(cuEventRecordWithFlags(event, another, CU_EVENT_RECORD_DEFAULT));
	assert_success(cuStreamWaitEvent(NULL, event, 0));
	assert_success(cuStreamSynchronize(NULL));
	assert_success(cuEventQuery(event));
	assert_result(cuEventRecordWithFlags(event, another, 8), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuEventDestroy(event));
}

static void what_streams_say(void **state)
{
	CUstreamAttrValue value = {.syncPolicy = CU_SYNC_POLICY_YIELD}, got;
	unsigned long long id, other;
	CUcontext context;
	CUdevice device;
	unsigned flags;
	int priority;

	assert_success(cuStreamGetId(NULL, &id));
	assert_success(cuStreamGetId(another, &other));
	assert_int_not_equal(id, other);
	assert_success(cuStreamGetPriority(NULL, &priority));
	assert_int_equal(priority, 0);
	assert_success(cuStreamGetFlags(another, &flags));
	assert_int_equal(flags, CU_STREAM_NON_BLOCKING);
	assert_success(cuStreamGetCtx(NULL, &context));
	assert_ptr_equal(context, fixture_context);
	assert_success(cuStreamGetDevice(NULL, &device));
	assert_int_equal(device, fixture_device);
	assert_success(
		cuStreamSetAttribute(another, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
	assert_success(
		cuStreamGetAttribute(another, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &got));
	assert_int_equal(got.syncPolicy, CU_SYNC_POLICY_YIELD);
	assert_success(cuStreamCopyAttributes(NULL, another));
	assert_success(
		cuStreamGetAttribute(NULL, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &got));
	assert_int_equal(got.syncPolicy, CU_SYNC_POLICY_YIELD);
	assert_result(cuStreamSetAttribute(another, (CUstreamAttrID)77, &value),
		CUDA_ERROR_INVALID_VALUE);
}

static void stream_ordered_memory(void **state)
{
	CUmemoryPool pool;
	CUdeviceptr words;

	assert_success(cuDeviceGetDefaultMemPool(&pool, fixture_device));
	for (int i = 0; i < 2; i++) {
		CUstream stream = i ? another : NULL;
		assert_success(cuMemAllocAsync(&words, BYTES, stream));
		assert_success(cuMemsetD32Async(words, 5, N, stream));
		check(words, 5);
		assert_success(cuMemFreeAsync(words, stream));
		assert_success(cuMemAllocFromPoolAsync(&words, BYTES, pool, stream));
		assert_success(cuMemFreeAsync(words, stream));
	}
	assert_success(cuCtxSynchronize());
}

#if CUDA_VERSION >= 13000
/* The two halves of managed memory, to the device and back. */
static void managed_batches(CUdeviceptr words, CUstream stream)
{
	CUdeviceptr halves[] = {words, words + BYTES / 2};
	CUmemLocation places[] = {
		{CU_MEM_LOCATION_TYPE_DEVICE, fixture_device}, {.type = CU_MEM_LOCATION_TYPE_HOST}};
	size_t sizes[] = {BYTES / 2, BYTES / 2}, first[] = {0, 1};
	int last;

	if (!fixture_attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS)) {
		assert_true(cuMemPrefetchBatchAsync(
				    halves, sizes, 2, places, first, 2, 0, stream) != CUDA_SUCCESS);
		return;
	}
	assert_success(cuMemPrefetchBatchAsync(halves, sizes, 2, places, first, 2, 0, stream));
	assert_success(cuStreamSynchronize(stream));
	assert_success(cuMemRangeGetAttribute(&last, sizeof last,
		CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, halves[1], sizes[1]));
	assert_int_equal(last, CU_DEVICE_CPU);
	assert_success(cuMemDiscardBatchAsync(halves, sizes, 2, 0, stream));
	assert_success(
		cuMemDiscardAndPrefetchBatchAsync(halves, sizes, 2, places, first, 1, 0, stream));
	assert_success(cuMemsetD32Async(words, 7, N, stream));
	assert_success(cuStreamSynchronize(stream));
	words_check(words, N, 7);
}
#else
static void managed_batches(CUdeviceptr words, CUstream stream)
{
}
#endif

static void managed_memory(void **state)
{
	CUdeviceptr words;
	CUresult result = cuMemAllocManaged(&words, BYTES, CU_MEM_ATTACH_GLOBAL);

	if (result == CUDA_ERROR_NOT_SUPPORTED) {
		printf("# the device has no managed memory\n");
		skip();
	}
	assert_success(result);
	assert_success(PREFETCH(words, BYTES, another));
	assert_result(PREFETCH(words, BYTES + 1, another), CUDA_ERROR_INVALID_VALUE);
	managed_batches(words, another);
	assert_success(cuStreamAttachMemAsync(another, words, 0, CU_MEM_ATTACH_GLOBAL));
	assert_success(cuStreamSynchronize(another));
	assert_success(cuMemFree(words));
}

static void values(void **state)
{
	CUdeviceptr words = words_alloc(N, 0);
	CUstreamBatchMemOpParams op = {0};
	uint64_t got;

	if (getenv("TEST_VENDOR") && CUDA_VERSION < 12000) {
		printf("# the calls of before CUDA 12 must be allowed in NVIDIA's driver\n");
		skip();
	}
	op.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	op.writeValue.address = words + 8;
	op.writeValue.value = 9;
	for (int i = 0; i < 2; i++) {
		CUstream stream = i ? another : NULL;
		assert_success(cuStreamWriteValue32(stream, words, 5, 0));
		assert_success(cuStreamWaitValue32(stream, words, 5, CU_STREAM_WAIT_VALUE_EQ));
		assert_success(cuStreamWriteValue64(stream, words, 1ull << 40, 0));
		assert_success(
			cuStreamWaitValue64(stream, words, 1ull << 39, CU_STREAM_WAIT_VALUE_GEQ));
		assert_success(cuStreamBatchMemOp(stream, 1, &op, 0));
		assert_success(cuStreamSynchronize(stream));
		assert_success(cuMemcpyDtoH(&got, words, 8));
		assert_int_equal(got, 1ull << 40);
		words_check(words + 8, 1, 9);
	}
	assert_success(cuMemFree(words));
}

static void capture_and_launch(void **state)
{
	CUdeviceptr words = words_alloc(N, 0);
	CUstreamCaptureStatus status;
	CUgraphNode node;
	CUgraphExec exec;
	CUgraph graph;

	assert_success(BEGIN_CAPTURE(another));
	assert_success(cuMemsetD32Async(words, 6, N, another));
	assert_success(CAPTURE_INFO(another, &status));
	assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
	assert_success(cuStreamIsCapturing(another, &status));
	assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
	assert_success(UPDATE_CAPTURE(another, NULL, 0));
	assert_success(cuStreamEndCapture(another, &graph));
	assert_success(cuStreamBeginCaptureToGraph(
		another, graph, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
	assert_success(cuStreamEndCapture(another, &graph));
	assert_success(cuGraphAddEmptyNode(&node, graph, NULL, 0));
#if CUDA_VERSION >= 12000
	CUDA_GRAPH_INSTANTIATE_PARAMS params = {.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD};
	assert_success(cuGraphInstantiateWithParams(&exec, graph, &params));
#else
	assert_success(cuGraphInstantiate(&exec, graph, NULL, NULL, 0));
#endif
	for (int i = 0; i < 2; i++) {
		CUstream stream = i ? another : NULL;
		assert_success(cuGraphUpload(exec, stream));
		assert_success(cuGraphLaunch(exec, stream));
		check(words, 6);
	}
	assert_success(cuGraphExecDestroy(exec));
	assert_success(cuGraphDestroy(graph));
	assert_success(cuMemFree(words));
}

/* The calls whose plain name meant another version before 12.0. */
static void kernel_nodes(void **state)
{
	CUdeviceptr words = words_alloc(N, 1);
	uint32_t n = N, v = 1;
	void *arguments[] = {&words, &n, &v};
	CUDA_KERNEL_NODE_PARAMS params = {fixture_function("add"), 1, 1, 1, N, 1, 1, 0, arguments};
	CUDA_KERNEL_NODE_PARAMS got;
	CUgraphNode node, empty, nodes[2], froms[2], tos[2];
	size_t count = 2;
	CUgraphExec exec;
	CUgraph graph;

	assert_success(cuGraphCreate(&graph, 0));
	assert_success(cuGraphAddKernelNode(&node, graph, NULL, 0, &params));
	assert_success(cuGraphKernelNodeGetParams(node, &got));
	assert_int_equal(got.blockDimX, N);
	v = 2;
	assert_success(cuGraphKernelNodeSetParams(node, &params));
	assert_success(cuGraphAddEmptyNode(&empty, graph, NULL, 0));
#if CUDA_VERSION >= 13000
	assert_success(cuGraphAddDependencies(graph, &empty, &node, NULL, 1));
	assert_success(cuGraphGetEdges(graph, froms, tos, NULL, &count));
	assert_success(cuGraphNodeGetDependencies(node, nodes, NULL, &count));
	assert_success(cuGraphNodeGetDependentNodes(empty, nodes, NULL, &count));
	assert_success(cuGraphRemoveDependencies(graph, &empty, &node, NULL, 1));
#else
	assert_success(cuGraphAddDependencies(graph, &empty, &node, 1));
	assert_success(cuGraphGetEdges(graph, froms, tos, &count));
	assert_success(cuGraphNodeGetDependencies(node, nodes, &count));
	assert_success(cuGraphNodeGetDependentNodes(empty, nodes, &count));
	assert_success(cuGraphRemoveDependencies(graph, &empty, &node, 1));
#endif
	assert_int_equal(count, 1);
	assert_ptr_equal(nodes[0], node);
	assert_success(cuGraphInstantiateWithFlags(&exec, graph, 0));
	v = 3;
	assert_success(cuGraphExecKernelNodeSetParams(exec, node, &params));
#if CUDA_VERSION >= 12000
	CUgraphExecUpdateResultInfo information;
	assert_success(cuGraphExecUpdate(exec, graph, &information));
	assert_int_equal(information.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
#else
	CUgraphExecUpdateResult outcome;
	CUgraphNode culprit;
	assert_success(cuGraphExecUpdate(exec, graph, &culprit, &outcome));
	assert_int_equal(outcome, CU_GRAPH_EXEC_UPDATE_SUCCESS);
#endif
	assert_success(cuGraphLaunch(exec, another));
	check(words, 3); /* the update brought 2 back */
	assert_success(cuGraphExecDestroy(exec));
	assert_success(cuGraphDestroy(graph));
	assert_success(cuMemFree(words));
}

static void functions_by_name(void **state)
{
	CUresult(CUDAAPI * query)(CUstream stream);

#if CUDA_VERSION >= 12000
	assert_success(cuGetProcAddress("cuStreamQuery", (void **)&query, CUDA_VERSION, 0, NULL));
#else
	assert_success(cuGetProcAddress("cuStreamQuery", (void **)&query, CUDA_VERSION, 0));
#endif
	assert_ptr_equal((void *)query, (void *)cuStreamQuery);
	assert_success(query(NULL));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(fills),
		TEST(copies_that_wait),
		TEST(copies_that_do_not_wait),
		TEST(copies_in_a_batch),
		TEST(boxes_in_a_batch),
		TEST(launches_and_host_functions),
		TEST(events),
		TEST(what_streams_say),
		TEST(stream_ordered_memory),
		TEST(managed_memory),
		TEST(values),
		TEST(capture_and_launch),
		TEST(kernel_nodes),
		TEST(functions_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
