/* SPDX-License-Identifier: MIT
 *
 * Kernels that launch kernels: children in the parent's stream, one after the other, and a tail launch.
 * nvcc -rdc=true -lcudadevrt
 */
#include "../program.h"

__device__ int order[8], length;

__global__ void child(int number)
{
	if (threadIdx.x == 0)
		order[atomicAdd(&length, 1)] = number;
}

__global__ void parent(int depth)
{
	child<<<1, 32>>>(depth);
	if (depth < 3)
		parent<<<1, 1>>>(depth + 1);
	else
		child<<<1, 32, 0, cudaStreamTailLaunch>>>(100);
}

int main()
{
	int host[8], count;

	parent<<<1, 1>>>(0);
	CHECK(cudaGetLastError());
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaMemcpyFromSymbol(&count, length, sizeof count));
	CHECK(cudaMemcpyFromSymbol(host, order, sizeof host));
	REQUIRE(count == 5);
	REQUIRE(host[0] == 0 && host[1] == 1 && host[2] == 2 && host[3] == 3 && host[4] == 100);
	return passed();
}
