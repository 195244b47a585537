/* SPDX-License-Identifier: MIT
 *
 * Sorts numbers by their digits; see radix.cu.
 */
#include "scanning.h"

#include <stdlib.h>

#define THREADS 256u
#define DIGITS 16
#define BITS 4

static unsigned n, blocks;
static size_t bytes;
static unsigned *keys, *sorted;
static CUdeviceptr device_keys, device_blocks, device_counts, device_ends;

static void setup(void)
{
	n = options.size;
	blocks = n / THREADS;
	bytes = n * sizeof(*keys);
	keys = host_alloc(bytes);
	sorted = host_alloc(bytes);
	for (unsigned i = 0; i < n; i++)
		keys[i] = random_next();
	device_keys = device_alloc(bytes);
	device_blocks = device_alloc(bytes);
	device_counts = device_alloc(DIGITS * blocks * sizeof(int));
	device_ends = device_alloc(DIGITS * blocks * sizeof(int));
	scanning_setup(DIGITS * blocks);
}

static void compute(void)
{
	CUfunction block = device_kernel("radix_block"), scatter = device_kernel("radix_scatter");
	struct shape shape = SHAPE(blocks, 1, THREADS, 1);

	copy_to_device(device_keys, keys, bytes);
	for (int shift = 0; shift < 32; shift += BITS) {
		launch(block, shape, &device_blocks, &device_counts, &device_keys, &shift);
		scanning(device_ends, device_counts, DIGITS * blocks);
		launch(scatter, shape, &device_keys, &device_blocks, &device_counts, &device_ends,
			&shift);
	}
	copy_from_device(sorted, device_keys, bytes);
}

static int compare(const void *a, const void *b)
{
	unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;

	return (x > y) - (x < y);
}

static void check(void)
{
	qsort(keys, n, sizeof(*keys), compare);
	check_ints("the sorted numbers", (const int *)sorted, (const int *)keys, n);
}

const struct program program = {
	.name = "radix",
	.summary = "Sorts numbers by their digits.",
	.size_means = "how many; a multiple of 256",
	.size = 1u << 20,
	.size_max = 1u << 27,
	.multiple = THREADS,
	.setup = setup,
	.compute = compute,
	.check = check,
};
