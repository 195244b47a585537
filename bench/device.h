/* SPDX-License-Identifier: MIT
 *
 * For the benchmarks on the CUDA Driver API: errors, and a context with the empty kernel.
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

#endif
