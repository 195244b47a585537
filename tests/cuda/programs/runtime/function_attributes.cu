/* SPDX-License-Identifier: MIT
 *
 * What a kernel says of itself, and what can be set.
 */
#include "../program.h"

__constant__ int constants[100];

__global__ void __launch_bounds__(256) kernel(int *out)
{
	__shared__ int shared[64];

	shared[threadIdx.x % 64] = constants[threadIdx.x % 100];
	__syncthreads();
	out[threadIdx.x] = shared[0];
}

int main()
{
	cudaFuncAttributes attributes;
	const char *name;

	CHECK(cudaFuncGetAttributes(&attributes, kernel));
	REQUIRE(attributes.sharedSizeBytes == 256);
	REQUIRE(attributes.maxThreadsPerBlock == 256);
	REQUIRE(attributes.constSizeBytes >= 400);
	REQUIRE(attributes.numRegs >= 1 && attributes.numRegs <= 255);
	REQUIRE(attributes.ptxVersion >= 75 && attributes.binaryVersion >= 70);
	CHECK(cudaFuncSetCacheConfig(kernel, cudaFuncCachePreferShared));
	CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, 50));
	CHECK(cudaFuncGetAttributes(&attributes, kernel));
	REQUIRE(attributes.preferredShmemCarveout == 50);
	CHECK(cudaFuncGetName(&name, kernel));
	REQUIRE(!strcmp(name, "_Z6kernelPi"));
	return passed();
}
