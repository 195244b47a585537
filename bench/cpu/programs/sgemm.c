/* SPDX-License-Identifier: MIT
 *
 * The matrix multiplication of BLAS; see sgemm.cu.
 */
#include "common/harness.h"

#define TILE 16
#define ALPHA 1.5f
#define BETA 0.5f

static unsigned n;
static float *a, *b, *c, *result;
static CUdeviceptr device_a, device_b, device_c;

static void setup(void)
{
	size_t count;

	n = options.size;
	count = (size_t)n * n;
	a = random_floats(count, -1, 1);
	b = random_floats(count, -1, 1);
	c = random_floats(count, -1, 1);
	result = host_alloc(count * sizeof(*result));
	device_a = device_alloc(count * sizeof(*a));
	device_b = device_alloc(count * sizeof(*b));
	device_c = device_alloc(count * sizeof(*c));
}

static void compute(void)
{
	size_t bytes = (size_t)n * n * sizeof(*a);
	unsigned blocks = (n + TILE - 1) / TILE;
	float alpha = ALPHA, beta = BETA;

	copy_to_device(device_a, a, bytes);
	copy_to_device(device_b, b, bytes);
	copy_to_device(device_c, c, bytes);
	launch(device_kernel("sgemm"), SHAPE(blocks, blocks, TILE, TILE), &device_c, &device_a,
		&device_b, &n, &alpha, &beta);
	copy_from_device(result, device_c, bytes);
}

static void check(void)
{
	float *row = host_alloc(n * sizeof(*row));

	for (size_t i = 0; i < n; i++) {
		for (size_t j = 0; j < n; j++)
			row[j] = BETA * c[i * n + j];
		for (size_t k = 0; k < n; k++)
			for (size_t j = 0; j < n; j++)
				row[j] += ALPHA * a[i * n + k] * b[k * n + j];
		check_floats("a row of C", result + i * n, row, n, 1e-3f);
	}
}

const struct program program = {
	.name = "sgemm",
	.summary = "Multiplies two matrices of floats, and adds them to a third.",
	.size_means = "rows and columns of the matrices",
	.size = 500,
	.size_max = 32768,
	.setup = setup,
	.compute = compute,
	.check = check,
};
