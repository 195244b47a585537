/* SPDX-License-Identifier: MIT */
#include "common/device.h"

static __device__ __forceinline__ unsigned index(void)
{
	return blockIdx.x * blockDim.x + threadIdx.x;
}

extern "C" __global__ void scale(float *out, const float *in, float factor)
{
	out[index()] = in[index()] * factor;
}

extern "C" __global__ void shift(float *out, const float *in, float distance)
{
	out[index()] = in[index()] + distance;
}

extern "C" __global__ void square(float *out, const float *in)
{
	out[index()] = in[index()] * in[index()];
}
