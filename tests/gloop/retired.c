/* SPDX-License-Identifier: MIT
 *
 * A kernel that waits for HOPS timers of SECONDS each, and hands a number on from each to the next. Prints "right" if all
 * threads got all numbers. `retired HOPS SECONDS`
 */
#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>

#include "gdev/gloop.h"

enum { BLOCKS = 3, THREADS = 32 };

extern const char kernels_ptx[];

static void must(CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "retired: cannot %s: error %d\n", what, result);
	exit(2);
}

int main(int argc, char **argv)
{
	unsigned hops = argc > 1 ? (unsigned)atoi(argv[1]) : 1, sums[BLOCKS * THREADS], want = 1,
		 sum = 1;
	unsigned long long ns = (unsigned long long)(argc > 2 ? atof(argv[2]) * 1e9 : 1e9);
	struct gloop_shape shape = {.grid = {BLOCKS}, .block = {THREADS}};
	struct gloop_report report;
	CUdevice device;
	CUcontext context;
	CUmodule module;
	CUfunction kernel;
	CUdeviceptr memory;
	int error;

	must(cuInit(0), "begin");
	must(cuDeviceGet(&device, 0), "find a device");
	must(cuDevicePrimaryCtxRetain(&context, device), "open it");
	must(cuCtxSetCurrent(context), "use it");
	must(cuModuleLoadData(&module, kernels_ptx), "load the kernels");
	must(cuModuleGetFunction(&kernel, module, "hops"), "find hops");
	must(cuMemAlloc(&memory, sizeof(sums)), "allocate");
	must(cuMemsetD8(memory, 0, sizeof(sums)), "fill");
	error = gloop_run(kernel, &shape, (void *[]){NULL, &memory, &ns, &hops}, NULL, &report);
	must(report.cuda, "run the kernel");
	must(cuMemcpyDtoH(sums, memory, sizeof(sums)), "copy");
	for (unsigned left = hops; left; left--) {
		sum += left;
		want += sum;
	}
	for (unsigned i = 0; i < BLOCKS * THREADS && !error; i++)
		error |= sums[i] != want;
	printf("%s\n", !error && report.launches > hops ? "right" : "wrong");
	return error != 0;
}
