/* SPDX-License-Identifier: MIT
 *
 * Conditional nodes of graphs: if with and without else, while, switch, one inside another, and what they are not.
 */
#include "fixture.h"

/* set(handle, value); count(handle, counter, limit): adds one, and says whether that is less; add(counter, n). */
static const char ptx[] =
	".version 8.0\n.target sm_75\n.address_size 64\n"
	".extern .func cudaGraphSetConditional(.param .b64 h, .param .b32 v);\n"
	".visible .entry set(.param .b64 handle, .param .b32 value)\n{\n"
	"	.reg .b64 %h;\n	.reg .b32 %v;\n"
	"	ld.param.b64 %h, [handle];\n	ld.param.b32 %v, [value];\n"
	"	{\n	.param .b64 a;\n	.param .b32 b;\n"
	"	st.param.b64 [a], %h;\n	st.param.b32 [b], %v;\n"
	"	call.uni cudaGraphSetConditional, (a, b);\n	}\n	ret;\n}\n"
	".visible .entry count(.param .b64 handle, .param .b64 counter, .param .b32 limit)\n{\n"
	"	.reg .b64 %h, %c;\n	.reg .b32 %v, %l;\n	.reg .pred %p;\n"
	"	ld.param.b64 %h, [handle];\n	ld.param.b64 %c, [counter];\n"
	"	ld.param.b32 %l, [limit];\n"
	"	ld.global.b32 %v, [%c];\n	add.u32 %v, %v, 1;\n	st.global.b32 [%c], %v;\n"
	"	setp.lt.u32 %p, %v, %l;\n	selp.b32 %v, 1, 0, %p;\n"
	"	{\n	.param .b64 a;\n	.param .b32 b;\n"
	"	st.param.b64 [a], %h;\n	st.param.b32 [b], %v;\n"
	"	call.uni cudaGraphSetConditional, (a, b);\n	}\n	ret;\n}\n"
	".visible .entry add(.param .b64 counter, .param .b32 n)\n{\n"
	"	.reg .b64 %c;\n	.reg .b32 %n;\n"
	"	ld.param.b64 %c, [counter];\n	ld.param.b32 %n, [n];\n"
	"	red.global.add.u32 [%c], %n;\n	ret;\n}\n";

static CUmodule module;
static CUgraph graph;
static CUdeviceptr counters; /* of 32 bits */

static void begin(void)
{
	if (getenv("TEST_VENDOR"))
		skip(); /* which wants its device runtime linked */
	assert_success(cuGraphCreate(&graph, 0));
	assert_success(cuModuleLoadData(&module, ptx));
	counters = words_alloc(8, 0);
}

static void end(CUgraphExec exec)
{
	assert_success(cuGraphExecDestroy(exec));
	assert_success(cuGraphDestroy(graph));
	assert_success(cuMemFree(counters));
	assert_success(cuModuleUnload(module));
}

static CUdeviceptr counter(unsigned i)
{
	return counters + 4 * i;
}

static uint32_t counted(unsigned i)
{
	uint32_t word;

	assert_success(cuMemcpyDtoH(&word, counter(i), sizeof word));
	return word;
}

static CUgraphNode add_kernel(CUgraph to, CUgraphNode after, const char *name, void **params)
{
	CUDA_KERNEL_NODE_PARAMS kernel = {.gridDimX = 1,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 1,
		.blockDimY = 1,
		.blockDimZ = 1,
		.kernelParams = params};
	CUgraphNode node;

	assert_success(cuModuleGetFunction(&kernel.func, module, name));
	assert_success(cuGraphAddKernelNode(&node, to, &after, after != NULL, &kernel));
	return node;
}

static void add_one(CUgraph to, CUdeviceptr at)
{
	uint32_t one = 1;

	add_kernel(to, NULL, "add", (void *[]){&at, &one});
}

static CUgraphNode add_conditional(CUgraph to, CUgraphNode after, CUgraphConditionalHandle handle,
	CUgraphConditionalNodeType type, unsigned size, CUgraph **bodies)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL,
		.conditional = {.handle = handle, .type = type, .size = size}};
	CUgraphNode node;

	assert_success(cuGraphAddNode(&node, to, &after, NULL, after != NULL, &params));
	*bodies = params.conditional.phGraph_out;
	return node;
}

static void a_switch_runs_the_body_of_its_number(void **state)
{
	CUgraphConditionalHandle handle, other;
	CUgraphExec execs[4];
	CUgraph *bodies;

	begin();
	assert_success(cuGraphDestroy(graph));
	for (uint32_t value = 0; value < 4; value++) {
		assert_success(cuGraphCreate(&graph, 0));
		assert_success(cuGraphConditionalHandleCreate(&handle, graph, NULL, 0, 0));
		assert_success(cuGraphConditionalHandleCreate(
			&other, graph, NULL, value & 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
		CUgraphNode set = add_kernel(graph, NULL, "set", (void *[]){&handle, &value});
		CUgraphNode node =
			add_conditional(graph, set, handle, CU_GRAPH_COND_TYPE_SWITCH, 3, &bodies);
		for (unsigned i = 0; i < 3; i++)
			add_one(bodies[i], counter(i));
		add_conditional(graph, node, other, CU_GRAPH_COND_TYPE_IF, 2, &bodies);
		add_one(bodies[0], counter(4));
		add_one(bodies[1], counter(5));
		assert_success(cuGraphInstantiate(&execs[value], graph, 0));
		if (value < 3)
			assert_success(cuGraphDestroy(graph)); /* the executable one goes on */
	}
	for (unsigned value = 0; value < 4; value++)
		for (unsigned times = 0; times <= value; times++)
			assert_success(cuGraphLaunch(execs[value], 0));
	for (unsigned value = 0; value < 3; value++)
		assert_int_equal(counted(value), value + 1);
	assert_int_equal(counted(4), 2 + 4);
	assert_int_equal(counted(5), 1 + 3);
	for (unsigned value = 0; value < 3; value++)
		assert_success(cuGraphExecDestroy(execs[value]));
	end(execs[3]);
}

static void loops_are_inside_loops(void **state)
{
	CUgraphConditionalHandle outer, inner;
	uint32_t rounds = 3, often = 5, no = 0;
	CUgraph *bodies, body;
	CUgraphExec exec;

	begin();
	assert_success(cuGraphConditionalHandleCreate(
		&outer, graph, NULL, 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
	add_conditional(graph, NULL, outer, CU_GRAPH_COND_TYPE_WHILE, 1, &bodies);
	body = bodies[0];
	assert_success(cuGraphConditionalHandleCreate(&inner, body, NULL, 0, 0));
	CUdeviceptr turns = counter(0), all = counter(1);
	CUgraphNode first = add_kernel(body, NULL, "count", (void *[]){&inner, &turns, &often});
	CUgraphNode loop =
		add_conditional(body, first, inner, CU_GRAPH_COND_TYPE_WHILE, 1, &bodies);
	CUgraphNode again =
		add_kernel(bodies[0], NULL, "count", (void *[]){&inner, &turns, &often});
	(void)again;
	CUgraphNode last = add_kernel(body, loop, "count", (void *[]){&outer, &all, &rounds});
	CUDA_MEMSET_NODE_PARAMS zero = {turns, 0, no, 4, 1, 1};
	CUgraphNode cleared;
	CUcontext context;
	assert_success(cuCtxGetCurrent(&context));
	assert_success(cuGraphAddMemsetNode(&cleared, body, &last, 1, &zero, context));
	assert_success(cuGraphInstantiate(&exec, graph, 0));
	assert_success(cuGraphLaunch(exec, 0));
	assert_int_equal(counted(1), rounds);
	assert_int_equal(counted(0), 0);
	/* Destroyed while it runs: what it has begun, it ends. */
	assert_success(cuMemsetD32(all, 0, 1));
	assert_success(cuGraphLaunch(exec, 0));
	end(exec);
}

static void what_a_conditional_node_is_not(void **state)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
	CUgraphConditionalHandle handle;
	CUgraphNode node, wait;
	CUgraphExec exec;
	CUevent event;

	begin();
	assert_success(cuGraphConditionalHandleCreate(&handle, graph, NULL, 0, 0));
	params.conditional.handle = handle + 1;
	params.conditional.size = 1;
	assert_result(
		cuGraphAddNode(&node, graph, NULL, NULL, 0, &params), CUDA_ERROR_INVALID_VALUE);
	params.conditional.handle = handle;
	for (int type = 0; type < 3; type++) {
		params.conditional.type = (CUgraphConditionalNodeType)type;
		params.conditional.size = type == CU_GRAPH_COND_TYPE_SWITCH ? 0 : 3;
		assert_result(cuGraphAddNode(&node, graph, NULL, NULL, 0, &params),
			CUDA_ERROR_INVALID_VALUE);
	}
	params.conditional.size = 1;
	params.conditional.type = CU_GRAPH_COND_TYPE_IF;
	assert_success(cuGraphAddNode(&node, graph, NULL, NULL, 0, &params));
	assert_result(cuGraphAddNode(&node, graph, NULL, NULL, 0, &params),
		CUDA_ERROR_INVALID_VALUE); /* the handle is used */
	assert_success(cuEventCreate(&event, 0));
	assert_success(
		cuGraphAddEventWaitNode(&wait, params.conditional.phGraph_out[0], NULL, 0, event));
	assert_result(cuGraphInstantiate(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuGraphDestroyNode(wait));
	assert_success(cuGraphInstantiate(&exec, graph, 0));
	assert_success(cuEventDestroy(event));
	end(exec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_switch_runs_the_body_of_its_number, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(
			loops_are_inside_loops, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(
			what_a_conditional_node_is_not, fixture_setup, fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
