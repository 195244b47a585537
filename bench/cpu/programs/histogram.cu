/* SPDX-License-Identifier: MIT
 *
 * How often each byte occurs. A block counts in shared memory, and adds what it counted at its end.
 */
#include "common/device.h"

#define THREADS 256 /* and as many bins */

extern "C" __global__ void histogram(int *bins, const unsigned char *bytes, int n)
{
	__shared__ int mine[THREADS];
	int thread = threadIdx.x;

	mine[thread] = 0;
	__syncthreads();
	for (int i = blockIdx.x * THREADS + thread; i < n; i += gridDim.x * THREADS)
		atomicAdd(&mine[bytes[i]], 1);
	__syncthreads();
	atomicAdd(&bins[thread], mine[thread]);
}
