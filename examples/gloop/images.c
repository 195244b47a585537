/* SPDX-License-Identifier: MIT
 *
 * IMAGES: which image of several files is the first that is like each of many. Half of these have been made from one that is
 * there, the others are like none.
 */
#include "gloop/run.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gloop/images.h"

#define BLOCKS 28u
#define BLOCK 128u
#define PAGE 16384u
#define IMAGES_A_QUERY 16u
#define NOISE 3

static unsigned count, query_count;
static unsigned char *images; /* of all databases */
static unsigned char *queries;
static int *got;
static int files[2]; /* as images.cu names them */
static CUdeviceptr device_memory, device_found, device_names;

static void make_images(void)
{
	unsigned all = DATABASES * count;

	for (size_t i = 0; i < (size_t)all * IMAGE_BYTES; i++)
		images[i] = (unsigned char)random_next();
	for (unsigned q = 0; q < query_count; q++) {
		unsigned char *query = queries + (size_t)q * IMAGE_BYTES;
		const unsigned char *like = images + (size_t)(random_next() % all) * IMAGE_BYTES;

		for (unsigned i = 0; i < IMAGE_BYTES; i++)
			query[i] = q % 2 ? (unsigned char)random_next()
					 : (unsigned char)(like[i] ^ random_next() % NOISE);
	}
}

static void setup(void)
{
	struct name names[DATABASES] = {{.length = 0}};

	count = options.size;
	query_count = count / IMAGES_A_QUERY + 2;
	images = host_alloc((size_t)DATABASES * count * IMAGE_BYTES);
	queries = host_alloc((size_t)query_count * IMAGE_BYTES);
	got = host_alloc(query_count * sizeof(*got));
	make_images();
	for (unsigned d = 0; d < DATABASES; d++) {
		int fd = temporary_file(
			images + (size_t)d * count * IMAGE_BYTES, (size_t)count * IMAGE_BYTES);

		names[d].length = (unsigned)snprintf(
			names[d].text, sizeof(names[d].text), "/proc/self/fd/%d", fd);
	}
	files[0] = temporary_file(queries, (size_t)query_count * IMAGE_BYTES);
	files[1] = temporary_file(NULL, 0);
	device_memory = device_alloc(BLOCKS * (PAGE + IMAGE_BYTES));
	device_found = device_alloc(BLOCKS * sizeof(int));
	device_names = device_alloc(sizeof(names));
	copy_to_device(device_names, names, sizeof(names));
}

static void compute(void)
{
	struct gloop_options with = {
		.page_bytes = PAGE, .descriptors = files, .descriptor_count = 2};

	if (ftruncate(files[1], 0) < 0)
		return; /* the check will tell */
	run_loop("images", SHAPE(BLOCKS, 1, BLOCK, 1),
		(void *[]){NULL, &device_memory, &device_found, &device_names, &query_count},
		&with);
	memset(got, 0xFF, query_count * sizeof(*got));
	if (pread(files[1], got, query_count * sizeof(*got), 0) < 0)
		perror("images");
}

static int distance(const unsigned char *a, const unsigned char *b)
{
	int sum = 0;

	for (unsigned i = 0; i < IMAGE_BYTES && sum < ALIKE; i++)
		sum += (a[i] - b[i]) * (a[i] - b[i]);
	return sum;
}

static void check(void)
{
	int *want = host_alloc(query_count * sizeof(*want));

	for (unsigned q = 0; q < query_count; q++) {
		want[q] = INT_MAX;
		for (unsigned i = 0; i < DATABASES * count && want[q] == INT_MAX; i++)
			if (distance(queries + (size_t)q * IMAGE_BYTES,
				    images + (size_t)i * IMAGE_BYTES) < ALIKE)
				want[q] = (int)i;
	}
	check_ints("the images that are alike", got, want, query_count);
}

const struct program program = {
	.name = "images",
	.summary = "Finds images in files.",
	.size_means = "images of each of the 3 files; a sixteenth as many are looked for",
	.size = 2000,
	.size_max = 1000000,
	.setup = setup,
	.compute = compute,
	.check = check,
};
