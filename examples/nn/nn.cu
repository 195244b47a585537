/* SPDX-License-Identifier: MIT
 *
 * The distance of each place on a map to one of them: a thread a place.
 */
#include "common/device.h"

extern "C" __global__ void nn_distance(
	float *distance, const float *places, float x, float y, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n) {
		float dx = places[2 * i] - x, dy = places[2 * i + 1] - y;

		distance[i] = sqrtf(dx * dx + dy * dy);
	}
}
