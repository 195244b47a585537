/* SPDX-License-Identifier: MIT
 *
 * One step of a seven-point stencil in an n x n x n cube of floats, whose surface stays as it is. A
 * thread has a place in a plane and goes through the planes.
 */
#include "common/device.h"

extern "C" __global__ void stencil(float *out, const float *in, int n, float centre, float around)
{
	int x = blockIdx.x * blockDim.x + threadIdx.x;
	int y = blockIdx.y * blockDim.y + threadIdx.y;

	if (x < 1 || y < 1 || x >= n - 1 || y >= n - 1)
		return;
	for (int z = 1; z < n - 1; z++) {
		int i = (z * n + y) * n + x;

		out[i] = centre * in[i] + around * (in[i - 1] + in[i + 1] + in[i - n] + in[i + n] +
							   in[i - n * n] + in[i + n * n]);
	}
}
