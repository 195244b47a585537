/* SPDX-License-Identifier: MIT
 *
 * One step of the Walsh transform: sums and differences of what is `stride` apart, one pair a thread.
 */
#include "common/device.h"

extern "C" __global__ void fwt(float *data, int stride)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	int low = i % stride, at = 2 * (i - low) + low;
	float a = data[at], b = data[at + stride];

	data[at] = a + b;
	data[at + stride] = a - b;
}
