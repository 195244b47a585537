/* SPDX-License-Identifier: MIT
 *
 * MMULS: multiplies two matrices on all devices. Each has a band of the rows of A and C, and all of B, which goes to
 * the first device and on from there, device to device.
 */
#include "common/harness.h"

#define TILE 16

/* What a device has. */
struct part {
	unsigned first, rows;
	CUdeviceptr a, b, c;
};

static unsigned n;
static float *a, *b, *c;
static struct part parts[DEVICES_MAX];

static size_t row_bytes(unsigned rows)
{
	return (size_t)rows * n * sizeof(float);
}

static void setup(void)
{
	unsigned count = device_count(), tiles;

	n = options.size;
	tiles = n / TILE;
	a = random_floats((size_t)n * n, -1, 1);
	b = random_floats((size_t)n * n, -1, 1);
	c = host_alloc(row_bytes(n));
	for (unsigned i = 0; i < count; i++) {
		struct part *part = &parts[i];
		part->first = tiles * i / count * TILE;
		part->rows = tiles * (i + 1) / count * TILE - part->first;
		if (!part->rows)
			continue;
		device_use(i);
		part->a = device_alloc(row_bytes(part->rows));
		part->b = device_alloc(row_bytes(n));
		part->c = device_alloc(row_bytes(part->rows));
	}
}

static void compute(void)
{
	const struct part *origin = NULL; /* the first that has rows */
	unsigned from = 0;

	for (unsigned i = 0; i < device_count(); i++) {
		struct part *part = &parts[i];
		if (!part->rows)
			continue;
		device_use(i);
		copy_to_device(part->a, a + (size_t)part->first * n, row_bytes(part->rows));
		if (origin) {
			CHECK(cuMemcpyPeer(part->b, device_context(i), origin->b,
				device_context(from), row_bytes(n)));
		} else {
			copy_to_device(part->b, b, row_bytes(n));
			origin = part;
			from = i;
		}
	}
	for (unsigned i = 0; i < device_count(); i++) {
		struct part *part = &parts[i];
		if (!part->rows)
			continue;
		device_use(i);
		launch(device_kernel("mmul"), SHAPE(n / TILE, part->rows / TILE, TILE, TILE),
			&part->c, &part->a, &part->b, &n);
	}
	for (unsigned i = 0; i < device_count(); i++)
		if (parts[i].rows)
			copy_from_device(c + (size_t)parts[i].first * n, parts[i].c,
				row_bytes(parts[i].rows));
}

static void check(void)
{
	float *row = host_alloc(row_bytes(1));

	for (unsigned i = 0; i < n; i++) {
		for (unsigned j = 0; j < n; j++)
			row[j] = 0;
		for (unsigned k = 0; k < n; k++)
			for (unsigned j = 0; j < n; j++)
				row[j] += a[(size_t)i * n + k] * b[(size_t)k * n + j];
		check_floats("a row of C", c + (size_t)i * n, row, n, 1e-3f);
	}
}

const struct program program = {
	.name = "mmuls",
	.summary = "Multiplies two matrices of floats on all devices, in bands of rows.",
	.size_means = "rows and columns of the matrices; a multiple of 16",
	.size = 1024,
	.size_max = 32768,
	.multiple = TILE,
	.setup = setup,
	.compute = compute,
	.check = check,
};
