/* SPDX-License-Identifier: MIT
 *
 * COPY: a kernel copies a file (GLoop, section 5.2).
 */
#include "gloop/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gloop/copy.h"

#define BLOCKS 28u
#define BLOCK 128u
#define PAGE 65536u
#define PIECE (1u << 20)

static size_t bytes;
static int files[2]; /* as copy.cu names them */
static CUdeviceptr device_memory;

static void setup(void)
{
	unsigned *contents;

	bytes = (size_t)options.size << 20;
	contents = host_alloc(bytes);
	for (size_t i = 0; i < bytes / 4; i++)
		contents[i] = random_next();
	files[0] = temporary_file(contents, bytes);
	files[1] = temporary_file(NULL, 0);
	device_memory = device_alloc((size_t)BLOCKS * AT_ONCE * PAGE);
}

static void compute(void)
{
	struct gloop_options with = {
		.page_bytes = PAGE, .descriptors = files, .descriptor_count = 2, .confined = true};

	cool_file(files[0]);
	run_loop("copy", SHAPE(BLOCKS, 1, BLOCK, 1), (void *[]){NULL, &device_memory}, &with);
}

static void check(void)
{
	int *got = host_alloc(bytes), *want = host_alloc(bytes);

	memset(got, 0, bytes);
	for (size_t at = 0; at < bytes; at += PIECE)
		if (pread(files[0], (char *)want + at, PIECE, (off_t)at) != PIECE ||
			pread(files[1], (char *)got + at, PIECE, (off_t)at) < 0) {
			perror("copy");
			exit(2);
		}
	check_ints("the copy", got, want, bytes / 4);
}

const struct program program = {
	.name = "copy",
	.summary = "Copies a file.",
	.size_means = "MiB of the file",
	.size = 16,
	.size_max = 1024,
	.setup = setup,
	.compute = compute,
	.check = check,
};
