/* SPDX-License-Identifier: MIT
 *
 * What the tests of event loops share: the device and the module of kernels.cu, memory, and a file.
 */
#ifndef GDEV_TESTS_GLOOP_FIXTURE_H
#define GDEV_TESTS_GLOOP_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <cuda.h>

#include "gdev/gloop.h"
#include "gdev/gloop_rpc.h"

#define assert_success(call) assert_int_equal((call), CUDA_SUCCESS)

/* The two modes, something between, a suspension before each callback but a launch's first, and small pages. */
#define MODES 6
extern const struct gloop_options modes[MODES];

/* Of a group of tests. */
int gloop_setup(void **state);
int gloop_teardown(void **state);

/* gloop_run() does not find functions of libcuda whose names begin so; NULL: it finds all. */
extern const char *not_found;

/* gloop_run() of a kernel of kernels.cu, in one dimension. In blocking mode with slices of 1 us it leaves after each slice, as where
 * libcuda is not gdev's. */
int run(const char *name, unsigned blocks, unsigned threads, const struct gloop_options *options,
	struct gloop_report *report, void **parameters);
#define parameters(...) ((void *[]){NULL, __VA_ARGS__})

/* Device memory with these contents, or zeros. */
CUdeviceptr device_bytes(size_t bytes, const void *contents);
/* Frees it. */
void take_bytes(void *to, CUdeviceptr from, size_t bytes);

/* In a folder of the program's own; until the next call. */
const char *path_of(const char *name);
/* Makes a file, and returns the sum of its bytes, each times its place, as the kernel `sum_file` gives it. */
#define FILE_BYTES 300001
unsigned long long make_file(const char *path);
/* What the blocks made of it, and in *last what the last call of the first block gave. */
unsigned long long sum_file(
	const char *path, unsigned blocks, const struct gloop_options *options, long long *last);

/* A socket that listens at a port of its own. */
int listener_at(struct sockaddr_in *address);

#endif
