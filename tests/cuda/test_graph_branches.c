/* SPDX-License-Identifier: MIT
 *
 * Graphs with branches: what does not depend on each other overlaps, what does keeps its order, and launches of one
 * executable graph follow each other.
 */
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include "fixture.h"

enum { NODES = 120, LAUNCHES = 20, PATIENCE_MS = 120000 };

static CUgraphNode add_kernel(
	CUgraph graph, const CUgraphNode *after, size_t count, const char *name, void **params)
{
	CUDA_KERNEL_NODE_PARAMS kernel = {.func = fixture_function(name),
		.gridDimX = 1,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 1,
		.blockDimY = 1,
		.blockDimZ = 1,
		.kernelParams = params};
	CUgraphNode node;

	assert_success(cuGraphAddKernelNode(&node, graph, after, count, &kernel));
	return node;
}

/* words[0] += value */
static CUgraphNode add_add(
	CUgraph graph, const CUgraphNode *after, size_t count, CUdeviceptr word, uint32_t value)
{
	uint32_t n = 1;

	return add_kernel(graph, after, count, "add", (void *[]){&word, &n, &value});
}

static CUDA_MEMSET_NODE_PARAMS set_of(CUdeviceptr word, uint32_t value)
{
	return (CUDA_MEMSET_NODE_PARAMS){
		.dst = word, .value = value, .elementSize = 4, .width = 1, .height = 1};
}

static CUgraphNode add_set(
	CUgraph graph, const CUgraphNode *after, size_t count, CUdeviceptr word, uint32_t value)
{
	CUDA_MEMSET_NODE_PARAMS set = set_of(word, value);
	CUgraphNode node;

	assert_success(cuGraphAddMemsetNode(&node, graph, after, count, &set, fixture_context));
	return node;
}

static CUgraphNode add_copy(
	CUgraph graph, const CUgraphNode *after, size_t count, CUdeviceptr to, CUdeviceptr from)
{
	CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
		.srcDevice = from,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstDevice = to,
		.WidthInBytes = 4,
		.Height = 1,
		.Depth = 1};
	CUgraphNode node;

	assert_success(cuGraphAddMemcpyNode(&node, graph, after, count, &copy, fixture_context));
	return node;
}

static volatile uint32_t *flag_alloc(void)
{
	void *flag;

	assert_success(cuMemHostAlloc(&flag, 4, CU_MEMHOSTALLOC_DEVICEMAP));
	*(uint32_t *)flag = 0;
	return flag;
}

/* Whether the graph ends by itself; when not, the flag that it waits for is set. */
static bool ends(CUgraph graph, volatile uint32_t *flag)
{
	CUresult result = CUDA_ERROR_NOT_READY;
	CUgraphExec exec;
	CUstream stream;

	assert_success(cuCtxSynchronize()); /* the stream does not wait for what fills memory */
	assert_success(cuGraphInstantiate(&exec, graph, 0));
	assert_success(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	assert_success(cuGraphLaunch(exec, stream));
	for (int ms = 0; ms < PATIENCE_MS && result == CUDA_ERROR_NOT_READY; ms++) {
		result = cuStreamQuery(stream);
		usleep(1000);
	}
	*flag = 1;
	assert_success(cuStreamSynchronize(stream));
	assert_success(cuStreamDestroy(stream));
	assert_success(cuGraphExecDestroy(exec));
	return result == CUDA_SUCCESS;
}

/* A kernel waits for what a kernel of another branch does. */
static void kernels_of_branches_overlap(void **state)
{
	volatile uint32_t *flag = flag_alloc();
	CUgraphNode root;
	CUgraph graph;

	assert_success(cuGraphCreate(&graph, 0));
	root = add_set(graph, NULL, 0, (CUdeviceptr)flag, 0);
	add_kernel(graph, &root, 1, "gate", (void *[]){&flag});
	add_add(graph, &root, 1, (CUdeviceptr)flag, 1);
	assert_true(ends(graph, flag));
	assert_success(cuGraphDestroy(graph));
	assert_success(cuMemFreeHost((void *)flag));
}

/* A kernel waits for what a copy of another branch brings. */
static void copies_overlap_with_kernels(void **state)
{
	volatile uint32_t *flag = flag_alloc();
	CUdeviceptr word = words_alloc(1, 0);
	CUgraphNode set;
	CUgraph graph;

	assert_success(cuGraphCreate(&graph, 0));
	add_kernel(graph, NULL, 0, "gate", (void *[]){&flag});
	set = add_set(graph, NULL, 0, word, 1);
	add_copy(graph, &set, 1, (CUdeviceptr)flag, word);
	assert_true(ends(graph, flag));
	assert_success(cuGraphDestroy(graph));
	assert_success(cuMemFree(word));
	assert_success(cuMemFreeHost((void *)flag));
}

/* Captured branches overlap as well. */
static void captured_branches_overlap(void **state)
{
	volatile uint32_t *flag = flag_alloc();
	uint32_t n = 1, v = 1;
	CUstream first, second;
	CUevent fork, join;
	CUgraph graph;

	assert_success(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
	assert_success(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
	assert_success(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
	assert_success(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
	assert_success(cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_RELAXED));
	assert_success(cuEventRecord(fork, first));
	assert_success(cuStreamWaitEvent(second, fork, 0));
	assert_success(launch_on(first, "gate", 1, 1, &flag));
	assert_success(launch_on(second, "add", 1, 1, &flag, &n, &v));
	assert_success(cuEventRecord(join, second));
	assert_success(cuStreamWaitEvent(first, join, 0));
	assert_success(cuStreamEndCapture(first, &graph));
	assert_true(ends(graph, flag));
	assert_success(cuGraphDestroy(graph));
	assert_success(cuEventDestroy(fork));
	assert_success(cuEventDestroy(join));
	assert_success(cuStreamDestroy(first));
	assert_success(cuStreamDestroy(second));
	assert_success(cuMemFreeHost((void *)flag));
}

/* ---- order ---- */

static uint32_t random_below(uint32_t limit)
{
	static uint64_t state = 88172645463325252ull;

	state ^= state << 13, state ^= state >> 7, state ^= state << 17;
	return (uint32_t)(state >> 33) % limit;
}

/* A graph of many branches: word i is set, or copied from a word that it depends on, and then mostly added to.
 * What it must be, in launch `n`, is known. */
static struct {
	CUgraph graph;
	CUgraphExec exec;
	CUdeviceptr words;
	CUgraphNode end[NODES], set[NODES]; /* set[i]: NULL where the word is a copy */
	uint32_t from[NODES], plus[NODES];
} web;

static void web_create(void)
{
	assert_success(cuGraphCreate(&web.graph, 0));
	web.words = words_alloc(NODES, 0);
	for (uint32_t i = 0; i < NODES; i++) {
		CUdeviceptr word = web.words + 4 * i;
		CUgraphNode after[3];
		uint32_t count = i ? random_below(i < 3 ? i + 1 : 4) : 0,
			 first = i ? random_below(i) : 0;
		for (uint32_t k = 0; k < count; k++)
			after[k] = web.end[(first + k) % i];
		web.from[i] = first;
		web.set[i] = NULL;
		if (count)
			web.end[i] = add_copy(web.graph, after, count, word, web.words + 4 * first);
		else
			web.end[i] = web.set[i] = add_set(web.graph, NULL, 0, word, 0);
		web.plus[i] = random_below(3);
		if (web.plus[i])
			web.end[i] = add_add(web.graph, &web.end[i], 1, word, web.plus[i]);
	}
	assert_success(cuGraphInstantiate(&web.exec, web.graph, 0));
	assert_success(cuCtxSynchronize());
}

static void web_launch(uint32_t n, CUstream stream)
{
	for (uint32_t i = 0; i < NODES; i++) {
		CUDA_MEMSET_NODE_PARAMS set = set_of(web.words + 4 * i, n * 1000 + i);
		if (web.set[i])
			assert_success(cuGraphExecMemsetNodeSetParams(
				web.exec, web.set[i], &set, fixture_context));
	}
	assert_success(cuGraphLaunch(web.exec, stream));
}

static void web_check(uint32_t n)
{
	uint32_t expected[NODES], words[NODES];

	assert_success(cuMemcpyDtoH(words, web.words, sizeof words));
	for (uint32_t i = 0; i < NODES; i++) {
		expected[i] = (web.set[i] ? n * 1000 + i : expected[web.from[i]]) + web.plus[i];
		if (words[i] != expected[i])
			fail_msg("launch %u: word %u is %u, not %u", n, i, words[i], expected[i]);
	}
}

static void web_destroy(void)
{
	assert_success(cuGraphExecDestroy(web.exec));
	assert_success(cuGraphDestroy(web.graph));
	assert_success(cuMemFree(web.words));
}

/* Each launch on another stream than the one before, without a wait between them. */
static void what_depends_keeps_its_order(void **state)
{
	CUstream streams[3];

	for (int i = 0; i < 2; i++)
		assert_success(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
	streams[2] = NULL; /* the default stream */
	for (int round = 0; round < 5; round++) {
		web_create();
		for (uint32_t n = 0; n < LAUNCHES; n++) {
			web_launch(n, streams[n % 3]);
			if (n % 5 == 4) {
				assert_success(cuStreamSynchronize(streams[n % 3]));
				web_check(n);
			}
		}
		web_destroy();
	}
	for (int i = 0; i < 2; i++)
		assert_success(cuStreamDestroy(streams[i]));
}

static void wait_for(void *semaphore)
{
	sem_wait(semaphore);
}

static void launches_of_one_graph_follow_each_other(void **state)
{
	CUstream held, second, other;
	CUgraphExec independent;
	sem_t opened;

	assert_success(cuStreamCreate(&held, CU_STREAM_NON_BLOCKING));
	assert_success(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
	assert_success(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	web_create();
	assert_success(cuGraphInstantiate(&independent, web.graph, 0));
	assert_int_equal(sem_init(&opened, 0, 0), 0);
	assert_success(cuLaunchHostFunc(held, wait_for, &opened));
	web_launch(1, held);
	web_launch(2, second);
	if (!getenv("TEST_VENDOR")) { /* where it may be queued behind the others */
		assert_success(cuGraphLaunch(independent, other));
		assert_success(cuStreamSynchronize(other));
	}
	assert_result(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
	sem_post(&opened);
	assert_success(cuStreamSynchronize(second));
	assert_success(cuStreamQuery(held));
	web_check(2);
	sem_destroy(&opened);
	assert_success(cuGraphExecDestroy(independent));
	web_destroy();
	assert_success(cuStreamDestroy(held));
	assert_success(cuStreamDestroy(second));
	assert_success(cuStreamDestroy(other));
}

enum { THREADS = 4 };

static void *launch_often(void *exec)
{
	CUstream stream;

	if (cuCtxSetCurrent(fixture_context) || cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING))
		return (void *)1;
	for (int i = 0; i < LAUNCHES; i++)
		if (cuGraphLaunch(exec, stream))
			return (void *)1;
	return (void *)(uintptr_t)(cuStreamSynchronize(stream) || cuStreamDestroy(stream));
}

/* Each launch adds to both words without an atomic operation. */
static void threads_launch_one_graph(void **state)
{
	CUdeviceptr words = words_alloc(2, 0);
	pthread_t threads[THREADS];
	CUgraphExec exec;
	CUgraph graph;
	void *failed;

	assert_success(cuGraphCreate(&graph, 0));
	add_add(graph, NULL, 0, words, 1);
	add_add(graph, NULL, 0, words + 4, 1);
	assert_success(cuGraphInstantiate(&exec, graph, 0));
	assert_success(cuCtxSynchronize());
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, launch_often, exec), 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &failed);
		assert_null(failed);
	}
	words_check(words, 2, THREADS * LAUNCHES);
	assert_success(cuGraphExecDestroy(exec));
	assert_success(cuGraphDestroy(graph));
	assert_success(cuMemFree(words));
}

static void a_graph_may_go_while_it_runs(void **state)
{
	CUstream stream;
	struct gate gate;

	assert_success(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	web_create();
	gate_close(&gate, stream);
	web_launch(3, stream);
	if (getenv("TEST_VENDOR")) /* where destroying waits */
		gate_open(&gate);
	assert_success(cuGraphExecDestroy(web.exec));
	assert_success(cuGraphDestroy(web.graph));
	gate_open(&gate);
	assert_success(cuStreamSynchronize(stream));
	web_check(3);
	gate_free(&gate);
	assert_success(cuStreamDestroy(stream));
	assert_success(cuMemFree(web.words));
}

/* The graph's own streams are those of the context of its last launch. */
static void a_graph_outlives_its_context(void **state)
{
	CUcontext context;
	CUdeviceptr words;
	CUgraphExec exec;
	CUgraph graph;

	if (getenv("TEST_VENDOR")) /* a context takes its graphs with it there */
		skip();
	context = fixture_context_create();
	words = words_alloc(2, 0);
	assert_success(cuGraphCreate(&graph, 0));
	add_set(graph, NULL, 0, words, 1);
	add_set(graph, NULL, 0, words + 4, 1);
	assert_success(cuGraphInstantiate(&exec, graph, 0));
	assert_success(cuGraphLaunch(exec, NULL));
	words_check(words, 2, 1);
	assert_success(cuCtxDestroy(context));
	assert_success(cuCtxSetCurrent(fixture_context));
	assert_success(cuGraphExecDestroy(exec));
	assert_success(cuGraphDestroy(graph));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(kernels_of_branches_overlap),
		TEST(copies_overlap_with_kernels),
		TEST(captured_branches_overlap),
		TEST(what_depends_keeps_its_order),
		TEST(launches_of_one_graph_follow_each_other),
		TEST(threads_launch_one_graph),
		TEST(a_graph_may_go_while_it_runs),
		TEST(a_graph_outlives_its_context),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
