/* SPDX-License-Identifier: MIT
 *
 * Grids and blocks of three dimensions: every thread knows where it is.
 */
#include "../program.h"

__global__ void mark(int *seen, dim3 grid, dim3 block)
{
	if (gridDim.x != grid.x || gridDim.y != grid.y || gridDim.z != grid.z ||
		blockDim.x != block.x || blockDim.y != block.y || blockDim.z != block.z)
		return;
	int b = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
	int t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
	atomicAdd(&seen[b * (blockDim.x * blockDim.y * blockDim.z) + t], 1);
}

static void run(dim3 grid, dim3 block)
{
	size_t threads = (size_t)grid.x * grid.y * grid.z * block.x * block.y * block.z;
	int *host = (int *)malloc(threads * sizeof *host), *device;

	CHECK(cudaMalloc(&device, threads * sizeof *host));
	CHECK(cudaMemset(device, 0, threads * sizeof *host));
	mark<<<grid, block>>>(device, grid, block);
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(host, device, threads * sizeof *host, cudaMemcpyDeviceToHost));
	for (size_t i = 0; i < threads; i++)
		REQUIRE(host[i] == 1);
	CHECK(cudaFree(device));
	free(host);
}

int main()
{
	run(dim3(1), dim3(1));
	run(dim3(7, 5, 3), dim3(4, 3, 5));
	run(dim3(1, 1, 33), dim3(2, 8, 64));
	run(dim3(2, 65535), dim3(1));
	run(dim3(100000), dim3(3));
	run(dim3(3), dim3(1024));
	return passed();
}
