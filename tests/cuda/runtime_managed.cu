/* SPDX-License-Identifier: MIT
 *
 * Managed variables of the runtime API: written by the program before there is a context, by kernels, and by
 * copies. For the software GPU. Prints the first thing that is wrong and fails.
 */
#include "runtime.h"

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
	cudaPointerAttributes pointer;
	int value;

	counter += 10;
	count<<<1, 256>>>();
	REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
	REQUIRE(counter == 15 + 256 * 3);
	REQUIRE(table[255] == 510);
	REQUIRE(cudaMemcpyFromSymbol(&value, counter, sizeof value) == cudaSuccess);
	REQUIRE(value == counter);
	REQUIRE(cudaPointerGetAttributes(&pointer, &counter) == cudaSuccess);
	REQUIRE(pointer.type == cudaMemoryTypeManaged);
	return 0;
}
