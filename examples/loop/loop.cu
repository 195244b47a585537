/* SPDX-License-Identifier: MIT
 *
 * Each thread takes `iterations` steps of a linear congruential generator, every step of which needs
 * the one before.
 */
#include "common/device.h"

extern "C" __global__ void loop(unsigned *out, unsigned iterations, unsigned seed)
{
	unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
	unsigned x = seed + thread;

	for (unsigned i = 0; i < iterations; i++)
		x = x * 1664525u + 1013904223u;
	out[thread] = x;
}
