/* SPDX-License-Identifier: MIT
 *
 * The sum of floats; see reduction.cu.
 */
#include "common/harness.h"

#define THREADS 256u

static unsigned n;
static float *values, sum;
static CUdeviceptr device_values, device_sums[2];

static void setup(void)
{
	n = options.size;
	values = random_floats(n, 0, 1);
	device_values = device_alloc(n * sizeof(*values));
	for (unsigned i = 0; i < 2; i++)
		device_sums[i] = device_alloc((n + THREADS - 1) / THREADS * sizeof(*values));
}

static void compute(void)
{
	CUfunction kernel = device_kernel("reduction_sum");
	CUdeviceptr *from = &device_values;

	copy_to_device(device_values, values, n * sizeof(*values));
	for (unsigned left = n, level = 0; left > 1; level++) {
		unsigned blocks = (left + THREADS - 1) / THREADS;
		CUdeviceptr *to = &device_sums[level % 2];

		launch(kernel, SHAPE(blocks, 1, THREADS, 1), to, from, &left);
		from = to;
		left = blocks;
	}
	copy_from_device(&sum, *from, sizeof(sum));
}

static void check(void)
{
	double total = 0;
	float got, want = 1;

	for (unsigned i = 0; i < n; i++)
		total += values[i];
	got = (float)(sum / total);
	check_floats("the sum, as a part of the right one", &got, &want, 1, 1e-4f);
}

const struct program program = {
	.name = "reduction",
	.summary = "Adds up floats.",
	.size_means = "how many",
	.size = 4u << 20,
	.size_max = 1u << 30,
	.setup = setup,
	.compute = compute,
	.check = check,
};
