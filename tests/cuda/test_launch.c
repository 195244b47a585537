/* SPDX-License-Identifier: MIT
 *
 * Launches: parameters, limits, faults.
 */
#include "fixture.h"

/* ---- parameters ---- */

struct __attribute__((packed, aligned(8))) mixed {
	CUdeviceptr out;
	uint8_t a;
	uint8_t gap;
	uint16_t b;
	uint32_t c;
	uint64_t d;
	float e;
	uint32_t f[3];
};

static void check_mixed(CUdeviceptr out)
{
	const uint64_t expected[] = {200, 60000, 4000000000u, 1ull << 60, 12, 33};
	uint64_t got[6];

	assert_success(cuMemcpyDtoH(got, out, sizeof got));
	assert_memory_equal(got, expected, sizeof got);
	assert_success(cuMemsetD8(out, 0, sizeof got));
}

static void parameters_arrive_whichever_way_they_are_given(void **state)
{
	CUfunction function = fixture_function("mixed");
	CUdeviceptr out = words_alloc(12, 0);
	struct mixed mixed = {.out = out,
		.a = 200,
		.b = 60000,
		.c = 4000000000u,
		.d = 1ull << 60,
		.e = 12.5f,
		.f = {11, 22, 33}};
	size_t size = sizeof mixed;
	void *params[] = {&mixed.out, &mixed.a, &mixed.b, &mixed.c, &mixed.d, &mixed.e, mixed.f};
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &mixed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
		CU_LAUNCH_PARAM_END};

	assert_success(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	check_mixed(out);
	assert_success(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
	check_mixed(out);
	assert_result(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
		CUDA_ERROR_INVALID_VALUE);
	extra[1] = NULL;
	assert_result(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra),
		CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemFree(out));
}

/* Those that a buffer is too short for are 0, as is what lies behind the buffer's end. */
static void a_buffer_of_parameters_may_be_short(void **state)
{
	CUfunction function = fixture_function("add");
	CUdeviceptr words = words_alloc(8, 5);
	struct {
		CUdeviceptr words;
		uint32_t count, value;
	} add = {words, 8, 3};
	size_t size = offsetof(__typeof__(add), value);
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &add, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
		CU_LAUNCH_PARAM_END};

	assert_success(cuLaunchKernel(function, 1, 1, 1, 8, 1, 1, 0, NULL, NULL, extra));
	words_check(words, 8, 5);
	size = sizeof add;
	assert_success(cuLaunchKernel(function, 1, 1, 1, 8, 1, 1, 0, NULL, NULL, extra));
	words_check(words, 8, 8);
	assert_success(cuMemFree(words));
}

static void functions_tell_their_parameters(void **state)
{
	CUfunction function = fixture_function("mixed");
	size_t offset, size;

	assert_success(cuFuncGetParamInfo(function, 3, &offset, &size));
	assert_int_equal(offset, 12);
	assert_int_equal(size, 4);
	assert_success(cuFuncGetParamInfo(function, 6, &offset, &size));
	assert_int_equal(offset, 28);
	assert_int_equal(size, 12);
	assert_result(cuFuncGetParamInfo(function, 7, &offset, &size), CUDA_ERROR_INVALID_VALUE);
}

/* The calls of CUDA 4.0, which no vendor's library has any more. */
static void the_calls_of_cuda_4_launch(void **state)
{
	CUdeviceptr memory = words_alloc(1000, 1);
	CUfunction function = fixture_function("add");

	if (getenv("TEST_VENDOR"))
		skip();
	assert_success(cuFuncSetBlockShape(function, 100, 1, 1));
	assert_success(cuParamSetv(function, 0, &memory, sizeof memory));
	assert_success(cuParamSeti(function, 8, 1000));
	assert_success(cuParamSeti(function, 12, 41));
	assert_success(cuParamSetSize(function, 16));
	assert_success(cuLaunchGrid(function, 10, 1));
	words_check(memory, 1000, 42);
	assert_result(cuFuncSetBlockShape(function, 0, 1, 1), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuParamSetSize(function, 100000), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemFree(memory));
}

/* ---- limits ---- */

static void launches_beyond_a_limit_are_refused(void **state)
{
	CUdeviceptr memory = words_alloc(256, 1);
	CUfunction function = fixture_function("add");
	uint32_t n = 256, v = 1;
	void *params[] = {&memory, &n, &v};

	assert_result(cuLaunchKernel(function, 0, 1, 1, 256, 1, 1, 0, NULL, params, NULL),
		CUDA_ERROR_INVALID_VALUE);
	assert_result(cuLaunchKernel(function, 1, 1, 1, 0, 1, 1, 0, NULL, params, NULL),
		CUDA_ERROR_INVALID_VALUE);
	assert_result(cuLaunchKernel(function, 1, 1, 1, 2048, 1, 1, 0, NULL, params, NULL),
		CUDA_ERROR_INVALID_VALUE);
	assert_result(cuLaunchKernel(function, 1, 70000, 1, 1, 1, 1, 0, NULL, params, NULL),
		CUDA_ERROR_INVALID_VALUE);
	assert_result(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 100 << 20, NULL, params, NULL),
		CUDA_ERROR_INVALID_VALUE);
	words_check(memory, 256, 1);
	assert_success(cuMemFree(memory));
}

static void dynamic_shared_memory_is_what_was_asked_for(void **state)
{
	uint32_t words[512];
	CUdeviceptr memory;
	void *params[] = {&memory};
	CUfunction function = fixture_function("reverse");
	int limit;

	for (uint32_t i = 0; i < 512; i++)
		words[i] = i;
	assert_success(cuMemAlloc(&memory, sizeof words));
	assert_success(cuMemcpyHtoD(memory, words, sizeof words));
	assert_success(
		cuLaunchKernel(function, 1, 1, 1, 512, 1, 1, sizeof words, NULL, params, NULL));
	assert_success(cuMemcpyDtoH(words, memory, sizeof words));
	for (uint32_t i = 0; i < 512; i++)
		assert_int_equal(words[i], 511 - i);
	assert_success(cuFuncGetAttribute(
		&limit, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function));
	assert_int_equal(limit, 48 << 10);
	assert_result(cuLaunchKernel(function, 1, 1, 1, 512, 1, 1, 64 << 10, NULL, params, NULL),
		CUDA_ERROR_INVALID_VALUE);
	assert_success(cuFuncSetAttribute(
		function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 64 << 10));
	assert_success(cuLaunchKernel(function, 1, 1, 1, 512, 1, 1, 64 << 10, NULL, params, NULL));
	assert_success(cuCtxSynchronize());
	assert_result(cuFuncSetAttribute(
			      function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100 << 20),
		CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemFree(memory));
}

static void occupancy_is_told(void **state)
{
	CUfunction function = fixture_function("add");
	int blocks, grid, size;

	assert_success(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 256, 0));
	assert_in_range(blocks, 1, 64);
	assert_success(cuOccupancyMaxPotentialBlockSize(&grid, &size, function, NULL, 0, 0));
	assert_in_range(size, 32, 1024);
	assert_true(grid >= 1);
	assert_success(cuOccupancyMaxPotentialBlockSize(&grid, &size, function, NULL, 0, 128));
	assert_in_range(size, 32, 128);
	assert_result(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 0, 0),
		CUDA_ERROR_INVALID_VALUE);
}

static void an_extensible_launch_takes_attributes(void **state)
{
	CUdeviceptr memory = words_alloc(256, 1);
	uint32_t n = 256, v = 1;
	void *params[] = {&memory, &n, &v};
	CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PRIORITY};
	CUlaunchConfig config = {1, 1, 1, 256, 1, 1, 0, NULL, &attribute, 1};

	attribute.value.priority = 0;
	assert_success(cuLaunchKernelEx(&config, fixture_function("add"), params, NULL));
	words_check(memory, 256, 2);
	assert_result(cuLaunchKernelEx(NULL, fixture_function("add"), params, NULL),
		CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemFree(memory));
}

/* The blocks wait for each other, and each adds its neighbour's word to its own. */
static void blocks_of_a_cooperative_launch_run_at_once(void **state)
{
	enum { ROUNDS = 5 };
	CUfunction function = fixture_function("ring");
	uint32_t expected[64], before[64], words[65], rounds = ROUNDS, blocks;
	CUdeviceptr memory = words_alloc(65, 0);
	void *params[] = {&memory, &rounds};
	int supported, each, processors;

	assert_success(cuDeviceGetAttribute(
		&supported, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, fixture_device));
	if (!supported)
		skip();
	assert_success(cuDeviceGetAttribute(
		&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, fixture_device));
	assert_success(cuOccupancyMaxActiveBlocksPerMultiprocessor(&each, function, 1, 0));
	blocks = each * processors < 16 ? (uint32_t)(each * processors) : 16;
	words[0] = 0;
	for (uint32_t i = 0; i < blocks; i++)
		expected[i] = words[i + 1] = i;
	for (int round = 0; round < ROUNDS; round++) {
		memcpy(before, expected, sizeof before);
		for (uint32_t i = 0; i < blocks; i++)
			expected[i] += before[(i + 1) % blocks];
	}
	assert_success(cuMemcpyHtoD(memory, words, sizeof words));
	assert_success(cuLaunchCooperativeKernel(function, blocks, 1, 1, 1, 1, 1, 0, NULL, params));
	assert_success(cuMemcpyDtoH(words, memory, sizeof words));
	assert_memory_equal(words + 1, expected, blocks * sizeof *words);
	assert_result(cuLaunchCooperativeKernel(function, (unsigned)(each * processors) + 1, 1, 1,
			      1, 1, 1, 0, NULL, params),
		CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
	assert_success(cuMemFree(memory));
}

static void launches_are_many(void **state)
{
	uint32_t n = 32, v = 1, count = 20000;
	CUdeviceptr memory = words_alloc(n, 0);

	for (uint32_t i = 0; i < count; i++)
		assert_success(launch_on(NULL, "add", 1, 32, &memory, &n, &v));
	words_check(memory, n, count);
	assert_success(cuMemFree(memory));
}

/* ---- faults; each leaves its context broken ---- */

static void a_stray_write_breaks_the_context_and_nothing_else(void **state)
{
	CUcontext broken = fixture_context_create();
	uint64_t address = 16;
	void *params[] = {&address};
	CUdeviceptr memory;
	CUfunction function;
	CUmodule module;

	assert_success(cuModuleLoadData(&module, kernels_ptx));
	assert_success(cuModuleGetFunction(&function, module, "stray"));
	assert_success(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	assert_result(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_result(cuMemAlloc(&memory, 16), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_result(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL),
		CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_result(cuStreamQuery(NULL), CUDA_ERROR_ILLEGAL_ADDRESS);
	cuCtxDestroy(broken);
}

static void a_block_that_fails_ends_a_cooperative_launch(void **state)
{
	CUcontext broken;
	CUdeviceptr memory;
	void *params[] = {&memory};
	CUfunction function;
	CUmodule module;

	if (getenv("TEST_VENDOR"))
		skip(); /* after a fault the process has to end there */
	broken = fixture_context_create();
	memory = words_alloc(1, 0);
	assert_success(cuModuleLoadData(&module, kernels_ptx));
	assert_success(cuModuleGetFunction(&function, module, "desert"));
	if (cuLaunchCooperativeKernel(function, 4, 1, 1, 1, 1, 1, 0, NULL, params) ==
		CUDA_ERROR_NOT_SUPPORTED)
		skip();
	assert_result(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	cuCtxDestroy(broken);
}

static int last_setup(void **state)
{
	assert_success(cuInit(0));
	assert_success(cuDeviceGet(&fixture_device, 0));
	return 0;
}

static void after_a_fault_a_new_context_works(void **state)
{
	uint32_t n = 256, v = 1;
	CUdeviceptr memory;

	if (getenv("TEST_VENDOR"))
		skip(); /* there, the process has to end */
	fixture_setup(state);
	memory = words_alloc(n, 1);
	assert_success(launch_on(NULL, "add", 1, 256, &memory, &n, &v));
	words_check(memory, n, 2);
	fixture_teardown(state);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(parameters_arrive_whichever_way_they_are_given),
		TEST(a_buffer_of_parameters_may_be_short),
		TEST(functions_tell_their_parameters),
		TEST(the_calls_of_cuda_4_launch),
		TEST(launches_beyond_a_limit_are_refused),
		TEST(dynamic_shared_memory_is_what_was_asked_for),
		TEST(occupancy_is_told),
		TEST(an_extensible_launch_takes_attributes),
		TEST(blocks_of_a_cooperative_launch_run_at_once),
		TEST(launches_are_many),
		cmocka_unit_test_setup(
			a_stray_write_breaks_the_context_and_nothing_else, last_setup),
		cmocka_unit_test_setup(after_a_fault_a_new_context_works, last_setup),
		cmocka_unit_test_setup(a_block_that_fails_ends_a_cooperative_launch, last_setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
