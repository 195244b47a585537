/* SPDX-License-Identifier: MIT
 *
 * __managed__ variables: written by the host before there is a context, by kernels and by copies.
 */
#include "../program.h"

__managed__ int counter = 5;
__managed__ float table[256];
__device__ int plain = 3;

__global__ void count()
{
	atomicAdd(&counter, plain);
	table[threadIdx.x] = threadIdx.x * 2.0f;
}

int main()
{
	int value, two = 2;

	counter += 10;
	count<<<1, 256>>>();
	CHECK(cudaDeviceSynchronize());
	REQUIRE(counter == 15 + 256 * 3);
	REQUIRE(table[255] == 510);
	CHECK(cudaMemcpyFromSymbol(&value, counter, sizeof value));
	REQUIRE(value == counter);
	CHECK(cudaMemcpyToSymbol(counter, &two, sizeof two));
	CHECK(cudaDeviceSynchronize());
	REQUIRE(counter == 2);
	return passed();
}
