/* SPDX-License-Identifier: MIT
 *
 * Graphs that kernels launch: in what order they run, what is an error, how many there can be, and that a session whose graph
 * launches itself without end leaves turns to others.
 */
#include <sched.h>
#include <spawn.h>
#include <sys/wait.h>

#include "fixture.h"

#define TAIL 0x0100000000000000u
#define CHILD 0x0200000000000000u
#define SIBLING 0x0300000000000000u
#define MANY 260

/* step(word, n): word = word * 10 + n. launch(results, graphs, count, stream): the result of each launch.
 * again(word, limit): adds one and launches itself, until that is limit. wait(word, flag): launches itself until flag is not 0. */
static const char ptx[] =
	".version 8.0\n.target sm_75\n.address_size 64\n"
	".extern .func (.param .b32 r) cudaGraphLaunch(.param .b64 g, .param .b64 s);\n"
	".visible .entry step(.param .b64 word, .param .b32 n)\n{\n"
	"	.reg .b64 %w;\n	.reg .b32 %v, %n;\n"
	"	ld.param.b64 %w, [word];\n	ld.param.b32 %n, [n];\n"
	"	ld.global.b32 %v, [%w];\n	mad.lo.u32 %v, %v, 10, %n;\n"
	"	st.global.b32 [%w], %v;\n	ret;\n}\n"
	".visible .entry launch(.param .b64 results, .param .b64 graphs, .param .b32 count,\n"
	"	.param .b64 stream)\n{\n"
	"	.reg .b64 %r, %g, %s, %h;\n	.reg .b32 %i, %n, %v;\n	.reg .pred %p;\n"
	"	ld.param.b64 %r, [results];\n	ld.param.b64 %g, [graphs];\n"
	"	ld.param.b32 %n, [count];\n	ld.param.b64 %s, [stream];\n"
	"	mov.u32 %i, 0;\n"
	"next:\n	setp.ge.u32 %p, %i, %n;\n	@%p bra done;\n"
	"	ld.global.b64 %h, [%g];\n"
	"	{\n	.param .b64 a;\n	.param .b64 b;\n	.param .b32 c;\n"
	"	st.param.b64 [a], %h;\n	st.param.b64 [b], %s;\n"
	"	call.uni (c), cudaGraphLaunch, (a, b);\n	ld.param.b32 %v, [c];\n	}\n"
	"	st.global.b32 [%r], %v;\n"
	"	add.u64 %r, %r, 4;\n	add.u64 %g, %g, 8;\n	add.u32 %i, %i, 1;\n"
	"	bra next;\ndone:\n	ret;\n}\n"
	".visible .entry again(.param .b64 word, .param .b32 limit)\n{\n"
	"	.reg .b64 %w, %h;\n	.reg .b32 %v, %l;\n	.reg .pred %p;\n"
	"	ld.param.b64 %w, [word];\n	ld.param.b32 %l, [limit];\n"
	"	ld.global.b32 %v, [%w];\n	add.u32 %v, %v, 1;\n	st.global.b32 [%w], %v;\n"
	"	setp.ge.u32 %p, %v, %l;\n	@%p bra done;\n"
	"	mov.u64 %h, %current_graph_exec;\n"
	"	{\n	.param .b64 a;\n	.param .b64 b;\n	.param .b32 c;\n"
	"	st.param.b64 [a], %h;\n	st.param.b64 [b], 72057594037927936;\n"
	"	call.uni (c), cudaGraphLaunch, (a, b);\n	}\n"
	"done:\n	ret;\n}\n"
	".visible .entry wait(.param .b64 word, .param .b64 flag)\n{\n"
	"	.reg .b64 %w, %h, %f;\n	.reg .b32 %v;\n	.reg .pred %p;\n"
	"	ld.param.b64 %w, [word];\n	ld.param.b64 %f, [flag];\n"
	"	ld.global.b32 %v, [%w];\n	add.u32 %v, %v, 1;\n	st.global.b32 [%w], %v;\n"
	"	ld.volatile.global.b32 %v, [%f];\n"
	"	setp.ne.u32 %p, %v, 0;\n	@%p bra done;\n"
	"	mov.u64 %h, %current_graph_exec;\n"
	"	{\n	.param .b64 a;\n	.param .b64 b;\n	.param .b32 c;\n"
	"	st.param.b64 [a], %h;\n	st.param.b64 [b], 72057594037927936;\n"
	"	call.uni (c), cudaGraphLaunch, (a, b);\n	}\n"
	"done:\n	ret;\n}\n";

static CUmodule module;
static CUdeviceptr word, results, handles;

static void begin(void)
{
	if (getenv("TEST_VENDOR"))
		skip(); /* which wants its device runtime linked */
	assert_success(cuModuleLoadData(&module, ptx));
	word = words_alloc(1, 0);
	results = words_alloc(MANY, 0);
	handles = words_alloc(2 * MANY, 0);
}

static void end(void)
{
	assert_success(cuMemFree(word));
	assert_success(cuMemFree(results));
	assert_success(cuMemFree(handles));
	assert_success(cuModuleUnload(module));
}

static uint32_t read_word(CUdeviceptr at)
{
	uint32_t value;

	assert_success(cuMemcpyDtoH(&value, at, sizeof value));
	return value;
}

static uint32_t result(unsigned i)
{
	return read_word(results + 4 * i);
}

static CUDA_KERNEL_NODE_PARAMS kernel_of(const char *name, void **params)
{
	CUDA_KERNEL_NODE_PARAMS kernel = {.gridDimX = 1,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 1,
		.blockDimY = 1,
		.blockDimZ = 1,
		.kernelParams = params};

	assert_success(cuModuleGetFunction(&kernel.func, module, name));
	return kernel;
}

static CUgraphNode add_kernel(CUgraph to, CUgraphNode after, const char *name, void **params)
{
	CUDA_KERNEL_NODE_PARAMS kernel = kernel_of(name, params);
	CUgraphNode node;

	assert_success(cuGraphAddKernelNode(&node, to, &after, after != NULL, &kernel));
	return node;
}

static CUgraphNode add_step(CUgraph to, CUgraphNode after, uint32_t n)
{
	return add_kernel(to, after, "step", (void *[]){&word, &n});
}

static CUgraphNode add_launch(CUgraph to, CUgraphNode after, uint32_t count, uint64_t stream)
{
	return add_kernel(to, after, "launch", (void *[]){&results, &handles, &count, &stream});
}

/* Takes the graph. */
static CUgraphExec instantiate(CUgraph graph, bool for_device)
{
	unsigned long long flags = for_device ? CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH : 0;
	CUgraphExec exec;

	assert_success(cuGraphInstantiateWithFlags(&exec, graph, flags));
	assert_success(cuGraphDestroy(graph));
	return exec;
}

static CUgraph new_graph(void)
{
	CUgraph graph;

	assert_success(cuGraphCreate(&graph, 0));
	return graph;
}

static CUgraphExec stepping(uint32_t n)
{
	CUgraph graph = new_graph();

	add_step(graph, NULL, n);
	return instantiate(graph, true);
}

static CUgraphExec launching(uint32_t count, uint64_t stream)
{
	CUgraph graph = new_graph();

	add_launch(graph, NULL, count, stream);
	return instantiate(graph, false);
}

static void set_handle(unsigned i, CUgraphExec exec)
{
	uint64_t handle = (uintptr_t)exec;

	assert_success(cuMemcpyHtoD(handles + 8 * i, &handle, sizeof handle));
}

static uint32_t run(CUgraphExec exec)
{
	assert_success(cuMemsetD32(word, 0, 1));
	assert_success(cuMemsetD32(results, 99, MANY));
	assert_success(cuGraphLaunch(exec, NULL));
	assert_success(cuStreamSynchronize(NULL));
	return read_word(word);
}

static void what_runs_after_what(void **state)
{
	CUgraphExec one, exec;
	CUgraph graph, child;
	CUgraphNode node;

	begin();
	one = stepping(1);
	set_handle(0, one);
	assert_success(cuGraphUpload(one, NULL));
	/* A child before what comes after all of the graph; a tail after all of it, also after what a child graph has. */
	for (int for_device = 0; for_device < 2; for_device++) {
		graph = new_graph();
		child = new_graph();
		add_step(child, add_step(child, NULL, 3), 4);
		node = add_launch(graph, add_step(graph, NULL, 2), 1, TAIL);
		assert_success(cuGraphAddChildGraphNode(&node, graph, &node, 1, child));
		add_step(graph, node, 5);
		exec = instantiate(graph, for_device);
		assert_success(cuGraphDestroy(child));
		assert_int_equal(run(exec), 23451);
		assert_int_equal(result(0), 0);
		assert_int_equal(run(exec), 23451);
		assert_success(cuGraphExecDestroy(exec));
	}
	exec = launching(1, SIBLING);
	assert_int_equal(run(exec), 1);
	assert_success(cuGraphExecDestroy(exec));
	assert_success(cuGraphExecDestroy(one));
	end();
}

static void a_graph_launches_itself(void **state)
{
	uint32_t limit = 1000;
	CUgraph graph;
	CUgraphExec exec;

	begin();
	graph = new_graph();
	add_kernel(graph, NULL, "again", (void *[]){&word, &limit});
	exec = instantiate(graph, true);
	for (int i = 0; i < 3; i++)
		assert_int_equal(run(exec), limit);
	assert_success(cuGraphExecDestroy(exec));
	end();
}

static void what_cannot_be_launched(void **state)
{
	CUgraphExec one, exec;
	uint64_t bad = 0x1234;

	begin();
	one = stepping(1);
	exec = launching(1, CHILD);
	set_handle(0, one);
	assert_int_equal(run(exec), 0);
	assert_int_equal(result(0), CUDA_ERROR_INVALID_VALUE); /* it is not uploaded */
	assert_success(cuGraphUpload(one, NULL));
	assert_int_equal(run(exec), 1);
	assert_int_equal(result(0), 0);
	assert_success(cuMemcpyHtoD(handles, &bad, sizeof bad));
	assert_int_equal(run(exec), 0);
	assert_int_equal(result(0), CUDA_ERROR_INVALID_VALUE);
	set_handle(0, exec); /* not for the device */
	assert_int_equal(run(exec), 0);
	assert_int_equal(result(0), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuGraphExecDestroy(exec));
	set_handle(0, one);
	exec = launching(1, 0x1000); /* no such stream */
	assert_int_equal(run(exec), 0);
	assert_int_equal(result(0), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuGraphExecDestroy(exec));
	exec = launching(2, CHILD); /* once more while it is not done */
	set_handle(1, one);
	assert_int_equal(run(exec), 1);
	assert_int_equal(result(0), 0);
	assert_int_equal(result(1), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuGraphExecDestroy(one));
	assert_int_equal(run(exec), 0); /* it is gone */
	assert_int_equal(result(0), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuGraphExecDestroy(exec));
	end();
}

static void not_outside_a_graph(void **state)
{
	uint32_t count = 1;
	uint64_t stream = CHILD;
	CUfunction function;
	CUgraphExec one;

	begin();
	one = stepping(1);
	set_handle(0, one);
	assert_success(cuGraphUpload(one, NULL));
	assert_success(cuModuleGetFunction(&function, module, "launch"));
	assert_success(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL,
		(void *[]){&results, &handles, &count, &stream}, NULL));
	assert_success(cuStreamSynchronize(NULL));
	assert_int_equal(result(0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(read_word(word), 0);
	assert_success(cuGraphExecDestroy(one));
	end();
}

static void there_are_limits(void **state)
{
	static const struct {
		uint64_t stream;
		unsigned limit;
	} cases[] = {{CHILD, 120}, {TAIL, 255}};
	CUgraphExec many[MANY], exec;
	unsigned launched;

	begin();
	for (unsigned i = 0; i < MANY; i++) {
		many[i] = stepping(0);
		set_handle(i, many[i]);
		assert_success(cuGraphUpload(many[i], NULL));
	}
	for (unsigned k = 0; k < 2; k++) {
		exec = launching(MANY, cases[k].stream);
		for (int times = 0; times < 2; times++) {
			run(exec);
			launched = 0;
			for (unsigned i = 0; i < MANY; i++)
				launched += !result(i);
			assert_int_equal(launched, cases[k].limit);
		}
		assert_success(cuGraphExecDestroy(exec));
	}
	for (unsigned i = 0; i < MANY; i++)
		assert_success(cuGraphExecDestroy(many[i]));
	end();
}

static void changes_come_with_an_upload_or_a_launch(void **state)
{
	CUgraphInstantiateResult none = CUDA_GRAPH_INSTANTIATE_ERROR;
	CUDA_GRAPH_INSTANTIATE_PARAMS params = {.flags = CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |
							 CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD,
		.result_out = none};
	CUDA_KERNEL_NODE_PARAMS kernel;
	CUgraphNode first, second;
	CUgraphExec one, exec;
	uint32_t n = 7;
	CUgraph graph;

	begin();
	graph = new_graph();
	first = add_step(graph, NULL, 1);
	second = add_step(graph, first, 2);
	assert_success(cuGraphInstantiateWithParams(&one, graph, &params));
	assert_int_equal(params.result_out, CUDA_GRAPH_INSTANTIATE_SUCCESS);
	set_handle(0, one);
	exec = launching(1, CHILD);
	assert_int_equal(run(exec), 12);
	kernel = kernel_of("step", (void *[]){&word, &n});
	assert_success(cuGraphExecKernelNodeSetParams(one, second, &kernel));
	assert_int_equal(run(exec), 12);
	assert_success(cuGraphUpload(one, NULL));
	assert_int_equal(run(exec), 17);
	assert_success(cuGraphNodeSetEnabled(one, first, 0));
	assert_int_equal(run(one), 7);
	assert_int_equal(run(exec), 7);
	assert_success(cuGraphExecUpdate(one, graph, &(CUgraphExecUpdateResultInfo){0}));
	assert_int_equal(run(one), 2); /* the first is disabled yet */
	assert_success(cuGraphExecDestroy(exec));
	assert_success(cuGraphExecDestroy(one));
	assert_success(cuGraphDestroy(graph));
	end();
}

static void copies_and_fills(void **state)
{
	CUDA_MEMSET_NODE_PARAMS fill = {
		.elementSize = 2, .value = 0x1234, .width = 3, .height = 2, .pitch = 16};
	CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstMemoryType = CU_MEMORYTYPE_HOST,
		.srcPitch = 16,
		.srcHeight = 1,
		.dstPitch = 6,
		.dstHeight = 1,
		.WidthInBytes = 6,
		.Height = 1,
		.Depth = 2};
	CUgraphExec one, exec;
	CUdeviceptr memory;
	CUgraphNode node;
	uint16_t *locked;
	CUcontext context;
	CUgraph graph;

	begin();
	assert_success(cuCtxGetCurrent(&context));
	memory = words_alloc(8, 0);
	assert_success(cuMemAllocHost((void **)&locked, 4096));
	memset(locked, 0, 4096);
	graph = new_graph();
	fill.dst = memory;
	copy.srcDevice = memory;
	copy.dstHost = locked;
	assert_success(cuGraphAddMemsetNode(&node, graph, NULL, 0, &fill, context));
	assert_success(cuGraphAddMemcpyNode(&node, graph, &node, 1, &copy, context));
	one = instantiate(graph, true);
	assert_success(cuGraphUpload(one, NULL));
	set_handle(0, one);
	exec = launching(1, CHILD);
	run(exec);
	for (int i = 0; i < 6; i++)
		assert_int_equal(locked[i], 0x1234);
	assert_int_equal(locked[6], 0);
	assert_int_equal(read_word(memory + 4), 0x1234);
	assert_int_equal(read_word(memory + 8), 0);
	assert_success(cuGraphExecDestroy(exec));
	assert_success(cuGraphExecDestroy(one));
	assert_success(cuMemFreeHost(locked));
	assert_success(cuMemFree(memory));
	end();
}

/* What another process does, while one of ours runs without end. */
static int be_another(void)
{
	CUfunction step;
	uint32_t n = 5;

	fixture_setup(NULL);
	begin();
	assert_success(cuModuleGetFunction(&step, module, "step"));
	for (int i = 0; i < 20; i++) {
		assert_success(cuLaunchKernel(
			step, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&word, &n}, NULL));
		assert_success(cuCtxSynchronize());
	}
	return read_word(word) ? 0 : 1;
}

static int run_another(void)
{
	static char name[] = "another";
	char *argv[] = {name, name, NULL};
	int status = -1;
	pid_t pid;

	assert_int_equal(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

/* A graph that launches itself until *flag is not 0, and has begun. */
static CUgraphExec start_endless(volatile uint32_t **flag, CUstream stream)
{
	CUgraph graph = new_graph();
	volatile uint32_t *count;
	CUgraphExec exec;

	assert_success(cuMemAllocHost((void **)flag, 4096));
	memset((void *)*flag, 0, 4096);
	count = *flag + 1;
	add_kernel(graph, NULL, "wait", (void *[]){&count, flag});
	exec = instantiate(graph, true);
	assert_success(cuGraphLaunch(exec, stream));
	while (*count < 10)
		sched_yield();
	return exec;
}

static void without_end_it_leaves_turns_to_others(void **state)
{
	volatile uint32_t *flag;
	CUgraphExec exec;

	begin();
	exec = start_endless(&flag, NULL);
	assert_int_equal(run_another(), 0);
	assert_result(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	*flag = 1;
	assert_success(cuStreamSynchronize(NULL));
	assert_success(cuGraphExecDestroy(exec));
	assert_success(cuMemFreeHost((void *)flag));
	end();
}

static void destroyed_while_it_runs(void **state)
{
	volatile uint32_t *flag;
	CUgraphExec exec;
	CUstream stream;

	begin();
	assert_success(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	exec = start_endless(&flag, stream);
	assert_success(cuGraphExecDestroy(exec));
	assert_result(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	*flag = 1;
	assert_success(cuStreamSynchronize(stream));
	assert_success(cuStreamDestroy(stream));
	assert_success(cuMemFreeHost((void *)flag));
	end();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			what_runs_after_what, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(
			a_graph_launches_itself, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(
			what_cannot_be_launched, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(
			not_outside_a_graph, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(there_are_limits, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(
			changes_come_with_an_upload_or_a_launch, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(copies_and_fills, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(
			without_end_it_leaves_turns_to_others, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(
			destroyed_while_it_runs, fixture_setup, fixture_teardown),
	};

	if (argc > 1 && !strcmp(argv[1], "another"))
		return be_another();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
