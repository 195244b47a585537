/* SPDX-License-Identifier: MIT
 *
 * Callbacks and nothing else: each is a step of a linear congruential generator in every thread. The plain kernel takes
 * the same steps in a loop, and keeps the device until it has taken all.
 */
#include "common/device.h"

#include <gdev/gloop.cuh>

using gloop::DeviceLoop;

static __device__ __forceinline__ void step(unsigned *x)
{
	unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;

	x[thread] = x[thread] * 1664525u + 1013904223u;
}

static __device__ void go_on(DeviceLoop *loop, unsigned *x, unsigned left)
{
	step(x);
	if (left > 1)
		loop->postTask([=](DeviceLoop *loop) { go_on(loop, x, left - 1); });
}

extern "C" __global__ void throttle(gloop_grid grid, unsigned *x, unsigned callbacks)
{
	gloop::run(grid, [=](DeviceLoop *loop) {
		loop->postTask([=](DeviceLoop *loop) { go_on(loop, x, callbacks); });
	});
}

extern "C" __global__ void throttle_plain(unsigned *x, unsigned steps)
{
	for (unsigned i = 0; i < steps; i++) {
		step(x);
		__syncthreads();
	}
}
