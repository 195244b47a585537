/* SPDX-License-Identifier: MIT
 *
 * What the occupancy calculator says, and that its answers can be launched.
 */
#include "../program.h"

__global__ void work(int *data)
{
	extern __shared__ int shared[];

	shared[threadIdx.x] = 1;
	atomicAdd(data, shared[threadIdx.x]);
}

static size_t bytes_of(int block)
{
	return block * sizeof(int);
}

int main()
{
	int blocks, few, grid, block, *data, host;
	size_t most;

	CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, work, 128, 0));
	CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&few, work, 128, 32 << 10));
	REQUIRE(blocks >= 1 && few >= 1 && few <= blocks);
	CHECK(cudaOccupancyMaxPotentialBlockSizeVariableSMem(&grid, &block, work, bytes_of));
	REQUIRE(block >= 32 && block <= 1024 && grid >= 1);
	CHECK(cudaOccupancyAvailableDynamicSMemPerBlock(&most, work, 1, 128));
	REQUIRE(most >= 16 << 10);
	CHECK(cudaMalloc(&data, sizeof *data));
	CHECK(cudaMemset(data, 0, sizeof *data));
	work<<<grid, block, bytes_of(block)>>>(data);
	CHECK(cudaMemcpy(&host, data, sizeof host, cudaMemcpyDeviceToHost));
	REQUIRE(host == grid * block);
	return passed();
}
