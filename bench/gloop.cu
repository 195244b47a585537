/* SPDX-License-Identifier: MIT
 *
 * The kernels of gloop.c.
 */
#include "common/device.h"

#include <gdev/gloop.cuh>

using gloop::DeviceLoop;

static __device__ void step(DeviceLoop *loop, unsigned left)
{
	if (left)
		loop->postTask([=](DeviceLoop *loop) { step(loop, left - 1); });
}

extern "C" __global__ void steps(gloop_grid grid, unsigned count)
{
	gloop::run(grid, [=](DeviceLoop *loop) { step(loop, count); });
}

static __device__ void read_on(DeviceLoop *loop, gloop_u64 at, gloop_u64 step, char *memory)
{
	gloop::fs::read(
		loop, 0, at, loop->page_bytes(), memory + at, [=](DeviceLoop *loop, long long got) {
			if (got > 0)
				read_on(loop, at + step, step, memory);
		});
}

/* The blocks read all of descriptor 0 into memory, each `at_once` pages at once. */
extern "C" __global__ void read_file(gloop_grid grid, char *memory, unsigned at_once)
{
	gloop::run(grid, [=](DeviceLoop *loop) {
		for (unsigned i = 0; i < at_once; i++)
			read_on(loop, (blockIdx.x * at_once + i) * loop->page_bytes(),
				gridDim.x * at_once * loop->page_bytes(), memory);
	});
}

static __device__ void answer_on(DeviceLoop *loop, char *message, unsigned bytes)
{
	gloop::net::receive(loop, 0, bytes, message, [=](DeviceLoop *loop, long long got) {
		if (got > 0)
			gloop::net::send(
				loop, 0, (gloop_u64)got, message, [=](DeviceLoop *loop, long long) {
					answer_on(loop, message, bytes);
				});
	});
}

/* The first block sends back what comes from descriptor 0, until that ends. */
extern "C" __global__ void answer(gloop_grid grid, char *message, unsigned bytes)
{
	gloop::run(grid, [=](DeviceLoop *loop) {
		if (blockIdx.x == 0)
			answer_on(loop, message, bytes);
	});
}
