/* SPDX-License-Identifier: MIT
 *
 * Launches that cannot be: each gives its error once, and the next launch is well.
 */
#include "../program.h"

__global__ void count(int *counter)
{
	atomicAdd(counter, 1);
}

__global__ void __launch_bounds__(64) bounded(int *counter)
{
	atomicAdd(counter, 1);
}

int main()
{
	int *counter, value;

	CHECK(cudaMalloc(&counter, sizeof *counter));
	CHECK(cudaMemset(counter, 0, sizeof *counter));
	count<<<1, 1025>>>(counter);
	EXPECT(cudaPeekAtLastError(), cudaErrorInvalidValue);
	EXPECT(cudaGetLastError(), cudaErrorInvalidValue);
	EXPECT(cudaGetLastError(), cudaSuccess);
	count<<<0, 32>>>(counter);
	EXPECT(cudaGetLastError(), cudaErrorInvalidValue);
	count<<<dim3(1, 65536), 1>>>(counter);
	EXPECT(cudaGetLastError(), cudaErrorInvalidValue);
	count<<<1, dim3(1, 1, 65)>>>(counter);
	EXPECT(cudaGetLastError(), cudaErrorInvalidValue);
	count<<<1, 32, 1 << 20>>>(counter);
	EXPECT(cudaGetLastError(), cudaErrorInvalidValue);
	bounded<<<1, 65>>>(counter);
	EXPECT(cudaGetLastError(), cudaErrorInvalidValue);
	count<<<1, 32>>>(counter);
	CHECK(cudaMemcpy(&value, counter, sizeof value, cudaMemcpyDeviceToHost));
	REQUIRE(value == 32);
	return passed();
}
