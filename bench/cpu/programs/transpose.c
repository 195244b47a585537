/* SPDX-License-Identifier: MIT
 *
 * The transpose of a matrix; see transpose.cu.
 */
#include "common/harness.h"

#define TILE 32
#define ROWS 8

static unsigned n;
static float *in, *out;
static CUdeviceptr device_in, device_out;

static void setup(void)
{
	size_t count;

	n = options.size;
	count = (size_t)n * n;
	in = random_floats(count, -1, 1);
	out = host_alloc(count * sizeof(*out));
	device_in = device_alloc(count * sizeof(*in));
	device_out = device_alloc(count * sizeof(*out));
}

static void compute(void)
{
	size_t bytes = (size_t)n * n * sizeof(*in);

	copy_to_device(device_in, in, bytes);
	launch(device_kernel("transpose"), SHAPE(n / TILE, n / TILE, TILE, ROWS), &device_out,
		&device_in, &n);
	copy_from_device(out, device_out, bytes);
}

static void check(void)
{
	float *row = host_alloc(n * sizeof(*row));

	for (size_t i = 0; i < n; i++) {
		for (size_t j = 0; j < n; j++)
			row[j] = in[j * n + i];
		check_floats("a row", out + i * n, row, n, 0);
	}
}

const struct program program = {
	.name = "transpose",
	.summary = "Transposes a matrix of floats, in tiles.",
	.size_means = "rows and columns of the matrix; a multiple of 32",
	.size = 2048,
	.size_max = 32768,
	.multiple = TILE,
	.setup = setup,
	.compute = compute,
	.check = check,
};
