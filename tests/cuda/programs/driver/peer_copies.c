/* SPDX-License-Identifier: MIT
 *
 * Copies between two devices, and a kernel of one that reads the other's memory when it may.
 */
#include "driver.h"

int main(void)
{
	CUcontext second;
	CUdeviceptr first_data, second_data, result;
	CUdevice other;
	int devices, count = 256, can, one = 1;

	begin();
	CHECK(cuDeviceGetCount(&devices));
	if (devices < 2)
		return skipped("there is one device");
	first_data = numbers(count, 4);
	LAUNCH(NULL, "add", 1, 256, &first_data, &count, &one);
	CHECK(cuCtxSynchronize());
	CHECK(cuDeviceGet(&other, 1));
	CHECK(cuDevicePrimaryCtxRetain(&second, other));
	CHECK(cuCtxSetCurrent(second));
	CHECK(cuModuleLoadData(&module, kernels_ptx));
	second_data = numbers(count, 0);
	result = numbers(1, 0);
	CHECK(cuMemcpyPeer(second_data, second, first_data, context, (size_t)count * sizeof(int)));
	LAUNCH(NULL, "sum", 1, 256, &second_data, &count, &result);
	REQUIRE(number_at(result, 0) == 256 * 5);
	CHECK(cuDeviceCanAccessPeer(&can, other, device));
	if (can) {
		CHECK(cuCtxEnablePeerAccess(context, 0));
		LAUNCH(NULL, "sum", 1, 256, &first_data, &count, &result);
		REQUIRE(number_at(result, 0) == 2 * 256 * 5);
		CHECK(cuCtxDisablePeerAccess(context));
	}
	return passed();
}
