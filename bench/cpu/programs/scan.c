/* SPDX-License-Identifier: MIT
 *
 * The sums of the first, the first two, … of many integers; see scan.h.
 */
#include "scanning.h"

static unsigned n;
static int *in, *out;
static CUdeviceptr device_in, device_out;

static void setup(void)
{
	n = options.size;
	in = host_alloc(n * sizeof(*in));
	out = host_alloc(n * sizeof(*out));
	for (unsigned i = 0; i < n; i++)
		in[i] = (int)(random_next() % 16);
	device_in = device_alloc(n * sizeof(*in));
	device_out = device_alloc(n * sizeof(*out));
	scanning_setup(n);
}

static void compute(void)
{
	copy_to_device(device_in, in, n * sizeof(*in));
	scanning(device_out, device_in, n);
	copy_from_device(out, device_out, n * sizeof(*out));
}

static void check(void)
{
	int *want = host_alloc(n * sizeof(*want)), sum = 0;

	for (unsigned i = 0; i < n; i++)
		want[i] = sum += in[i];
	check_ints("the sums", out, want, n);
}

const struct program program = {
	.name = "scan",
	.summary = "Adds integers up, and keeps every sum on the way.",
	.size_means = "how many",
	.size = 4u << 20,
	.size_max = 1u << 27,
	.setup = setup,
	.compute = compute,
	.check = check,
};
