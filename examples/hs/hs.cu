/* SPDX-License-Identifier: MIT
 *
 * One time step of heat in a chip: a cell's temperature moves with the power put into it, with its four
 * neighbours (at the edge a cell is its own neighbour), and towards the air's. A block brings its cells
 * into shared memory; the neighbours outside the block are read from device memory.
 */
#include "common/device.h"

#define BLOCK 16
#define AIR 80.0f

extern "C" __global__ void hotspot(float *out, const float *in, const float *power, int n,
	float across, float to_air, float heating)
{
	__shared__ float t[BLOCK][BLOCK];
	int x = threadIdx.x, y = threadIdx.y;
	int column = blockIdx.x * BLOCK + x, row = blockIdx.y * BLOCK + y;
	int i = row * n + column;
	float here = in[i], north, south, west, east;

	t[y][x] = here;
	__syncthreads();
	north = y > 0 ? t[y - 1][x] : row > 0 ? in[i - n] : here;
	south = y < BLOCK - 1 ? t[y + 1][x] : row < n - 1 ? in[i + n] : here;
	west = x > 0 ? t[y][x - 1] : column > 0 ? in[i - 1] : here;
	east = x < BLOCK - 1 ? t[y][x + 1] : column < n - 1 ? in[i + 1] : here;
	out[i] = here + heating * power[i] + across * (north + south + west + east - 4 * here) +
		 to_air * (AIR - here);
}
