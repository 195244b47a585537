/* SPDX-License-Identifier: MIT
 *
 * Copies to shared memory that threads do not wait for: cp.async, in a pipeline of two stages.
 * nvcc -arch=compute_80
 */
#include <cuda_pipeline.h>

#include "../program.h"

enum { THREADS = 64, TILES = 10 };

__global__ void sum_tiles(const int4 *in, int *out)
{
	__shared__ int4 stages[2][THREADS];
	int i = threadIdx.x, sum = 0;

	__pipeline_memcpy_async(&stages[0][i], in + i, sizeof(int4));
	__pipeline_commit();
	for (int tile = 0; tile < TILES; tile++) {
		if (tile + 1 < TILES)
			__pipeline_memcpy_async(&stages[(tile + 1) % 2][i],
				in + (tile + 1) * THREADS + i, sizeof(int4));
		__pipeline_commit();
		__pipeline_wait_prior(1);
		__syncthreads();
		int4 other = stages[tile % 2][THREADS - 1 - i];
		sum += other.x + other.y + other.z + other.w;
		__syncthreads();
	}
	out[i] = sum;
}

int main()
{
	static int host[TILES][THREADS][4], results[THREADS];
	int *in, *out;

	for (int i = 0; i < TILES * THREADS * 4; i++)
		(&host[0][0][0])[i] = i;
	CHECK(cudaMalloc(&in, sizeof host));
	CHECK(cudaMalloc(&out, sizeof results));
	CHECK(cudaMemcpy(in, host, sizeof host, cudaMemcpyHostToDevice));
	sum_tiles<<<1, THREADS>>>((int4 *)in, out);
	CHECK(cudaMemcpy(results, out, sizeof results, cudaMemcpyDeviceToHost));
	for (int i = 0; i < THREADS; i++) {
		int sum = 0;
		for (int tile = 0; tile < TILES; tile++)
			for (int k = 0; k < 4; k++)
				sum += host[tile][THREADS - 1 - i][k];
		REQUIRE(results[i] == sum);
	}
	return passed();
}
