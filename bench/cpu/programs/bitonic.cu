/* SPDX-License-Identifier: MIT
 *
 * One step of a bitonic sort of n integers: all pairs that are `distance` apart are put in order, up or
 * down by which run of `size` they are in.
 */
#include "common/device.h"

extern "C" __global__ void bitonic_step(int *values, int distance, int size)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	int partner = i ^ distance;

	if (partner > i) {
		int a = values[i], b = values[partner];

		if ((i & size) == 0 ? a > b : a < b) {
			values[i] = b;
			values[partner] = a;
		}
	}
}
