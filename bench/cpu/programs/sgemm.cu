/* SPDX-License-Identifier: MIT
 *
 * C = alpha A B + beta C for n x n matrices of floats of any n, in tiles: as examples/mmul, with what BLAS
 * wants besides. Outside the matrices the tiles are 0.
 */
#include "common/device.h"

#define TILE 16

extern "C" __global__ void sgemm(
	float *c, const float *a, const float *b, int n, float alpha, float beta)
{
	__shared__ float tile_a[TILE][TILE], tile_b[TILE][TILE];
	int x = threadIdx.x, y = threadIdx.y;
	int column = blockIdx.x * TILE + x, row = blockIdx.y * TILE + y;
	float sum = 0;

	for (int k = 0; k < n; k += TILE) {
		tile_a[y][x] = row < n && k + x < n ? a[row * n + k + x] : 0;
		tile_b[y][x] = k + y < n && column < n ? b[(k + y) * n + column] : 0;
		__syncthreads();
		for (int i = 0; i < TILE; i++)
			sum += tile_a[y][i] * tile_b[i][x];
		__syncthreads();
	}
	if (row < n && column < n)
		c[row * n + column] = alpha * sum + beta * c[row * n + column];
}
