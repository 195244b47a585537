/* SPDX-License-Identifier: MIT
 *
 * Put before our library by LD_PRELOAD, it makes one of which the tables of errors say otherwise: see
 * test_answers.py.
 */
#include <cuda.h>

#include <dlfcn.h>

#pragma GCC visibility push(default)

/* Another answer. */
CUresult cuMemAlloc_v2(CUdeviceptr *memory, size_t bytes)
{
	CUresult (*ours)(CUdeviceptr *, size_t) = dlsym(RTLD_NEXT, "cuMemAlloc_v2");

	return memory ? ours(memory, bytes) : CUDA_ERROR_INVALID_HANDLE;
}

/* None. */
CUresult cuDriverGetVersion(int *version)
{
	*(volatile int *)version = 13000;
	return CUDA_SUCCESS;
}

#pragma GCC visibility pop
