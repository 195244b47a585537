/* SPDX-License-Identifier: MIT
 *
 * HS: the temperatures on a chip (hotspot), step by step. Two arrays take turns as input and output.
 */
#include "common/harness.h"

#include <string.h>

#define BLOCK 16
#define STEPS 60
#define AIR 80.0f
#define ACROSS 0.1f
#define TO_AIR 0.01f
#define HEATING 0.5f

static unsigned n;
static size_t bytes;
static float *start, *power, *result;
static CUdeviceptr device_t[2], device_power;

static void setup(void)
{
	n = options.size;
	bytes = (size_t)n * n * sizeof(float);
	start = random_floats((size_t)n * n, 320, 340);
	power = random_floats((size_t)n * n, 0, 1);
	result = host_alloc(bytes);
	device_t[0] = device_alloc(bytes);
	device_t[1] = device_alloc(bytes);
	device_power = device_alloc(bytes);
}

static void compute(void)
{
	CUfunction hotspot = device_kernel("hotspot");
	float across = ACROSS, to_air = TO_AIR, heating = HEATING;

	copy_to_device(device_t[0], start, bytes);
	copy_to_device(device_power, power, bytes);
	for (unsigned step = 0; step < STEPS; step++)
		launch(hotspot, SHAPE(n / BLOCK, n / BLOCK, BLOCK, BLOCK),
			&device_t[(step + 1) % 2], &device_t[step % 2], &device_power, &n, &across,
			&to_air, &heating);
	copy_from_device(result, device_t[STEPS % 2], bytes);
}

static void step_on_cpu(float *out, const float *in)
{
	for (unsigned row = 0; row < n; row++)
		for (unsigned column = 0; column < n; column++) {
			size_t i = (size_t)row * n + column;
			float here = in[i];
			float north = row > 0 ? in[i - n] : here;
			float south = row < n - 1 ? in[i + n] : here;
			float west = column > 0 ? in[i - 1] : here;
			float east = column < n - 1 ? in[i + 1] : here;

			out[i] = here + HEATING * power[i] +
				 ACROSS * (north + south + west + east - 4 * here) +
				 TO_AIR * (AIR - here);
		}
}

static void check(void)
{
	float *t[2] = {host_alloc(bytes), host_alloc(bytes)};

	memcpy(t[0], start, bytes);
	for (unsigned step = 0; step < STEPS; step++)
		step_on_cpu(t[(step + 1) % 2], t[step % 2]);
	check_floats("the temperatures", result, t[STEPS % 2], (size_t)n * n, 1e-4f);
}

const struct program program = {
	.name = "hs",
	.summary = "Computes the temperatures on a chip over 60 time steps.",
	.size_means = "rows and columns of the chip; a multiple of 16",
	.size = 1024,
	.size_max = 32768,
	.multiple = BLOCK,
	.setup = setup,
	.compute = compute,
	.check = check,
};
