/* SPDX-License-Identifier: MIT
 *
 * Memory that graphs allocate and free; and nodes of all kinds by the one structure that CUDA has for them.
 */
#include "fixture.h"

enum { N = 1024, BYTES = N * 4 };

static CUDA_MEM_ALLOC_NODE_PARAMS alloc_params(size_t bytes)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = {.bytesize = bytes};

	params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	params.poolProps.location.id = fixture_device;
	return params;
}

static CUgraphNode add_alloc(
	CUgraph graph, const CUgraphNode *after, size_t bytes, CUdeviceptr *memory)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = alloc_params(bytes);
	CUgraphNode node;

	assert_success(cuGraphAddMemAllocNode(&node, graph, after, after ? 1 : 0, &params));
	assert_true(params.dptr);
	*memory = params.dptr;
	return node;
}

static CUgraphNode add_free(CUgraph graph, CUgraphNode after, CUdeviceptr memory)
{
	CUgraphNode node;

	assert_success(cuGraphAddMemFreeNode(&node, graph, &after, 1, memory));
	return node;
}

static CUgraphNode add_set(CUgraph graph, CUgraphNode after, CUdeviceptr words, uint32_t value)
{
	CUDA_MEMSET_NODE_PARAMS set = {
		.dst = words, .value = value, .elementSize = 4, .width = N, .height = 1};
	CUgraphNode node;

	assert_success(cuGraphAddMemsetNode(&node, graph, &after, 1, &set, fixture_context));
	return node;
}

static CUgraphNode add_copy(CUgraph graph, CUgraphNode after, CUdeviceptr to, CUdeviceptr from)
{
	CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = from,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = to,
		.WidthInBytes = BYTES,
		.Height = 1,
		.Depth = 1};
	CUgraphNode node;

	assert_success(cuGraphAddMemcpyNode(&node, graph, &after, 1, &copy, fixture_context));
	return node;
}

static uint64_t usage(CUgraphMem_attribute attribute)
{
	uint64_t value = 1;

	assert_success(cuDeviceGetGraphMemAttribute(fixture_device, attribute, &value));
	return value;
}

static void reset_usage(void)
{
	uint64_t none = 0;

	assert_success(cuDeviceGraphMemTrim(fixture_device));
	assert_success(cuDeviceSetGraphMemAttribute(
		fixture_device, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &none));
	assert_success(cuDeviceSetGraphMemAttribute(
		fixture_device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH, &none));
}

static void a_graph_has_memory_of_its_own(void **state)
{
	CUdeviceptr out = words_alloc(N, 0), memory, pointer;
	CUgraphNode alloc, set, copy, release;
	CUDA_MEM_ALLOC_NODE_PARAMS params;
	CUgraphNodeType type;
	CUgraphExec exec;
	CUgraph graph;

	reset_usage();
	assert_success(cuGraphCreate(&graph, 0));
	alloc = add_alloc(graph, NULL, BYTES, &memory);
	set = add_set(graph, alloc, memory, 7);
	copy = add_copy(graph, set, out, memory);
	release = add_free(graph, copy, memory);
	assert_success(cuGraphNodeGetType(alloc, &type));
	assert_int_equal(type, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
	assert_success(cuGraphMemAllocNodeGetParams(alloc, &params));
	assert_int_equal(params.bytesize, BYTES);
	assert_int_equal(params.dptr, memory);
	assert_int_equal(params.accessDescCount, 0);
	assert_success(cuGraphNodeGetType(release, &type));
	assert_int_equal(type, CU_GRAPH_NODE_TYPE_MEM_FREE);
	assert_success(cuGraphMemFreeNodeGetParams(release, &pointer));
	assert_int_equal(pointer, memory);
	assert_success(cuGraphInstantiate(&exec, graph, 0));
	for (int i = 0; i < 3; i++) {
		assert_success(cuMemsetD32(out, 0, N));
		assert_success(cuGraphLaunch(exec, NULL));
		words_check(out, N, 7);
	}
	assert_true(usage(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT) >= BYTES); /* until it is trimmed */
	assert_true(usage(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH) >= BYTES);
	assert_true(usage(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT) >= BYTES);
	assert_result(cuMemFree(memory), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuDeviceGraphMemTrim(fixture_device));
	assert_int_equal(usage(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0);
	assert_success(cuGraphDestroy(graph));
	assert_success(cuGraphLaunch(exec, NULL));
	assert_success(cuCtxSynchronize());
	assert_success(cuGraphExecDestroy(exec));
	assert_success(cuDeviceGraphMemTrim(fixture_device));
	assert_int_equal(usage(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 0);
	assert_true(usage(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) >= BYTES);
	assert_success(cuMemFree(out));
}

/* The program frees what the graph allocated: at once, in a stream, or by a node of another graph. */
static void an_allocation_outlives_its_launch(void **state)
{
	CUgraphNode alloc, release;
	CUgraphExec exec, freeing;
	CUgraph graph, second;
	CUdeviceptr memory;

	assert_success(cuGraphCreate(&graph, 0));
	alloc = add_alloc(graph, NULL, BYTES, &memory);
	add_set(graph, alloc, memory, 9);
	assert_success(cuGraphCreate(&second, 0));
	assert_success(cuGraphAddMemFreeNode(&release, second, NULL, 0, memory));
	assert_success(cuGraphInstantiate(&exec, graph, 0));
	assert_success(cuGraphInstantiate(&freeing, second, 0));
	for (int i = 0; i < 3; i++) {
		assert_success(cuGraphLaunch(exec, NULL));
		words_check(memory, N, 9);
		assert_true(usage(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT) >= BYTES);
		assert_result(
			cuGraphLaunch(exec, NULL), CUDA_ERROR_INVALID_VALUE); /* not free yet */
		if (i == 0)
			assert_success(cuMemFree(memory));
		else if (i == 1)
			assert_success(cuMemFreeAsync(memory, NULL));
		else
			assert_success(cuGraphLaunch(freeing, NULL));
	}
	assert_result(cuMemFree(memory), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuGraphLaunch(exec, NULL));
	assert_success(cuGraphExecDestroy(exec));
	assert_success(cuGraphExecDestroy(freeing));
	assert_success(cuGraphDestroy(graph));
	assert_success(cuGraphDestroy(second));
	words_check(memory, N, 9); /* as long as the allocation */
	assert_success(cuMemFree(memory));
	assert_success(cuDeviceGraphMemTrim(fixture_device));
	assert_int_equal(usage(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 0);
}

static void a_launch_may_free_what_the_last_one_allocated(void **state)
{
	CUdeviceptr memory;
	CUgraphNode alloc;
	CUgraphExec exec;
	CUgraph graph;

	assert_success(cuGraphCreate(&graph, 0));
	alloc = add_alloc(graph, NULL, BYTES, &memory);
	add_set(graph, alloc, memory, 5);
	assert_success(
		cuGraphInstantiate(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
	for (int i = 0; i < 3; i++)
		assert_success(cuGraphLaunch(exec, NULL));
	words_check(memory, N, 5);
	assert_success(cuMemFree(memory));
	assert_success(cuGraphExecDestroy(exec));
	assert_success(cuGraphDestroy(graph));
}

/* What is freed behind commands that still run is not allocated by the next launch until they are done. */
static void the_next_launch_waits_for_the_free(void **state)
{
	CUstream user, launching;
	CUdeviceptr memory;
	struct gate gate;
	CUgraphExec exec;
	CUgraph graph;

	assert_success(cuStreamCreate(&user, CU_STREAM_NON_BLOCKING));
	assert_success(cuStreamCreate(&launching, CU_STREAM_NON_BLOCKING));
	assert_success(cuGraphCreate(&graph, 0));
	add_alloc(graph, NULL, BYTES, &memory);
	assert_success(cuGraphInstantiate(&exec, graph, 0));
	assert_success(cuGraphLaunch(exec, launching));
	assert_success(cuStreamSynchronize(launching));
	gate_close(&gate, user);
	assert_success(cuMemFreeAsync(memory, user));
	assert_success(cuGraphLaunch(exec, launching));
	if (!getenv("TEST_VENDOR")) /* it may allocate other memory at the address */
		assert_result(cuStreamQuery(launching), CUDA_ERROR_NOT_READY);
	gate_open(&gate);
	assert_success(cuStreamSynchronize(launching));
	gate_free(&gate);
	assert_success(cuMemFree(memory));
	assert_success(cuGraphExecDestroy(exec));
	assert_success(cuGraphDestroy(graph));
	assert_success(cuStreamDestroy(user));
	assert_success(cuStreamDestroy(launching));
}

/* Memory that is free where a node is serves it; what another branch frees does not. */
static void memory_is_used_again_behind_its_free(void **state)
{
	CUdeviceptr out = words_alloc(N, 0), first, second, third, aside;
	CUgraphNode alloc, set, copy, release;
	CUgraphExec exec;
	CUgraph graph;

	assert_success(cuGraphCreate(&graph, 0));
	alloc = add_alloc(graph, NULL, BYTES, &first);
	set = add_set(graph, alloc, first, 1);
	release = add_free(graph, set, first);
	alloc = add_alloc(graph, &release, BYTES, &second);
	if (!getenv("TEST_VENDOR")) /* what is mapped there is its secret */
		assert_int_equal(second, first);
	add_alloc(graph, &release, BYTES, &third); /* at the same time as the second */
	assert_int_not_equal(third, second);
	add_alloc(graph, NULL, BYTES, &aside);
	assert_int_not_equal(aside, first);
	assert_int_not_equal(aside, third);
	set = add_set(graph, alloc, second, 2);
	copy = add_copy(graph, set, out, second);
	add_free(graph, copy, second);
	assert_success(
		cuGraphInstantiate(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
	for (int i = 0; i < 3; i++) {
		assert_success(cuMemsetD32(out, 0, N));
		assert_success(cuGraphLaunch(exec, NULL));
		words_check(out, N, 2);
	}
	assert_success(cuMemFree(third));
	assert_success(cuMemFree(aside));
	assert_success(cuGraphExecDestroy(exec));
	assert_success(cuGraphDestroy(graph));
	assert_success(cuMemFree(out));
}

static void allocations_of_streams_are_captured(void **state)
{
	CUdeviceptr out = words_alloc(N, 0), memory, pooled, kept;
	uint32_t n = N, v = 3;
	CUmemoryPool pool;
	CUgraphExec exec;
	CUstream stream;
	CUgraph graph;
	size_t count;

	assert_success(cuDeviceGetDefaultMemPool(&pool, fixture_device));
	assert_success(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	assert_success(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	assert_success(cuMemAllocAsync(&memory, BYTES, stream));
	assert_success(cuMemAllocFromPoolAsync(&pooled, BYTES, pool, stream));
	assert_success(cuMemAllocAsync(&kept, BYTES, stream));
	assert_success(cuMemsetD32Async(memory, 10, N, stream));
	assert_success(launch_on(stream, "add", 1, N, &memory, &n, &v));
	assert_success(cuMemcpyDtoDAsync(pooled, memory, BYTES, stream));
	assert_success(cuMemFreeAsync(memory, stream));
	assert_success(cuMemcpyDtoDAsync(kept, pooled, BYTES, stream));
	assert_success(cuMemcpyDtoDAsync(out, pooled, BYTES, stream));
	assert_success(cuMemFreeAsync(pooled, stream));
	assert_success(cuStreamEndCapture(stream, &graph));
	assert_success(cuGraphGetNodes(graph, NULL, &count));
	assert_int_equal(count, 10);
	assert_success(cuGraphInstantiate(&exec, graph, 0));
	for (int i = 0; i < 3; i++) {
		assert_success(cuMemsetD32(out, 0, N));
		assert_success(cuCtxSynchronize());
		assert_success(cuGraphLaunch(exec, stream));
		assert_success(cuMemFreeAsync(kept, stream));
		assert_success(cuStreamSynchronize(stream));
		words_check(out, N, 13);
	}
	assert_success(cuGraphExecDestroy(exec));
	assert_success(cuGraphDestroy(graph));

	/* Memory of the stream's past is not the graph's to free. */
	assert_success(cuMemAllocAsync(&memory, BYTES, stream));
	assert_success(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	assert_result(cuMemFreeAsync(memory, stream), CUDA_ERROR_INVALID_VALUE);
	cuStreamEndCapture(stream, &graph);
	assert_success(cuMemFreeAsync(memory, stream));
	assert_success(cuStreamDestroy(stream));
	assert_success(cuMemFree(out));
}

/* Such graphs have one executable graph at a time, and lose nothing. */
static void graphs_with_memory_are_not_copied(void **state)
{
	CUgraph graph, clone, parent;
	CUgraphNode alloc, release, child;
	CUgraphExec exec, another;
	CUdeviceptr memory;

	assert_success(cuGraphCreate(&graph, 0));
	assert_success(cuGraphCreate(&parent, 0));
	alloc = add_alloc(graph, NULL, BYTES, &memory);
	release = add_free(graph, alloc, memory);
	assert_result(cuGraphClone(&clone, graph), CUDA_ERROR_NOT_SUPPORTED);
	assert_result(
		cuGraphAddChildGraphNode(&child, parent, NULL, 0, graph), CUDA_ERROR_NOT_SUPPORTED);
	assert_result(cuGraphDestroyNode(release), CUDA_ERROR_NOT_SUPPORTED);
	assert_result(cuGraphRemoveDependencies(graph, &alloc, &release, NULL, 1),
		CUDA_ERROR_NOT_SUPPORTED);
	assert_success(cuGraphInstantiate(&exec, graph, 0));
	assert_result(cuGraphInstantiate(&another, graph, 0), CUDA_ERROR_NOT_SUPPORTED);
	assert_success(cuGraphExecDestroy(exec));
	assert_success(cuGraphInstantiate(&another, graph, 0));
	assert_success(cuGraphLaunch(another, NULL));
	assert_success(cuGraphExecDestroy(another));
	assert_success(cuGraphDestroy(parent));
	assert_success(cuGraphDestroy(graph));
}

static void memory_goes_with_its_context(void **state)
{
	CUdeviceptr memory;
	CUcontext context;
	CUgraphExec exec;
	CUgraph graph;

	if (getenv("TEST_VENDOR")) /* a context takes its graphs with it there */
		skip();
	context = fixture_context_create();
	assert_success(cuGraphCreate(&graph, 0));
	add_alloc(graph, NULL, BYTES, &memory);
	assert_success(cuGraphInstantiate(&exec, graph, 0));
	assert_success(cuGraphLaunch(exec, NULL));
	assert_success(cuCtxDestroy(context));
	assert_success(cuCtxSetCurrent(fixture_context));
	assert_result(cuGraphLaunch(exec, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuGraphExecDestroy(exec));
	assert_success(cuGraphDestroy(graph));
}

static void count(void *counter)
{
	++*(int *)counter;
}

#undef cuGraphAddNode /* it is called as well: the symbol of programs of CUDA 12.2 */

static CUgraphNode add_any(CUgraph graph, const CUgraphNode *after, CUgraphNodeParams *params)
{
	CUgraphNode node;

	if (params->type % 2)
		assert_success(cuGraphAddNode(&node, graph, after, after ? 1 : 0, params));
	else
		assert_success(cuGraphAddNode_v2(&node, graph, after, NULL, after ? 1 : 0, params));
	return node;
}

/* alloc -> set -> add -> copy -> write a value -> host -> child -> event -> free */
static void any_node_is_added_and_changed(void **state)
{
	CUdeviceptr out = words_alloc(N, 0), word = words_alloc(1, 0);
	CUgraphNodeParams params, add = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
	CUstreamBatchMemOpParams op = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32};
	uint32_t n = N, v = 2;
	CUdeviceptr memory;
	CUgraph graph, child;
	CUgraphNode node, kernel, other;
	CUgraphExec exec;
	CUevent event;
	int counter = 0;

	assert_success(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	assert_success(cuGraphCreate(&child, 0));
	assert_success(cuGraphCreate(&graph, 0));
	params = (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
	params.alloc.poolProps = alloc_params(BYTES).poolProps;
	params.alloc.bytesize = BYTES;
	node = add_any(graph, NULL, &params);
	memory = params.alloc.dptr;
	params = (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_MEMSET};
	params.memset.dst = memory, params.memset.value = 40, params.memset.elementSize = 4;
	params.memset.width = N, params.memset.height = 1;
	params.memset.ctx = fixture_context;
	node = add_any(graph, &node, &params);
	add.kernel.func = fixture_function("add");
	add.kernel.gridDimX = add.kernel.gridDimY = add.kernel.gridDimZ = 1;
	add.kernel.blockDimX = N, add.kernel.blockDimY = add.kernel.blockDimZ = 1;
	add.kernel.kernelParams = (void *[]){&memory, &n, &v};
	kernel = node = add_any(graph, &node, &add);
	params = (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_MEMCPY};
	params.memcpy.copyParams.srcMemoryType = CU_MEMORYTYPE_DEVICE;
	params.memcpy.copyParams.srcDevice = memory;
	params.memcpy.copyParams.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	params.memcpy.copyParams.dstDevice = out;
	params.memcpy.copyParams.WidthInBytes = BYTES;
	params.memcpy.copyParams.Height = params.memcpy.copyParams.Depth = 1;
	params.memcpy.copyCtx = fixture_context;
	node = add_any(graph, &node, &params);
	op.writeValue.address = word, op.writeValue.value = 5;
	params = (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP};
	params.memOp.count = 1, params.memOp.paramArray = &op;
	assert_result(cuGraphAddNode_v2(&other, graph, NULL, NULL, 0, &params),
		CUDA_ERROR_INVALID_VALUE); /* without a context */
	params.memOp.ctx = fixture_context, params.memOp.count = 1, params.memOp.paramArray = &op;
	node = add_any(graph, &node, &params);
	params = (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_HOST};
	params.host.fn = count, params.host.userData = &counter;
	node = add_any(graph, &node, &params);
	params = (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_GRAPH, .graph = {.graph = child}};
	node = add_any(graph, &node, &params);
	params = (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD};
	params.eventRecord.event = event;
	node = add_any(graph, &node, &params);
	params.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT;
	node = add_any(graph, &node, &params);
	params = (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_MEM_FREE, .free = {memory}};
	node = add_any(graph, &node, &params);
	params = (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_EMPTY};
	add_any(graph, &node, &params);

	assert_success(cuGraphInstantiate(&exec, graph, 0));
	assert_success(cuGraphLaunch(exec, NULL));
	words_check(out, N, 42);
	words_check(word, 1, 5);
	assert_int_equal(counter, 1);
	v = 3;
	assert_success(cuGraphExecNodeSetParams(exec, kernel, &add));
	assert_success(cuGraphLaunch(exec, NULL));
	words_check(out, N, 43);
	assert_success(cuGraphExecDestroy(exec));
	v = 4;
	assert_success(cuGraphNodeSetParams(kernel, &add));
	assert_success(cuGraphInstantiate(&exec, graph, 0));
	assert_success(cuGraphLaunch(exec, NULL));
	words_check(out, N, 44);
	assert_success(cuGraphExecDestroy(exec));
	assert_success(cuGraphDestroy(graph));
	assert_success(cuGraphDestroy(child));
	assert_success(cuEventDestroy(event));
	assert_success(cuMemFree(out));
	assert_success(cuMemFree(word));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_graph_has_memory_of_its_own),
		TEST(an_allocation_outlives_its_launch),
		TEST(a_launch_may_free_what_the_last_one_allocated),
		TEST(the_next_launch_waits_for_the_free),
		TEST(memory_is_used_again_behind_its_free),
		TEST(allocations_of_streams_are_captured),
		TEST(graphs_with_memory_are_not_copied),
		TEST(memory_goes_with_its_context),
		TEST(any_node_is_added_and_changed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
