/* SPDX-License-Identifier: MIT
 *
 * Graphs whose nodes are on several devices: captured from streams of several, made by calls, and what of an executable
 * one may change (peer.py).
 */
#include "fixture.h"

#define SIDES 2
#define WORDS 1000u

static struct side {
	CUcontext context;
	CUmodule module;
	CUfunction add;
	CUstream stream;
	CUevent event;
	CUdeviceptr words, ghost;
} sides[SIDES];

static void use(int i)
{
	assert_success(cuCtxSetCurrent(sides[i].context));
}

static int setup(void **state)
{
	int count;

	assert_success(cuInit(0));
	assert_success(cuDeviceGetCount(&count));
	if (count < SIDES)
		exit(77);
	for (int i = 0; i < SIDES; i++) {
		struct side *side = &sides[i];
		fixture_device = i;
		side->context = fixture_context_create();
		assert_success(cuModuleLoadData(&side->module, kernels_ptx));
		assert_success(cuModuleGetFunction(&side->add, side->module, "add"));
		assert_success(cuStreamCreate(&side->stream, CU_STREAM_NON_BLOCKING));
		assert_success(cuEventCreate(&side->event, CU_EVENT_DISABLE_TIMING));
		side->words = words_alloc(WORDS, 0);
		side->ghost = words_alloc(WORDS, 0);
		assert_success(cuCtxSynchronize());
	}
	return 0;
}

static int teardown(void **state)
{
	for (int i = 0; i < SIDES; i++)
		assert_success(cuCtxDestroy(sides[i].context));
	return 0;
}

static void check(int side, CUdeviceptr words, uint32_t value)
{
	use(side);
	words_check(words, WORDS, value);
}

/* Of the side that is used. */
static void launch_add(int i, CUdeviceptr words, uint32_t value)
{
	uint32_t count = WORDS;

	assert_success(cuLaunchKernel(sides[i].add, (WORDS + 127) / 128, 1, 1, 128, 1, 1, 0,
		sides[i].stream, (void *[]){&words, &count, &value}, NULL));
}

/* What comes next on side `later` comes behind what is on side `earlier`. Leaves the later one in use. */
static void cross(int later, int earlier)
{
	use(earlier);
	assert_success(cuEventRecord(sides[earlier].event, sides[earlier].stream));
	use(later);
	assert_success(cuStreamWaitEvent(sides[later].stream, sides[earlier].event, 0));
}

static void begin(int side)
{
	use(side);
	assert_success(cuStreamBeginCapture(sides[side].stream, CU_STREAM_CAPTURE_MODE_RELAXED));
}

static CUgraph end(int side)
{
	CUgraph graph;

	use(side);
	assert_success(cuStreamEndCapture(sides[side].stream, &graph));
	return graph;
}

static CUgraphExec instantiate(CUgraph graph)
{
	CUgraphExec exec;

	assert_success(cuGraphInstantiateWithFlags(&exec, graph, 0));
	return exec;
}

static void destroy(CUgraphExec exec, CUgraph graph)
{
	assert_success(cuGraphExecDestroy(exec));
	assert_success(cuGraphDestroy(graph));
}

/* A kernel here, one there on what this one made, and one here on what that made: 7 more in all. */
static CUgraph capture_round(void)
{
	begin(0);
	launch_add(0, sides[0].words, 1);
	cross(1, 0);
	assert_success(cuMemcpyAsync(sides[1].words, sides[0].words, WORDS * 4, sides[1].stream));
	launch_add(1, sides[1].words, 2);
	cross(0, 1);
	assert_success(cuMemcpyPeerAsync(sides[0].words, sides[0].context, sides[1].words,
		sides[1].context, WORDS * 4, sides[0].stream));
	launch_add(0, sides[0].words, 4);
	return end(0);
}

static void test_capture(void **state)
{
	CUgraph graph = capture_round();
	CUgraphExec exec = instantiate(graph);

	for (int i = 0; i < 3; i++) {
		use(0);
		assert_success(cuGraphLaunch(exec, sides[0].stream));
	}
	assert_success(cuStreamSynchronize(sides[0].stream));
	check(0, sides[0].words, 21);
	check(1, sides[1].words, 17);
	destroy(exec, graph);
}

/* Launches follow each other on streams of whatever device, and in whatever context is current. */
static void test_launched_anywhere(void **state)
{
	CUgraph graph = capture_round();
	CUgraphExec exec = instantiate(graph);

	for (int i = 0; i < 6; i++) {
		use(i / 2 % 2);
		assert_success(cuGraphLaunch(exec, sides[i % 2].stream));
	}
	assert_success(cuStreamSynchronize(sides[1].stream));
	check(0, sides[0].words, 42);
	destroy(exec, graph);
}

/* Each side adds to its own, and then has what the other has. */
static void test_halo_exchange(void **state)
{
	CUgraphExec exec;
	CUgraph graph;

	begin(0);
	cross(1, 0);
	for (int i = 0; i < SIDES; i++) {
		use(i);
		launch_add(i, sides[i].words, (uint32_t)i + 1);
	}
	cross(1, 0);
	cross(0, 1);
	for (int i = 0; i < SIDES; i++) {
		use(i);
		assert_success(
			cuMemcpyAsync(sides[i].ghost, sides[!i].words, WORDS * 4, sides[i].stream));
		launch_add(i, sides[i].ghost, 100);
	}
	cross(0, 1);
	graph = end(0);
	exec = instantiate(graph);
	for (uint32_t round = 1; round <= 5; round++) {
		assert_success(cuGraphLaunch(exec, sides[0].stream));
		assert_success(cuStreamSynchronize(sides[0].stream));
		for (int i = 0; i < SIDES; i++) {
			check(i, sides[i].words, round * ((uint32_t)i + 1));
			check(i, sides[i].ghost, round * ((uint32_t)!i + 1) + 100);
		}
		use(0);
	}
	destroy(exec, graph);
}

/* The origin waits for streams of other devices, too. */
static void test_must_be_joined(void **state)
{
	CUstreamCaptureStatus status;
	CUgraph graph;

	begin(0);
	launch_add(0, sides[0].words, 1);
	cross(1, 0);
	launch_add(1, sides[1].words, 1);
	use(0);
	assert_result(
		cuStreamEndCapture(sides[0].stream, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
	use(1);
	assert_success(cuStreamIsCapturing(sides[1].stream, &status));
	assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
	assert_success(cuCtxSynchronize());
	check(1, sides[1].words, 0);
}

/* ---- by calls ---- */

static CUDA_KERNEL_NODE_PARAMS add_params(int side, void **arguments)
{
	return (CUDA_KERNEL_NODE_PARAMS){.func = sides[side].add,
		.gridDimX = (WORDS + 127) / 128,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 128,
		.blockDimY = 1,
		.blockDimZ = 1,
		.kernelParams = arguments};
}

static CUgraphNode add_node(CUgraph graph, int side, uint32_t value, const CUgraphNode *after)
{
	uint32_t count = WORDS;
	void *arguments[] = {&sides[side].words, &count, &value};
	CUDA_KERNEL_NODE_PARAMS params = add_params(side, arguments);
	CUgraphNode node;

	assert_success(cuGraphAddKernelNode(&node, graph, after, after != NULL, &params));
	return node;
}

/* To the other side, in the context of that. */
static CUgraphNode copy_node(CUgraph graph, int to, const CUgraphNode *after)
{
	CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
		.srcDevice = sides[!to].words,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstDevice = sides[to].words,
		.WidthInBytes = WORDS * 4,
		.Height = 1,
		.Depth = 1};
	CUgraphNode node;

	assert_success(
		cuGraphAddMemcpyNode(&node, graph, after, after != NULL, &copy, sides[to].context));
	return node;
}

static void test_nodes_by_calls(void **state)
{
	CUDA_MEMSET_NODE_PARAMS set = {sides[1].words, 0, 5, 4, WORDS, 1};
	CUgraphNode first, next;
	CUgraphExec exec;
	CUgraph graph;

	use(0);
	assert_success(cuGraphCreate(&graph, 0));
	assert_success(cuGraphAddMemsetNode(&first, graph, NULL, 0, &set, sides[1].context));
	next = add_node(graph, 1, 3, &first);
	first = copy_node(graph, 0, &next);
	add_node(graph, 0, 10, &first);
	exec = instantiate(graph);
	for (int i = 0; i < 2; i++)
		assert_success(cuGraphLaunch(exec, sides[0].stream));
	assert_success(cuStreamSynchronize(sides[0].stream));
	check(1, sides[1].words, 8);
	check(0, sides[0].words, 18);
	destroy(exec, graph);
}

/* All of it is on one device, and is launched on a stream of the other. */
static void test_all_elsewhere(void **state)
{
	CUgraphExec exec;
	CUgraph graph;

	use(0);
	assert_success(cuGraphCreate(&graph, 0));
	add_node(graph, 1, 3, NULL);
	exec = instantiate(graph);
	for (int i = 0; i < 2; i++)
		assert_success(cuGraphLaunch(exec, sides[0].stream));
	assert_success(cuStreamSynchronize(sides[0].stream));
	check(1, sides[1].words, 6);
	destroy(exec, graph);
}

static void test_children(void **state)
{
	CUgraphExec exec = NULL;
	CUgraph graph, child;
	CUgraphNode node;

	use(0);
	assert_success(cuGraphCreate(&child, 0));
	add_node(child, 1, 3, NULL);
	assert_success(cuGraphCreate(&graph, 0));
	node = add_node(graph, 0, 1, NULL);
	assert_success(cuGraphAddChildGraphNode(&node, graph, &node, 1, child));
	exec = instantiate(graph);
	assert_success(cuGraphLaunch(exec, sides[0].stream));
	assert_success(cuStreamSynchronize(sides[0].stream));
	check(0, sides[0].words, 1);
	check(1, sides[1].words, 3);
	destroy(exec, graph);
	assert_success(cuGraphDestroy(child));
}

/* What is behind a child waits for its nodes on all devices, and these for what is before it; so do launches that follow
 * each other, on streams of both. */
static void test_children_of_two_devices(void **state)
{
	CUgraph graph, child, grandchild;
	CUgraphNode node;
	CUgraphExec exec;

	use(0);
	assert_success(cuGraphCreate(&grandchild, 0));
	node = add_node(grandchild, 1, 3, NULL);
	node = copy_node(grandchild, 0, &node);
	add_node(grandchild, 0, 1, &node);
	assert_success(cuGraphCreate(&child, 0));
	assert_success(cuGraphAddChildGraphNode(&node, child, NULL, 0, grandchild));
	assert_success(cuGraphCreate(&graph, 0));
	node = add_node(graph, 1, 10, NULL);
	assert_success(cuGraphAddChildGraphNode(&node, graph, &node, 1, child));
	node = copy_node(graph, 1, &node); /* 14 more than before */
	add_node(graph, 0, 100, &node);    /* which nobody looks at before the end */
	exec = instantiate(graph);
	for (int i = 0; i < 6; i++) {
		use(i % 2);
		assert_success(cuGraphLaunch(exec, sides[i / 3].stream));
	}
	assert_success(cuStreamSynchronize(sides[1].stream));
	check(1, sides[1].words, 6 * 14);
	check(0, sides[0].words, 6 * 14 + 100);
	assert_success(cuGraphDestroy(child));
	assert_success(cuGraphDestroy(grandchild));
	destroy(exec, graph);
}

/* As in CUDA, what a node does may change, and not where. */
static void test_updates(void **state)
{
	uint32_t count = WORDS, value = 30;
	void *arguments[] = {&sides[1].words, &count, &value};
	CUDA_KERNEL_NODE_PARAMS here = add_params(0, arguments), there = add_params(1, arguments);
	CUgraphExecUpdateResultInfo outcome;
	CUgraph graph, other;
	CUgraphExec exec;
	CUgraphNode node;

	use(0);
	assert_success(cuGraphCreate(&graph, 0));
	node = add_node(graph, 1, 3, NULL);
	exec = instantiate(graph);
	assert_result(cuGraphExecKernelNodeSetParams(exec, node, &here), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuGraphExecKernelNodeSetParams(exec, node, &there));
	assert_success(cuGraphCreate(&other, 0));
	add_node(other, 0, 3, NULL);
	assert_result(
		cuGraphExecUpdate(exec, other, &outcome), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
	assert_int_equal(outcome.result, CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE);
	assert_success(cuGraphLaunch(exec, sides[0].stream));
	assert_success(cuStreamSynchronize(sides[0].stream));
	check(1, sides[1].words, 30);
	assert_success(cuGraphDestroy(other));
	destroy(exec, graph);
}

/* Memory of the graph is of the device whose stream has asked for it. */
static void test_memory(void **state)
{
	CUdeviceptr scratch;
	CUgraphExec exec;
	CUgraph graph;

	begin(0);
	cross(1, 0);
	assert_success(cuMemAllocAsync(&scratch, WORDS * 4, sides[1].stream));
	assert_success(cuMemsetD32Async(scratch, 9, WORDS, sides[1].stream));
	cross(0, 1);
	assert_success(cuMemcpyAsync(sides[0].words, scratch, WORDS * 4, sides[0].stream));
	cross(1, 0);
	assert_success(cuMemFreeAsync(scratch, sides[1].stream));
	cross(0, 1);
	graph = end(0);
	exec = instantiate(graph);
	for (int i = 0; i < 2; i++)
		assert_success(cuGraphLaunch(exec, sides[0].stream));
	assert_success(cuStreamSynchronize(sides[0].stream));
	check(0, sides[0].words, 9);
	destroy(exec, graph);
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* usage: test_peer_graph [PATTERN]: the tests whose names match */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		test(test_capture),
		test(test_launched_anywhere),
		test(test_halo_exchange),
		test(test_must_be_joined),
		test(test_nodes_by_calls),
		test(test_all_elsewhere),
		test(test_children),
		test(test_children_of_two_devices),
		test(test_updates),
		test(test_memory),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
