/* SPDX-License-Identifier: MIT
 *
 * HALO: heat that spreads on a plate, which the devices have in bands of rows. In every step a device needs the rows
 * that border on its band. Where devices reach each other's memory a kernel reads them there; else they are copied
 * first. The devices wait for their neighbours by events: two of each, because a neighbour may be a step ahead.
 */
#include "common/harness.h"

#include <string.h>

#define BLOCK 16
#define STEPS 40

struct band {
	unsigned first, rows;
	CUdeviceptr heat[2];   /* in turns the input and the output of a step */
	CUdeviceptr copied[2]; /* the rows above and below, where they are not reached */
	CUevent done[2];
};

static unsigned n, count;
static float *start, *result;
static struct band bands[DEVICES_MAX];

static size_t row_bytes(unsigned rows)
{
	return (size_t)rows * n * sizeof(float);
}

/* Whether device i reaches memory of device j; then it may use it from here on. */
static int reach(unsigned i, unsigned j)
{
	int can;

	CHECK(cuDeviceCanAccessPeer(&can, (CUdevice)i, (CUdevice)j));
	if (can)
		CHECK(cuCtxEnablePeerAccess(device_context(j), 0));
	return can;
}

static void setup(void)
{
	n = options.size;
	count = device_count() < n ? device_count() : n;
	start = random_floats((size_t)n * n, 0, 100);
	result = host_alloc(row_bytes(n));
	for (unsigned i = 0; i < count; i++) {
		struct band *band = &bands[i];
		device_use(i);
		band->first = n * i / count;
		band->rows = n * (i + 1) / count - band->first;
		for (unsigned k = 0; k < 2; k++) {
			band->heat[k] = device_alloc(row_bytes(band->rows));
			CHECK(cuEventCreate(&band->done[k], CU_EVENT_DISABLE_TIMING));
		}
	}
	for (unsigned i = 0; i < count; i++) {
		device_use(i);
		if (i > 0 && !reach(i, i - 1))
			bands[i].copied[0] = device_alloc(row_bytes(1));
		if (i + 1 < count && !reach(i, i + 1))
			bands[i].copied[1] = device_alloc(row_bytes(1));
	}
}

/* The row of band j that borders on band i, as a kernel of i can read it. */
static CUdeviceptr border(unsigned i, unsigned j, unsigned in)
{
	CUdeviceptr row = bands[j].heat[in] + (j < i ? row_bytes(bands[j].rows - 1) : 0);
	CUdeviceptr copy = bands[i].copied[j > i];

	if (i == j || !copy)
		return row;
	CHECK(cuMemcpyPeerAsync(copy, device_context(i), row, device_context(j), row_bytes(1), 0));
	return copy;
}

static void step(unsigned i, unsigned t)
{
	struct band *band = &bands[i];
	unsigned in = t % 2, out = !in;
	CUdeviceptr above = band->heat[in], below = above + row_bytes(band->rows - 1);

	device_use(i);
	if (i > 0) {
		CHECK(cuStreamWaitEvent(0, bands[i - 1].done[out], 0));
		above = border(i, i - 1, in);
	}
	if (i + 1 < count) {
		CHECK(cuStreamWaitEvent(0, bands[i + 1].done[out], 0));
		below = border(i, i + 1, in);
	}
	launch(device_kernel("halo"),
		SHAPE((n + BLOCK - 1) / BLOCK, (band->rows + BLOCK - 1) / BLOCK, BLOCK, BLOCK),
		&band->heat[out], &band->heat[in], &above, &below, &band->rows, &n);
	CHECK(cuEventRecord(band->done[in], 0));
}

static void compute(void)
{
	for (unsigned i = 0; i < count; i++) {
		device_use(i);
		copy_to_device(bands[i].heat[0], start + (size_t)bands[i].first * n,
			row_bytes(bands[i].rows));
	}
	for (unsigned t = 0; t < STEPS; t++)
		for (unsigned i = 0; i < count; i++)
			step(i, t);
	for (unsigned i = 0; i < count; i++)
		copy_from_device(result + (size_t)bands[i].first * n, bands[i].heat[STEPS % 2],
			row_bytes(bands[i].rows));
}

static void step_on_cpu(float *out, const float *in)
{
	for (unsigned row = 0; row < n; row++)
		for (unsigned column = 0; column < n; column++) {
			size_t i = (size_t)row * n + column;
			float north = in[row > 0 ? i - n : i], south = in[row < n - 1 ? i + n : i];
			float west = in[column > 0 ? i - 1 : i];
			float east = in[column < n - 1 ? i + 1 : i];

			out[i] = in[i] + 0.2f * (north + south + west + east - 4 * in[i]);
		}
}

static void check(void)
{
	float *heat[2] = {host_alloc(row_bytes(n)), host_alloc(row_bytes(n))};

	memcpy(heat[0], start, row_bytes(n));
	for (unsigned t = 0; t < STEPS; t++)
		step_on_cpu(heat[(t + 1) % 2], heat[t % 2]);
	check_floats("the heat", result, heat[STEPS % 2], (size_t)n * n, 1e-4f);
}

const struct program program = {
	.name = "halo",
	.summary = "Computes how heat spreads on a plate, in bands of rows on all devices.",
	.size_means = "rows and columns of the plate",
	.size = 1024,
	.size_max = 32768,
	.setup = setup,
	.compute = compute,
	.check = check,
};
