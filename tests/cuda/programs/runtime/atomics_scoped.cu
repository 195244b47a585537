/* SPDX-License-Identifier: MIT
 *
 * Atomic operations of a block's and of the system's scope: the latter on memory of the host.
 */
#include "../program.h"

__global__ void count(unsigned *host, unsigned *of_blocks)
{
	__shared__ unsigned mine;

	if (threadIdx.x == 0)
		mine = 0;
	__syncthreads();
	atomicAdd_block(&mine, 1);
	__syncthreads();
	if (threadIdx.x == 0) {
		atomicAdd_system(host, mine);
		atomicMax_system(host + 1, blockIdx.x);
		of_blocks[blockIdx.x] = atomicCAS_block(&mine, blockDim.x, 5);
	}
}

int main()
{
	unsigned *host, *device, of_blocks[8];

	CHECK(cudaHostAlloc(&host, 2 * sizeof *host, cudaHostAllocMapped));
	host[0] = host[1] = 0;
	CHECK(cudaMalloc(&device, sizeof of_blocks));
	count<<<8, 96>>>(host, device);
	CHECK(cudaMemcpy(of_blocks, device, sizeof of_blocks, cudaMemcpyDeviceToHost));
	REQUIRE(host[0] == 8 * 96 && host[1] == 7);
	for (int i = 0; i < 8; i++)
		REQUIRE(of_blocks[i] == 96);
	return passed();
}
