/* SPDX-License-Identifier: MIT */
#include "common/device.h"

extern "C" __global__ void scale(float *out, const float *in, float factor)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	out[i] = in[i] * factor;
}
