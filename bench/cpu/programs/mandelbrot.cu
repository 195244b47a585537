/* SPDX-License-Identifier: MIT
 *
 * The Mandelbrot set: a thread a pixel, which counts the steps until its point has left.
 */
#include "common/device.h"

#define STEPS 256

extern "C" __global__ void mandelbrot(int *steps, int n, float left, float top, float across)
{
	int column = blockIdx.x * blockDim.x + threadIdx.x;
	int row = blockIdx.y * blockDim.y + threadIdx.y;
	float x0 = left + column * across / n, y0 = top + row * across / n;
	float x = 0, y = 0;
	int step = 0;

	if (column >= n || row >= n)
		return;
	while (step < STEPS && x * x + y * y < 4) {
		float next = x * x - y * y + x0;

		y = 2 * x * y + y0;
		x = next;
		step++;
	}
	steps[row * n + column] = step;
}
