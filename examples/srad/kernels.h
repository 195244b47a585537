/* SPDX-License-Identifier: MIT
 *
 * The two kernels of an iteration of speckle reducing anisotropic diffusion, for srad and srad2: a
 * thread a pixel. The second reads the neighbours' coefficients, so that it cannot be the same kernel.
 */
#include "common/device.h"

struct differences {
	float north, south, west, east;
};

/* To the neighbours; 0 over the edge. */
static __device__ struct differences differences(const float *here, int n, int row, int column)
{
	struct differences d;

	d.north = row > 0 ? here[-n] - *here : 0;
	d.south = row < n - 1 ? here[n] - *here : 0;
	d.west = column > 0 ? here[-1] - *here : 0;
	d.east = column < n - 1 ? here[1] - *here : 0;
	return d;
}

extern "C" __global__ void srad_coefficient(float *coefficient, const float *in, int n, float q0)
{
	int column = blockIdx.x * blockDim.x + threadIdx.x;
	int row = blockIdx.y * blockDim.y + threadIdx.y;
	int i = row * n + column;

	if (row >= n || column >= n)
		return;
	struct differences d = differences(in + i, n, row, column);
	float here = in[i];
	float gradient =
		(d.north * d.north + d.south * d.south + d.west * d.west + d.east * d.east) /
		(here * here);
	float laplacian = (d.north + d.south + d.west + d.east) / here;
	float numerator = 0.5f * gradient - laplacian * laplacian / 16;
	float denominator = 1 + 0.25f * laplacian;
	float q = numerator / (denominator * denominator);
	float c = 1 / (1 + (q - q0) / (q0 * (1 + q0)));

	coefficient[i] = c < 0 ? 0 : c > 1 ? 1 : c;
}

extern "C" __global__ void srad_update(
	float *out, const float *in, const float *coefficient, int n, float lambda)
{
	int column = blockIdx.x * blockDim.x + threadIdx.x;
	int row = blockIdx.y * blockDim.y + threadIdx.y;
	int i = row * n + column;

	if (row >= n || column >= n)
		return;
	struct differences d = differences(in + i, n, row, column);
	float c = coefficient[i];
	float south = row < n - 1 ? coefficient[i + n] : c;
	float east = column < n - 1 ? coefficient[i + 1] : c;

	out[i] = in[i] +
		 0.25f * lambda * (c * d.north + south * d.south + c * d.west + east * d.east);
}
