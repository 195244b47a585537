/* SPDX-License-Identifier: MIT
 *
 * The kernel of load_gloop.c: callbacks that each take as long as a block of load.c's kernel does, without end.
 */
#include "common/device.h"

#include <gdev/gloop.cuh>

using gloop::DeviceLoop;

/* The block's count is written and never read there, since a device reads the host's memory slowly. */
static __device__ void turn(DeviceLoop *loop, unsigned long long rounds,
	volatile unsigned long long *done, const volatile unsigned *stop, unsigned long long count)
{
	unsigned long long x = threadIdx.x;

	/* load.c's loop, to the letter: compilers make several rounds one, or not. */
	asm volatile("{\n"
		     "	.reg .u64 %%n;\n"
		     "	.reg .pred %%p;\n"
		     "	mov.u64 %%n, %1;\n"
		     "LOOP:\n"
		     "	mad.lo.u64 %0, %0, %0, 12345;\n"
		     "	sub.u64 %%n, %%n, 1;\n"
		     "	setp.ne.u64 %%p, %%n, 0;\n"
		     "	@%%p bra LOOP;\n"
		     "}"
		     : "+l"(x)
		     : "l"(rounds));
	if (threadIdx.x == 0)
		done[blockIdx.x * 8] = count + (x == 42); /* used, or there would be no loop */
	loop->postTask([=](DeviceLoop *loop) {
		__shared__ unsigned stopped;

		__syncthreads();
		if (threadIdx.x == 0)
			stopped = *stop;
		__syncthreads();
		if (!stopped)
			turn(loop, rounds, done, stop, count + 1);
	});
}

extern "C" __global__ void turns(
	gloop_grid grid, unsigned long long rounds, unsigned long long *done, unsigned *stop)
{
	gloop::run(grid, [=](DeviceLoop *loop) { turn(loop, rounds, done, stop, 1); });
}
