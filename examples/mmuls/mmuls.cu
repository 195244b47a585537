/* SPDX-License-Identifier: MIT
 *
 * A band of the columns of C = A B: B and C have as many columns as the band.
 */
#include "mmul/tiles.h"

extern "C" __global__ void mmul_band(float *c, const float *a, const float *b, int n, int width)
{
	__shared__ struct tiles tiles;

	multiply_tile(&tiles, c, a, b, n, width, blockIdx.x, blockIdx.y);
}
