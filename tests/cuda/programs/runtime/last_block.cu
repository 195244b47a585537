/* SPDX-License-Identifier: MIT
 *
 * A reduction by one launch: __threadfence() makes each block's sum seen, and the block that comes last adds them up.
 */
#include "../program.h"

enum { BLOCKS = 24, THREADS = 128 };

__device__ unsigned arrived;
__device__ volatile int partial[BLOCKS];

__global__ void reduce(const int *in, int *out)
{
	__shared__ int sums[THREADS];
	__shared__ bool last;
	int i = threadIdx.x;

	sums[i] = in[blockIdx.x * THREADS + i];
	for (int half = THREADS / 2; half; half /= 2) {
		__syncthreads();
		if (i < half)
			sums[i] += sums[i + half];
	}
	if (i == 0) {
		partial[blockIdx.x] = sums[0];
		__threadfence();
		last = atomicInc(&arrived, BLOCKS - 1) == BLOCKS - 1;
	}
	__syncthreads();
	if (last && i == 0) {
		int sum = 0;
		for (int block = 0; block < BLOCKS; block++)
			sum += partial[block];
		*out = sum;
	}
}

int main()
{
	int host[BLOCKS * THREADS], *in, *out, sum, expected = 0;

	for (int i = 0; i < BLOCKS * THREADS; i++)
		expected += host[i] = i % 13 - 4;
	CHECK(cudaMalloc(&in, sizeof host));
	CHECK(cudaMalloc(&out, sizeof *out));
	CHECK(cudaMemcpy(in, host, sizeof host, cudaMemcpyHostToDevice));
	for (int round = 0; round < 2; round++) {
		reduce<<<BLOCKS, THREADS>>>(in, out);
		CHECK(cudaMemcpy(&sum, out, sizeof sum, cudaMemcpyDeviceToHost));
		REQUIRE(sum == expected);
	}
	return passed();
}
