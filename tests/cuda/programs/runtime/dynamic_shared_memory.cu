/* SPDX-License-Identifier: MIT
 *
 * Shared memory whose size the launch says, also more of it than 48 KiB, which a kernel has to be allowed first.
 */
#include "../program.h"

__global__ void reverse(int *numbers)
{
	extern __shared__ int copy[];

	for (int i = threadIdx.x; i < 64; i += blockDim.x)
		copy[i] = numbers[i];
	__syncthreads();
	for (int i = threadIdx.x; i < 64; i += blockDim.x)
		numbers[i] = copy[63 - i];
}

__global__ void ends(int *sum, int words)
{
	extern __shared__ int shared[];

	for (int i = threadIdx.x; i < words; i += blockDim.x)
		shared[i] = i;
	__syncthreads();
	if (threadIdx.x == 0)
		*sum = shared[0] + shared[words - 1];
}

int main()
{
	int numbers[64], *device, most, sum;

	for (int i = 0; i < 64; i++)
		numbers[i] = i;
	CHECK(cudaMalloc(&device, sizeof numbers));
	CHECK(cudaMemcpy(device, numbers, sizeof numbers, cudaMemcpyHostToDevice));
	reverse<<<1, 32, sizeof numbers>>>(device);
	CHECK(cudaMemcpy(numbers, device, sizeof numbers, cudaMemcpyDeviceToHost));
	for (int i = 0; i < 64; i++)
		REQUIRE(numbers[i] == 63 - i);

	CHECK(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
	REQUIRE(most >= 48 << 10);
	if (most > 48 << 10) {
		ends<<<1, 128, most>>>(device, most / 4);
		EXPECT(cudaGetLastError(), cudaErrorInvalidValue);
		CHECK(cudaFuncSetAttribute(
			ends, cudaFuncAttributeMaxDynamicSharedMemorySize, most));
	}
	ends<<<1, 128, most>>>(device, most / 4);
	CHECK(cudaMemcpy(&sum, device, sizeof sum, cudaMemcpyDeviceToHost));
	REQUIRE(sum == most / 4 - 1);
	return passed();
}
