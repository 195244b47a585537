/* SPDX-License-Identifier: MIT
 *
 * See sides.h.
 */
#include "sides.h"

struct side sides[SIDES];

void use(int i)
{
	assert_success(cuCtxSetCurrent(sides[i].context));
}

int sides_setup(void **state)
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
	}
	return 0;
}

int sides_teardown(void **state)
{
	for (int i = 0; i < SIDES; i++)
		assert_success(cuCtxDestroy(sides[i].context));
	return 0;
}

void launch_add(int i, CUdeviceptr words, uint32_t count, uint32_t value)
{
	assert_success(cuLaunchKernel(sides[i].add, (count + 127) / 128, 1, 1, 128, 1, 1, 0,
		sides[i].stream, (void *[]){&words, &count, &value}, NULL));
}
