/* SPDX-License-Identifier: MIT
 *
 * Steps of a "group by" of n integers, of as many groups as a block has threads. A part is what one block looks at.
 */
#include "common/device.h"

#define PART 4096
#define GROUPS_MAX 512

extern "C" __global__ void key(int *keys, const int *values, int groups)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	keys[i] = (int)((unsigned)values[i] * 2654435761u >> 8) % groups;
}

/* counts[part][group] */
extern "C" __global__ void count(int *counts, const int *keys)
{
	__shared__ int found[GROUPS_MAX];

	found[threadIdx.x] = 0;
	__syncthreads();
	for (int i = threadIdx.x; i < PART; i += blockDim.x)
		atomicAdd(&found[keys[blockIdx.x * PART + i]], 1);
	__syncthreads();
	counts[blockIdx.x * blockDim.x + threadIdx.x] = found[threadIdx.x];
}

/* Of each group, how many are in earlier parts. One block; a thread a group. */
extern "C" __global__ void before(int *earlier, const int *counts, int parts)
{
	int sum = 0;

	for (int part = 0; part < parts; part++) {
		earlier[part * blockDim.x + threadIdx.x] = sum;
		sum += counts[part * blockDim.x + threadIdx.x];
	}
}

extern "C" __global__ void total(int *totals, const int *counts, int parts)
{
	int sum = 0;

	for (int part = 0; part < parts; part++)
		sum += counts[part * blockDim.x + threadIdx.x];
	totals[threadIdx.x] = sum;
}

/* Where each group begins. */
extern "C" __global__ void start(int *starts, const int *totals)
{
	__shared__ int sums[GROUPS_MAX];
	unsigned t = threadIdx.x;

	sums[t] = totals[t];
	for (unsigned distance = 1; distance < blockDim.x; distance *= 2) {
		__syncthreads();
		int left = t >= distance ? sums[t - distance] : 0;
		__syncthreads();
		sums[t] += left;
	}
	starts[t] = sums[t] - totals[t];
}

extern "C" __global__ void scatter(
	int *grouped, const int *values, const int *keys, const int *starts, const int *earlier)
{
	__shared__ int next[GROUPS_MAX];

	next[threadIdx.x] = starts[threadIdx.x] + earlier[blockIdx.x * blockDim.x + threadIdx.x];
	__syncthreads();
	for (int i = threadIdx.x; i < PART; i += blockDim.x) {
		int from = blockIdx.x * PART + i;
		grouped[atomicAdd(&next[keys[from]], 1)] = values[from];
	}
}

/* Of each group. A thread a group. */
extern "C" __global__ void sum(int *sums, const int *grouped, const int *starts, int n)
{
	unsigned t = threadIdx.x;
	int end = t + 1 < blockDim.x ? starts[t + 1] : n;
	unsigned result = 0;

	for (int i = starts[t]; i < end; i++)
		result += (unsigned)grouped[i];
	sums[t] = (int)result;
}
