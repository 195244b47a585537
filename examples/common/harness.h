/* SPDX-License-Identifier: MIT
 *
 * What every example has in common: options, opening the device, timing, progress, checking, the
 * report. A program is one `struct program` called `program` and the functions that it names; main()
 * is in harness.c and calls them in this order:
 *
 *   setup    once: make the input, allocate
 *   compute  once a round (--repeat): copy in, launch, copy out
 *   check    once: compare what the last round left with the same computation on the CPU
 *
 * A call that fails ends the program with exit status 2 and a sentence that says what to do. Everything
 * runs on one thread.
 */
#ifndef EXAMPLES_HARNESS_H
#define EXAMPLES_HARNESS_H

#include <cuda.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct program {
	const char *name;
	const char *summary;    /* of --help: what it computes */
	const char *size_means; /* of --help: what SIZE counts */
	unsigned size;          /* default of SIZE */
	unsigned size_max;      /* largest that indices of the kernels hold */
	unsigned multiple;      /* SIZE is rounded up to a multiple of it; 0: any */
	void (*setup)(void);
	void (*compute)(void);
	void (*check)(void);
};
extern const struct program program;

/* Set from the command line before setup() is called. */
struct options {
	unsigned size;
	unsigned seed;
	unsigned repeat;
};
extern struct options options;

/* The PTX of the program's .cu file, NUL-terminated, embedded by embed.S. */
extern const char kernels_ptx[];

/* Ends the program with a sentence about it unless `call` returns CUDA_SUCCESS. */
#define CHECK(call) harness_require((call), #call, __FILE__, __LINE__)
void harness_require(CUresult result, const char *call, const char *file, int line);

/* ---- several devices ----
 *
 * The first device is current when setup() is called. All that follows below is of the current one. */

#define DEVICES_MAX 16

/* How many there are; programs use all. */
unsigned device_count(void);
/* Makes the device current. */
void device_use(unsigned index);
CUcontext device_context(unsigned index);

/* ---- the device ---- */

/* Device memory; given back when the program ends. */
CUdeviceptr device_alloc(size_t bytes);
CUfunction device_kernel(const char *name);

/* Copies, complete when they return; their time counts as copying. */
void copy_to_device(CUdeviceptr destination, const void *source, size_t bytes);
void copy_from_device(void *destination, CUdeviceptr source, size_t bytes);

/* Launches a kernel and goes on; its parameters are the addresses that follow the shape, as
 * cuLaunchKernel takes them: launch(mmul, SHAPE(n / 16, n / 16, 16, 16), &c, &a, &b, &n). */
struct shape {
	unsigned grid_x, grid_y, block_x, block_y;
};
#define SHAPE(grid_x, grid_y, block_x, block_y)                                                    \
	((struct shape){(grid_x), (grid_y), (block_x), (block_y)})
#define launch(kernel, shape, ...) launch_kernel((kernel), (shape), (void *[]){__VA_ARGS__})
void launch_kernel(CUfunction kernel, struct shape shape, void **parameters);

/* Waits until the devices have done everything; the time since the first launch before it counts as
 * computing. copy_from_device() does so first. */
void device_wait(void);

/* ---- data ---- */

/* Memory of the host; given back when the program ends. */
void *host_alloc(size_t bytes);
/* The next number of the program's random sequence, which the seed decides. */
uint32_t random_next(void);
/* In [low, high). */
float random_float(float low, float high);
float *random_floats(size_t count, float low, float high);

/* ---- progress and checking ---- */

/* Says how far this round is, now and then, when --progress asks for it. */
void progress(unsigned done, unsigned total);

/* Complains about the first value that is not the expected one, and makes the program exit with 1.
 * Floats may differ by `tolerance` relative to the larger of the two and 1. */
void check_floats(
	const char *what, const float *got, const float *want, size_t count, float tolerance);
void check_ints(const char *what, const int *got, const int *want, size_t count);

/* A row of a product, from the row of the left matrix and the whole right one, of n x n floats. */
void multiply_row(
	float *restrict product, const float *left, const float *restrict right, unsigned n);

#endif
