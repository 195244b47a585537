/* SPDX-License-Identifier: MIT
 *
 * A program that fills device memory, for the benchmarks that move it (scripts/lib/swapping.py): `swap
 * OBJECT_MIB TOTAL_MIB`. It does what the letters on its standard input say, and answers each with a line:
 * nanoseconds.
 *   a  allocates objects until there are TOTAL_MIB
 *   w  writes all of them
 *   t  launches an empty kernel, for which all of them have to be there, and waits
 *   c  compares a word of each MiB with what was written
 *   f  frees them
 *   o  copies 256 MiB from a buffer of the device to page-locked memory, several times: of one
 *   i  the same to the device
 *   b  both at once: of one of each
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "device.h"

#define OBJECTS_MAX 65536
#define MIB ((size_t)1 << 20)
#define COPY_REPETITIONS 16

static CUdeviceptr objects[OBJECTS_MAX];
static size_t object_bytes;
static unsigned object_count;

static void allocate(void)
{
	for (unsigned i = 0; i < object_count; i++)
		must(cuMemAlloc(&objects[i], object_bytes), "allocate");
}

static void release(void)
{
	for (unsigned i = 0; i < object_count; i++)
		must(cuMemFree(objects[i]), "free");
}

static void fill(void)
{
	for (unsigned i = 0; i < object_count; i++)
		must(cuMemsetD32(objects[i], i * 7 + 1, object_bytes / 4), "fill");
	must(cuCtxSynchronize(), "wait");
}

static void compare(void)
{
	unsigned word;

	for (unsigned i = 0; i < object_count; i++)
		for (size_t at = 0; at < object_bytes; at += MIB) {
			must(cuMemcpyDtoH(&word, objects[i] + at, sizeof(word)), "copy");
			bench_require(
				word != i * 7 + 1, "find what was written", "memory has changed");
		}
}

/* Page-locked copies, from and to buffers that are on the device and have been written. */
static uint64_t copy(CUfunction empty, bool out, bool in)
{
	static void *host[2];
	static CUstream streams[2];
	CUdeviceptr device[2];
	size_t bytes = object_bytes * object_count < 4096 * MIB ? 16 * MIB : 128 * MIB;
	uint64_t start = 0;

	for (int i = 0; i < 2; i++) {
		if (!host[i]) {
			must(cuMemHostAlloc(&host[i], bytes, 0), "allocate page-locked memory");
			must(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING), "make a stream");
		}
		must(cuMemAlloc(&device[i], bytes), "allocate a buffer");
		must(cuMemsetD8(device[i], 1, bytes), "fill a buffer");
	}
	launch(empty);
	must(cuCtxSynchronize(), "wait");
	for (int round = -1; round < COPY_REPETITIONS; round++) {
		if (round == 0)
			start = bench_now_ns();
		if (out)
			must(cuMemcpyDtoHAsync(host[0], device[0], bytes, streams[0]), "copy");
		if (in)
			must(cuMemcpyHtoDAsync(device[1], host[1], bytes, streams[1]), "copy");
		if (round < 0)
			must(cuCtxSynchronize(), "wait");
	}
	must(cuCtxSynchronize(), "wait");
	start = bench_now_ns() - start;
	for (int i = 0; i < 2; i++)
		must(cuMemFree(device[i]), "free");
	/* As if it had been 256 MiB. */
	return start / COPY_REPETITIONS * (256 * MIB / bytes);
}

int main(int argc, char **argv)
{
	CUfunction empty;
	int what;

	object_bytes = argc == 3 ? strtoull(argv[1], NULL, 10) * MIB : 0;
	object_count =
		object_bytes ? (unsigned)(strtoull(argv[2], NULL, 10) * MIB / object_bytes) : 0;
	if (!object_count || object_count > OBJECTS_MAX) {
		fprintf(stderr, "Usage: swap OBJECT_MIB TOTAL_MIB\n");
		return 2;
	}
	empty = open_device();
	launch(empty);
	must(cuCtxSynchronize(), "wait");
	printf("ready\n");
	fflush(stdout);
	while ((what = getchar()) != EOF) {
		uint64_t start = bench_now_ns(), took = 0;

		if (what == 'a')
			allocate();
		else if (what == 'w')
			fill();
		else if (what == 't')
			launch(empty);
		else if (what == 'c')
			compare();
		else if (what == 'f')
			release();
		else if (what == 'o' || what == 'i' || what == 'b')
			took = copy(empty, what != 'i', what != 'o');
		else
			continue;
		must(cuCtxSynchronize(), "wait");
		printf("%llu\n", (unsigned long long)(took ? took : bench_now_ns() - start));
		fflush(stdout);
	}
	return 0;
}
