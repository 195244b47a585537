/* SPDX-License-Identifier: MIT
 *
 * MMULS: multiplies two matrices on all devices. Each has all of A, which goes to the first device and on from there,
 * device to device. B and C are cut into bands of columns, which go to the devices in turn: a band of B, which is read
 * once a row of tiles, is on one device alone, and as wide however many devices there are.
 */
#include "common/harness.h"

#define TILE 16
#define BANDS_MIN 12u /* as many for each of 2, 3, 4 or 6 devices */
#define BANDS_MAX (BANDS_MIN > DEVICES_MAX ? BANDS_MIN : DEVICES_MAX)

struct band {
	unsigned first, width; /* columns */
	CUdeviceptr b, c;
};

static unsigned n, band_count;
static float *a, *b, *c;
static CUdeviceptr a_on[DEVICES_MAX];
static struct band bands[BANDS_MAX];

static size_t bytes_of(unsigned columns)
{
	return (size_t)n * columns * sizeof(float);
}

static unsigned device_of(const struct band *band)
{
	return (unsigned)(band - bands) % device_count();
}

static void setup(void)
{
	unsigned devices = device_count(), tiles;

	n = options.size;
	tiles = n / TILE;
	a = random_floats((size_t)n * n, -1, 1);
	b = random_floats((size_t)n * n, -1, 1);
	c = host_alloc(bytes_of(n));
	for (unsigned i = 0; i < devices; i++) {
		device_use(i);
		a_on[i] = device_alloc(bytes_of(n));
	}
	band_count = devices > BANDS_MIN ? devices : BANDS_MIN;
	for (unsigned i = 0; i < band_count; i++) {
		struct band *band = &bands[i];
		band->first = tiles * i / band_count * TILE;
		band->width = tiles * (i + 1) / band_count * TILE - band->first;
		if (!band->width)
			continue;
		device_use(device_of(band));
		band->b = device_alloc(bytes_of(band->width));
		band->c = device_alloc(bytes_of(band->width));
	}
}

static void copy_a(void)
{
	device_use(0);
	copy_to_device(a_on[0], a, bytes_of(n));
	for (unsigned i = 1; i < device_count(); i++)
		CHECK(cuMemcpyPeer(
			a_on[i], device_context(i), a_on[0], device_context(0), bytes_of(n)));
}

/* All rows of a band, between the host's matrix and the device. */
static CUDA_MEMCPY2D band_rows(const struct band *band)
{
	return (CUDA_MEMCPY2D){.WidthInBytes = band->width * sizeof(float), .Height = n};
}

static void copy_to_band(struct band *band)
{
	CUDA_MEMCPY2D copy = band_rows(band);

	copy.srcMemoryType = CU_MEMORYTYPE_HOST;
	copy.srcHost = b + band->first;
	copy.srcPitch = n * sizeof(float);
	copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	copy.dstDevice = band->b;
	copy.dstPitch = copy.WidthInBytes;
	CHECK(cuMemcpy2D(&copy));
}

static void copy_from_band(struct band *band)
{
	CUDA_MEMCPY2D copy = band_rows(band);

	copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
	copy.srcDevice = band->c;
	copy.srcPitch = copy.WidthInBytes;
	copy.dstMemoryType = CU_MEMORYTYPE_HOST;
	copy.dstHost = c + band->first;
	copy.dstPitch = n * sizeof(float);
	CHECK(cuMemcpy2D(&copy));
}

static void multiply(struct band *band)
{
	launch(device_kernel("mmul_band"), SHAPE(band->width / TILE, n / TILE, TILE, TILE),
		&band->c, &a_on[device_of(band)], &band->b, &n, &band->width);
}

static void for_each_band(void (*act)(struct band *))
{
	for (unsigned i = 0; i < band_count; i++) {
		if (!bands[i].width)
			continue;
		device_use(device_of(&bands[i]));
		act(&bands[i]);
	}
}

static void compute(void)
{
	copy_a();
	for_each_band(copy_to_band);
	for_each_band(multiply);
	device_wait();
	for_each_band(copy_from_band);
}

static void check(void)
{
	float *row = host_alloc(n * sizeof(float));

	for (unsigned i = 0; i < n; i++) {
		multiply_row(row, a + (size_t)i * n, b, n);
		check_floats("a row of C", c + (size_t)i * n, row, n, 1e-3f);
	}
}

const struct program program = {
	.name = "mmuls",
	.summary = "Multiplies two matrices of floats on all devices, in bands of columns.",
	.size_means = "rows and columns of the matrices; a multiple of 16",
	.size = 1024,
	.size_max = 32768,
	.multiple = TILE,
	.setup = setup,
	.compute = compute,
	.check = check,
};
