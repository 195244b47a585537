/* SPDX-License-Identifier: MIT
 *
 * LUD: decomposes a matrix into a lower and an upper triangular one, in place; see lud.cu. Many
 * kernels, each of which needs the one before, and most of them small.
 */
#include "common/harness.h"

#include <string.h>

#define BLOCK 16

static unsigned n;
static float *matrix, *result;
static CUdeviceptr device_matrix;

/* A dominant diagonal: no pivoting is needed. */
static void setup(void)
{
	size_t count;

	n = options.size;
	count = (size_t)n * n;
	matrix = random_floats(count, -1, 1);
	for (unsigned i = 0; i < n; i++)
		matrix[(size_t)i * n + i] = (float)n + random_float(0, 1);
	result = host_alloc(count * sizeof(*result));
	device_matrix = device_alloc(count * sizeof(*matrix));
}

static void compute(void)
{
	size_t bytes = (size_t)n * n * sizeof(*matrix);
	CUfunction diagonal = device_kernel("lud_diagonal");
	CUfunction perimeter = device_kernel("lud_perimeter");
	CUfunction inner = device_kernel("lud_inner");

	copy_to_device(device_matrix, matrix, bytes);
	for (unsigned offset = 0; offset < n; offset += BLOCK) {
		unsigned rest = (n - offset) / BLOCK - 1;

		launch(diagonal, SHAPE(1, 1, BLOCK, 1), &device_matrix, &n, &offset);
		if (!rest)
			break;
		launch(perimeter, SHAPE(rest, 1, 2 * BLOCK, 1), &device_matrix, &n, &offset);
		launch(inner, SHAPE(rest, rest, BLOCK, BLOCK), &device_matrix, &n, &offset);
		/* Waiting is not needed, but progress() should tell what is done, not what is asked. */
		if (offset % (16 * BLOCK) == 0) {
			device_wait();
			progress(offset, n);
		}
	}
	copy_from_device(result, device_matrix, bytes);
}

static void check(void)
{
	size_t count = (size_t)n * n;
	float *lu = host_alloc(count * sizeof(*lu));

	memcpy(lu, matrix, count * sizeof(*lu));
	for (unsigned k = 0; k < n; k++) {
		const float *pivot = lu + (size_t)k * n;

		for (unsigned i = k + 1; i < n; i++) {
			float *row = lu + (size_t)i * n;
			float factor = row[k] /= pivot[k];

			for (unsigned j = k + 1; j < n; j++)
				row[j] -= factor * pivot[j];
		}
	}
	check_floats("L and U", result, lu, count, 1e-4f);
}

const struct program program = {
	.name = "lud",
	.summary = "Decomposes a matrix of floats into L and U, in blocks.",
	.size_means = "rows and columns of the matrix; a multiple of 16",
	.size = 1024,
	.size_max = 32768,
	.multiple = BLOCK,
	.setup = setup,
	.compute = compute,
	.check = check,
};
