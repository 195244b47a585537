/* SPDX-License-Identifier: MIT
 *
 * C = A B for n x n matrices of floats; see tiles.h.
 */
#include "mmul/tiles.h"

extern "C" __global__ void mmul(float *c, const float *a, const float *b, int n)
{
	__shared__ struct tiles tiles;

	multiply_tile(&tiles, c, a, b, n, n, blockIdx.x, blockIdx.y);
}
