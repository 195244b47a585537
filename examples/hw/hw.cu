/* SPDX-License-Identifier: MIT
 *
 * Tracks points through a frame by their looks: a block a point, a thread a place where the point may
 * be now. The place whose surroundings correlate best with the point's template is where it is.
 */
#include "common/device.h"

#define RADIUS 12 /* of a template */
#define SIDE (2 * RADIUS + 1)
#define REACH 7                /* how far a point may move between two frames */
#define PLACES (2 * REACH + 1) /* in one direction */
#define THREADS 256            /* a block; at least PLACES * PLACES */

/* position[p] is x, y of point p in the last frame, and becomes that in this one. Templates have a mean
 * of 0, so that brightness does not count; the division makes contrast not count. */
extern "C" __global__ void hw_track(
	int *position, const float *templates, const float *frame, int n)
{
	__shared__ float t[SIDE * SIDE], best[THREADS];
	__shared__ int best_place[THREADS];
	int thread = threadIdx.x;
	int *p = position + 2 * blockIdx.x;
	float score = -1;

	for (int i = thread; i < SIDE * SIDE; i += THREADS)
		t[i] = templates[blockIdx.x * SIDE * SIDE + i];
	__syncthreads();
	if (thread < PLACES * PLACES) {
		int x = p[0] + thread % PLACES - REACH - RADIUS;
		int y = p[1] + thread / PLACES - REACH - RADIUS;
		float product = 0, sum = 0, square = 0;

		for (int j = 0; j < SIDE; j++)
			for (int i = 0; i < SIDE; i++) {
				float value = frame[(y + j) * n + x + i];

				product += t[j * SIDE + i] * value;
				sum += value;
				square += value * value;
			}
		score = product / sqrtf(square - sum * sum / (SIDE * SIDE));
	}
	best[thread] = score;
	best_place[thread] = thread;
	__syncthreads();
	for (int half = THREADS / 2; half > 0; half /= 2) {
		if (thread < half && best[thread + half] > best[thread]) {
			best[thread] = best[thread + half];
			best_place[thread] = best_place[thread + half];
		}
		__syncthreads();
	}
	if (thread == 0) {
		p[0] += best_place[0] % PLACES - REACH;
		p[1] += best_place[0] / PLACES - REACH;
	}
}
