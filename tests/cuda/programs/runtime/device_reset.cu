/* SPDX-License-Identifier: MIT
 *
 * cudaDeviceReset: all that the process had on the device is gone, variables have their first values, and it begins anew.
 */
#include "../program.h"

__device__ int variable = 11;

__global__ void change()
{
	variable++;
}

int main()
{
	char *memory;
	int value;

	CHECK(cudaMalloc(&memory, 64 << 20));
	change<<<1, 1>>>();
	CHECK(cudaMemcpyFromSymbol(&value, variable, sizeof value));
	REQUIRE(value == 12);
	CHECK(cudaDeviceReset());
	CHECK(cudaMemcpyFromSymbol(&value, variable, sizeof value));
	REQUIRE(value == 11);
	EXPECT(cudaMemset(memory, 0, 1), cudaErrorInvalidValue);
	return passed();
}
