/* SPDX-License-Identifier: MIT
 *
 * Steps of a stencil in a cube; see stencil.cu. Two arrays take turns as input and output.
 */
#include "common/harness.h"

#include <string.h>

#define BLOCK_X 32
#define BLOCK_Y 8
#define STEPS 4
#define CENTRE 0.4f
#define AROUND 0.1f

static unsigned n;
static size_t count, bytes;
static float *start, *result;
static CUdeviceptr device_cube[2];

static void setup(void)
{
	n = options.size;
	count = (size_t)n * n * n;
	bytes = count * sizeof(float);
	start = random_floats(count, 0, 1);
	result = host_alloc(bytes);
	device_cube[0] = device_alloc(bytes);
	device_cube[1] = device_alloc(bytes);
}

static void compute(void)
{
	CUfunction stencil = device_kernel("stencil");
	struct shape shape =
		SHAPE((n + BLOCK_X - 1) / BLOCK_X, (n + BLOCK_Y - 1) / BLOCK_Y, BLOCK_X, BLOCK_Y);
	float centre = CENTRE, around = AROUND;

	copy_to_device(device_cube[0], start, bytes);
	copy_to_device(device_cube[1], start, bytes); /* for the surface */
	for (unsigned step = 0; step < STEPS; step++)
		launch(stencil, shape, &device_cube[(step + 1) % 2], &device_cube[step % 2], &n,
			&centre, &around);
	copy_from_device(result, device_cube[STEPS % 2], bytes);
}

static void step_on_cpu(float *out, const float *in)
{
	for (unsigned z = 1; z < n - 1; z++)
		for (unsigned y = 1; y < n - 1; y++)
			for (unsigned x = 1; x < n - 1; x++) {
				size_t i = ((size_t)z * n + y) * n + x;

				out[i] = CENTRE * in[i] +
					 AROUND * (in[i - 1] + in[i + 1] + in[i - n] + in[i + n] +
							  in[i - n * n] + in[i + n * n]);
			}
}

static void check(void)
{
	float *cube[2] = {host_alloc(bytes), host_alloc(bytes)};

	memcpy(cube[0], start, bytes);
	memcpy(cube[1], start, bytes);
	for (unsigned step = 0; step < STEPS; step++)
		step_on_cpu(cube[(step + 1) % 2], cube[step % 2]);
	check_floats("the cube", result, cube[STEPS % 2], count, 1e-5f);
}

const struct program program = {
	.name = "stencil",
	.summary = "Takes four steps of a seven-point stencil in a cube.",
	.size_means = "length of the cube's sides; at least 3",
	.size = 192,
	.size_max = 1024,
	.setup = setup,
	.compute = compute,
	.check = check,
};
