/* SPDX-License-Identifier: MIT
 *
 * Device functions and variables of two files, put together by nvcc's linker.
 * nvcc -rdc=true separate_compilation_part.cu
 */
#include "../program.h"

extern __device__ int triple(int x); /* separate_compilation_part.cu */
extern __device__ int calls;

__global__ void use(int *data)
{
	data[threadIdx.x] = triple(data[threadIdx.x]);
}

int main()
{
	int host[32], *device, count;

	for (int i = 0; i < 32; i++)
		host[i] = i;
	CHECK(cudaMalloc(&device, sizeof host));
	CHECK(cudaMemcpy(device, host, sizeof host, cudaMemcpyHostToDevice));
	use<<<1, 32>>>(device);
	CHECK(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
	for (int i = 0; i < 32; i++)
		REQUIRE(host[i] == 3 * i);
	CHECK(cudaMemcpyFromSymbol(&count, calls, sizeof count));
	REQUIRE(count == 32);
	return passed();
}
