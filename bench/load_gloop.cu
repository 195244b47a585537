/* SPDX-License-Identifier: MIT
 *
 * The kernel of load_gloop.c: callbacks that each take as long as a block of load.c's kernel does, without end.
 */
#include "common/device.h"

#include <gdev/gloop.cuh>

using gloop::DeviceLoop;

/* A block's count and, in another sector, the word that ends it lie in a line of its own of the host's memory: a device reads one
 * word of that at a time, for a microsecond, however many blocks want it. The count is written and never read. */
static __device__ void turn(DeviceLoop *loop, unsigned long long rounds,
	volatile unsigned long long *done, unsigned long long count)
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
			stopped = done[blockIdx.x * 8 + 4] != 0;
		__syncthreads();
		if (!stopped)
			turn(loop, rounds, done, count + 1);
	});
}

extern "C" __global__ void turns(
	gloop_grid grid, unsigned long long rounds, unsigned long long *done)
{
	gloop::run(grid, [=](DeviceLoop *loop) { turn(loop, rounds, done, 1); });
}
