/* SPDX-License-Identifier: MIT
 *
 * Steps of a bitonic sort of 2^k integers.
 */
#include "common/device.h"

#define SHARED 512 /* elements that a block has in shared memory */

static __device__ __forceinline__ void order(int *a, int *b, bool up)
{
	int x = *a, y = *b;

	if ((x > y) == up) {
		*a = y;
		*b = x;
	}
}

/* One step: compares elements that are `distance` apart, in runs of `run`. */
extern "C" __global__ void compare(int *values, unsigned distance, unsigned run)
{
	unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
	unsigned i = 2 * distance * (t / distance) + t % distance;

	order(&values[i], &values[i + distance], !(i & run));
}

/* All steps whose distance is less than SHARED, of runs from `first` to `last`. */
extern "C" __global__ void merge(int *values, unsigned first, unsigned last)
{
	__shared__ int part[SHARED];
	unsigned t = threadIdx.x, base = blockIdx.x * SHARED;

	part[t] = values[base + t];
	part[t + SHARED / 2] = values[base + t + SHARED / 2];
	for (unsigned run = first; run <= last; run *= 2)
		for (unsigned distance = run / 2 < SHARED / 2 ? run / 2 : SHARED / 2; distance;
			distance /= 2) {
			unsigned i = 2 * distance * (t / distance) + t % distance;
			__syncthreads();
			order(&part[i], &part[i + distance], !((base + i) & run));
		}
	__syncthreads();
	values[base + t] = part[t];
	values[base + t + SHARED / 2] = part[t + SHARED / 2];
}
