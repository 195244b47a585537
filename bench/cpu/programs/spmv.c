/* SPDX-License-Identifier: MIT
 *
 * A sparse matrix times a vector; see spmv.cu.
 */
#include "common/harness.h"

#define THREADS 256
#define IN_A_ROW_MAX 31

static unsigned n, count;
static int *first, *columns;
static float *values, *x, *y;
static CUdeviceptr device_first, device_columns, device_values, device_x, device_y;

static void setup(void)
{
	n = options.size;
	first = host_alloc((n + 1) * sizeof(*first));
	for (unsigned row = 0; row < n; row++) {
		first[row] = (int)count;
		count += 1 + random_next() % IN_A_ROW_MAX;
	}
	first[n] = (int)count;
	columns = host_alloc(count * sizeof(*columns));
	for (unsigned i = 0; i < count; i++)
		columns[i] = (int)(random_next() % n);
	values = random_floats(count, -1, 1);
	x = random_floats(n, -1, 1);
	y = host_alloc(n * sizeof(*y));
	device_first = device_alloc((n + 1) * sizeof(*first));
	device_columns = device_alloc(count * sizeof(*columns));
	device_values = device_alloc(count * sizeof(*values));
	device_x = device_alloc(n * sizeof(*x));
	device_y = device_alloc(n * sizeof(*y));
}

static void compute(void)
{
	copy_to_device(device_first, first, (n + 1) * sizeof(*first));
	copy_to_device(device_columns, columns, count * sizeof(*columns));
	copy_to_device(device_values, values, count * sizeof(*values));
	copy_to_device(device_x, x, n * sizeof(*x));
	launch(device_kernel("spmv"), SHAPE((n + THREADS - 1) / THREADS, 1, THREADS, 1), &device_y,
		&device_first, &device_columns, &device_values, &device_x, &n);
	copy_from_device(y, device_y, n * sizeof(*y));
}

static void check(void)
{
	float *want = host_alloc(n * sizeof(*want));

	for (unsigned row = 0; row < n; row++) {
		want[row] = 0;
		for (int i = first[row]; i < first[row + 1]; i++)
			want[row] += values[i] * x[columns[i]];
	}
	check_floats("the product", y, want, n, 1e-4f);
}

const struct program program = {
	.name = "spmv",
	.summary = "Multiplies a sparse matrix with a vector.",
	.size_means = "rows and columns of the matrix, with 16 values in a row on average",
	.size = 200000,
	.size_max = 1u << 26,
	.setup = setup,
	.compute = compute,
	.check = check,
};
