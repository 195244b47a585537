/* SPDX-License-Identifier: MIT
 *
 * What kernels with event loops cost: `bench_gloop MIB`.
 *
 *   callback_us  a callback of one block of 128 threads, that does nothing; the baseline is a launch of an empty kernel
 *                that is waited for
 *   resume_us    leaving the device before such a callback and going on in another launch; likewise
 *   file_read    the time in which a kernel reads a file of MIB that is in the page cache into device memory, over that
 *                in which the host reads it into page-locked memory and copies it there, 4 MiB at a time
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <gdev/gloop.h>

#include "device.h"

#define RUNS 9
#define CALLBACKS 20000u
#define SUSPENSIONS 500u
#define PAGE 65536u
#define PIECE (4u << 20)

extern const char kernels_ptx[];

static CUmodule module;

static CUfunction kernel(const char *name)
{
	CUfunction function;

	must(cuModuleGetFunction(&function, module, name), "find a kernel");
	return function;
}

static double run_ns(const char *name, unsigned blocks, const struct gloop_options *with,
	void **parameters, struct gloop_report *report)
{
	struct gloop_shape shape = {.grid = {blocks}, .block = {128}};
	uint64_t begin_ns = bench_now_ns();
	int error = gloop_run(kernel(name), &shape, parameters, with, report);

	bench_require(error, "run the kernel", strerror(-error));
	return (double)(bench_now_ns() - begin_ns);
}

/* Of one callback. */
static double steps_ns(unsigned count, uint32_t slice_us, uint64_t *launches)
{
	struct gloop_options with = {.slice_us = slice_us};
	struct gloop_report report;
	double ns = run_ns("steps", 1, &with, (void *[]){NULL, &count}, &report);

	*launches = report.launches;
	return ns / count;
}

static void measure_callbacks(CUfunction empty)
{
	struct samples callback = {0}, resume = {0}, waited = {0};
	uint64_t launches;

	for (unsigned i = 0; i < RUNS; i++) {
		double straight = steps_ns(CALLBACKS, 60000000, &launches);
		double suspended = steps_ns(SUSPENSIONS, 1, &launches);

		samples_add(&callback, straight / 1e3);
		samples_add(&resume,
			(suspended - straight) * SUSPENSIONS / (double)(launches - 1) / 1e3);
		samples_add(&waited, wait_us(empty));
	}
	bench_report("gloop", "callback_us", "us", &callback, &waited);
	bench_report("gloop", "resume_us", "us", &resume, &waited);
}

static int make_file(const char *bytes, size_t length)
{
	int fd = memfd_create("bench_gloop", MFD_CLOEXEC);

	bench_require(
		fd < 0 || write(fd, bytes, length) != (ssize_t)length, "make a file", "no memory?");
	return fd;
}

static double host_ns(int fd, size_t length, CUdeviceptr memory, char *piece)
{
	uint64_t begin_ns = bench_now_ns();

	for (size_t at = 0; at < length; at += PIECE) {
		bench_require(pread(fd, piece, PIECE, (off_t)at) != PIECE, "read the file",
			"it is shorter");
		must(cuMemcpyHtoD(memory + at, piece, PIECE), "copy");
	}
	must(cuCtxSynchronize(), "wait");
	return (double)(bench_now_ns() - begin_ns);
}

static void measure_file(size_t length)
{
	struct samples kernels = {0}, host = {0};
	char *bytes = malloc(length), *back = malloc(length);
	struct gloop_options with = {.page_bytes = PAGE, .descriptor_count = 1, .confined = true};
	unsigned at_once = 4;
	CUdeviceptr memory;
	void *piece;
	int fd;

	length -= length % PIECE;
	bench_require(!bytes || !back, "begin", "no memory");
	for (size_t i = 0; i < length; i++)
		bytes[i] = (char)(i * 2654435761u >> 13);
	fd = make_file(bytes, length);
	with.descriptors = &fd;
	must(cuMemAlloc(&memory, length), "allocate");
	must(cuMemHostAlloc(&piece, PIECE, 0), "allocate page-locked memory");
	for (unsigned i = 0; i < RUNS; i++) {
		samples_add(&host, host_ns(fd, length, memory, piece) / 1e6);
		must(cuMemsetD8(memory, 0, length), "clear");
		must(cuCtxSynchronize(), "wait");
		samples_add(&kernels,
			run_ns("read_file", 28, &with, (void *[]){NULL, &memory, &at_once}, NULL) /
				1e6);
		must(cuMemcpyDtoH(back, memory, length), "copy back");
		bench_require(
			memcmp(back, bytes, length) != 0, "read the file", "other bytes came");
	}
	bench_report("gloop", "file_read", "ms", &kernels, &host);
	close(fd);
}

int main(int argc, char **argv)
{
	size_t mib = argc > 1 ? strtoul(argv[1], NULL, 10) : 64;
	CUfunction empty = open_device();
	uint64_t launches;

	must(cuModuleLoadData(&module, kernels_ptx), "load the kernels");
	steps_ns(1, 0, &launches); /* compiles it */
	measure_callbacks(empty);
	measure_file(mib << 20);
	return 0;
}
