/* SPDX-License-Identifier: MIT
 *
 * MMUL: multiplies two matrices of floats; see mmul.cu.
 */
#include "common/harness.h"

#define TILE 16

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

	copy_to_device(device_a, a, bytes);
	copy_to_device(device_b, b, bytes);
	launch(device_kernel("mmul"), SHAPE(n / TILE, n / TILE, TILE, TILE), &device_c, &device_a,
		&device_b, &n);
	copy_from_device(c, device_c, bytes);
}

static void check(void)
{
	float *row = host_alloc(n * sizeof(*row));

	for (unsigned i = 0; i < n; i++) {
		multiply_row(row, a + (size_t)i * n, b, n);
		check_floats("a row of C", c + (size_t)i * n, row, n, 1e-3f);
	}
}

const struct program program = {
	.name = "mmul",
	.summary = "Multiplies two matrices of floats, in tiles.",
	.size_means = "rows and columns of the matrices; a multiple of 16",
	.size = 1024,
	.size_max = 32768,
	.multiple = TILE,
	.setup = setup,
	.compute = compute,
	.check = check,
};
