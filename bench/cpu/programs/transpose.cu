/* SPDX-License-Identifier: MIT
 *
 * The transpose of an n x n matrix of floats, in tiles: a tile is read by rows and written by rows. The
 * tile's rows are one longer than they need to be, so that its columns are in different banks.
 */
#include "common/device.h"

#define TILE 32
#define ROWS 8 /* of threads in a block: each does every eighth row of a tile */

extern "C" __global__ void transpose(float *out, const float *in, int n)
{
	__shared__ float tile[TILE][TILE + 1];
	int x = threadIdx.x, y = threadIdx.y;
	int column = blockIdx.x * TILE, row = blockIdx.y * TILE;

	for (int i = y; i < TILE; i += ROWS)
		tile[i][x] = in[(row + i) * n + column + x];
	__syncthreads();
	for (int i = y; i < TILE; i += ROWS)
		out[(column + i) * n + row + x] = tile[x][i];
}
