/* SPDX-License-Identifier: MIT
 *
 * MADD: adds two matrices of floats. It does one addition for every twelve bytes that it moves, so that
 * copying, not computing, decides how long it takes.
 */
#include "common/harness.h"

#define BLOCK 16

static unsigned n;
static float *a, *b, *c;
static CUdeviceptr device_a, device_b, device_c;

static void setup(void)
{
	size_t count;

	n = options.size;
	count = (size_t)n * n;
	a = random_floats(count, -1, 1);
	b = random_floats(count, -1, 1);
	c = host_alloc(count * sizeof(*c));
	device_a = device_alloc(count * sizeof(*a));
	device_b = device_alloc(count * sizeof(*b));
	device_c = device_alloc(count * sizeof(*c));
}

static void compute(void)
{
	size_t bytes = (size_t)n * n * sizeof(*a);
	unsigned blocks = (n + BLOCK - 1) / BLOCK;

	copy_to_device(device_a, a, bytes);
	copy_to_device(device_b, b, bytes);
	launch(device_kernel("madd"), SHAPE(blocks, blocks, BLOCK, BLOCK), &device_c, &device_a,
		&device_b, &n);
	copy_from_device(c, device_c, bytes);
}

static void check(void)
{
	size_t count = (size_t)n * n;
	float *sum = host_alloc(count * sizeof(*sum));

	for (size_t i = 0; i < count; i++)
		sum[i] = a[i] + b[i];
	check_floats("C", c, sum, count, 0);
}

const struct program program = {
	.name = "madd",
	.summary = "Adds two matrices of floats.",
	.size_means = "rows and columns of the matrices",
	.size = 1024,
	.size_max = 32768,
	.setup = setup,
	.compute = compute,
	.check = check,
};
