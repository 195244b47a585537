/* SPDX-License-Identifier: MIT
 *
 * SRAD2: the diffusion of srad on random values. The statistic is the host's work, over the upper left
 * region of the picture, which is copied back for it in every iteration.
 */
#include "common/harness.h"
#include "srad/diffusion.h"

#include <math.h>

#define BLOCK 16
#define REGION_ROWS 128
#define ITERATIONS 20

static unsigned n, blocks, region_count;
static size_t count, bytes;
static float *picture, *region, *result;
static CUdeviceptr device_picture[2], device_coefficient;

static void setup(void)
{
	n = options.size;
	count = (size_t)n * n;
	bytes = count * sizeof(float);
	blocks = (n + BLOCK - 1) / BLOCK;
	region_count = (n < REGION_ROWS ? n : REGION_ROWS) * n;
	picture = host_alloc(bytes);
	for (size_t i = 0; i < count; i++)
		picture[i] = expf(random_float(0, 1));
	region = host_alloc(region_count * sizeof(*region));
	result = host_alloc(bytes);
	device_picture[0] = device_alloc(bytes);
	device_picture[1] = device_alloc(bytes);
	device_coefficient = device_alloc(bytes);
}

static float statistic(const float *values)
{
	double sum = 0, square = 0;

	for (unsigned i = 0; i < region_count; i++) {
		sum += values[i];
		square += (double)values[i] * values[i];
	}
	return diffusion_q0(sum, square, region_count);
}

static void compute(void)
{
	struct shape plane = SHAPE(blocks, blocks, BLOCK, BLOCK);
	CUfunction coefficient = device_kernel("srad_coefficient");
	CUfunction update = device_kernel("srad_update");
	float lambda = SRAD_LAMBDA;

	copy_to_device(device_picture[0], picture, bytes);
	for (unsigned i = 0; i < ITERATIONS; i++) {
		CUdeviceptr *in = &device_picture[i % 2], *out = &device_picture[(i + 1) % 2];
		float q0;

		copy_from_device(region, *in, region_count * sizeof(*region));
		q0 = statistic(region);
		launch(coefficient, plane, &device_coefficient, in, &n, &q0);
		launch(update, plane, out, in, &device_coefficient, &n, &lambda);
		progress(i, ITERATIONS);
	}
	copy_from_device(result, device_picture[ITERATIONS % 2], bytes);
}

static void check(void)
{
	float *j[2] = {host_alloc(bytes), host_alloc(bytes)}, *c = host_alloc(bytes);

	for (size_t i = 0; i < count; i++)
		j[0][i] = picture[i];
	for (unsigned i = 0; i < ITERATIONS; i++)
		diffusion_step(j[(i + 1) % 2], j[i % 2], c, (int)n, statistic(j[i % 2]));
	check_floats("the picture", result, j[ITERATIONS % 2], count, 1e-3f);
}

const struct program program = {
	.name = "srad2",
	.summary =
		"Diffuses random values, as srad does a picture, with the statistic on the host.",
	.size_means = "rows and columns of the picture",
	.size = 1024,
	.size_max = 32768,
	.setup = setup,
	.compute = compute,
	.check = check,
};
