/* SPDX-License-Identifier: MIT
 *
 * A first program, with nothing between it and the CUDA Driver API: it opens the device, copies two
 * arrays there, runs a kernel (hello.cu), copies the answer back and looks at it. Run it with
 * `gdev run ./hello`. The other examples leave the repeated parts to common/harness.c.
 */
#include <cuda.h>

#include <stdio.h>
#include <stdlib.h>

#define COUNT 1000
#define BLOCK 128

/* The compiled kernel, as text, embedded by the build (../common/embed.S). */
extern const char kernels_ptx[];

/* Every call returns a CUresult; a program that ignores one finds out later, and elsewhere. */
static void must(CUresult result, const char *what)
{
	const char *text = "unknown error";

	if (result == CUDA_SUCCESS)
		return;
	cuGetErrorString(result, &text);
	fprintf(stderr, "hello: cannot %s: %s\n", what, text);
	exit(2);
}

int main(void)
{
	CUdevice device;
	CUcontext context;
	CUmodule module;
	CUfunction axpy;
	CUdeviceptr device_x, device_y;
	char name[64];
	float x[COUNT], y[COUNT], a = 2;
	int count = COUNT, wrong = 0;

	for (int i = 0; i < COUNT; i++) {
		x[i] = (float)i;
		y[i] = 1;
	}

	/* 1. A context is this program's place on the device: its memory, its code, its errors. */
	must(cuInit(0), "initialise CUDA");
	must(cuDeviceGet(&device, 0), "find a device");
	must(cuDeviceGetName(name, sizeof(name), device), "ask for the device's name");
	must(cuDevicePrimaryCtxRetain(&context, device), "open the device");
	must(cuCtxSetCurrent(context), "use the context");

	/* 2. Code: the driver compiles PTX for the device that is there. */
	must(cuModuleLoadData(&module, kernels_ptx), "load the kernel");
	must(cuModuleGetFunction(&axpy, module, "axpy"), "find axpy in it");

	/* 3. Data. Addresses of device memory are numbers; only kernels and copies may use them. */
	must(cuMemAlloc(&device_x, sizeof(x)), "allocate x");
	must(cuMemAlloc(&device_y, sizeof(y)), "allocate y");
	must(cuMemcpyHtoD(device_x, x, sizeof(x)), "copy x to the device");
	must(cuMemcpyHtoD(device_y, y, sizeof(y)), "copy y to the device");

	/* 4. Launch enough blocks for all elements. The call returns before the kernel has run. */
	void *parameters[] = {&device_y, &device_x, &a, &count};

	must(cuLaunchKernel(axpy, (COUNT + BLOCK - 1) / BLOCK, 1, 1, BLOCK, 1, 1, 0, NULL,
		     parameters, NULL),
		"launch axpy");

	/* 5. This copy waits for the kernel, and brings its error if it had one. */
	must(cuMemcpyDtoH(y, device_y, sizeof(y)), "copy y back");
	for (int i = 0; i < COUNT; i++)
		wrong += y[i] != a * (float)i + 1;

	must(cuMemFree(device_x), "free x");
	must(cuMemFree(device_y), "free y");
	must(cuModuleUnload(module), "unload the kernel");
	must(cuDevicePrimaryCtxRelease(device), "close the device");

	printf("hello from %s: %d values, %d wrong\n", name, COUNT, wrong);
	return wrong ? 1 : 0;
}
