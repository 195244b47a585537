/* SPDX-License-Identifier: MIT
 *
 * The primary context: counted, with flags of its own, and reset.
 */
#include "driver.h"

int main(void)
{
	CUcontext again;
	unsigned flags;
	int active;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxSetFlags(device, CU_CTX_SCHED_YIELD));
	CHECK(cuDevicePrimaryCtxGetState(device, &flags, &active));
	REQUIRE(!active && flags == CU_CTX_SCHED_YIELD);
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuDevicePrimaryCtxRetain(&again, device));
	REQUIRE(context == again);
	CHECK(cuCtxSetCurrent(context));
	numbers(1, 0);
	CHECK(cuDevicePrimaryCtxRelease(device));
	CHECK(cuDevicePrimaryCtxGetState(device, &flags, &active));
	REQUIRE(active);
	CHECK(cuDevicePrimaryCtxReset(device));
	CHECK(cuDevicePrimaryCtxGetState(device, &flags, &active));
	REQUIRE(!active);
	return passed();
}
