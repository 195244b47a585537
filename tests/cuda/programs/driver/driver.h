/* SPDX-License-Identifier: MIT
 *
 * What most programs of the Driver API begin with: the first device, its primary context, and kernels.ptx as a module.
 */
#ifndef PROGRAMS_DRIVER_H
#define PROGRAMS_DRIVER_H

#include "../program.h"

/* kernels.ptx, with a 0 behind it. */
__asm__(".section .rodata\n"
	"kernels_ptx:\n"
	".incbin \"" KERNELS_PTX "\"\n"
	".byte 0\n"
	".previous");
extern const char kernels_ptx[];

static CUdevice device;
static CUcontext context;
static CUmodule module;

static inline void begin(void)
{
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoadData(&module, kernels_ptx));
}

static inline CUfunction kernel(const char *name)
{
	CUfunction function;

	CHECK(cuModuleGetFunction(&function, module, name));
	return function;
}

static inline int attribute(CUdevice_attribute attribute)
{
	int value;

	CHECK(cuDeviceGetAttribute(&value, attribute, device));
	return value;
}

/* Parameters are pointers to the arguments. */
#define LAUNCH(stream, name, blocks, threads, ...)                                                 \
	CHECK(cuLaunchKernel(kernel(name), blocks, 1, 1, threads, 1, 1, 0, stream,                 \
		(void *[]){__VA_ARGS__}, NULL))

/* Device memory of `count` numbers that are all `value`. */
static inline CUdeviceptr numbers(int count, int value)
{
	CUdeviceptr memory;

	CHECK(cuMemAlloc(&memory, (size_t)count * sizeof(int)));
	CHECK(cuMemsetD32(memory, (unsigned)value, (size_t)count));
	return memory;
}

static inline int number_at(CUdeviceptr memory, int index)
{
	int value;

	CHECK(cuMemcpyDtoH(&value, memory + (size_t)index * sizeof value, sizeof value));
	return value;
}

#endif
