/* SPDX-License-Identifier: MIT
 *
 * Launches each kernel of faults.ptx or faults_tiles.ptx, and leaves one allocation behind.
 * usage: faults [exported:]KERNEL...    exported: fresh memory is such as other processes may write
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

#define SIZE 62

extern const char faults_ptx[], faults_tiles_ptx[];

static void check(CUresult result, const char *what)
{
	const char *name = "?";

	if (result == CUDA_SUCCESS)
		return;
	cuGetErrorName(result, &name);
	fprintf(stderr, "%s: %s\n", what, name);
	exit(2);
}

/* Of 8 by 8 ints, in boxes of 8 by 4. */
static CUtensorMap map_of(CUdeviceptr data)
{
	cuuint64_t sizes[] = {8, 8}, stride = 32;
	cuuint32_t box[] = {8, 4}, ones[] = {1, 1};
	CUtensorMap map;

	check(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_INT32, 2, (void *)data, sizes,
		      &stride, box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
		      CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
		"cuTensorMapEncodeTiled");
	return map;
}

int main(int argc, char **argv)
{
	CUdeviceptr data, fresh, freed, left, map;
	int values[SIZE];
	CUcontext context;
	CUmodule modules[2];

	for (int i = 0; i < SIZE; i++)
		values[i] = 1000 + 2 * i;
	check(cuInit(0), "cuInit");
	check(cuCtxCreate(&context, NULL, 0, 0), "cuCtxCreate");
	check(cuModuleLoadData(&modules[0], faults_ptx), "cuModuleLoadData");
	check(cuModuleLoadData(&modules[1], faults_tiles_ptx), "cuModuleLoadData");
	check(cuMemAlloc(&left, 1234), "cuMemAlloc");
	check(cuMemAlloc(&map, sizeof(CUtensorMap)), "cuMemAlloc");
	for (int i = 1; i < argc; i++) {
		void *arguments[] = {&data, &fresh, &freed, &map};
		const char *colon = strchr(argv[i], ':'), *name = colon ? colon + 1 : argv[i];
		CUipcMemHandle handle;
		CUfunction function;
		CUtensorMap tensor;

		/* The host writes to it by itself. */
		check(cuMemAllocManaged(&data, sizeof values, CU_MEM_ATTACH_GLOBAL),
			"cuMemAllocManaged");
		check(cuMemAlloc(&fresh, sizeof values), "cuMemAlloc");
		check(cuMemAlloc(&freed, sizeof values), "cuMemAlloc");
		memcpy((void *)data, values, sizeof values);
		check(cuMemFree(freed), "cuMemFree");
		tensor = map_of(data);
		check(cuMemcpyHtoD(map, &tensor, sizeof tensor), "cuMemcpyHtoD");
		if (colon)
			check(cuIpcGetMemHandle(&handle, fresh), "cuIpcGetMemHandle");
		if (cuModuleGetFunction(&function, modules[0], name))
			check(cuModuleGetFunction(&function, modules[1], name), name);
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
	check(cuMemFree(map), "cuMemFree");
	return 0;
}
