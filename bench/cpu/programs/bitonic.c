/* SPDX-License-Identifier: MIT
 *
 * Sorts integers with a bitonic network, a launch a step; see bitonic.cu.
 */
#include "common/harness.h"

#include <stdlib.h>

#define THREADS 256u

static unsigned n;
static size_t bytes;
static int *values, *sorted;
static CUdeviceptr device_values;

/* The next power of two. */
static void setup(void)
{
	for (n = THREADS; n < options.size; n *= 2)
		;
	bytes = n * sizeof(*values);
	values = host_alloc(bytes);
	sorted = host_alloc(bytes);
	for (unsigned i = 0; i < n; i++)
		values[i] = (int)random_next();
	device_values = device_alloc(bytes);
}

static void compute(void)
{
	CUfunction step = device_kernel("bitonic_step");

	copy_to_device(device_values, values, bytes);
	for (unsigned size = 2; size <= n; size *= 2)
		for (unsigned distance = size / 2; distance > 0; distance /= 2)
			launch(step, SHAPE(n / THREADS, 1, THREADS, 1), &device_values, &distance,
				&size);
	copy_from_device(sorted, device_values, bytes);
}

static int compare(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return (x > y) - (x < y);
}

static void check(void)
{
	qsort(values, n, sizeof(*values), compare);
	check_ints("the sorted values", sorted, values, n);
}

const struct program program = {
	.name = "bitonic",
	.summary = "Sorts integers with a bitonic network.",
	.size_means = "how many; the next power of two",
	.size = 1u << 19,
	.size_max = 1u << 28,
	.setup = setup,
	.compute = compute,
	.check = check,
};
