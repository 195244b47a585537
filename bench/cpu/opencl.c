/* SPDX-License-Identifier: MIT
 *
 * One of the sides of `scripts/bench cpu`: a libcuda.so.1 that has what the programs call, and has PoCL
 * execute it. The same program binaries run on it, with LD_LIBRARY_PATH. The PTX that a program hands
 * over is not used: the same device code as OpenCL C (opencl.py translates it) is in the file that
 * $BENCH_OPENCL_TEXT names.
 *
 * Device memory is shared virtual memory of OpenCL, so that its addresses are those that CUDA has. One
 * in-order queue; the program has one thread.
 */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <cuda.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define PLATFORMS_MAX 16

static cl_device_id device;
static cl_context context;
static cl_command_queue queue;

/* Ends the program with a sentence unless `error` is CL_SUCCESS. */
static void require(cl_int error, const char *what)
{
	if (error == CL_SUCCESS)
		return;
	fprintf(stderr, "opencl: cannot %s: error %d\n", what, error);
	exit(2);
}

/* The CPU of the platform that is PoCL. */
static bool find_pocl(void)
{
	cl_platform_id platforms[PLATFORMS_MAX];
	cl_uint count = 0;
	char name[128];

	if (clGetPlatformIDs(PLATFORMS_MAX, platforms, &count) != CL_SUCCESS)
		return false;
	for (cl_uint i = 0; i < count && i < PLATFORMS_MAX; i++)
		if (clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof(name), name, NULL) ==
				CL_SUCCESS &&
			strstr(name, "Portable Computing Language") &&
			clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_CPU, 1, &device, NULL) ==
				CL_SUCCESS)
			return true;
	return false;
}

EXPORT CUresult cuInit(unsigned flags)
{
	cl_int error;

	if (!find_pocl()) {
		fprintf(stderr, "opencl: PoCL is not there; install pocl-opencl-icd\n");
		return CUDA_ERROR_NO_DEVICE;
	}
	context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
	require(error, "make a context");
	queue = clCreateCommandQueueWithProperties(context, device, NULL, &error);
	require(error, "make a queue");
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGetErrorString(CUresult result, const char **text)
{
	*text = "see above";
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGetErrorName(CUresult result, const char **name)
{
	*name = "an error of OpenCL";
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
	*of = (CUcontext)context;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice of)
{
	require(clReleaseCommandQueue(queue), "end the queue");
	require(clReleaseContext(context), "end the context");
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetCurrent(CUcontext of)
{
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSynchronize(void)
{
	require(clFinish(queue), "wait");
	return CUDA_SUCCESS;
}

/* ---- kernels ---- */

/* The whole file, NUL-terminated; free() it. */
static char *read_text(void)
{
	const char *path = getenv("BENCH_OPENCL_TEXT");
	FILE *file = path ? fopen(path, "r") : NULL;
	char *text = NULL;
	size_t size = 0;

	if (!file || getdelim(&text, &size, 0, file) <= 0) {
		fprintf(stderr, "opencl: BENCH_OPENCL_TEXT names no OpenCL C\n");
		exit(2);
	}
	fclose(file);
	return text;
}

EXPORT CUresult cuModuleLoadDataEx(
	CUmodule *module, const void *image, unsigned count, CUjit_option *options, void **values)
{
	char *text = read_text(), log[16384] = "";
	cl_int error;
	cl_program program =
		clCreateProgramWithSource(context, 1, (const char **)&text, NULL, &error);

	require(error, "make a program");
	error = clBuildProgram(program, 1, &device, "-cl-kernel-arg-info", NULL, NULL);
	if (error) {
		clGetProgramBuildInfo(
			program, device, CL_PROGRAM_BUILD_LOG, sizeof(log), log, NULL);
		fprintf(stderr, "%s\n", log);
	}
	require(error, "compile");
	free(text);
	*module = (CUmodule)program;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleUnload(CUmodule module)
{
	return CUDA_SUCCESS; /* its kernels are used until the end */
}

EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
	cl_int error;

	*function = (CUfunction)clCreateKernel((cl_program)module, name, &error);
	require(error, "find a kernel");
	return CUDA_SUCCESS;
}

static void set_argument(cl_kernel kernel, cl_uint i, void *value)
{
	cl_kernel_arg_address_qualifier qualifier;

	require(clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof(qualifier),
			&qualifier, NULL),
		"see what a parameter is");
	if (qualifier == CL_KERNEL_ARG_ADDRESS_GLOBAL)
		require(clSetKernelArgSVMPointer(kernel, i, *(void **)value), "pass an address");
	else /* the programs pass nothing but int, unsigned and float */
		require(clSetKernelArg(kernel, i, 4, value), "pass a value");
}

EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
	unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
	unsigned shared_bytes, CUstream stream, void **parameters, void **extra)
{
	size_t local[] = {block_x, block_y, block_z};
	size_t global[] = {
		(size_t)grid_x * block_x, (size_t)grid_y * block_y, (size_t)grid_z * block_z};
	cl_kernel kernel = (cl_kernel)function;
	cl_uint count;

	require(clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof(count), &count, NULL),
		"count parameters");
	for (cl_uint i = 0; i < count; i++)
		set_argument(kernel, i, parameters[i]);
	require(clEnqueueNDRangeKernel(queue, kernel, 3, NULL, global, local, 0, NULL, NULL),
		"launch");
	return CUDA_SUCCESS;
}

/* ---- memory ---- */

EXPORT CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes)
{
	void *memory = clSVMAlloc(context, CL_MEM_READ_WRITE, bytes, 0);

	*address = (CUdeviceptr)memory;
	return memory ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemFree(CUdeviceptr address)
{
	require(clFinish(queue), "wait");
	clSVMFree(context, (void *)address);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAllocHost(void **memory, size_t bytes)
{
	*memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
	return *memory ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemFreeHost(void *memory)
{
	free(memory);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemcpyHtoD(CUdeviceptr destination, const void *source, size_t bytes)
{
	require(clEnqueueSVMMemcpy(
			queue, CL_TRUE, (void *)destination, source, bytes, 0, NULL, NULL),
		"copy to the device");
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemcpyDtoH(void *destination, CUdeviceptr source, size_t bytes)
{
	require(clEnqueueSVMMemcpy(
			queue, CL_TRUE, destination, (void *)source, bytes, 0, NULL, NULL),
		"copy from the device");
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemsetD32(CUdeviceptr destination, unsigned value, size_t count)
{
	require(clEnqueueSVMMemFill(queue, (void *)destination, &value, sizeof(value),
			count * sizeof(value), 0, NULL, NULL),
		"fill memory");
	return CUDA_SUCCESS;
}
