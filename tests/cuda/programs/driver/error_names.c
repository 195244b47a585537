/* SPDX-License-Identifier: MIT
 *
 * Names and texts of the driver's errors.
 */
#include "driver.h"

int main(void)
{
	const char *text;

	CHECK(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
	REQUIRE(!strcmp(text, "CUDA_ERROR_OUT_OF_MEMORY"));
	CHECK(cuGetErrorString(CUDA_ERROR_INVALID_VALUE, &text));
	REQUIRE(!strcmp(text, "invalid argument"));
	EXPECT(cuGetErrorName((CUresult)-1, &text), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuDeviceGet(&device, 0), CUDA_ERROR_NOT_INITIALIZED);
	EXPECT(cuInit(1), CUDA_ERROR_INVALID_VALUE);
	CHECK(cuInit(0));
	EXPECT(cuDeviceGet(&device, 1000), CUDA_ERROR_INVALID_DEVICE);
	return passed();
}
