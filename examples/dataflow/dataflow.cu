/* SPDX-License-Identifier: MIT
 *
 * The tasks of which dataflow graphs are made, on n x n matrices of floats.
 */
#include "common/device.h"

#define TILE 16

extern "C" __global__ void madd(float *c, const float *a, const float *b, int n)
{
	int column = blockIdx.x * blockDim.x + threadIdx.x;
	int row = blockIdx.y * blockDim.y + threadIdx.y;

	c[row * n + column] = a[row * n + column] + b[row * n + column];
}

extern "C" __global__ void mcopy(float *c, const float *a, const float *, int n)
{
	int column = blockIdx.x * blockDim.x + threadIdx.x;
	int row = blockIdx.y * blockDim.y + threadIdx.y;

	c[row * n + column] = a[row * n + column];
}

/* As in mmul/mmul.cu. */
extern "C" __global__ void mmul(float *c, const float *a, const float *b, int n)
{
	__shared__ float tile_a[TILE][TILE], tile_b[TILE][TILE];
	int x = threadIdx.x, y = threadIdx.y;
	int column = blockIdx.x * TILE + x, row = blockIdx.y * TILE + y;
	float sum = 0;

	for (int k = 0; k < n; k += TILE) {
		tile_a[y][x] = a[row * n + k + x];
		tile_b[y][x] = b[(k + y) * n + column];
		__syncthreads();
		for (int i = 0; i < TILE; i++)
			sum += tile_a[y][i] * tile_b[i][x];
		__syncthreads();
	}
	c[row * n + column] = sum;
}
