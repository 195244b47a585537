/* SPDX-License-Identifier: MIT */
#include "kernel.h"

#include <math.h>

#define SOFTENING 0.01f

struct body {
	float x, y, z, mass;
};

KERNEL(nbody)
{
	struct body *accelerations = PARAMETER(0, struct body *);
	const struct body *bodies = PARAMETER(1, struct body *);
	int n = PARAMETER(2, int);

#pragma omp parallel for
	for (int i = 0; i < n; i++) {
		struct body sum = {0};

		for (int j = 0; j < n; j++) {
			float dx = bodies[j].x - bodies[i].x, dy = bodies[j].y - bodies[i].y;
			float dz = bodies[j].z - bodies[i].z;
			float inverse = 1 / sqrtf(dx * dx + dy * dy + dz * dz + SOFTENING);
			float pull = bodies[j].mass * inverse * inverse * inverse;

			sum.x += dx * pull;
			sum.y += dy * pull;
			sum.z += dz * pull;
		}
		accelerations[i] = sum;
	}
}
