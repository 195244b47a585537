/* SPDX-License-Identifier: MIT */
#include "kernel.h"

#include <math.h>

KERNEL(nn_distance)
{
	float *distance = PARAMETER(0, float *);
	const float *places = PARAMETER(1, float *);
	float x = PARAMETER(2, float), y = PARAMETER(3, float);
	int n = PARAMETER(4, int);

#pragma omp parallel for
	for (int i = 0; i < n; i++) {
		float dx = places[2 * i] - x, dy = places[2 * i + 1] - y;

		distance[i] = sqrtf(dx * dx + dy * dy);
	}
}
