/* SPDX-License-Identifier: MIT
 *
 * For the benchmarks on the CUDA Driver API: errors, a context with the empty kernel, and launching that.
 */
#ifndef BENCH_DEVICE_H
#define BENCH_DEVICE_H

#include <cuda.h>

#include "bench.h"

static inline void must(CUresult result, const char *what)
{
	const char *why = "unknown error";

	if (result != CUDA_SUCCESS)
		cuGetErrorString(result, &why);
	bench_require(result, what, why);
}

static inline CUfunction open_device(void)
{
	CUdevice device;
	CUcontext context;
	CUmodule module;
	CUfunction empty;

	must(cuInit(0), "initialise CUDA (is gdevd running?)");
	must(cuDeviceGet(&device, 0), "find a device");
	must(cuDevicePrimaryCtxRetain(&context, device), "open the device");
	must(cuCtxSetCurrent(context), "use the context");
	must(cuModuleLoadData(&module, bench_empty_ptx), "load the empty kernel");
	must(cuModuleGetFunction(&empty, module, "empty"), "find the empty kernel");
	return empty;
}

static inline void launch(CUfunction kernel)
{
	must(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), "launch");
}

/* ---- what launching it costs ---- */

#define ASYNC 100
#define WAITS 200
#define MANY 10000

/* The caller's time, when it does not wait. */
static inline double async_us(CUfunction empty)
{
	uint64_t start = bench_now_ns(), end;

	for (int i = 0; i < ASYNC; i++)
		launch(empty);
	end = bench_now_ns();
	must(cuCtxSynchronize(), "wait");
	return (double)(end - start) / 1e3 / ASYNC;
}

/* Launch, and wait until it is done. */
static inline double wait_us(CUfunction empty)
{
	uint64_t start = bench_now_ns();

	for (int i = 0; i < WAITS; i++) {
		launch(empty);
		must(cuCtxSynchronize(), "wait");
	}
	return (double)(bench_now_ns() - start) / 1e3 / WAITS;
}

/* Launches one after another, until the last is done. */
static inline double per_second(CUfunction empty)
{
	uint64_t start = bench_now_ns();

	for (int i = 0; i < MANY; i++)
		launch(empty);
	must(cuCtxSynchronize(), "wait");
	return MANY * 1e9 / (double)(bench_now_ns() - start);
}

#endif
