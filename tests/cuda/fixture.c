/* SPDX-License-Identifier: MIT
 *
 * See fixture.h.
 */
#include "fixture.h"

CUdevice fixture_device;
CUcontext fixture_context;
CUmodule fixture_module;

CUcontext fixture_context_create(void)
{
	CUcontext context;

#if CUDA_VERSION >= 13000
	assert_success(cuCtxCreate(&context, NULL, 0, fixture_device));
#else
	assert_success(cuCtxCreate(&context, 0, fixture_device));
#endif
	return context;
}

int fixture_attribute(CUdevice_attribute attribute)
{
	int value;

	assert_success(cuDeviceGetAttribute(&value, attribute, fixture_device));
	return value;
}

bool fixture_is_hardware(void)
{
	const char *device = getenv("GDEV_TEST_DEVICE");

	return getenv("TEST_VENDOR") || (device && strncmp(device, "cpu", 3));
}

int fixture_setup(void **state)
{
	assert_success(cuInit(0));
	assert_success(cuDeviceGet(&fixture_device, 0));
	fixture_context = fixture_context_create();
	assert_success(cuModuleLoadData(&fixture_module, kernels_ptx));
	return 0;
}

int fixture_teardown(void **state)
{
	assert_success(cuCtxDestroy(fixture_context));
	return 0;
}

CUfunction fixture_function(const char *name)
{
	CUfunction function;

	assert_success(cuModuleGetFunction(&function, fixture_module, name));
	return function;
}

void gate_close(struct gate *gate, CUstream stream)
{
	void *flag;

	assert_success(cuMemHostAlloc(&flag, sizeof *gate->flag, CU_MEMHOSTALLOC_DEVICEMAP));
	gate->flag = flag;
	*gate->flag = 0;
	assert_success(launch_on(stream, "gate", 1, 1, &flag));
}

void gate_open(struct gate *gate)
{
	*gate->flag = 1;
}

void gate_free(struct gate *gate)
{
	assert_success(cuMemFreeHost((void *)gate->flag));
}

CUdeviceptr words_alloc(size_t count, uint32_t value)
{
	CUdeviceptr words;

	assert_success(cuMemAlloc(&words, count * sizeof value));
	assert_success(cuMemsetD32(words, value, count));
	return words;
}

void words_check(CUdeviceptr words, size_t count, uint32_t value)
{
	uint32_t *copy = malloc(count * sizeof *copy);

	assert_non_null(copy);
	assert_success(cuMemcpyDtoH(copy, words, count * sizeof *copy));
	for (size_t i = 0; i < count; i++)
		if (copy[i] != value)
			fail_msg("word %zu of %zu is %u, not %u", i, count, copy[i], value);
	free(copy);
}
