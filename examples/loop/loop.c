/* SPDX-License-Identifier: MIT
 *
 * LOOP: long computing, hardly any data; see loop.cu. It is launched in pieces, each of which is a
 * million steps in each of 8,192 threads.
 */
#include "common/harness.h"

#define BLOCK 128u
#define BLOCKS 64u
#define THREADS (BLOCK * BLOCKS)
#define STEPS 1000000u

static unsigned *out;
static CUdeviceptr device_out;

static void setup(void)
{
	out = host_alloc(THREADS * sizeof(*out));
	device_out = device_alloc(THREADS * sizeof(*out));
}

static void compute(void)
{
	CUfunction loop = device_kernel("loop");

	for (unsigned piece = 0; piece < options.size; piece++) {
		unsigned steps = STEPS, seed = options.seed + piece;

		launch(loop, SHAPE(BLOCKS, 1, BLOCK, 1), &device_out, &steps, &seed);
		device_wait();
		progress(piece + 1, options.size);
	}
	copy_from_device(out, device_out, THREADS * sizeof(*out));
}

/* The CPU need not take all the steps: 2k steps are k steps taken twice, x -> m x + a composed with
 * itself. */
static void check(void)
{
	unsigned *want = host_alloc(THREADS * sizeof(*want));
	unsigned multiply = 1, add = 0, step_multiply = 1664525u, step_add = 1013904223u;

	for (unsigned steps = STEPS; steps; steps >>= 1) {
		if (steps & 1) {
			multiply *= step_multiply;
			add = add * step_multiply + step_add;
		}
		step_add *= step_multiply + 1;
		step_multiply *= step_multiply;
	}
	for (unsigned thread = 0; thread < THREADS; thread++)
		want[thread] = multiply * (options.seed + options.size - 1 + thread) + add;
	check_ints("the last piece", (int *)out, (int *)want, THREADS);
}

const struct program program = {
	.name = "loop",
	.summary = "Computes for long with hardly any data.",
	.size_means = "pieces of 8 thousand million steps in all",
	.size = 4,
	.size_max = 1000000,
	.setup = setup,
	.compute = compute,
	.check = check,
};
