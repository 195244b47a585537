/* SPDX-License-Identifier: MIT
 *
 * SRAD: takes the speckles out of an ultrasound picture (bright discs on a darker ground, with
 * multiplicative noise). The device sums the whole picture up in every iteration; only a few sums come
 * back.
 */
#include "common/harness.h"
#include "srad/diffusion.h"

#include <math.h>

#define BLOCK 16
#define THREADS 256
#define ITERATIONS 20

static unsigned n, blocks, sum_blocks;
static int count;
static size_t bytes;
static float *picture, *sums, *result;
static CUdeviceptr device_picture[2], device_coefficient, device_sums;

static void setup(void)
{
	n = options.size;
	count = (int)(n * n);
	bytes = (size_t)count * sizeof(float);
	blocks = (n + BLOCK - 1) / BLOCK;
	sum_blocks = ((unsigned)count + THREADS - 1) / THREADS;
	picture = host_alloc(bytes);
	for (unsigned row = 0; row < n; row++)
		for (unsigned column = 0; column < n; column++) {
			float dx = (float)(column % 128) - 64, dy = (float)(row % 128) - 64;
			float brightness = dx * dx + dy * dy < 40 * 40 ? 180 : 90;

			picture[(size_t)row * n + column] = brightness * random_float(0.8f, 1.2f);
		}
	sums = host_alloc(2 * sum_blocks * sizeof(*sums));
	result = host_alloc(bytes);
	device_picture[0] = device_alloc(bytes);
	device_picture[1] = device_alloc(bytes);
	device_coefficient = device_alloc(bytes);
	device_sums = device_alloc(2 * sum_blocks * sizeof(*sums));
}

static float statistic(CUdeviceptr *from)
{
	struct shape line = SHAPE(sum_blocks, 1, THREADS, 1);
	double sum = 0, square = 0;

	launch(device_kernel("srad_sum"), line, &device_sums, from, &count);
	copy_from_device(sums, device_sums, 2 * sum_blocks * sizeof(*sums));
	for (unsigned i = 0; i < sum_blocks; i++) {
		sum += sums[2 * i];
		square += sums[2 * i + 1];
	}
	return diffusion_q0(sum, square, count);
}

static void compute(void)
{
	struct shape line = SHAPE(sum_blocks, 1, THREADS, 1);
	struct shape plane = SHAPE(blocks, blocks, BLOCK, BLOCK);
	CUfunction coefficient = device_kernel("srad_coefficient");
	CUfunction update = device_kernel("srad_update");
	float lambda = SRAD_LAMBDA;

	copy_to_device(device_picture[0], picture, bytes);
	launch(device_kernel("srad_extract"), line, &device_picture[0], &count);
	for (unsigned i = 0; i < ITERATIONS; i++) {
		CUdeviceptr *in = &device_picture[i % 2], *out = &device_picture[(i + 1) % 2];
		float q0 = statistic(in);

		launch(coefficient, plane, &device_coefficient, in, &n, &q0);
		launch(update, plane, out, in, &device_coefficient, &n, &lambda);
		progress(i, ITERATIONS);
	}
	launch(device_kernel("srad_compress"), line, &device_picture[ITERATIONS % 2], &count);
	copy_from_device(result, device_picture[ITERATIONS % 2], bytes);
}

static void check(void)
{
	float *j[2] = {host_alloc(bytes), host_alloc(bytes)}, *c = host_alloc(bytes);

	for (int i = 0; i < count; i++)
		j[0][i] = expf(picture[i] / 255);
	for (unsigned i = 0; i < ITERATIONS; i++) {
		double sum = 0, square = 0;
		const float *in = j[i % 2];

		for (int p = 0; p < count; p++) {
			sum += in[p];
			square += (double)in[p] * in[p];
		}
		diffusion_step(j[(i + 1) % 2], in, c, (int)n, diffusion_q0(sum, square, count));
	}
	for (int i = 0; i < count; i++)
		j[ITERATIONS % 2][i] = logf(j[ITERATIONS % 2][i]) * 255;
	check_floats("the picture", result, j[ITERATIONS % 2], (size_t)count, 1e-3f);
}

const struct program program = {
	.name = "srad",
	.summary = "Takes the speckles out of an ultrasound picture.",
	.size_means = "rows and columns of the picture",
	.size = 1024,
	.size_max = 32768,
	.setup = setup,
	.compute = compute,
	.check = check,
};
