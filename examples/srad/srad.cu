/* SPDX-License-Identifier: MIT
 *
 * srad's own kernels, around those of kernels.h: the picture is taken out of its logarithmic scale
 * before, put back after, and its statistic is computed on the device.
 */
#include "srad/kernels.h"

#define THREADS 256

extern "C" __global__ void srad_extract(float *picture, int count)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < count)
		picture[i] = __expf(picture[i] / 255);
}

extern "C" __global__ void srad_compress(float *picture, int count)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < count)
		picture[i] = __logf(picture[i]) * 255;
}

/* Leaves the sum and the sum of squares of the block's pixels in sums[2 b] and sums[2 b + 1]. */
extern "C" __global__ void srad_sum(float *sums, const float *picture, int count)
{
	__shared__ float sum[THREADS], square[THREADS];
	int thread = threadIdx.x;
	int i = blockIdx.x * THREADS + thread;
	float value = i < count ? picture[i] : 0;

	sum[thread] = value;
	square[thread] = value * value;
	__syncthreads();
	for (int half = THREADS / 2; half > 0; half /= 2) {
		if (thread < half) {
			sum[thread] += sum[thread + half];
			square[thread] += square[thread + half];
		}
		__syncthreads();
	}
	if (thread == 0) {
		sums[2 * blockIdx.x] = sum[0];
		sums[2 * blockIdx.x + 1] = square[0];
	}
}
