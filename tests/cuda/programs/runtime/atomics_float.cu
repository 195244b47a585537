/* SPDX-License-Identifier: MIT
 *
 * Atomic addition of float and double, and a maximum of floats by compare and swap.
 */
#include "../program.h"

__device__ float sum;
__device__ double wide;
__device__ float highest = -1;

__device__ void atomic_max(float *address, float value)
{
	int *word = (int *)address, old = *word, seen;

	do {
		seen = old;
		if (__int_as_float(seen) >= value)
			break;
		old = atomicCAS(word, seen, __float_as_int(value));
	} while (old != seen);
}

__global__ void collect()
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	atomicAdd(&sum, 0.5f);
	atomicAdd(&wide, (double)i);
	atomic_max(&highest, (float)(i ^ 0x155));
}

int main()
{
	float f;
	double d;

	collect<<<16, 64>>>();
	CHECK(cudaMemcpyFromSymbol(&f, sum, sizeof f));
	REQUIRE(f == 512);
	CHECK(cudaMemcpyFromSymbol(&d, wide, sizeof d));
	REQUIRE(d == 1023 * 1024 / 2);
	CHECK(cudaMemcpyFromSymbol(&f, highest, sizeof f));
	REQUIRE(f == 1023);
	return passed();
}
