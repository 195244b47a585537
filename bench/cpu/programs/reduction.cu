/* SPDX-License-Identifier: MIT
 *
 * The sum of floats: a block adds its 256 up, in a tree. The host launches it again on the sums, until
 * one is left.
 */
#include "common/device.h"

#define THREADS 256

extern "C" __global__ void reduction_sum(float *sums, const float *values, int n)
{
	__shared__ float sum[THREADS];
	int thread = threadIdx.x;
	int i = blockIdx.x * THREADS + thread;

	sum[thread] = i < n ? values[i] : 0;
	__syncthreads();
	for (int half = THREADS / 2; half > 0; half /= 2) {
		if (thread < half)
			sum[thread] += sum[thread + half];
		__syncthreads();
	}
	if (thread == 0)
		sums[blockIdx.x] = sum[0];
}
