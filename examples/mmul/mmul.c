/* SPDX-License-Identifier: MIT
 *
 * MMUL: multiplies two matrices of floats; see mmul.cu, and for persistent threads gloop/mmul.cu.
 */
#include "common/harness.h"
#ifdef PERSISTENT
#include "gloop/run.h"
#endif

#define TILE 16
#define BLOCKS 28u /* of persistent threads */

static unsigned n;
static float *a, *b, *c;
static CUdeviceptr device_a, device_b, device_c, device_taken;

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
	device_taken = device_alloc(sizeof(int));
}

static void compute(void)
{
	size_t bytes = (size_t)n * n * sizeof(*a);

	copy_to_device(device_a, a, bytes);
	copy_to_device(device_b, b, bytes);
#ifdef PERSISTENT
	CHECK(cuMemsetD32(device_taken, 0, 1));
	run_persistent("mmul", SHAPE(BLOCKS, 1, TILE, TILE),
		(void *[]){NULL, &device_c, &device_a, &device_b, &n, &device_taken});
#else
	launch(device_kernel("mmul"), SHAPE(n / TILE, n / TILE, TILE, TILE), &device_c, &device_a,
		&device_b, &n);
#endif
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
