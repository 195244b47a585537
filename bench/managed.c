/* SPDX-License-Identifier: MIT
 *
 * Managed memory: `managed [MIB]` (1024). Against page-locked copies of as many bytes: the first touch of all its pages by
 * a kernel after the process has written them, and the other way round, a word of every 4 KiB. Against device memory: a kernel
 * over all of it that is on the device already. Against the same without any managed memory: an empty kernel, the call and
 * launch and wait, beside managed memory that nobody touches.
 */
#include <stdio.h>
#include <stdlib.h>

#include "device.h"

#define REPETITIONS 5
#define STEP 4096

/* Adds 1 to `count` words that are `step` bytes apart. */
static const char touch_ptx[] =
	".version 6.0\n"
	".target sm_70\n"
	".address_size 64\n"
	".visible .entry touch(.param .u64 at, .param .u32 count, .param .u32 step)\n"
	"{\n"
	"	.reg .pred %p; .reg .u32 %r<5>; .reg .u64 %d<3>;\n"
	"	ld.param.u64 %d0, [at]; ld.param.u32 %r0, [count]; ld.param.u32 %r1, [step];\n"
	"	mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;\n"
	"	mad.lo.u32 %r2, %r2, %r3, %r4;\n"
	"	setp.ge.u32 %p, %r2, %r0;\n"
	"	@%p bra done;\n"
	"	mul.wide.u32 %d1, %r2, %r1;\n"
	"	add.u64 %d2, %d0, %d1;\n"
	"	ld.global.u32 %r3, [%d2]; add.u32 %r3, %r3, 1; st.global.u32 [%d2], %r3;\n"
	"done:	ret;\n"
	"}\n";

static CUfunction touch;
static size_t bytes;

/* GB/s of `bytes`, of a kernel over the memory. */
static double kernel_rate(CUdeviceptr at, uint32_t step)
{
	uint32_t count = (uint32_t)(bytes / step);
	void *params[] = {&at, &count, &step};
	uint64_t start = bench_now_ns();

	must(cuLaunchKernel(touch, (count + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, params, NULL),
		"launch");
	must(cuCtxSynchronize(), "wait");
	return (double)bytes / (double)(bench_now_ns() - start);
}

static double host_rate(CUdeviceptr at)
{
	uint64_t start = bench_now_ns();

	for (size_t i = 0; i < bytes; i += STEP)
		++*(volatile uint32_t *)(at + i);
	return (double)bytes / (double)(bench_now_ns() - start);
}

static double copy_rate(CUdeviceptr to, CUdeviceptr from)
{
	uint64_t start = bench_now_ns();

	must(cuMemcpy(to, from, bytes), "copy");
	must(cuCtxSynchronize(), "wait");
	return (double)bytes / (double)(bench_now_ns() - start);
}

/* What either side pays for pages that the other has; each time of new memory, of which both have used a word a page. */
static void first_touches(CUdeviceptr device, CUdeviceptr locked)
{
	static struct samples there, back, copied_there, copied_back;
	CUdeviceptr managed;

	for (int i = 0; i < REPETITIONS; i++) {
		must(cuMemAllocManaged(&managed, bytes, CU_MEM_ATTACH_GLOBAL),
			"allocate managed memory");
		for (size_t at = 0; at < bytes; at += STEP)
			*(volatile uint32_t *)(managed + at) = 1;
		samples_add(&there, kernel_rate(managed, STEP));
		samples_add(&back, host_rate(managed));
		for (size_t at = 0; at < bytes; at += STEP)
			bench_require(
				*(uint32_t *)(managed + at) != 3, "touch a page", "it is wrong");
		must(cuMemFree(managed), "free");
		samples_add(&copied_there, copy_rate(device, locked));
		samples_add(&copied_back, copy_rate(locked, device));
	}
	bench_report("managed", "managed.first_to_device", "GB/s", &there, &copied_there);
	bench_report("managed", "managed.first_to_host", "GB/s", &back, &copied_back);
}

static void accesses(CUdeviceptr device)
{
	static struct samples managed_rate, device_rate;
	CUdeviceptr managed;

	must(cuMemAllocManaged(&managed, bytes, CU_MEM_ATTACH_GLOBAL), "allocate managed memory");
	host_rate(managed);
	for (int i = 0; i <= REPETITIONS; i++) {
		double ours = kernel_rate(managed, sizeof(uint32_t));
		double other = kernel_rate(device, sizeof(uint32_t));
		if (!i)
			continue; /* it moves */
		samples_add(&managed_rate, ours);
		samples_add(&device_rate, other);
	}
	must(cuMemFree(managed), "free");
	bench_report("managed", "managed.access", "GB/s", &managed_rate, &device_rate);
}

static void launches(CUfunction empty)
{
	static struct samples call, call_without, wait, wait_without;
	CUdeviceptr managed;

	for (int i = 0; i < 4 * REPETITIONS; i++) {
		samples_add(&call_without, async_us(empty));
		samples_add(&wait_without, wait_us(empty));
		must(cuMemAllocManaged(&managed, bytes, CU_MEM_ATTACH_GLOBAL),
			"allocate managed memory");
		wait_us(empty);
		samples_add(&call, async_us(empty));
		samples_add(&wait, wait_us(empty));
		must(cuMemFree(managed), "free");
	}
	bench_report("managed", "managed.launch_async_us", "us", &call, &call_without);
	bench_report("managed", "managed.launch_wait_us", "us", &wait, &wait_without);
}

int main(int argc, char **argv)
{
	CUfunction empty = open_device();
	CUdeviceptr device;
	CUmodule module;
	void *locked;

	bytes = (argc > 1 ? strtoul(argv[1], NULL, 10) : 1024) << 20;
	must(cuModuleLoadData(&module, touch_ptx), "load the kernel");
	must(cuModuleGetFunction(&touch, module, "touch"), "find the kernel");
	must(cuMemAlloc(&device, bytes), "allocate");
	must(cuMemAllocHost(&locked, bytes), "allocate page-locked memory");
	launches(empty);
	copy_rate(device, (CUdeviceptr)locked);
	first_touches(device, (CUdeviceptr)locked);
	accesses(device);
	return 0;
}
