/* SPDX-License-Identifier: MIT
 *
 * Functions of which the tests' graphs are made.
 */
#include "common/device.h"

static __device__ __forceinline__ unsigned index(void)
{
	return blockIdx.x * blockDim.x + threadIdx.x;
}

extern "C" __global__ void add(int *c, const int *a, const int *b, unsigned n)
{
	unsigned i = index();

	if (i < n)
		c[i] = a[i] + b[i];
}

extern "C" __global__ void scale(int *out, const int *in, int factor, unsigned n)
{
	unsigned i = index();

	if (i < n)
		out[i] = in[i] * factor;
}

extern "C" __global__ void increment(int *values, unsigned n)
{
	unsigned i = index();

	if (i < n)
		values[i]++;
}

__constant__ int weight[4];

extern "C" __global__ void weigh(int *out, const int *in, unsigned n)
{
	unsigned i = index();

	if (i < n)
		out[i] = in[i] * weight[i % 4];
}

/* Which element, row and plane a thread has. */
extern "C" __global__ void where(int *out, unsigned width, unsigned height, unsigned depth)
{
	unsigned x = index(), y = blockIdx.y * blockDim.y + threadIdx.y,
		 z = blockIdx.z * blockDim.z + threadIdx.z;

	if (x < width && y < height && z < depth)
		out[(z * height + y) * width + x] += x + 100 * y + 10000 * z;
}

/* How many of the values are not negative; one thread. */
extern "C" __global__ void count(unsigned long long *total, const int *in, unsigned n)
{
	unsigned long long found = 0;

	for (unsigned i = 0; i < n; i++)
		found += in[i] >= 0;
	*total = found;
}

/* Those that are not negative; one thread. */
extern "C" __global__ void pick(int *out, const int *in, unsigned n)
{
	unsigned found = 0;

	for (unsigned i = 0; i < n; i++)
		if (in[i] >= 0)
			out[found++] = in[i];
}

extern "C" __global__ void fault(int *, const int *in)
{
	*(volatile int *)(8ul + index()) = *in;
}

/* Until the host writes 1. */
extern "C" __global__ void gate(int *out, const int *in, const volatile int *flag)
{
	while (!*flag)
		;
	if (index() == 0)
		*out = *in;
}
