/* SPDX-License-Identifier: MIT
 *
 * C = A B for n x n matrices of floats, in tiles: the threads of a block bring one tile of A and one of
 * B into shared memory together, so that every value is read from device memory once a tile, not once
 * an element.
 */
#include "common/device.h"

#define TILE 16

extern "C" __global__ void mmul(float *c, const float *a, const float *b, int n)
{
	__shared__ float tile_a[TILE][TILE], tile_b[TILE][TILE];
	int x = threadIdx.x, y = threadIdx.y;
	int column = blockIdx.x * TILE + x, row = blockIdx.y * TILE + y;
	float sum = 0;

	for (int k = 0; k < n; k += TILE) {
		tile_a[y][x] = a[row * n + k + x];
		tile_b[y][x] = b[(k + y) * n + column];
		__syncthreads(); /* the tiles are complete */
		for (int i = 0; i < TILE; i++)
			sum += tile_a[y][i] * tile_b[i][x];
		__syncthreads(); /* nobody reads them any more */
	}
	c[row * n + column] = sum;
}
