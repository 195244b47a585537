/* SPDX-License-Identifier: MIT
 *
 * FWT: the fast Walsh transform of n floats; log2(n) short kernels, and as much copying as computing. See fwt.cu.
 */
#include "common/harness.h"

#include <string.h>

#define BLOCK 128

static unsigned n;
static float *input, *output;
static CUdeviceptr device_data;

static void setup(void)
{
	n = BLOCK * 2;
	while (n < options.size)
		n *= 2;
	input = random_floats(n, -1, 1);
	output = host_alloc(n * sizeof(*output));
	device_data = device_alloc(n * sizeof(*input));
}

static void compute(void)
{
	copy_to_device(device_data, input, n * sizeof(*input));
	for (unsigned stride = 1; stride < n; stride *= 2)
		launch(device_kernel("fwt"), SHAPE(n / 2 / BLOCK, 1, BLOCK, 1), &device_data,
			&stride);
	copy_from_device(output, device_data, n * sizeof(*output));
}

static void check(void)
{
	float *want = host_alloc(n * sizeof(*want));

	memcpy(want, input, n * sizeof(*want));
	for (unsigned stride = 1; stride < n; stride *= 2)
		for (unsigned begin = 0; begin < n; begin += 2 * stride)
			for (unsigned i = begin; i < begin + stride; i++) {
				float a = want[i], b = want[i + stride];

				want[i] = a + b;
				want[i + stride] = a - b;
			}
	check_floats("the transform", output, want, n, 1e-4f);
}

const struct program program = {
	.name = "fwt",
	.summary = "The fast Walsh transform of random floats.",
	.size_means = "floats; rounded up to a power of two",
	.size = 1 << 20,
	.size_max = 1 << 28,
	.setup = setup,
	.compute = compute,
	.check = check,
};
