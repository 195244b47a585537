/* SPDX-License-Identifier: MIT
 *
 * C = A B, where A has n columns, and B and C have `width`: one tile of C. The threads of a block bring one tile of A and one of
 * B into shared memory together, so that every value is read from device memory once a tile, not once an element.
 */
#ifndef GDEV_EXAMPLES_TILES_H
#define GDEV_EXAMPLES_TILES_H

#include "common/device.h"

#define TILE 16

/* In shared memory; the kernel's variable, as OpenCL C has none in other functions. */
struct tiles {
	float a[TILE][TILE], b[TILE][TILE];
};

static __device__ __forceinline__ void multiply_tile(POINTER_TO_SHARED(struct tiles) tiles,
	float *c, const float *a, const float *b, int n, int width, int tile_x, int tile_y)
{
	int x = threadIdx.x, y = threadIdx.y;
	int column = tile_x * TILE + x, row = tile_y * TILE + y;
	float sum = 0;

	for (int k = 0; k < n; k += TILE) {
		tiles->a[y][x] = a[row * n + k + x];
		tiles->b[y][x] = b[(k + y) * width + column];
		__syncthreads(); /* the tiles are complete */
		for (int i = 0; i < TILE; i++)
			sum += tiles->a[y][i] * tiles->b[i][x];
		__syncthreads(); /* nobody reads them any more */
	}
	c[row * width + column] = sum;
}

#endif
