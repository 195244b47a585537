/* SPDX-License-Identifier: MIT
 *
 * A step of the Finite Difference Time Domain model of a cavity with conducting walls, on Yee's grid of n x n x n cells.
 */
#include "common/device.h"

#define HALF 0.5f /* c dt / dx: below 1 / sqrt(3) it is stable */

static __device__ __forceinline__ int stride_of(int axis, int n)
{
	return axis % 3 == 0 ? 1 : axis % 3 == 1 ? n : n * n;
}

static __device__ __forceinline__ int coordinate(int axis)
{
	return axis % 3 == 0   ? blockIdx.x * blockDim.x + threadIdx.x
	       : axis % 3 == 1 ? blockIdx.y * blockDim.y + threadIdx.y
			       : blockIdx.z * blockDim.z + threadIdx.z;
}

static __device__ __forceinline__ int cell(int n)
{
	return (coordinate(2) * n + coordinate(1)) * n + coordinate(0);
}

/* The component of E along an axis, from those of H along the next axis and the one after that. E is along the walls where
 * one of these two coordinates is 0, and stays as it is. `current`, or NULL, is that of a wire in the middle. */
extern "C" __global__ void electric(
	float *e, const float *h_next, const float *h_last, const float *current, int n, int axis)
{
	int i = cell(n), next = coordinate(axis + 1), last = coordinate(axis + 2);
	float value = e[i];

	if (next && last)
		value += HALF * ((h_last[i] - h_last[i - stride_of(axis + 1, n)]) -
					(h_next[i] - h_next[i - stride_of(axis + 2, n)]));
	if (current && next == n / 2 && last == n / 2)
		value -= current[coordinate(axis)];
	e[i] = value;
}

/* The same of H; there is no cell beyond the last one. */
extern "C" __global__ void magnetic(
	float *h, const float *e_next, const float *e_last, int n, int axis)
{
	int i = cell(n);

	if (coordinate(axis + 1) < n - 1 && coordinate(axis + 2) < n - 1)
		h[i] -= HALF * ((e_last[i + stride_of(axis + 1, n)] - e_last[i]) -
				       (e_next[i + stride_of(axis + 2, n)] - e_next[i]));
}
