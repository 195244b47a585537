/* SPDX-License-Identifier: MIT
 *
 * CPY: copies to the device and back, from and to ordinary (pageable) memory.
 */
#include "common/harness.h"

#include <string.h>

static size_t bytes;
static uint32_t *source, *destination;
static CUdeviceptr device_memory;

static void setup(void)
{
	bytes = (size_t)options.size << 20;
	source = host_alloc(bytes);
	destination = host_alloc(bytes);
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
}

const struct program program = {
	.name = "cpy",
	.summary = "Copies to the device and back.",
	.size_means = "MiB to copy",
	.size = 256,
	.size_max = 65536,
	.setup = setup,
	.compute = compute,
	.check = check,
};
