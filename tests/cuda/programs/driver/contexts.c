/* SPDX-License-Identifier: MIT
 *
 * Contexts: a stack of them for each thread, memory of one used in another, and what ends with a context.
 */
#include "driver.h"

int main(void)
{
	CUcontext first, second, current;
	CUdeviceptr memory;
	CUdevice of;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	EXPECT(cuMemAlloc(&memory, 4), CUDA_ERROR_INVALID_CONTEXT);
	CHECK(cuCtxCreate(&first, NULL, CU_CTX_SCHED_BLOCKING_SYNC, device));
	memory = numbers(4, 9);
	CHECK(cuCtxSynchronize());
	CHECK(cuCtxCreate(&second, NULL, 0, device));
	CHECK(cuCtxGetCurrent(&current));
	REQUIRE(current == second);
	REQUIRE(number_at(memory, 3) == 9); /* one address space */
	CHECK(cuCtxPopCurrent(&current));
	REQUIRE(current == second);
	CHECK(cuCtxGetCurrent(&current));
	REQUIRE(current == first);
	CHECK(cuCtxPushCurrent(second));
	CHECK(cuCtxGetDevice(&of));
	REQUIRE(of == device);
	CHECK(cuCtxDestroy(second));
	CHECK(cuCtxGetCurrent(&current));
	REQUIRE(current == first);
	CHECK(cuCtxSynchronize());
	CHECK(cuCtxDestroy(first));
	EXPECT(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
	return passed();
}
