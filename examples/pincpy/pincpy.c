/* SPDX-License-Identifier: MIT
 *
 * PINCPY: as cpy, from and to page-locked memory, which the device can reach by itself: nothing need be
 * copied on the way.
 */
#include "common/harness.h"

#include <string.h>

static size_t bytes;
static uint32_t *source, *destination;
static CUdeviceptr device_memory;

static void setup(void)
{
	bytes = (size_t)options.size << 20;
	CHECK(cuMemAllocHost((void **)&source, bytes));
	CHECK(cuMemAllocHost((void **)&destination, bytes));
	for (size_t i = 0; i < bytes / sizeof(*source); i++)
		source[i] = random_next();
	memset(destination, 0, bytes);
	device_memory = device_alloc(bytes);
}

static void compute(void)
{
	copy_to_device(device_memory, source, bytes);
	copy_from_device(destination, device_memory, bytes);
}

static void check(void)
{
	check_ints("the copy", (int *)destination, (int *)source, bytes / sizeof(*source));
	CHECK(cuMemFreeHost(source));
	CHECK(cuMemFreeHost(destination));
}

const struct program program = {
	.name = "pincpy",
	.summary = "Copies to the device and back, from and to page-locked memory.",
	.size_means = "MiB to copy",
	.size = 256,
	.size_max = 65536,
	.setup = setup,
	.compute = compute,
	.check = check,
};
