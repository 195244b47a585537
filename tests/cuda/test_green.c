/* SPDX-License-Identifier: MIT
 *
 * Green contexts: parts of the multiprocessors, and what runs on them.
 */
#include "fixture.h"

static const char where_ptx[] =
	".version 8.0\n.target sm_75\n.address_size 64\n"
	/* The bits of the multiprocessors that its blocks ran on, 256 of them. */
	".visible .entry where(.param .u64 at)\n"
	"{\n.reg .u64 %a, %w;\n.reg .u32 %s, %b, %o;\n"
	"ld.param.u64 %a, [at];\nmov.u32 %s, %smid;\nshr.u32 %o, %s, 5;\n"
	"mul.wide.u32 %w, %o, 4;\nadd.u64 %a, %a, %w;\nand.b32 %s, %s, 31;\n"
	"mov.u32 %b, 1;\nshl.b32 %b, %b, %s;\natom.global.or.b32 %o, [%a], %b;\nret;\n}\n";

#define BIT_WORDS 8

/* What programs with default streams per thread mean by the name. */
CUresult cuStreamGetCtx_v2_ptsz(CUstream stream, CUcontext *context, CUgreenCtx *green);

static CUcontext primary;
static CUfunction where;
static CUdevResource all;

static int setup(void **state)
{
	assert_success(cuInit(0));
	assert_success(cuDeviceGet(&fixture_device, 0));
	assert_success(cuDevicePrimaryCtxRetain(&primary, fixture_device));
	assert_success(cuCtxSetCurrent(primary));
	assert_success(cuModuleLoadData(&fixture_module, kernels_ptx));
	assert_success(cuDeviceGetDevResource(fixture_device, &all, CU_DEV_RESOURCE_TYPE_SM));
	return 0;
}

static int teardown(void **state)
{
	assert_success(cuCtxSetCurrent(NULL));
	assert_success(cuDevicePrimaryCtxReset(fixture_device));
	return 0;
}

/* The smallest groups that there are, two at most, and how many. */
static unsigned split_in_two(CUdevResource parts[2])
{
	unsigned count = 2;

	assert_success(cuDevSmResourceSplitByCount(
		parts, &count, &all, NULL, 0, all.sm.minSmPartitionSize));
	return count;
}

static CUgreenCtx green_of(CUdevResource *part)
{
	CUdevResourceDesc description;
	CUgreenCtx green;

	assert_success(cuDevResourceGenerateDesc(&description, part, 1));
	assert_success(
		cuGreenCtxCreate(&green, description, fixture_device, CU_GREEN_CTX_DEFAULT_STREAM));
	return green;
}

static CUcontext view_of(CUgreenCtx green)
{
	CUcontext view;

	assert_success(cuCtxFromGreenCtx(&view, green));
	return view;
}

static CUstream stream_in(CUgreenCtx green)
{
	CUstream stream;

	assert_success(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
	return stream;
}

static void multiprocessors_are_split(void **state)
{
	unsigned least = all.sm.minSmPartitionSize, wanted, count, left, number;
	CUdevResource parts[3], rest;

	number = (unsigned)fixture_attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
	assert_int_equal(all.type, CU_DEV_RESOURCE_TYPE_SM);
	assert_int_equal(all.sm.smCount, number);
	assert_success(cuDevSmResourceSplitByCount(NULL, &count, &all, NULL, 0, 1));
	assert_true(count >= 1 && count <= number / least);
	wanted = count = count < 3 ? count : 3;
	memset(&rest, 0xff, sizeof rest);
	assert_success(cuDevSmResourceSplitByCount(parts, &count, &all, &rest, 0, 1));
	assert_int_equal(count, wanted);
	left = number;
	for (unsigned i = 0; i < count; i++) {
		assert_int_equal(parts[i].type, CU_DEV_RESOURCE_TYPE_SM);
		assert_int_equal(parts[i].sm.smCount, parts[0].sm.smCount);
		assert_true(parts[i].sm.smCount >= least);
		left -= parts[i].sm.smCount;
	}
	assert_int_equal(rest.type, left ? CU_DEV_RESOURCE_TYPE_SM : CU_DEV_RESOURCE_TYPE_INVALID);
	if (left)
		assert_int_equal(rest.sm.smCount, left);
	count = 1;
	assert_success(cuDevSmResourceSplitByCount(parts, &count, &all, NULL, 0, number));
	assert_int_equal(count, 1);
	assert_int_equal(parts[0].sm.smCount, number);
}

static void a_green_context_has_what_it_was_made_of(void **state)
{
	CUdevResource parts[2], got;
	unsigned long long id, other;
	unsigned count;
	CUcontext context;
	CUgreenCtx green;

	split_in_two(parts);
	green = green_of(&parts[0]);
	assert_success(cuGreenCtxGetDevResource(green, &got, CU_DEV_RESOURCE_TYPE_SM));
	assert_int_equal(got.sm.smCount, parts[0].sm.smCount);
	assert_success(cuCtxGetDevResource(view_of(green), &got, CU_DEV_RESOURCE_TYPE_SM));
	assert_int_equal(got.sm.smCount, parts[0].sm.smCount);
	count = 1; /* which can be split again */
	assert_success(cuDevSmResourceSplitByCount(parts, &count, &got, NULL, 0, 1));
	assert_int_equal(count, 1);
	assert_success(cuCtxGetDevResource(primary, &got, CU_DEV_RESOURCE_TYPE_SM));
	assert_int_equal(got.sm.smCount, all.sm.smCount);
	assert_success(cuGreenCtxGetId(green, &id));
	assert_success(cuCtxGetId(primary, &other));
	assert_int_not_equal(id, other);
	assert_success(cuCtxSetCurrent(view_of(green)));
	assert_success(cuGreenCtxGetId(NULL, &other));
	assert_int_equal(id, other);
	assert_success(cuCtxGetCurrent(&context));
	assert_ptr_equal(context, view_of(green));
	assert_success(cuCtxSetCurrent(primary));
	assert_success(cuGreenCtxDestroy(green));
}

/* On the current context's default stream, or one of its. */
static void find_bits(CUstream stream, uint32_t bits[BIT_WORDS])
{
	CUdeviceptr words = words_alloc(BIT_WORDS, 0);

	assert_success(cuCtxSynchronize());
	assert_success(
		cuLaunchKernel(where, 512, 1, 1, 32, 1, 1, 0, stream, (void *[]){&words}, NULL));
	assert_success(cuStreamSynchronize(stream));
	assert_success(cuMemcpyDtoH(bits, words, BIT_WORDS * sizeof *bits));
	assert_success(cuMemFree(words));
}

static unsigned count_bits(const uint32_t bits[BIT_WORDS])
{
	unsigned count = 0;

	for (int i = 0; i < BIT_WORDS; i++)
		count += (unsigned)__builtin_popcount(bits[i]);
	return count;
}

static void add_bits(uint32_t bits[BIT_WORDS], const uint32_t more[BIT_WORDS])
{
	for (int i = 0; i < BIT_WORDS; i++)
		bits[i] |= more[i];
}

static void kernels_run_on_the_part_of_their_context(void **state)
{
	uint32_t bits[2][BIT_WORDS], again[BIT_WORDS];
	CUdevResource parts[2];
	unsigned count = split_in_two(parts);
	CUgreenCtx greens[2];
	CUmodule module;
	CUstream stream;
	char name[64];

	assert_success(cuDeviceGetName(name, sizeof name, fixture_device));
	if (!strcmp(name, "a driver made for tests")) /* which executes no such kernel */
		skip();
	assert_success(cuModuleLoadData(&module, where_ptx));
	assert_success(cuModuleGetFunction(&where, module, "where"));
	for (unsigned i = 0; i < count; i++) {
		greens[i] = green_of(&parts[i]);
		stream = stream_in(greens[i]);
		find_bits(stream, bits[i]);
		assert_in_range(count_bits(bits[i]), 1, parts[i].sm.smCount);
		assert_success(cuStreamDestroy(stream));
		/* Its own default stream, and one that is made while it is current. */
		assert_success(cuCtxPushCurrent(view_of(greens[i])));
		find_bits(NULL, again);
		add_bits(bits[i], again);
		assert_success(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
		find_bits(stream, again);
		add_bits(bits[i], again);
		assert_in_range(count_bits(bits[i]), 1, parts[i].sm.smCount);
		assert_success(cuStreamDestroy(stream));
		assert_success(cuCtxPopCurrent(NULL));
	}
	for (int k = 0; k < BIT_WORDS && count == 2; k++)
		assert_int_equal(bits[0][k] & bits[1][k], 0);
	for (unsigned i = 0; i < count; i++)
		assert_success(cuGreenCtxDestroy(greens[i]));
}

static void memory_and_code_are_the_primary_context_s(void **state)
{
	uint32_t n = 64, v = 5;
	CUdevResource parts[2];
	CUcontext context;
	CUdeviceptr words;
	CUgreenCtx green, found;
	CUmodule module;
	CUstream stream, other;

	split_in_two(parts);
	green = green_of(&parts[0]);
	assert_success(cuCtxSetCurrent(view_of(green)));
	words = words_alloc(n, 1);
	assert_success(cuModuleLoadData(&module, where_ptx));
	assert_success(launch_on(NULL, "add", 1, 64, &words, &n, &v));
	assert_success(cuStreamGetCtx(NULL, &context));
	assert_ptr_equal(context, view_of(green));
	assert_success(cuStreamGetCtx_v2(NULL, &context, &found));
	assert_ptr_equal(context, primary);
	assert_ptr_equal(found, green);
	stream = stream_in(green);
	assert_success(cuCtxSetCurrent(primary));
	assert_success(cuStreamGetGreenCtx(stream, &found));
	assert_ptr_equal(found, green);
	assert_success(cuStreamCreate(&other, 0));
	assert_success(cuStreamGetGreenCtx(other, &found));
	assert_null(found);
	assert_success(cuStreamGetCtx_v2_ptsz(NULL, &context, &found));
	assert_ptr_equal(context, primary);
	assert_null(found);
	assert_success(cuStreamDestroy(other));
	assert_success(cuStreamDestroy(stream));
	assert_success(cuCtxSynchronize()); /* of the primary one, and of its green ones */
	assert_success(cuGreenCtxDestroy(green));
	words_check(words, n, 6);
	assert_success(cuMemFree(words));
	assert_success(cuModuleUnload(module));
}

/* One waits for the host, the other goes on; then for an event, and both. */
static void green_contexts_wait_for_what_they_are_told_to(void **state)
{
	uint32_t n = 64, v = 5;
	CUdevResource parts[2];
	CUdeviceptr words;
	CUgreenCtx greens[2];
	CUstream waits, streams[2];
	struct gate gate;
	CUevent event;

	if (split_in_two(parts) < 2)
		skip();
	words = words_alloc(n, 1);
	assert_success(cuCtxSynchronize());
	for (int i = 0; i < 2; i++) {
		greens[i] = green_of(&parts[i]);
		streams[i] = stream_in(greens[i]);
	}
	waits = streams[0];
	assert_success(cuEventCreate(&event, CU_EVENT_DEFAULT));
	gate_close(&gate, waits);
	assert_success(launch_on(streams[1], "add", 1, 64, &words, &n, &v));
	assert_success(cuCtxSynchronize_v2(view_of(greens[1])));
	assert_success(cuGreenCtxRecordEvent(greens[1], event));
	assert_success(cuEventSynchronize(event));
	assert_result(cuStreamQuery(waits), CUDA_ERROR_NOT_READY);
	assert_success(cuGreenCtxRecordEvent(greens[0], event));
	assert_result(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	assert_success(cuGreenCtxWaitEvent(greens[1], event));
	assert_success(launch_on(streams[1], "add", 1, 64, &words, &n, &v));
	assert_result(cuStreamQuery(streams[1]), CUDA_ERROR_NOT_READY);
	gate_open(&gate);
	assert_success(cuCtxSynchronize_v2(primary));
	assert_success(cuStreamQuery(waits));
	words_check(words, n, 11);
	gate_free(&gate);
	assert_success(cuEventDestroy(event));
	assert_success(cuMemFree(words));
	for (int i = 0; i < 2; i++) {
		assert_success(cuStreamDestroy(streams[i]));
		assert_success(cuGreenCtxDestroy(greens[i]));
	}
}

static void what_was_recorded_runs_in_a_green_context(void **state)
{
	uint32_t n = 64, v = 5;
	CUdevResource parts[2];
	CUgraphExec exec;
	CUdeviceptr words;
	CUgreenCtx green;
	CUstream stream;
	CUgraph graph;

	split_in_two(parts);
	words = words_alloc(n, 1);
	assert_success(cuCtxSynchronize());
	green = green_of(&parts[0]);
	stream = stream_in(green);
	assert_success(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	assert_success(launch_on(stream, "add", 1, 64, &words, &n, &v));
	assert_success(launch_on(stream, "add", 1, 64, &words, &n, &v));
	assert_success(cuStreamEndCapture(stream, &graph));
	assert_success(cuGraphInstantiate(&exec, graph, 0));
	assert_success(cuGraphLaunch(exec, stream));
	assert_success(cuStreamSynchronize(stream));
	words_check(words, n, 11);
	assert_success(cuGraphExecDestroy(exec));
	assert_success(cuGraphDestroy(graph));
	assert_success(cuStreamDestroy(stream));
	assert_success(cuGreenCtxDestroy(green));
	assert_success(cuMemFree(words));
}

#define MANY (1u << 17) /* blocks, which all multiprocessors that may take part in */

/* Where the kernels of a graph with a branch ran. */
static void branches_run_on_the_part_of_the_launch(void **state)
{
	CUdeviceptr words = words_alloc(BIT_WORDS, 0);
	uint32_t bits[BIT_WORDS];
	CUdevResource parts[2];
	CUstream stream, branch;
	CUgraphExec exec;
	CUgreenCtx green;
	CUmodule module;
	CUgraph graph;
	CUevent event;

	if (split_in_two(parts) < 2)
		skip();
	assert_success(cuModuleLoadData(&module, where_ptx));
	assert_success(cuModuleGetFunction(&where, module, "where"));
	green = green_of(&parts[1]);
	stream = stream_in(green);
	branch = stream_in(green);
	assert_success(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	assert_success(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	assert_success(cuEventRecord(event, stream));
	assert_success(cuStreamWaitEvent(branch, event, 0));
	for (int i = 0; i < 2; i++)
		assert_success(cuLaunchKernel(where, MANY, 1, 1, 32, 1, 1, 0, i ? branch : stream,
			(void *[]){&words}, NULL));
	assert_success(cuEventRecord(event, branch));
	assert_success(cuStreamWaitEvent(stream, event, 0));
	assert_success(cuStreamEndCapture(stream, &graph));
	assert_success(cuGraphInstantiate(&exec, graph, 0));
	assert_success(cuCtxSynchronize());
	assert_success(cuGraphLaunch(exec, stream));
	assert_success(cuStreamSynchronize(stream));
	assert_success(cuMemcpyDtoH(bits, words, sizeof bits));
	assert_in_range(count_bits(bits), 1, parts[1].sm.smCount);
	assert_success(cuGraphLaunch(exec, NULL)); /* and somewhere else the next time, … */
	assert_success(cuStreamSynchronize(NULL));
	assert_success(cuGraphLaunch(exec, stream));
	assert_success(cuStreamDestroy(stream));
	assert_success(cuStreamDestroy(branch));
	assert_success(cuGreenCtxDestroy(green));
	assert_success(cuGraphLaunch(exec, NULL)); /* … also when that part is gone */
	assert_success(cuStreamSynchronize(NULL));
	assert_success(cuGraphExecDestroy(exec));
	assert_success(cuGraphDestroy(graph));
	assert_success(cuEventDestroy(event));
	assert_success(cuMemFree(words));
}

static void a_green_context_ends(void **state)
{
	CUdevResource parts[2];
	CUcontext view;
	CUgreenCtx green;
	CUstream stream;
	unsigned flags;
	int active;

	split_in_two(parts);
	green = green_of(&parts[0]);
	view = view_of(green);
	stream = stream_in(green);
	assert_success(
		cuDevicePrimaryCtxRelease(fixture_device)); /* the green one retains it, too */
	assert_success(cuDevicePrimaryCtxGetState(fixture_device, &flags, &active));
	assert_int_equal(active, 1);
	assert_success(cuDevicePrimaryCtxRetain(&primary, fixture_device));
	assert_success(cuGreenCtxDestroy(green));
	assert_result(cuStreamSynchronize(stream), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	assert_result(cuStreamDestroy(stream), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	if (!getenv("TEST_VENDOR")) /* which follows it */
		assert_result(cuCtxSetCurrent(view), CUDA_ERROR_INVALID_CONTEXT);
	assert_success(cuCtxSynchronize());
	green = green_of(&parts[0]);
	assert_success(cuDevicePrimaryCtxReset(fixture_device));
	if (!getenv("TEST_VENDOR"))
		assert_result(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0),
			CUDA_ERROR_CONTEXT_IS_DESTROYED);
	if (!getenv("TEST_VENDOR"))
		assert_success(cuGreenCtxDestroy(green));
}

/* A node's context is the primary one, whose memory it fills. */
static void a_node_of_a_green_context_outlives_it(void **state)
{
	CUDA_MEMSET_NODE_PARAMS fill = {.value = 7, .elementSize = 4, .width = 64, .height = 1};
	CUdevResource parts[2];
	CUgraphNode nodes[2];
	CUgraphExec exec;
	CUgreenCtx green;
	CUgraph graph;

	if (getenv("TEST_VENDOR"))
		skip(); /* CUDA does not say what becomes of it */
	split_in_two(parts);
	fill.dst = words_alloc(64, 1);
	green = green_of(&parts[0]);
	assert_success(cuGraphCreate(&graph, 0));
	for (int i = 0; i < 2; i++)
		assert_success(
			cuGraphAddMemsetNode(&nodes[i], graph, NULL, 0, &fill, view_of(green)));
	assert_success(cuGraphInstantiate(&exec, graph, 0));
	for (int i = 0; i < 2; i++) {
		assert_success(cuGraphLaunch(exec, NULL));
		words_check(fill.dst, 64, 7);
		assert_success(cuMemsetD32(fill.dst, 1, 64));
		if (!i)
			assert_success(cuGreenCtxDestroy(green));
	}
	assert_success(cuGraphExecDestroy(exec));
	assert_success(cuGraphDestroy(graph));
	assert_success(cuMemFree(fill.dst));
}

/* With the green context ends what its streams capture, so that the primary context can be waited for. */
static void a_capture_ends_with_its_green_context(void **state)
{
	CUdeviceptr words = words_alloc(64, 1);
	CUdevResource parts[2];
	CUgreenCtx green;
	CUstream stream;
	CUgraph graph;

	if (getenv("TEST_VENDOR"))
		skip(); /* CUDA does not say what becomes of it */
	split_in_two(parts);
	green = green_of(&parts[0]);
	stream = stream_in(green);
	assert_success(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	assert_success(cuMemsetD32Async(words, 5, 64, stream));
	assert_success(cuGreenCtxDestroy(green));
	assert_result(cuStreamEndCapture(stream, &graph), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	assert_success(cuCtxSynchronize());
	words_check(words, 64, 1);
	assert_success(cuMemFree(words));
}

static void cooperative_launches_fit_on_the_part(void **state)
{
	CUfunction ring = fixture_function("ring");
	uint32_t rounds = 5;
	CUdeviceptr memory = words_alloc(65, 0);
	void *params[] = {&memory, &rounds};
	CUdevResource parts[2];
	unsigned blocks;
	CUgreenCtx green;
	CUstream stream;
	int each;

	if (!fixture_attribute(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH) || split_in_two(parts) < 2)
		skip();
	assert_success(cuOccupancyMaxActiveBlocksPerMultiprocessor(&each, ring, 1, 0));
	blocks = (unsigned)each * parts[1].sm.smCount;
	green = green_of(&parts[1]);
	stream = stream_in(green);
	assert_success(cuLaunchCooperativeKernel(
		ring, blocks < 16 ? blocks : 16, 1, 1, 1, 1, 1, 0, stream, params));
	assert_success(cuStreamSynchronize(stream));
	assert_result(cuLaunchCooperativeKernel(ring, blocks + 1, 1, 1, 1, 1, 1, 0, stream, params),
		CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
	assert_success(cuStreamSynchronize(stream));
	assert_success(cuStreamDestroy(stream));
	assert_success(cuGreenCtxDestroy(green));
	assert_success(cuMemFree(memory));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(multiprocessors_are_split, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_green_context_has_what_it_was_made_of, setup, teardown),
		cmocka_unit_test_setup_teardown(
			kernels_run_on_the_part_of_their_context, setup, teardown),
		cmocka_unit_test_setup_teardown(
			memory_and_code_are_the_primary_context_s, setup, teardown),
		cmocka_unit_test_setup_teardown(
			green_contexts_wait_for_what_they_are_told_to, setup, teardown),
		cmocka_unit_test_setup_teardown(
			what_was_recorded_runs_in_a_green_context, setup, teardown),
		cmocka_unit_test_setup_teardown(
			branches_run_on_the_part_of_the_launch, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_node_of_a_green_context_outlives_it, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_capture_ends_with_its_green_context, setup, teardown),
		cmocka_unit_test_setup_teardown(
			cooperative_launches_fit_on_the_part, setup, teardown),
		cmocka_unit_test_setup_teardown(a_green_context_ends, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
