/* SPDX-License-Identifier: MIT
 *
 * A picture of the Mandelbrot set; see mandelbrot.cu.
 */
#include "common/harness.h"

#include <math.h>

#define BLOCK 16
#define STEPS 256
#define LEFT -2.0f
#define TOP -1.25f
#define ACROSS 2.5f

static unsigned n;
static int *steps;
static CUdeviceptr device_steps;

static void setup(void)
{
	n = options.size;
	steps = host_alloc((size_t)n * n * sizeof(*steps));
	device_steps = device_alloc((size_t)n * n * sizeof(*steps));
}

static void compute(void)
{
	unsigned blocks = (n + BLOCK - 1) / BLOCK;
	float left = LEFT, top = TOP, across = ACROSS;

	launch(device_kernel("mandelbrot"), SHAPE(blocks, blocks, BLOCK, BLOCK), &device_steps, &n,
		&left, &top, &across);
	copy_from_device(steps, device_steps, (size_t)n * n * sizeof(*steps));
}

static int steps_of(float x0, float y0)
{
	float x = 0, y = 0;
	int step = 0;

	while (step < STEPS && x * x + y * y < 4) {
		float next = x * x - y * y + x0;

		y = 2 * x * y + y0;
		x = next;
		step++;
	}
	return step;
}

/* Near the edge of the set rounding decides, so that pixels there may differ: a hundredth of them. */
static void check(void)
{
	float differ = 0, none = 0;

	for (unsigned row = 0; row < n; row++)
		for (unsigned column = 0; column < n; column++)
			if (steps[(size_t)row * n + column] !=
				steps_of(LEFT + (float)column * ACROSS / (float)n,
					TOP + (float)row * ACROSS / (float)n))
				differ++;
	differ /= (float)n * (float)n;
	check_floats("the part of pixels that differ", &differ, &none, 1, 0.01f);
}

const struct program program = {
	.name = "mandelbrot",
	.summary = "Makes a picture of the Mandelbrot set.",
	.size_means = "rows and columns of the picture",
	.size = 1024,
	.size_max = 32768,
	.setup = setup,
	.compute = compute,
	.check = check,
};
