/* SPDX-License-Identifier: MIT
 *
 * COPY: a kernel copies a file (GLoop, section 5.2). With PLAIN the host reads the file, copies it to the device and
 * back, and writes it, a MiB at a time.
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
#ifdef PLAIN
	device_memory = device_alloc(PIECE);
#else
	device_memory = device_alloc((size_t)BLOCKS * AT_ONCE * PAGE);
#endif
}

static void compute(void)
{
#ifdef PLAIN
	char *piece = host_alloc(PIECE);

	for (size_t at = 0; at < bytes; at += PIECE) {
		if (pread(files[0], piece, PIECE, (off_t)at) != PIECE)
			return; /* the check will tell */
		copy_to_device(device_memory, piece, PIECE);
		copy_from_device(piece, device_memory, PIECE);
		if (pwrite(files[1], piece, PIECE, (off_t)at) != PIECE)
			return;
	}
#else
	struct gloop_options with = {
		.page_bytes = PAGE, .descriptors = files, .descriptor_count = 2, .confined = true};

	run_loop("copy", SHAPE(BLOCKS, 1, BLOCK, 1), (void *[]){NULL, &device_memory}, &with);
#endif
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
