/* SPDX-License-Identifier: MIT
 *
 * cuLaunchKernelEx, with attributes; a launch of a kernel with much shared memory; a cooperative one.
 */
#include "driver.h"

int main(void)
{
	CUlaunchAttribute attributes[1] = {
		{.id = CU_LAUNCH_ATTRIBUTE_PRIORITY, .value = {.priority = 0}}};
	CUlaunchConfig launch = {.gridDimX = 2,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 32,
		.blockDimY = 1,
		.blockDimZ = 1,
		.attrs = attributes,
		.numAttrs = 1};
	CUdeviceptr data;
	int count = 64, one = 1, host[64], most, value;
	void *arguments[] = {&data, &count, &one};

	begin();
	data = numbers(count, 10);
	CHECK(cuLaunchKernelEx(&launch, kernel("add"), arguments, NULL));
	CHECK(cuLaunchCooperativeKernel(kernel("add"), 2, 1, 1, 32, 1, 1, 0, NULL, arguments));
	REQUIRE(number_at(data, 63) == 12);
	for (int i = 0; i < 64; i++)
		host[i] = i;
	CHECK(cuMemcpyHtoD(data, host, sizeof host));
	most = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
	CHECK(cuFuncSetAttribute(kernel("reverse_in_shared"),
		CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most));
	CHECK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
		kernel("reverse_in_shared")));
	REQUIRE(value == most);
	CHECK(cuLaunchKernel(kernel("reverse_in_shared"), 1, 1, 1, 64, 1, 1, (unsigned)most, NULL,
		(void *[]){&data}, NULL));
	for (int i = 0; i < 64; i++)
		REQUIRE(number_at(data, i) == 63 - i);
	return passed();
}
