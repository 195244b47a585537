/* SPDX-License-Identifier: MIT
 *
 * Graphs: structure, every kind of node, executable graphs and their changes, capture.
 */
#include "fixture.h"

#include <unistd.h>

enum { N = 256 };

static CUDA_KERNEL_NODE_PARAMS add_params(void **params)
{
	CUDA_KERNEL_NODE_PARAMS kernel = {0};

	kernel.func = fixture_function("add");
	kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = 1;
	kernel.blockDimX = N;
	kernel.blockDimY = kernel.blockDimZ = 1;
	kernel.kernelParams = params;
	return kernel;
}

static CUDA_MEMSET_NODE_PARAMS set_params(CUdeviceptr words, unsigned value)
{
	return (CUDA_MEMSET_NODE_PARAMS){
		.dst = words, .value = value, .elementSize = 4, .width = N, .height = 1};
}

static CUDA_MEMCPY3D copy_params(CUdeviceptr to, CUdeviceptr from)
{
	CUDA_MEMCPY3D copy = {0};

	copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	copy.srcDevice = from;
	copy.dstDevice = to;
	copy.WidthInBytes = N * 4;
	copy.Height = copy.Depth = 1;
	return copy;
}

static void launch_and_wait(CUgraphExec exec)
{
	CUstream stream;

	assert_success(cuCtxSynchronize()); /* the stream does not wait for what fills memory */
	assert_success(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	assert_success(cuGraphUpload(exec, stream));
	assert_success(cuGraphLaunch(exec, stream));
	assert_success(cuStreamSynchronize(stream));
	assert_success(cuStreamDestroy(stream));
}

static void run_once(CUgraph graph)
{
	CUgraphExec exec;

	assert_success(cuGraphInstantiate(&exec, graph, 0));
	launch_and_wait(exec);
	assert_success(cuGraphExecDestroy(exec));
}

/* ---- structure ---- */

static void nodes_and_edges_are_told(void **state)
{
	CUgraphNode a, b, c, nodes[4], from[4], to[4];
	CUgraphNodeType type;
	CUgraph graph;
	size_t count;

	assert_success(cuGraphCreate(&graph, 0));
	assert_success(cuGraphAddEmptyNode(&a, graph, NULL, 0));
	assert_success(cuGraphAddEmptyNode(&b, graph, &a, 1));
	assert_success(cuGraphAddEmptyNode(&c, graph, NULL, 0));
	assert_success(cuGraphAddDependencies(graph, &a, &c, NULL, 1));
	assert_success(cuGraphGetNodes(graph, NULL, &count));
	assert_int_equal(count, 3);
	count = 4;
	assert_success(cuGraphGetNodes(graph, nodes, &count));
	assert_int_equal(count, 3);
	count = 4;
	assert_success(cuGraphGetRootNodes(graph, nodes, &count));
	assert_int_equal(count, 1);
	assert_ptr_equal(nodes[0], a);
	count = 4;
	assert_success(cuGraphGetEdges(graph, from, to, NULL, &count));
	assert_int_equal(count, 2);
	count = 4;
	assert_success(cuGraphNodeGetDependencies(b, nodes, NULL, &count));
	assert_int_equal(count, 1);
	assert_ptr_equal(nodes[0], a);
	assert_success(cuGraphNodeGetDependentNodes(a, NULL, NULL, &count));
	assert_int_equal(count, 2);
	assert_success(cuGraphRemoveDependencies(graph, &a, &c, NULL, 1));
	assert_success(cuGraphNodeGetDependentNodes(a, NULL, NULL, &count));
	assert_int_equal(count, 1);
	assert_success(cuGraphDestroyNode(c));
	assert_success(cuGraphGetNodes(graph, NULL, &count));
	assert_int_equal(count, 2);
	assert_success(cuGraphNodeGetType(a, &type));
	assert_int_equal(type, CU_GRAPH_NODE_TYPE_EMPTY);
	assert_success(cuGraphDestroy(graph));
}

/* The file as text, which is freed. */
static char *drawn(CUgraph graph, unsigned flags)
{
	char path[] = "/tmp/gdev-graph-XXXXXX", *text = calloc(1, 1 << 16);
	int fd = mkstemp(path);

	assert_true(fd >= 0 && text);
	assert_success(cuGraphDebugDotPrint(graph, path, flags));
	assert_true(read(fd, text, (1 << 16) - 1) > 0);
	close(fd);
	unlink(path);
	return text;
}

static size_t count_of(const char *text, const char *what)
{
	size_t count = 0;

	while ((text = strstr(text, what))) {
		text += strlen(what);
		count++;
	}
	return count;
}

static void a_graph_is_drawn(void **state)
{
	CUdeviceptr words = words_alloc(N, 0);
	uint32_t n = N, one = 1;
	void *params[] = {&words, &n, &one};
	CUDA_KERNEL_NODE_PARAMS kernel = {.func = fixture_function("add"),
		.gridDimX = 3,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 64,
		.blockDimY = 1,
		.blockDimZ = 1,
		.kernelParams = params};
	CUDA_MEMCPY3D copy = copy_params(words, words);
	CUgraphNode a, b, c;
	CUgraph graph, inner;
	char *text;

	assert_success(cuGraphCreate(&inner, 0));
	assert_success(cuGraphAddMemcpyNode(&c, inner, NULL, 0, &copy, fixture_context));
	assert_success(cuGraphCreate(&graph, 0));
	assert_success(cuGraphAddKernelNode(&a, graph, NULL, 0, &kernel));
	assert_success(cuGraphAddChildGraphNode(&b, graph, &a, 1, inner));
	text = drawn(graph, 0);
	assert_int_equal(count_of(text, "digraph"), 1);
	assert_int_equal(count_of(text, "subgraph"), 2);
	assert_true(count_of(text, "add") >= 1);
	assert_true(count_of(text, "->") >= 1);
	assert_int_equal(count_of(text, "{"), count_of(text, "}"));
	free(text);
	text = drawn(graph, CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE);
	assert_true(count_of(text, "64") >= 1); /* threads of a block */
	free(text);
	assert_success(cuGraphDestroy(graph));
	assert_success(cuGraphDestroy(inner));
	assert_success(cuMemFree(words));
}

static void a_circle_cannot_be_instantiated(void **state)
{
	CUgraphExec exec;
	CUgraphNode a, b;
	CUgraph graph;

	assert_success(cuGraphCreate(&graph, 0));
	assert_success(cuGraphAddEmptyNode(&a, graph, NULL, 0));
	assert_success(cuGraphAddEmptyNode(&b, graph, &a, 1));
	assert_result(cuGraphAddDependencies(graph, &a, &b, NULL, 1), CUDA_ERROR_INVALID_VALUE);
	if (cuGraphAddDependencies(graph, &b, &a, NULL, 1) == CUDA_SUCCESS)
		assert_result(cuGraphInstantiate(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuGraphDestroy(graph));
}

static void wrong_graphs_are_refused(void **state)
{
	CUgraph graph;
	CUgraphNode node;
	size_t count;

	assert_result(cuGraphCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuGraphCreate(&graph, 1), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuGraphDestroy(NULL), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuGraphGetNodes(NULL, NULL, &count), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuGraphAddEmptyNode(&node, NULL, NULL, 0), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuGraphInstantiate(NULL, NULL, 0), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuGraphLaunch(NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuGraphExecDestroy(NULL), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuGraphDestroyNode(NULL), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuGraphCreate(&graph, 0));
	assert_result(cuGraphAddEmptyNode(NULL, graph, NULL, 0), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuGraphAddKernelNode(&node, graph, NULL, 0, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuGraphAddHostNode(&node, graph, NULL, 0, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuGraphAddMemsetNode(&node, graph, NULL, 0, NULL, fixture_context),
		CUDA_ERROR_INVALID_VALUE);
	assert_result(cuGraphAddMemcpyNode(&node, graph, NULL, 0, NULL, fixture_context),
		CUDA_ERROR_INVALID_VALUE);
	assert_success(cuGraphGetNodes(graph, NULL, &count));
	assert_int_equal(count, 0);
	assert_success(cuGraphDestroy(graph));
}

/* ---- what nodes do ---- */

static void note(void *argument)
{
	(*(int *)argument)++;
}

/* set -> add -> copy -> host, and beside it an empty node. */
static void nodes_run_in_the_order_of_their_dependencies(void **state)
{
	CUdeviceptr first = words_alloc(N, 0), second = words_alloc(N, 0);
	uint32_t n = N, v = 5;
	void *params[] = {&first, &n, &v};
	CUDA_KERNEL_NODE_PARAMS kernel = add_params(params);
	CUDA_MEMSET_NODE_PARAMS set = set_params(first, 100);
	CUDA_MEMCPY3D copy = copy_params(second, first);
	int calls = 0;
	CUDA_HOST_NODE_PARAMS host = {note, &calls};
	CUgraphNode nodes[4];
	CUgraphExec exec;
	CUgraph graph;

	assert_success(cuGraphCreate(&graph, 0));
	assert_success(cuGraphAddKernelNode(&nodes[1], graph, NULL, 0, &kernel));
	assert_success(cuGraphAddMemsetNode(&nodes[0], graph, NULL, 0, &set, fixture_context));
	assert_success(cuGraphAddDependencies(graph, &nodes[0], &nodes[1], NULL, 1));
	assert_success(
		cuGraphAddMemcpyNode(&nodes[2], graph, &nodes[1], 1, &copy, fixture_context));
	assert_success(cuGraphAddHostNode(&nodes[3], graph, &nodes[2], 1, &host));
	v = 77; /* the parameters were copied */
	assert_success(cuGraphInstantiate(&exec, graph, 0));
	assert_success(cuGraphDestroy(graph));
	for (int i = 0; i < 3; i++)
		launch_and_wait(exec);
	words_check(second, N, 105);
	assert_int_equal(calls, 3);
	assert_success(cuGraphExecDestroy(exec));
	assert_success(cuMemFree(first));
	assert_success(cuMemFree(second));
}

static void nodes_say_what_they_do_and_can_be_changed(void **state)
{
	CUdeviceptr words = words_alloc(N, 1), other = words_alloc(N, 9);
	uint32_t n = N, v = 5;
	void *params[] = {&words, &n, &v};
	CUDA_KERNEL_NODE_PARAMS kernel = add_params(params), got_kernel;
	CUDA_MEMSET_NODE_PARAMS set = set_params(other, 3), got_set;
	CUDA_MEMCPY3D copy = copy_params(words, other), got_copy;
	int calls = 0, others = 0;
	CUDA_HOST_NODE_PARAMS host = {note, &calls}, got_host;
	CUkernelNodeAttrValue value = {.priority = 0}, got_value;
	CUgraphNode a, b, c, d, e;
	CUgraph graph;

	assert_success(cuGraphCreate(&graph, 0));
	assert_success(cuGraphAddMemsetNode(&a, graph, NULL, 0, &set, fixture_context));
	assert_success(cuGraphAddMemcpyNode(&b, graph, &a, 1, &copy, fixture_context));
	assert_success(cuGraphAddKernelNode(&c, graph, &b, 1, &kernel));
	assert_success(cuGraphAddHostNode(&d, graph, &c, 1, &host));
	assert_success(cuGraphAddKernelNode(&e, graph, &d, 1, &kernel));
	assert_success(cuGraphMemsetNodeGetParams(a, &got_set));
	assert_int_equal(got_set.value, 3);
	got_set.value = 4;
	assert_success(cuGraphMemsetNodeSetParams(a, &got_set));
	assert_success(cuGraphMemcpyNodeGetParams(b, &got_copy));
	assert_int_equal(got_copy.WidthInBytes, N * 4);
	assert_success(cuGraphMemcpyNodeSetParams(b, &got_copy));
	assert_success(cuGraphKernelNodeGetParams(c, &got_kernel));
	assert_int_equal(got_kernel.blockDimX, N);
	assert_int_equal(*(uint32_t *)got_kernel.kernelParams[2], 5);
	v = 6;
	assert_success(cuGraphKernelNodeSetParams(c, &kernel));
	assert_success(cuGraphHostNodeGetParams(d, &got_host));
	assert_ptr_equal(got_host.userData, &calls);
	got_host.userData = &others;
	assert_success(cuGraphHostNodeSetParams(d, &got_host));
	assert_success(cuGraphKernelNodeSetAttribute(c, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
	assert_success(cuGraphKernelNodeCopyAttributes(e, c));
	assert_success(cuGraphKernelNodeGetAttribute(e, CU_LAUNCH_ATTRIBUTE_PRIORITY, &got_value));
	assert_int_equal(got_value.priority, 0);
	assert_result(cuGraphKernelNodeGetParams(a, &got_kernel), CUDA_ERROR_INVALID_VALUE);
	run_once(graph);
	words_check(words, N, 15);
	assert_int_equal(calls, 0);
	assert_int_equal(others, 1);
	assert_success(cuGraphDestroy(graph));
	assert_success(cuMemFree(words));
	assert_success(cuMemFree(other));
}

static void a_child_graph_is_a_node(void **state)
{
	CUdeviceptr words = words_alloc(N, 1);
	uint32_t n = N, v = 2;
	void *params[] = {&words, &n, &v};
	CUDA_KERNEL_NODE_PARAMS kernel = add_params(params);
	CUDA_MEMSET_NODE_PARAMS set = set_params(words, 10);
	CUgraph graph, child, inner;
	CUgraphNode node, first;
	CUgraphExec exec;
	size_t count;

	assert_success(cuGraphCreate(&child, 0));
	assert_success(cuGraphAddKernelNode(&node, child, NULL, 0, &kernel));
	assert_success(cuGraphCreate(&graph, 0));
	assert_success(cuGraphAddMemsetNode(&first, graph, NULL, 0, &set, fixture_context));
	assert_success(cuGraphAddChildGraphNode(&node, graph, &first, 1, child));
	assert_success(cuGraphChildGraphNodeGetGraph(node, &inner));
	assert_success(cuGraphGetNodes(inner, NULL, &count));
	assert_int_equal(count, 1);
	assert_success(cuGraphInstantiate(&exec, graph, 0));
	launch_and_wait(exec);
	words_check(words, N, 12);
	v = 3;
	assert_success(cuGraphDestroy(child));
	assert_success(cuGraphCreate(&child, 0));
	assert_success(cuGraphAddKernelNode(&first, child, NULL, 0, &kernel));
	assert_success(cuGraphExecChildGraphNodeSetParams(exec, node, child));
	launch_and_wait(exec);
	words_check(words, N, 13);
	assert_success(cuGraphExecDestroy(exec));
	assert_success(cuGraphDestroy(child));
	assert_success(cuGraphDestroy(graph));
	assert_success(cuMemFree(words));
}

static void events_are_recorded_and_waited_for(void **state)
{
	CUgraphNode record, wait;
	CUevent event, other, got;
	CUgraphExec exec;
	CUgraph graph;

	assert_success(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	assert_success(cuEventCreate(&other, CU_EVENT_DISABLE_TIMING));
	assert_success(cuGraphCreate(&graph, 0));
	assert_success(cuGraphAddEventRecordNode(&record, graph, NULL, 0, other));
	assert_success(cuGraphAddEventWaitNode(&wait, graph, &record, 1, other));
	assert_success(cuGraphEventRecordNodeSetEvent(record, event));
	assert_success(cuGraphEventRecordNodeGetEvent(record, &got));
	assert_ptr_equal(got, event);
	assert_success(cuGraphEventWaitNodeSetEvent(wait, event));
	assert_success(cuGraphEventWaitNodeGetEvent(wait, &got));
	assert_ptr_equal(got, event);
	assert_success(cuGraphInstantiate(&exec, graph, 0));
	assert_success(cuGraphExecEventRecordNodeSetEvent(exec, record, other));
	assert_success(cuGraphExecEventWaitNodeSetEvent(exec, wait, other));
	launch_and_wait(exec);
	assert_success(cuEventSynchronize(other));
	assert_success(cuGraphExecDestroy(exec));
	assert_success(cuGraphDestroy(graph));
	assert_success(cuEventDestroy(event));
	assert_success(cuEventDestroy(other));
}

static void values_are_written_by_a_node(void **state)
{
	CUdeviceptr words = words_alloc(2, 0);
	CUstreamBatchMemOpParams op = {0};
	CUDA_BATCH_MEM_OP_NODE_PARAMS params = {fixture_context, 1, &op, 0}, got;
	CUgraphExec exec;
	CUgraphNode node;
	CUgraph graph;

	op.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	op.writeValue.address = words;
	op.writeValue.value = 3;
	assert_success(cuGraphCreate(&graph, 0));
	assert_success(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &params));
	assert_success(cuGraphBatchMemOpNodeGetParams(node, &got));
	assert_int_equal(got.count, 1);
	op.writeValue.value = 4;
	assert_success(cuGraphBatchMemOpNodeSetParams(node, &params));
	run_once(graph);
	words_check(words, 1, 4);
	assert_success(cuGraphInstantiate(&exec, graph, 0));
	op.writeValue.value = 5;
	assert_success(cuGraphExecBatchMemOpNodeSetParams(exec, node, &params));
	launch_and_wait(exec);
	words_check(words, 1, 5);
	assert_success(cuGraphExecDestroy(exec));
	assert_success(cuGraphDestroy(graph));
	assert_success(cuMemFree(words));
}

/* ---- executable graphs ---- */

static void an_executable_graph_is_changed(void **state)
{
	CUdeviceptr words = words_alloc(N, 0), other = words_alloc(N, 7);
	uint32_t n = N, v = 1;
	void *params[] = {&words, &n, &v};
	CUDA_KERNEL_NODE_PARAMS kernel = add_params(params);
	CUDA_MEMSET_NODE_PARAMS set = set_params(words, 10);
	CUDA_MEMCPY3D copy = copy_params(other, words);
	int calls = 0, others = 0;
	CUDA_HOST_NODE_PARAMS host = {note, &calls};
	CUgraphNode a, b, c, d;
	CUgraphExec exec;
	CUgraph graph;
	unsigned enabled;
	uint64_t flags;

	assert_success(cuGraphCreate(&graph, 0));
	assert_success(cuGraphAddMemsetNode(&a, graph, NULL, 0, &set, fixture_context));
	assert_success(cuGraphAddKernelNode(&b, graph, &a, 1, &kernel));
	assert_success(cuGraphAddMemcpyNode(&c, graph, &b, 1, &copy, fixture_context));
	assert_success(cuGraphAddHostNode(&d, graph, &c, 1, &host));
	assert_success(cuGraphInstantiate(&exec, graph, 0));
	assert_success(cuGraphExecGetFlags(exec, &flags));
	assert_int_equal(flags, 0);
	set.value = 20;
	assert_success(cuGraphExecMemsetNodeSetParams(exec, a, &set, fixture_context));
	v = 2;
	assert_success(cuGraphExecKernelNodeSetParams(exec, b, &kernel));
	assert_success(cuGraphExecMemcpyNodeSetParams(exec, c, &copy, fixture_context));
	host.userData = &others;
	assert_success(cuGraphExecHostNodeSetParams(exec, d, &host));
	launch_and_wait(exec);
	words_check(other, N, 22);
	assert_int_equal(calls, 0);
	assert_int_equal(others, 1);
	assert_success(cuGraphNodeSetEnabled(exec, b, 0));
	assert_success(cuGraphNodeGetEnabled(exec, b, &enabled));
	assert_false(enabled);
	launch_and_wait(exec);
	words_check(other, N, 20);
	assert_success(cuGraphExecDestroy(exec));
	assert_success(cuGraphDestroy(graph));
	assert_success(cuMemFree(words));
	assert_success(cuMemFree(other));
}

static void an_executable_graph_takes_over_another_graph(void **state)
{
	CUdeviceptr words = words_alloc(N, 0);
	CUDA_MEMSET_NODE_PARAMS set = set_params(words, 10);
	CUgraphExecUpdateResultInfo information;
	CUgraph graph, other;
	CUgraphNode node;
	CUgraphExec exec;

	assert_success(cuGraphCreate(&graph, 0));
	assert_success(cuGraphAddMemsetNode(&node, graph, NULL, 0, &set, fixture_context));
	assert_success(cuGraphInstantiate(&exec, graph, 0));
	set.value = 30;
	assert_success(cuGraphCreate(&other, 0));
	assert_success(cuGraphAddMemsetNode(&node, other, NULL, 0, &set, fixture_context));
	assert_success(cuGraphExecUpdate(exec, other, &information));
	assert_int_equal(information.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
	launch_and_wait(exec);
	words_check(words, N, 30);
	assert_success(cuGraphAddEmptyNode(&node, other, NULL, 0));
	assert_result(
		cuGraphExecUpdate(exec, other, &information), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
	assert_int_equal(information.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
	assert_success(cuGraphExecDestroy(exec));
	assert_success(cuGraphDestroy(graph));
	assert_success(cuGraphDestroy(other));
	assert_success(cuMemFree(words));
}

static void a_clone_is_a_graph_of_its_own(void **state)
{
	CUdeviceptr words = words_alloc(N, 0);
	CUDA_MEMSET_NODE_PARAMS set = set_params(words, 1);
	CUDA_GRAPH_INSTANTIATE_PARAMS wanted = {0};
	CUgraph graph, clone;
	CUgraphNode node, twin;
	CUgraphExec exec;

	assert_success(cuGraphCreate(&graph, 0));
	assert_success(cuGraphAddMemsetNode(&node, graph, NULL, 0, &set, fixture_context));
	assert_success(cuGraphClone(&clone, graph));
	assert_success(cuGraphNodeFindInClone(&twin, node, clone));
	assert_ptr_not_equal(twin, node);
	assert_result(cuGraphNodeFindInClone(&twin, twin, clone), CUDA_ERROR_INVALID_VALUE);
	set.value = 2;
	assert_success(cuGraphMemsetNodeSetParams(node, &set));
	assert_success(cuGraphInstantiateWithParams(&exec, clone, &wanted));
	assert_int_equal(wanted.result_out, CUDA_GRAPH_INSTANTIATE_SUCCESS);
	launch_and_wait(exec);
	words_check(words, N, 1);
	assert_success(cuGraphExecDestroy(exec));
	assert_success(cuGraphDestroy(clone));
	assert_success(cuGraphDestroy(graph));
	assert_success(cuMemFree(words));
}

static void objects_live_as_long_as_graphs_need_them(void **state)
{
	CUuserObject object;
	CUgraph graph;
	int destroyed = 0;

	assert_result(
		cuUserObjectCreate(&object, &destroyed, note, 1, 0), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuUserObjectCreate(
		&object, &destroyed, note, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
	assert_success(cuUserObjectRetain(object, 1));
	assert_success(cuGraphCreate(&graph, 0));
	assert_success(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
	assert_success(cuGraphRetainUserObject(graph, object, 1, 0));
	assert_success(cuGraphReleaseUserObject(graph, object, 1));
	assert_success(cuUserObjectRelease(object, 1));
	assert_int_equal(destroyed, 0);
	assert_success(cuGraphDestroy(graph));
	for (int i = 0; i < 100 && !*(volatile int *)&destroyed; i++)
		cuCtxSynchronize();
	assert_int_equal(destroyed, 1);
}

/* ---- capture ---- */

static void a_stream_is_captured(void **state)
{
	CUdeviceptr words = words_alloc(N, 1), other = words_alloc(N, 0);
	CUstreamCaptureStatus status;
	const CUgraphNode *nodes;
	CUgraph graph, captured;
	uint32_t n = N, v = 5;
	int calls = 0;
	CUstream stream;
	size_t count;
	uint64_t id;

	assert_success(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	assert_success(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	assert_success(cuMemsetD32Async(words, 100, N, stream));
	assert_success(launch_on(stream, "add", 1, N, &words, &n, &v));
	assert_success(cuMemcpyDtoDAsync(other, words, N * 4, stream));
	assert_success(cuLaunchHostFunc(stream, note, &calls));
	assert_success(cuStreamIsCapturing(stream, &status));
	assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
	assert_success(
		cuStreamGetCaptureInfo(stream, &status, &id, &captured, &nodes, NULL, &count));
	assert_int_equal(count, 1);
	assert_success(cuStreamEndCapture(stream, &graph));
	assert_ptr_equal(graph, captured);
	assert_success(cuStreamIsCapturing(stream, &status));
	assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
	words_check(words, N, 1); /* nothing has happened yet */
	assert_success(cuGraphGetNodes(graph, NULL, &count));
	assert_int_equal(count, 4);
	run_once(graph);
	words_check(other, N, 105);
	assert_int_equal(calls, 1);
	assert_success(cuGraphDestroy(graph));
	assert_success(cuStreamDestroy(stream));
	assert_success(cuMemFree(words));
	assert_success(cuMemFree(other));
}

static void capture_follows_events_to_other_streams(void **state)
{
	CUdeviceptr a = words_alloc(N, 1), b = words_alloc(N, 1), c = words_alloc(N, 10);
	uint32_t n = N, v = 5;
	CUstream first, second;
	CUevent fork, join;
	CUgraphNode roots[4];
	CUgraph graph;
	size_t count = 4;

	assert_success(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
	assert_success(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
	assert_success(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
	assert_success(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
	assert_success(cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_RELAXED));
	assert_success(cuMemsetD32Async(a, 10, N, first));
	assert_success(cuEventRecord(fork, first));
	assert_success(cuStreamWaitEvent(second, fork, 0));
	assert_success(cuMemcpyDtoDAsync(b, c, N * 4, second));
	assert_success(launch_on(first, "add", 1, N, &a, &n, &v));
	assert_success(cuEventRecord(join, second));
	assert_success(cuStreamWaitEvent(first, join, 0));
	assert_success(launch_on(first, "add", 1, N, &b, &n, &v));
	assert_success(cuStreamEndCapture(first, &graph));
	assert_success(cuGraphGetRootNodes(graph, roots, &count));
	assert_int_equal(count, 1);
	run_once(graph);
	words_check(a, N, 15);
	words_check(b, N, 15);
	assert_success(cuGraphDestroy(graph));
	assert_success(cuEventDestroy(fork));
	assert_success(cuEventDestroy(join));
	assert_success(cuStreamDestroy(first));
	assert_success(cuStreamDestroy(second));
	assert_success(cuMemFree(a));
	assert_success(cuMemFree(b));
	assert_success(cuMemFree(c));
}

static void what_cannot_be_captured_invalidates_the_capture(void **state)
{
	CUstreamCaptureStatus status;
	CUgraph graph = (CUgraph)1, empty;
	CUgraphExec exec;
	CUstream stream;
	CUevent event;

	assert_success(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	assert_result(cuStreamEndCapture(stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
	assert_result(cuStreamBeginCapture(CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_RELAXED),
		CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	assert_success(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	assert_result(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	assert_success(cuStreamIsCapturing(stream, &status));
	assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
	assert_result(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	assert_null(graph);
	assert_success(cuStreamSynchronize(stream));

	assert_success(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	assert_success(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	assert_success(cuEventRecord(event, stream));
	assert_result(cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
	assert_result(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

	assert_success(cuGraphCreate(&empty, 0));
	assert_success(cuGraphInstantiate(&exec, empty, 0));
	assert_success(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	assert_result(cuGraphLaunch(exec, stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	assert_result(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	assert_success(cuGraphExecDestroy(exec));
	assert_success(cuGraphDestroy(empty));
	assert_success(cuEventDestroy(event));
	assert_success(cuStreamDestroy(stream));
}

static void streams_must_be_joined_again(void **state)
{
	CUdeviceptr words = words_alloc(N, 1);
	CUstream first, second;
	CUevent event;
	CUgraph graph;

	assert_success(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
	assert_success(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
	assert_success(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	assert_success(cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_RELAXED));
	assert_success(cuEventRecord(event, first));
	assert_success(cuStreamWaitEvent(second, event, 0));
	assert_success(cuMemsetD32Async(words, 10, N, second));
	assert_result(cuStreamEndCapture(first, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
	assert_success(cuStreamSynchronize(second));
	words_check(words, N, 1);
	assert_success(cuEventDestroy(event));
	assert_success(cuStreamDestroy(first));
	assert_success(cuStreamDestroy(second));
	assert_success(cuMemFree(words));
}

/* A capture in which `second` adds to the words, joined or not, and is destroyed before the capture ends. */
static CUresult capture_and_destroy(CUdeviceptr words, bool join, bool join_first, CUgraph *graph)
{
	CUstream first, second;
	CUevent fork, joined;
	CUresult result;

	assert_success(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
	assert_success(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
	assert_success(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
	assert_success(cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING));
	assert_success(cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_RELAXED));
	assert_success(cuEventRecord(fork, first));
	assert_success(cuStreamWaitEvent(second, fork, 0));
	assert_success(cuMemsetD32Async(words, 10, N, second));
	assert_success(cuEventRecord(joined, second));
	if (join && join_first)
		assert_success(cuStreamWaitEvent(first, joined, 0));
	assert_success(cuStreamDestroy(second));
	if (join && !join_first)
		assert_success(cuStreamWaitEvent(first, joined, 0));
	assert_success(cuMemsetD32Async(words, 11, N / 2, first));
	result = cuStreamEndCapture(first, graph);
	assert_success(cuEventDestroy(fork));
	assert_success(cuEventDestroy(joined));
	assert_success(cuStreamDestroy(first));
	return result;
}

static void a_stream_that_was_joined_may_be_destroyed(void **state)
{
	CUdeviceptr words;
	CUgraphExec exec;
	CUgraph graph;

	for (int join_first = 0; join_first < 2; join_first++) {
		if (getenv("TEST_VENDOR") && !join_first)
			continue; /* it is not said what becomes of that */
		words = words_alloc(N, 1);
		assert_success(capture_and_destroy(words, true, join_first, &graph));
		assert_success(cuGraphInstantiate(&exec, graph, 0));
		assert_success(cuGraphLaunch(exec, NULL));
		words_check(words, N / 2, 11);
		words_check(words + N / 2 * sizeof(uint32_t), N / 2, 10);
		assert_success(cuGraphExecDestroy(exec));
		assert_success(cuGraphDestroy(graph));
		assert_success(cuMemFree(words));
	}
	if (getenv("TEST_VENDOR"))
		return;
	words = words_alloc(N, 1);
	assert_result(capture_and_destroy(words, false, false, &graph),
		CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
	assert_success(cuMemFree(words));
}

static void capture_goes_into_a_graph_of_the_program(void **state)
{
	CUdeviceptr words = words_alloc(N, 1);
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUgraph graph, same;
	uint32_t n = N, v = 1;
	CUgraphNode node;
	CUstream stream;

	assert_success(cuThreadExchangeStreamCaptureMode(&mode));
	assert_success(cuThreadExchangeStreamCaptureMode(&mode));
	assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
	assert_success(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	assert_success(cuGraphCreate(&graph, 0));
	assert_success(cuGraphAddEmptyNode(&node, graph, NULL, 0));
	assert_success(cuStreamBeginCaptureToGraph(
		stream, graph, &node, NULL, 1, CU_STREAM_CAPTURE_MODE_RELAXED));
	assert_success(cuMemsetD32Async(words, 50, N, stream));
	assert_success(launch_on(stream, "add", 1, N, &words, &n, &v));
	assert_success(cuGraphAddEmptyNode(&node, graph, NULL, 0));
	assert_success(cuStreamUpdateCaptureDependencies(
		stream, &node, NULL, 1, CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
	assert_success(launch_on(stream, "add", 1, N, &words, &n, &v));
	assert_success(cuStreamEndCapture(stream, &same));
	assert_ptr_equal(same, graph);
	run_once(graph);
	words_check(words, N, 52);
	assert_success(cuGraphDestroy(graph));
	assert_success(cuStreamDestroy(stream));
	assert_success(cuMemFree(words));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nodes_and_edges_are_told),
		TEST(a_graph_is_drawn),
		TEST(a_circle_cannot_be_instantiated),
		TEST(wrong_graphs_are_refused),
		TEST(nodes_run_in_the_order_of_their_dependencies),
		TEST(nodes_say_what_they_do_and_can_be_changed),
		TEST(a_child_graph_is_a_node),
		TEST(events_are_recorded_and_waited_for),
		TEST(values_are_written_by_a_node),
		TEST(an_executable_graph_is_changed),
		TEST(an_executable_graph_takes_over_another_graph),
		TEST(a_clone_is_a_graph_of_its_own),
		TEST(objects_live_as_long_as_graphs_need_them),
		TEST(a_stream_is_captured),
		TEST(capture_follows_events_to_other_streams),
		TEST(what_cannot_be_captured_invalidates_the_capture),
		TEST(streams_must_be_joined_again),
		TEST(a_stream_that_was_joined_may_be_destroyed),
		TEST(capture_goes_into_a_graph_of_the_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
