/* SPDX-License-Identifier: MIT
 *
 * Inclusive sums of integers, for scan and radix. A block scans its 256 and leaves their sum; the host
 * has the sums scanned in the same way, and then added to the blocks after.
 */
#include "common/device.h"

#define THREADS 256

extern "C" __global__ void scan_blocks(int *out, int *sums, const int *in, int n)
{
	__shared__ int t[2][THREADS];
	int thread = threadIdx.x;
	int i = blockIdx.x * THREADS + thread;
	int from = 0;

	t[0][thread] = i < n ? in[i] : 0;
	__syncthreads();
	for (int distance = 1; distance < THREADS; distance *= 2) {
		int sum = t[from][thread];

		if (thread >= distance)
			sum += t[from][thread - distance];
		from = 1 - from;
		t[from][thread] = sum;
		__syncthreads();
	}
	if (i < n)
		out[i] = t[from][thread];
	if (thread == THREADS - 1)
		sums[blockIdx.x] = t[from][thread];
}

extern "C" __global__ void scan_add(int *out, const int *sums, int n)
{
	int i = blockIdx.x * THREADS + threadIdx.x;

	if (blockIdx.x > 0 && i < n)
		out[i] += sums[blockIdx.x - 1];
}
