/* SPDX-License-Identifier: MIT
 *
 * C = A + B for n x n matrices of floats: a thread an element.
 */
#include "common/device.h"

extern "C" __global__ void madd(float *c, const float *a, const float *b, int n)
{
	int column = blockIdx.x * blockDim.x + threadIdx.x;
	int row = blockIdx.y * blockDim.y + threadIdx.y;

	/* The grid covers the matrix with whole blocks; some threads of the last ones are outside. */
	if (row < n && column < n)
		c[row * n + column] = a[row * n + column] + b[row * n + column];
}
