/* SPDX-License-Identifier: MIT
 *
 * A device function that calls itself, and two that call each other.
 */
#include "../program.h"

__device__ __noinline__ int ackermann(int m, int n)
{
	return m == 0   ? n + 1
	       : n == 0 ? ackermann(m - 1, 1)
			: ackermann(m - 1, ackermann(m, n - 1));
}

__device__ __noinline__ bool is_odd(unsigned n);

__device__ __noinline__ bool is_even(unsigned n)
{
	return n ? is_odd(n - 1) : true;
}

__device__ __noinline__ bool is_odd(unsigned n)
{
	return n ? is_even(n - 1) : false;
}

__global__ void call(int *results)
{
	results[threadIdx.x] = ackermann(2, threadIdx.x) * 2 + is_odd(threadIdx.x);
}

int main()
{
	int *device, results[8];

	CHECK(cudaMalloc(&device, sizeof results));
	CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 16 << 10));
	call<<<1, 8>>>(device);
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(results, device, sizeof results, cudaMemcpyDeviceToHost));
	for (int i = 0; i < 8; i++)
		REQUIRE(results[i] == (2 * i + 3) * 2 + i % 2);
	return passed();
}
