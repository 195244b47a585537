/* SPDX-License-Identifier: MIT */
#include "kernel.h"

#define STEPS 256

KERNEL(mandelbrot)
{
	int *steps = PARAMETER(0, int *);
	int n = PARAMETER(1, int);
	float left = PARAMETER(2, float), top = PARAMETER(3, float), across = PARAMETER(4, float);

#pragma omp parallel for schedule(dynamic)
	for (int row = 0; row < n; row++)
		for (int column = 0; column < n; column++) {
			float x0 = left + column * across / n, y0 = top + row * across / n;
			float x = 0, y = 0;
			int step = 0;

			while (step < STEPS && x * x + y * y < 4) {
				float next = x * x - y * y + x0;

				y = 2 * x * y + y0;
				x = next;
				step++;
			}
			steps[row * n + column] = step;
		}
}
