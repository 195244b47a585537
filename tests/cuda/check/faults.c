/* SPDX-License-Identifier: MIT
 *
 * Launches each kernel of faults.ptx, and leaves one allocation behind.
 * usage: faults [exported:]KERNEL...    exported: fresh memory is such as other processes may write
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

#define SIZE 62

extern const char faults_ptx[];

static void check(CUresult result, const char *what)
{
	const char *name = "?";

	if (result == CUDA_SUCCESS)
		return;
	cuGetErrorName(result, &name);
	fprintf(stderr, "%s: %s\n", what, name);
	exit(2);
}

int main(int argc, char **argv)
{
	CUdeviceptr data, fresh, freed, left;
	int values[SIZE];
	CUcontext context;
	CUmodule module;

	for (int i = 0; i < SIZE; i++)
		values[i] = 1000 + 2 * i;
	check(cuInit(0), "cuInit");
	check(cuCtxCreate(&context, NULL, 0, 0), "cuCtxCreate");
	check(cuModuleLoadData(&module, faults_ptx), "cuModuleLoadData");
	check(cuMemAlloc(&left, 1234), "cuMemAlloc");
	for (int i = 1; i < argc; i++) {
		void *arguments[] = {&data, &fresh, &freed};
		const char *colon = strchr(argv[i], ':'), *name = colon ? colon + 1 : argv[i];
		CUipcMemHandle handle;
		CUfunction function;

		/* The host writes to it by itself. */
		check(cuMemAllocManaged(&data, sizeof values, CU_MEM_ATTACH_GLOBAL),
			"cuMemAllocManaged");
		check(cuMemAlloc(&fresh, sizeof values), "cuMemAlloc");
		check(cuMemAlloc(&freed, sizeof values), "cuMemAlloc");
		memcpy((void *)data, values, sizeof values);
		check(cuMemFree(freed), "cuMemFree");
		if (colon)
			check(cuIpcGetMemHandle(&handle, fresh), "cuIpcGetMemHandle");
		check(cuModuleGetFunction(&function, module, name), name);
		/* Faults between blocks need two. */
		if (!strncmp(argv[i], "grid_", 5))
			check(cuLaunchCooperativeKernel(
				      function, 2, 1, 1, 64, 1, 1, 0, NULL, arguments),
				argv[i]);
		else
			check(cuLaunchKernel(function, strncmp(argv[i], "block_", 6) ? 1 : 2, 1, 1,
				      64, 1, 1, 0, NULL, arguments, NULL),
				argv[i]);
		check(cuCtxSynchronize(), argv[i]);
		check(cuMemFree(data), "cuMemFree");
		check(cuMemFree(fresh), "cuMemFree");
	}
	return 0;
}
