/* SPDX-License-Identifier: MIT
 *
 * Barriers that also count or vote over the block's threads.
 */
#include "../program.h"

__global__ void vote(int *results)
{
	int odd = threadIdx.x % 2, count = __syncthreads_count(odd);
	int every = __syncthreads_and(threadIdx.x < 100),
	    some = __syncthreads_or(threadIdx.x == 99);

	if (threadIdx.x == 77) {
		results[0] = count;
		results[1] = every != 0;
		results[2] = some != 0;
	}
}

int main()
{
	int *device, results[3];

	CHECK(cudaMalloc(&device, sizeof results));
	vote<<<1, 100>>>(device);
	CHECK(cudaMemcpy(results, device, sizeof results, cudaMemcpyDeviceToHost));
	REQUIRE(results[0] == 50 && results[1] == 1 && results[2] == 1);
	return passed();
}
