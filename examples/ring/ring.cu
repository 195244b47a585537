/* SPDX-License-Identifier: MIT
 *
 * Adds what came from the device before.
 */
#include "common/device.h"

extern "C" __global__ void add(int *sum, const int *came, int count)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < count)
		sum[i] += came[i];
}
