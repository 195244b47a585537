/* SPDX-License-Identifier: MIT
 *
 * THROTTLE: callbacks and nothing else (GLoop, section 5.2): what a callback costs, and how two such programs share a
 * device. With PLAIN it is one long kernel without callbacks, for comparison.
 */
#include "gloop/run.h"

/* As in the paper's experiments. */
#define BLOCKS 28u
#define BLOCK 128u
#define THREADS (BLOCKS * BLOCK)

static unsigned *numbers;
static CUdeviceptr device_numbers;

static void setup(void)
{
	numbers = host_alloc(THREADS * sizeof(*numbers));
	device_numbers = device_alloc(THREADS * sizeof(*numbers));
}

static void compute(void)
{
	unsigned steps = options.size;

	for (unsigned i = 0; i < THREADS; i++)
		numbers[i] = options.seed + i;
	copy_to_device(device_numbers, numbers, THREADS * sizeof(*numbers));
	run_persistent(
		"throttle", SHAPE(BLOCKS, 1, BLOCK, 1), (void *[]){NULL, &device_numbers, &steps});
	copy_from_device(numbers, device_numbers, THREADS * sizeof(*numbers));
}

static void check(void)
{
	unsigned *want = host_alloc(THREADS * sizeof(*want));

	for (unsigned i = 0; i < THREADS; i++) {
		want[i] = options.seed + i;
		for (unsigned step = 0; step < options.size; step++)
			want[i] = want[i] * 1664525u + 1013904223u;
	}
	check_ints("the numbers", (int *)numbers, (int *)want, THREADS);
}

const struct program program = {
	.name = "throttle",
	.summary = "Runs callbacks that do hardly anything.",
	.size_means = "callbacks of each of the 28 blocks",
	.size = 10000,
	.size_max = 10000000,
	.setup = setup,
	.compute = compute,
	.check = check,
};
