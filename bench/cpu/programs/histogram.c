/* SPDX-License-Identifier: MIT
 *
 * How often each byte occurs; see histogram.cu.
 */
#include "common/harness.h"

#include <string.h>

#define THREADS 256
#define BLOCKS 128

static unsigned n;
static unsigned char *bytes;
static int bins[THREADS];
static CUdeviceptr device_bytes, device_bins;

static void setup(void)
{
	n = options.size;
	bytes = host_alloc(n);
	for (unsigned i = 0; i < n; i++)
		bytes[i] = (unsigned char)((random_next() & 255) * (random_next() & 255) >> 8);
	device_bytes = device_alloc(n);
	device_bins = device_alloc(sizeof(bins));
}

static void compute(void)
{
	copy_to_device(device_bytes, bytes, n);
	memset(bins, 0, sizeof(bins));
	copy_to_device(device_bins, bins, sizeof(bins));
	launch(device_kernel("histogram"), SHAPE(BLOCKS, 1, THREADS, 1), &device_bins,
		&device_bytes, &n);
	copy_from_device(bins, device_bins, sizeof(bins));
}

static void check(void)
{
	int want[THREADS] = {0};

	for (unsigned i = 0; i < n; i++)
		want[bytes[i]]++;
	check_ints("the bins", bins, want, THREADS);
}

const struct program program = {
	.name = "histogram",
	.summary = "Counts how often each byte occurs.",
	.size_means = "how many bytes",
	.size = 16u << 20,
	.size_max = 1u << 30,
	.setup = setup,
	.compute = compute,
	.check = check,
};
