/* SPDX-License-Identifier: MIT
 *
 * One of the sides of `scripts/bench cpu`: a libcuda.so.1 that has what the programs call. A kernel is
 * the C function of that name in openmp/, which is called in place of a launch and does the work of the
 * whole grid with OpenMP; device memory is memory. The same program binaries run on it, with
 * LD_LIBRARY_PATH.
 */
#include <cuda.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"

#define PAGE 4096

EXPORT CUresult cuInit(unsigned flags)
{
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGetErrorString(CUresult result, const char **text)
{
	*text = "an error";
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGetErrorName(CUresult result, const char **name)
{
	*name = "of the side that is C";
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int *count)
{
	*count = 1;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *of, int ordinal)
{
	*of = 0;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *of, CUdevice ordinal)
{
	static int context;

	*of = (CUcontext)&context;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice of)
{
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetCurrent(CUcontext of)
{
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSynchronize(void)
{
	return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleLoadDataEx(
	CUmodule *module, const void *image, unsigned count, CUjit_option *options, void **values)
{
	*module = NULL;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleUnload(CUmodule module)
{
	return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
	char symbol[128];

	snprintf(symbol, sizeof(symbol), "openmp_%s", name);
	*function = (CUfunction)dlsym(RTLD_DEFAULT, symbol);
	return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
	unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
	unsigned shared_bytes, CUstream stream, void **parameters, void **extra)
{
	struct grid grid = {.x = (int)grid_x, .y = (int)grid_y, .block_x = (int)block_x};
	kernel_function kernel = (kernel_function)(void *)function;

	kernel(&grid, parameters);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAllocHost(void **memory, size_t bytes)
{
	*memory = aligned_alloc(PAGE, (bytes + PAGE - 1) / PAGE * PAGE);
	return *memory ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemFreeHost(void *memory)
{
	free(memory);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes)
{
	return cuMemAllocHost((void **)address, bytes);
}

EXPORT CUresult cuMemFree(CUdeviceptr address)
{
	return cuMemFreeHost((void *)address);
}

EXPORT CUresult cuMemcpyHtoD(CUdeviceptr destination, const void *source, size_t bytes)
{
	memcpy((void *)destination, source, bytes);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemcpyDtoH(void *destination, CUdeviceptr source, size_t bytes)
{
	memcpy(destination, (void *)source, bytes);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemsetD32(CUdeviceptr destination, unsigned value, size_t count)
{
	unsigned *at = (unsigned *)destination;

	for (size_t i = 0; i < count; i++)
		at[i] = value;
	return CUDA_SUCCESS;
}
