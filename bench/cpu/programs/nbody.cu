/* SPDX-License-Identifier: MIT
 *
 * The accelerations of n bodies that attract each other: a thread a body, which goes through all the
 * others; a block brings them into shared memory, 256 at a time. w is a body's mass.
 */
#include "common/device.h"

#define THREADS 256
#define SOFTENING 0.01f

extern "C" __global__ void nbody(float4 *accelerations, const float4 *bodies, int n)
{
	__shared__ float4 tile[THREADS];
	int i = blockIdx.x * THREADS + threadIdx.x;
	float4 body = bodies[i], sum;

	sum.x = sum.y = sum.z = sum.w = 0;
	for (int first = 0; first < n; first += THREADS) {
		tile[threadIdx.x] = bodies[first + threadIdx.x];
		__syncthreads();
		for (int j = 0; j < THREADS; j++) {
			float dx = tile[j].x - body.x, dy = tile[j].y - body.y;
			float dz = tile[j].z - body.z;
			float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + SOFTENING);
			float pull = tile[j].w * inverse * inverse * inverse;

			sum.x += dx * pull;
			sum.y += dy * pull;
			sum.z += dz * pull;
		}
		__syncthreads();
	}
	accelerations[i] = sum;
}
