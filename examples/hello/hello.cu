/* SPDX-License-Identifier: MIT
 *
 * The kernel of the first program: y = a x + y, a thread an element.
 */
#include "common/device.h"

extern "C" __global__ void axpy(float *y, const float *x, float a, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		y[i] = a * x[i] + y[i];
}
