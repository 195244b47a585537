/* SPDX-License-Identifier: MIT
 *
 * Errors of graphs, their nodes, and user objects.
 */
#include "errors.h"

static void host_function(void *data)
{
}

/* Parameters of nodes with nothing wrong in them. */
static struct {
	CUDA_KERNEL_NODE_PARAMS kernel;
	CUDA_MEMCPY3D copy;
	CUDA_MEMSET_NODE_PARAMS fill;
	CUDA_HOST_NODE_PARAMS host;
	CUstreamBatchMemOpParams op;
	CUDA_BATCH_MEM_OP_NODE_PARAMS ops;
	CUDA_MEM_ALLOC_NODE_PARAMS alloc;
} good;

static void good_params(void)
{
	static void *params[] = {garbage, garbage, garbage};

	memset(&good, 0, sizeof good);
	good.kernel.func = alive.function, good.kernel.kernelParams = params;
	good.kernel.gridDimX = good.kernel.gridDimY = good.kernel.gridDimZ = 1;
	good.kernel.blockDimX = good.kernel.blockDimY = good.kernel.blockDimZ = 1;
	good.copy.srcMemoryType = good.copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	good.copy.srcDevice = alive.memory, good.copy.dstDevice = alive.memory + 64;
	good.copy.WidthInBytes = 16, good.copy.Height = good.copy.Depth = 1;
	good.fill.dst = alive.memory, good.fill.elementSize = 1;
	good.fill.width = 16, good.fill.height = 1;
	good.host.fn = host_function;
	good.op.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	good.op.writeValue.address = alive.memory;
	good.ops.ctx = alive.context, good.ops.count = 1, good.ops.paramArray = &good.op;
	good.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	good.alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	good.alloc.poolProps.location.id = fixture_device;
	good.alloc.bytesize = 16;
}

static void with_graph(CUgraph bad)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS params = {0};
	CUgraphExecUpdateResultInfo info;
	CUgraph graph;
	CUgraphNode node;
	CUgraphExec exec;
	size_t count;

	INVALID_VALUE(cuGraphAddKernelNode(&node, bad, NULL, 0, &good.kernel));
	INVALID_VALUE(cuGraphAddMemcpyNode(&node, bad, NULL, 0, &good.copy, alive.context));
	INVALID_VALUE(cuGraphAddMemsetNode(&node, bad, NULL, 0, &good.fill, alive.context));
	INVALID_VALUE(cuGraphAddHostNode(&node, bad, NULL, 0, &good.host));
	INVALID_VALUE(cuGraphAddChildGraphNode(&node, bad, NULL, 0, alive.graph));
	INVALID_VALUE(cuGraphAddChildGraphNode(&node, alive.graph, NULL, 0, bad));
	INVALID_VALUE(cuGraphAddEmptyNode(&node, bad, NULL, 0));
	INVALID_VALUE(cuGraphAddEventRecordNode(&node, bad, NULL, 0, alive.event));
	INVALID_VALUE(cuGraphAddEventWaitNode(&node, bad, NULL, 0, alive.event));
	INVALID_VALUE(cuGraphAddBatchMemOpNode(&node, bad, NULL, 0, &good.ops));
	INVALID_VALUE(cuGraphAddMemAllocNode(&node, bad, NULL, 0, &good.alloc));
	INVALID_VALUE(cuGraphAddMemFreeNode(&node, bad, NULL, 0, alive.memory));
	INVALID_VALUE(cuGraphClone(&graph, bad));
	INVALID_VALUE(cuGraphNodeFindInClone(&node, alive.node, bad));
	INVALID_VALUE(cuGraphGetNodes(bad, NULL, &count));
	INVALID_VALUE(cuGraphGetRootNodes(bad, NULL, &count));
	INVALID_VALUE(cuGraphGetEdges(bad, NULL, NULL, NULL, &count));
	INVALID_VALUE(cuGraphAddDependencies(bad, &alive.node, &alive.node, NULL, 1));
	INVALID_VALUE(cuGraphRemoveDependencies(bad, &alive.node, &alive.node, NULL, 1));
	INVALID_VALUE(cuGraphInstantiate(&exec, bad, 0));
	INVALID_VALUE(cuGraphInstantiate_v2(&exec, bad, NULL, NULL, 0));
	INVALID_VALUE(cuGraphInstantiateWithFlags(&exec, bad, 0));
	INVALID_VALUE(cuGraphInstantiateWithParams(&exec, bad, &params));
	INVALID_VALUE(cuGraphExecUpdate(alive.exec, bad, &info));
	INVALID_VALUE(cuGraphRetainUserObject(bad, alive.object, 1, 0));
	INVALID_VALUE(cuGraphReleaseUserObject(bad, alive.object, 1));
	INVALID_VALUE(cuGraphDestroy(bad));
}

static void of_graph_handles(void **state)
{
	good_params();
	with_graph(NULL);
	OURS(with_graph(GARBAGE(CUgraph)));
	OURS(with_graph(gone.graph));
	OURS(with_graph((CUgraph)(void *)alive.node));
}

/* No node, or one of another type. */
static void with_node(CUgraphNode bad)
{
	CUlaunchAttributeValue value = {0};
	CUgraph graph;
	CUevent event;

	INVALID_VALUE(cuGraphKernelNodeGetParams(bad, &good.kernel));
	INVALID_VALUE(cuGraphKernelNodeSetParams(bad, &good.kernel));
	INVALID_VALUE(cuGraphKernelNodeCopyAttributes(bad, bad));
	INVALID_VALUE(cuGraphKernelNodeGetAttribute(bad, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value));
	INVALID_VALUE(cuGraphKernelNodeSetAttribute(bad, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value));
	INVALID_VALUE(cuGraphMemcpyNodeGetParams(bad, &good.copy));
	INVALID_VALUE(cuGraphMemcpyNodeSetParams(bad, &good.copy));
	INVALID_VALUE(cuGraphMemsetNodeGetParams(bad, &good.fill));
	INVALID_VALUE(cuGraphMemsetNodeSetParams(bad, &good.fill));
	INVALID_VALUE(cuGraphHostNodeGetParams(bad, &good.host));
	INVALID_VALUE(cuGraphHostNodeSetParams(bad, &good.host));
	INVALID_VALUE(cuGraphChildGraphNodeGetGraph(bad, &graph));
	INVALID_VALUE(cuGraphEventRecordNodeGetEvent(bad, &event));
	INVALID_VALUE(cuGraphEventRecordNodeSetEvent(bad, alive.event));
	INVALID_VALUE(cuGraphEventWaitNodeGetEvent(bad, &event));
	INVALID_VALUE(cuGraphEventWaitNodeSetEvent(bad, alive.event));
	INVALID_VALUE(cuGraphBatchMemOpNodeGetParams(bad, &good.ops));
	INVALID_VALUE(cuGraphBatchMemOpNodeSetParams(bad, &good.ops));
	INVALID_VALUE(cuGraphMemAllocNodeGetParams(bad, &good.alloc));
	INVALID_VALUE(cuGraphMemFreeNodeGetParams(bad, &(CUdeviceptr){0}));
	INVALID_VALUE(cuGraphExecKernelNodeSetParams(alive.exec, bad, &good.kernel));
	INVALID_VALUE(cuGraphExecMemcpyNodeSetParams(alive.exec, bad, &good.copy, alive.context));
	INVALID_VALUE(cuGraphExecMemsetNodeSetParams(alive.exec, bad, &good.fill, alive.context));
	INVALID_VALUE(cuGraphExecHostNodeSetParams(alive.exec, bad, &good.host));
	INVALID_VALUE(cuGraphExecChildGraphNodeSetParams(alive.exec, bad, alive.graph));
	INVALID_VALUE(cuGraphExecEventRecordNodeSetEvent(alive.exec, bad, alive.event));
	INVALID_VALUE(cuGraphExecEventWaitNodeSetEvent(alive.exec, bad, alive.event));
	INVALID_VALUE(cuGraphExecBatchMemOpNodeSetParams(alive.exec, bad, &good.ops));
	INVALID_VALUE(cuGraphNodeSetEnabled(alive.exec, bad, 1));
	INVALID_VALUE(cuGraphNodeGetEnabled(alive.exec, bad, &(unsigned){0}));
}

static void with_no_node(CUgraphNode bad)
{
	CUgraphNodeType type;
	CUgraphNode node;
	size_t count;

	INVALID_VALUE(cuGraphNodeGetType(bad, &type));
	INVALID_VALUE(cuGraphNodeFindInClone(&node, bad, alive.graph));
	INVALID_VALUE(cuGraphNodeGetDependencies(bad, NULL, NULL, &count));
	INVALID_VALUE(cuGraphNodeGetDependentNodes(bad, NULL, NULL, &count));
	INVALID_VALUE(cuGraphDestroyNode(bad));
	INVALID_VALUE(cuGraphAddEmptyNode(&node, alive.graph, &bad, 1));
	INVALID_VALUE(cuGraphAddDependencies(alive.graph, &bad, &alive.node, NULL, 1));
	INVALID_VALUE(cuGraphAddDependencies(alive.graph, &alive.node, &bad, NULL, 1));
	INVALID_VALUE(cuGraphRemoveDependencies(alive.graph, &bad, &alive.node, NULL, 1));
	with_node(bad);
}

static void of_node_handles(void **state)
{
	good_params();
	with_no_node(NULL);
	OURS(with_no_node(GARBAGE(CUgraphNode)));
	OURS(with_no_node(gone.node));
	OURS(with_no_node((CUgraphNode)(void *)alive.graph));
	with_node(alive.node); /* an empty one */
}

static void with_exec(CUgraphExec bad)
{
	CUgraphExecUpdateResultInfo info;
	CUgraphNode node = alive.node;
	uint64_t flags;

	INVALID_VALUE(cuGraphExecKernelNodeSetParams(bad, node, &good.kernel));
	INVALID_VALUE(cuGraphExecMemcpyNodeSetParams(bad, node, &good.copy, alive.context));
	INVALID_VALUE(cuGraphExecMemsetNodeSetParams(bad, node, &good.fill, alive.context));
	INVALID_VALUE(cuGraphExecHostNodeSetParams(bad, node, &good.host));
	INVALID_VALUE(cuGraphExecChildGraphNodeSetParams(bad, node, alive.graph));
	INVALID_VALUE(cuGraphExecEventRecordNodeSetEvent(bad, node, alive.event));
	INVALID_VALUE(cuGraphExecEventWaitNodeSetEvent(bad, node, alive.event));
	INVALID_VALUE(cuGraphExecBatchMemOpNodeSetParams(bad, node, &good.ops));
	INVALID_VALUE(cuGraphNodeSetEnabled(bad, node, 1));
	INVALID_VALUE(cuGraphNodeGetEnabled(bad, node, &(unsigned){0}));
	INVALID_VALUE(cuGraphExecGetFlags(bad, &flags));
	INVALID_VALUE(cuGraphExecUpdate(bad, alive.graph, &info));
	INVALID_VALUE(cuGraphUpload(bad, alive.stream));
	OURS(INVALID_VALUE(cuGraphDebugDotPrint(gone.graph, "/dev/null", 0)));
	INVALID_VALUE(cuGraphDebugDotPrint(alive.graph, NULL, 0));
	INVALID_VALUE(cuGraphDebugDotPrint(alive.graph, "/dev/null", 1u << 30));
	REFUSED(CUDA_ERROR_OPERATING_SYSTEM,
		cuGraphDebugDotPrint(alive.graph, "/no folder/file", 0));
	INVALID_VALUE(cuGraphLaunch(bad, alive.stream));
	INVALID_VALUE(cuGraphExecDestroy(bad));
}

static void of_exec_handles(void **state)
{
	good_params();
	with_exec(NULL);
	OURS(with_exec(GARBAGE(CUgraphExec)));
	OURS(with_exec(gone.exec));
	OURS(with_exec((CUgraphExec)(void *)alive.graph));
	INVALID_HANDLE(cuGraphLaunch(alive.exec, GARBAGE(CUstream)));
	INVALID_HANDLE(cuGraphLaunch(alive.exec, gone.stream));
	INVALID_HANDLE(cuGraphUpload(alive.exec, gone.stream));
	INVALID_VALUE(cuGraphExecGetFlags(alive.exec, NULL));
	assert_success(cuGraphExecUpdate(alive.exec, alive.graph, NULL));
}

static void of_graphs(void **state)
{
	CUgraph graph = alive.graph, new_graph;
	CUgraphExec exec;
	CUgraphNode node;
	size_t count = 1;

	good_params();
	INVALID_VALUE(cuGraphCreate(NULL, 0));
	INVALID_VALUE(cuGraphCreate(&new_graph, 1));
	INVALID_VALUE(cuGraphClone(NULL, graph));
	INVALID_VALUE(cuGraphNodeFindInClone(NULL, alive.node, graph));
	INVALID_VALUE(cuGraphNodeFindInClone(&node, alive.node, graph)); /* no clone */
	INVALID_VALUE(cuGraphNodeGetType(alive.node, NULL));
	INVALID_VALUE(cuGraphGetNodes(graph, &node, NULL));
	INVALID_VALUE(cuGraphGetRootNodes(graph, &node, NULL));
	INVALID_VALUE(cuGraphGetEdges(graph, NULL, NULL, NULL, NULL));
	INVALID_VALUE(cuGraphGetEdges(graph, &node, NULL, NULL, &count));
	INVALID_VALUE(cuGraphNodeGetDependencies(alive.node, &node, NULL, NULL));
	INVALID_VALUE(cuGraphNodeGetDependentNodes(alive.node, &node, NULL, NULL));
	INVALID_VALUE(cuGraphAddDependencies(graph, NULL, &alive.node, NULL, 1));
	INVALID_VALUE(cuGraphAddDependencies(graph, &alive.node, &alive.node, NULL, 1));
	INVALID_VALUE(cuGraphRemoveDependencies(graph, NULL, &alive.node, NULL, 1));
	INVALID_VALUE(cuGraphRemoveDependencies(graph, &alive.node, &alive.node, NULL, 1));
	INVALID_VALUE(cuGraphInstantiate(NULL, graph, 0));
	INVALID_VALUE(cuGraphInstantiateWithFlags(NULL, graph, 0));
	INVALID_VALUE(cuGraphInstantiateWithFlags(&exec, graph, 0x8000));
	INVALID_VALUE(cuGraphInstantiateWithParams(&exec, graph, NULL));
	INVALID_VALUE(
		cuGraphInstantiateWithParams(NULL, graph, &(CUDA_GRAPH_INSTANTIATE_PARAMS){0}));
}

static void of_new_nodes(void **state)
{
	CUcontext context = alive.context;
	CUgraph graph = alive.graph;
	CUgraphNode node;

	good_params();
	INVALID_VALUE(cuGraphAddKernelNode(NULL, graph, NULL, 0, &good.kernel));
	INVALID_VALUE(cuGraphAddKernelNode(&node, graph, NULL, 1, &good.kernel));
	INVALID_VALUE(cuGraphAddKernelNode(&node, graph, NULL, 0, NULL));
	INVALID_VALUE(cuGraphAddMemcpyNode(NULL, graph, NULL, 0, &good.copy, context));
	INVALID_VALUE(cuGraphAddMemcpyNode(&node, graph, NULL, 0, NULL, context));
	INVALID_VALUE(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &good.copy, gone.context));
	INVALID_VALUE(cuGraphAddMemsetNode(NULL, graph, NULL, 0, &good.fill, context));
	INVALID_VALUE(cuGraphAddMemsetNode(&node, graph, NULL, 0, NULL, context));
	INVALID_VALUE(cuGraphAddMemsetNode(&node, graph, NULL, 0, &good.fill, gone.context));
	INVALID_VALUE(cuGraphAddHostNode(NULL, graph, NULL, 0, &good.host));
	INVALID_VALUE(cuGraphAddHostNode(&node, graph, NULL, 0, NULL));
	INVALID_VALUE(cuGraphAddChildGraphNode(NULL, graph, NULL, 0, graph));
	INVALID_VALUE(cuGraphAddEmptyNode(NULL, graph, NULL, 0));
	INVALID_VALUE(cuGraphAddEmptyNode(&node, graph, NULL, 1));
	INVALID_VALUE(cuGraphAddEventRecordNode(NULL, graph, NULL, 0, alive.event));
	INVALID_VALUE(cuGraphAddEventRecordNode(&node, graph, NULL, 0, NULL));
	INVALID_VALUE(cuGraphAddEventRecordNode(&node, graph, NULL, 0, gone.event));
	INVALID_VALUE(cuGraphAddEventWaitNode(NULL, graph, NULL, 0, alive.event));
	INVALID_VALUE(cuGraphAddEventWaitNode(&node, graph, NULL, 0, NULL));
	INVALID_VALUE(cuGraphAddEventWaitNode(&node, graph, NULL, 0, gone.event));
	INVALID_VALUE(cuGraphAddBatchMemOpNode(NULL, graph, NULL, 0, &good.ops));
	INVALID_VALUE(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, NULL));
	good.kernel.func = gone.function;
	INVALID_HANDLE(cuGraphAddKernelNode(&node, graph, NULL, 0, &good.kernel));
	good.host.fn = NULL;
	INVALID_VALUE(cuGraphAddHostNode(&node, graph, NULL, 0, &good.host));
	good.fill.elementSize = 3;
	INVALID_VALUE(cuGraphAddMemsetNode(&node, graph, NULL, 0, &good.fill, context));
	good.ops.paramArray = NULL;
	INVALID_VALUE(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &good.ops));
}

/* Nodes of the right type, and nothing for their parameters. */
static void of_parameters(void **state)
{
	CUgraphNode kernel, copy, fill, host, child, record, wait, ops;
	CUgraph graph, inner = alive.graph;
	CUlaunchAttributeValue value = {0};
	CUcontext context = alive.context;
	CUgraphExec exec;

	good_params();
	assert_success(cuGraphCreate(&graph, 0));
	assert_success(cuGraphAddKernelNode(&kernel, graph, NULL, 0, &good.kernel));
	assert_success(cuGraphAddMemcpyNode(&copy, graph, NULL, 0, &good.copy, context));
	assert_success(cuGraphAddMemsetNode(&fill, graph, NULL, 0, &good.fill, context));
	assert_success(cuGraphAddHostNode(&host, graph, NULL, 0, &good.host));
	assert_success(cuGraphAddChildGraphNode(&child, graph, NULL, 0, inner));
	assert_success(cuGraphAddEventRecordNode(&record, graph, NULL, 0, alive.event));
	assert_success(cuGraphAddEventWaitNode(&wait, graph, NULL, 0, alive.event));
	assert_success(cuGraphAddBatchMemOpNode(&ops, graph, NULL, 0, &good.ops));
	assert_success(cuGraphInstantiate(&exec, graph, 0));
	INVALID_VALUE(cuGraphKernelNodeGetParams(kernel, NULL));
	INVALID_VALUE(cuGraphKernelNodeSetParams(kernel, NULL));
	INVALID_VALUE(cuGraphKernelNodeCopyAttributes(kernel, copy));
	INVALID_VALUE(cuGraphKernelNodeCopyAttributes(copy, kernel));
	CRASHES(CUDA_ERROR_INVALID_VALUE,
		cuGraphKernelNodeGetAttribute(kernel, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, NULL));
	INVALID_VALUE(cuGraphKernelNodeGetAttribute(kernel, 999, &value));
	CRASHES(CUDA_ERROR_INVALID_VALUE,
		cuGraphKernelNodeSetAttribute(kernel, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, NULL));
	INVALID_VALUE(cuGraphKernelNodeSetAttribute(kernel, 999, &value));
	INVALID_VALUE(cuGraphMemcpyNodeGetParams(copy, NULL));
	INVALID_VALUE(cuGraphMemcpyNodeSetParams(copy, NULL));
	INVALID_VALUE(cuGraphMemsetNodeGetParams(fill, NULL));
	INVALID_VALUE(cuGraphMemsetNodeSetParams(fill, NULL));
	INVALID_VALUE(cuGraphHostNodeGetParams(host, NULL));
	INVALID_VALUE(cuGraphHostNodeSetParams(host, NULL));
	INVALID_VALUE(cuGraphChildGraphNodeGetGraph(child, NULL));
	INVALID_VALUE(cuGraphEventRecordNodeGetEvent(record, NULL));
	INVALID_VALUE(cuGraphEventRecordNodeSetEvent(record, NULL));
	INVALID_VALUE(cuGraphEventRecordNodeSetEvent(record, gone.event));
	INVALID_VALUE(cuGraphEventWaitNodeGetEvent(wait, NULL));
	INVALID_VALUE(cuGraphEventWaitNodeSetEvent(wait, NULL));
	INVALID_VALUE(cuGraphEventWaitNodeSetEvent(wait, gone.event));
	INVALID_VALUE(cuGraphBatchMemOpNodeGetParams(ops, NULL));
	INVALID_VALUE(cuGraphBatchMemOpNodeSetParams(ops, NULL));
	INVALID_VALUE(cuGraphExecKernelNodeSetParams(exec, kernel, NULL));
	INVALID_VALUE(cuGraphExecMemcpyNodeSetParams(exec, copy, NULL, context));
	INVALID_VALUE(cuGraphExecMemcpyNodeSetParams(exec, copy, &good.copy, gone.context));
	INVALID_VALUE(cuGraphExecMemsetNodeSetParams(exec, fill, NULL, context));
	INVALID_VALUE(cuGraphExecMemsetNodeSetParams(exec, fill, &good.fill, gone.context));
	INVALID_VALUE(cuGraphExecHostNodeSetParams(exec, host, NULL));
	INVALID_VALUE(cuGraphExecChildGraphNodeSetParams(exec, child, NULL));
	INVALID_VALUE(cuGraphExecChildGraphNodeSetParams(exec, child, gone.graph));
	INVALID_VALUE(cuGraphExecEventRecordNodeSetEvent(exec, record, gone.event));
	INVALID_VALUE(cuGraphExecEventWaitNodeSetEvent(exec, wait, gone.event));
	INVALID_VALUE(cuGraphExecBatchMemOpNodeSetParams(exec, ops, NULL));
	INVALID_VALUE(cuGraphNodeGetEnabled(exec, kernel, NULL));
	INVALID_VALUE(cuGraphNodeSetEnabled(exec, host, 0)); /* only work of the device */
	assert_success(cuGraphExecDestroy(exec));
	INVALID_VALUE(cuGraphLaunch(exec, alive.stream));
	assert_success(cuGraphDestroy(graph));
	OURS(INVALID_VALUE(cuGraphKernelNodeGetParams(kernel, &good.kernel))); /* it went along */
}

static void of_new_memory(CUDA_MEM_ALLOC_NODE_PARAMS wrong, CUresult expected)
{
	CUgraphNode node;

	REFUSED(expected, cuGraphAddMemAllocNode(&node, alive.graph, NULL, 0, &wrong));
}

static void of_memory(void **state)
{
	CUDA_MEM_ALLOC_NODE_PARAMS wrong;
	CUgraphNode alloc, release, node;
	CUdeviceptr memory;
	uint64_t value = 0;
	CUgraphExec exec;
	CUgraph graph;

	good_params();
	assert_success(cuGraphCreate(&graph, 0));
	INVALID_VALUE(cuGraphAddMemAllocNode(NULL, graph, NULL, 0, &good.alloc));
	INVALID_VALUE(cuGraphAddMemAllocNode(&node, graph, NULL, 0, NULL));
	INVALID_VALUE(cuGraphAddMemAllocNode(&node, graph, NULL, 1, &good.alloc));
	wrong = good.alloc, wrong.bytesize = 0;
	of_new_memory(wrong, CUDA_ERROR_INVALID_VALUE);
	wrong = good.alloc, wrong.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_INVALID;
	of_new_memory(wrong, CUDA_ERROR_INVALID_VALUE);
	wrong = good.alloc, wrong.accessDescCount = 1;
	CRASHES(CUDA_ERROR_INVALID_VALUE,
		cuGraphAddMemAllocNode(&node, alive.graph, NULL, 0, &wrong));
	wrong = good.alloc, wrong.poolProps.location.id = NO_DEVICE;
	of_new_memory(wrong, CUDA_ERROR_INVALID_VALUE);
	wrong = good.alloc, wrong.bytesize = (size_t)1 << 60;
	of_new_memory(wrong, CUDA_ERROR_OUT_OF_MEMORY);
	assert_success(cuGraphAddMemAllocNode(&alloc, graph, NULL, 0, &good.alloc));
	memory = good.alloc.dptr;
	INVALID_VALUE(cuGraphMemAllocNodeGetParams(alloc, NULL));
	INVALID_VALUE(cuGraphMemFreeNodeGetParams(alloc, &memory));
	INVALID_VALUE(cuGraphAddMemFreeNode(NULL, graph, &alloc, 1, memory));
	INVALID_VALUE(cuGraphAddMemFreeNode(&node, graph, &alloc, 1, 0));
	INVALID_VALUE(
		cuGraphAddMemFreeNode(&node, graph, &alloc, 1, alive.memory)); /* no graph's */
	INVALID_VALUE(cuMemFree(memory)); /* no launch has allocated it */
	INVALID_VALUE(cuMemFreeAsync(memory, alive.stream));
	assert_success(cuGraphAddMemFreeNode(&release, graph, &alloc, 1, memory));
	INVALID_VALUE(cuGraphAddMemFreeNode(&node, graph, &release, 1, memory)); /* a second time */
	INVALID_VALUE(cuGraphMemFreeNodeGetParams(release, NULL));
	INVALID_VALUE(cuGraphMemAllocNodeGetParams(release, &good.alloc));
	assert_success(cuGraphInstantiate(&exec, graph, 0));
	INVALID_VALUE(cuGraphNodeSetEnabled(exec, alloc, 0));
	assert_success(cuGraphExecDestroy(exec));
	assert_success(cuGraphDestroy(graph));

	INVALID_DEVICE(cuDeviceGraphMemTrim(NO_DEVICE));
	INVALID_DEVICE(cuDeviceGetGraphMemAttribute(
		NO_DEVICE, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &value));
	INVALID_VALUE(cuDeviceGetGraphMemAttribute(fixture_device, 9, &value));
	INVALID_VALUE(cuDeviceGetGraphMemAttribute(
		fixture_device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, NULL));
	INVALID_DEVICE(
		cuDeviceSetGraphMemAttribute(NO_DEVICE, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &value));
	INVALID_VALUE(cuDeviceSetGraphMemAttribute(fixture_device, 9, &value));
	INVALID_VALUE(cuDeviceSetGraphMemAttribute(
		fixture_device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &value));
	INVALID_VALUE(cuDeviceSetGraphMemAttribute(
		fixture_device, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, NULL));
}

static void of_conditional_nodes(void **state)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
	CUgraphConditionalHandle handle;
	CUgraphNode node;

	good_params();
	INVALID_VALUE(cuGraphConditionalHandleCreate(NULL, alive.graph, NULL, 0, 0));
	INVALID_VALUE(cuGraphConditionalHandleCreate(&handle, NULL, NULL, 0, 0));
	INVALID_VALUE(cuGraphConditionalHandleCreate(&handle, alive.graph, NULL, 0, 2));
	OURS(INVALID_VALUE(cuGraphConditionalHandleCreate(&handle, gone.graph, NULL, 0, 0)));
	params.conditional.size = 1;
	OURS(INVALID_VALUE(cuGraphAddNode(&node, alive.graph, NULL, NULL, 0, &params)));
}

/* Of graphs that kernels may launch. */
static void of_graphs_for_the_device(void **state)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS params = {.flags = CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH};
	CUDA_MEMCPY3D pageable = {.srcMemoryType = CU_MEMORYTYPE_HOST,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcHost = garbage,
		.dstDevice = alive.memory,
		.WidthInBytes = 16,
		.Height = 1,
		.Depth = 1};
	CUgraphExec exec;
	CUgraphNode node, misfit;
	CUgraph graph;

	good_params();
	INVALID_VALUE(cuGraphInstantiateWithFlags(&exec, NULL, params.flags));
	INVALID_VALUE(cuGraphInstantiateWithFlags(&exec, alive.graph,
		params.flags | CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
	assert_success(cuGraphCreate(&graph, 0));
	OURS(INVALID_VALUE(cuGraphInstantiateWithParams(&exec, graph, &params))); /* of nothing */
	assert_success(cuGraphAddKernelNode(&node, graph, NULL, 0, &good.kernel));
	assert_success(cuGraphAddHostNode(&misfit, graph, NULL, 0, &good.host));
	OURS(INVALID_VALUE(cuGraphInstantiateWithParams(&exec, graph, &params)));
	OURS(assert_int_equal(
		params.result_out, CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED));
	OURS(assert_ptr_equal(params.hErrNode_out, misfit));
	assert_success(cuGraphDestroyNode(misfit));
	assert_success(cuGraphAddMemcpyNode(&misfit, graph, NULL, 0, &pageable, alive.context));
	OURS(INVALID_VALUE(cuGraphInstantiateWithParams(&exec, graph, &params)));
	OURS(assert_ptr_equal(params.hErrNode_out, misfit));
	assert_success(cuGraphDestroy(graph));
}

static void of_any_nodes(void **state)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
	CUgraphEdgeData edge = {0};
	CUgraphNode node;

	good_params();
	INVALID_VALUE(cuGraphAddNode(NULL, alive.graph, NULL, NULL, 0, &params));
	INVALID_VALUE(cuGraphAddNode(&node, NULL, NULL, NULL, 0, &params));
	INVALID_VALUE(cuGraphAddNode(&node, alive.graph, NULL, NULL, 1, &params));
	INVALID_VALUE(cuGraphAddNode(&node, alive.graph, NULL, NULL, 0, NULL));
	OURS(INVALID_VALUE(cuGraphAddNode(&node, gone.graph, NULL, NULL, 0, &params)));
	params.type = (CUgraphNodeType)99;
	INVALID_VALUE(cuGraphAddNode(&node, alive.graph, &alive.node, &edge, 1, &params));
	params.type = CU_GRAPH_NODE_TYPE_KERNEL;
	INVALID_VALUE(cuGraphNodeSetParams(alive.node, &params)); /* an empty one */
	INVALID_VALUE(cuGraphNodeSetParams(NULL, &params));
	INVALID_VALUE(cuGraphNodeSetParams(alive.node, NULL));
	INVALID_VALUE(cuGraphExecNodeSetParams(alive.exec, alive.node, &params));
	INVALID_VALUE(cuGraphExecNodeSetParams(NULL, alive.node, &params));
	INVALID_VALUE(cuGraphExecNodeSetParams(alive.exec, NULL, &params));
	INVALID_VALUE(cuGraphExecNodeSetParams(alive.exec, alive.node, NULL));
	OURS(INVALID_VALUE(cuGraphExecNodeSetParams(gone.exec, alive.node, &params)));
}

static void with_object(CUuserObject bad)
{
	INVALID_VALUE(cuUserObjectRetain(bad, 1));
	INVALID_VALUE(cuUserObjectRelease(bad, 1));
	INVALID_VALUE(cuGraphRetainUserObject(alive.graph, bad, 1, 0));
	INVALID_VALUE(cuGraphReleaseUserObject(alive.graph, bad, 1));
}

static void of_user_objects(void **state)
{
	unsigned no_sync = CU_USER_OBJECT_NO_DESTRUCTOR_SYNC;
	CUuserObject object;

	with_object(NULL);
	OURS(with_object(GARBAGE(CUuserObject)));
	OURS(with_object(gone.object));
	OURS(with_object((CUuserObject)(void *)alive.graph));
	INVALID_VALUE(cuUserObjectCreate(NULL, garbage, host_function, 1, no_sync));
	INVALID_VALUE(cuUserObjectCreate(&object, garbage, NULL, 1, no_sync));
	INVALID_VALUE(cuUserObjectCreate(&object, garbage, host_function, 0, no_sync));
	INVALID_VALUE(cuUserObjectCreate(&object, garbage, host_function, 1, 0));
	INVALID_VALUE(cuUserObjectRetain(alive.object, 0));
	INVALID_VALUE(cuUserObjectRelease(alive.object, 0));
	INVALID_VALUE(cuGraphRetainUserObject(alive.graph, alive.object, 0, 0));
	INVALID_VALUE(cuGraphRetainUserObject(alive.graph, alive.object, 1, 0x80));
	CRASHES(CUDA_ERROR_INVALID_VALUE,
		cuGraphReleaseUserObject(alive.graph, alive.object, 1)); /* not its */
}

int errors_of_graphs(void)
{
	const struct CMUnitTest tests[] = {
		ERRORS_TEST(of_graph_handles),
		ERRORS_TEST(of_node_handles),
		ERRORS_TEST(of_exec_handles),
		ERRORS_TEST(of_graphs),
		ERRORS_TEST(of_new_nodes),
		ERRORS_TEST(of_parameters),
		ERRORS_TEST(of_memory),
		ERRORS_TEST(of_conditional_nodes),
		ERRORS_TEST(of_graphs_for_the_device),
		ERRORS_TEST(of_any_nodes),
		ERRORS_TEST(of_user_objects),
	};

	return ERRORS_RUN(tests);
}
