/* SPDX-License-Identifier: MIT */
#include "kernel.h"

#include <math.h>

#define RADIUS 12
#define SIDE (2 * RADIUS + 1)
#define REACH 7
#define PLACES (2 * REACH + 1)

static float score_at(const float *t, const float *frame, int n, int x, int y)
{
	float product = 0, sum = 0, square = 0;

	for (int j = 0; j < SIDE; j++)
		for (int i = 0; i < SIDE; i++) {
			float value = frame[(y + j) * n + x + i];

			product += t[j * SIDE + i] * value;
			sum += value;
			square += value * value;
		}
	return product / sqrtf(square - sum * sum / (SIDE * SIDE));
}

KERNEL(hw_track)
{
	int *position = PARAMETER(0, int *);
	const float *templates = PARAMETER(1, float *), *frame = PARAMETER(2, float *);
	int n = PARAMETER(3, int);

#pragma omp parallel for
	for (int point = 0; point < grid->x; point++) {
		const float *t = templates + point * SIDE * SIDE;
		int *p = position + 2 * point, best_place = 0;
		float best = -1;

		for (int place = 0; place < PLACES * PLACES; place++) {
			float score = score_at(t, frame, n, p[0] + place % PLACES - REACH - RADIUS,
				p[1] + place / PLACES - REACH - RADIUS);

			if (score > best) {
				best = score;
				best_place = place;
			}
		}
		p[0] += best_place % PLACES - REACH;
		p[1] += best_place / PLACES - REACH;
	}
}
