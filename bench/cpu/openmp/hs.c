/* SPDX-License-Identifier: MIT */
#include "kernel.h"

#define AIR 80.0f

KERNEL(hotspot)
{
	float *out = PARAMETER(0, float *);
	const float *in = PARAMETER(1, float *), *power = PARAMETER(2, float *);
	int n = PARAMETER(3, int);
	float across = PARAMETER(4, float), to_air = PARAMETER(5, float);
	float heating = PARAMETER(6, float);

#pragma omp parallel for
	for (int row = 0; row < n; row++)
		for (int column = 0; column < n; column++) {
			int i = row * n + column;
			float here = in[i];
			float north = row > 0 ? in[i - n] : here;
			float south = row < n - 1 ? in[i + n] : here;
			float west = column > 0 ? in[i - 1] : here;
			float east = column < n - 1 ? in[i + 1] : here;

			out[i] = here + heating * power[i] +
				 across * (north + south + west + east - 4 * here) +
				 to_air * (AIR - here);
		}
}
