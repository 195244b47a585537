/* SPDX-License-Identifier: MIT
 *
 * One kernel with event loops that keeps the device busy until standard input ends. Prints "busy" when it is.
 * `endless polling|blocking|stuck`; the last in one callback, which takes minutes.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cuda.h>

#include "gdev/gloop.h"

enum { BLOCKS = 4, THREADS = 32, ROUNDS = 20000 };

extern const char kernels_ptx[];

static volatile unsigned *words; /* page-locked: stop, and a count */

static void must(CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "endless: cannot %s: error %d\n", what, result);
	exit(2);
}

static void *wait_for_end(void *unused)
{
	char byte;

	while (!words[1])
		usleep(1000);
	puts("busy");
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	words[0] = 1;
	return NULL;
}

int main(int argc, char **argv)
{
	struct gloop_options options = {
		.poll_us = argc > 1 && !strcmp(argv[1], "polling") ? GLOOP_POLL : 0};
	struct gloop_shape shape = {.grid = {BLOCKS}, .block = {THREADS}};
	unsigned rounds = argc > 1 && !strcmp(argv[1], "stuck") ? UINT32_MAX : ROUNDS;
	struct gloop_report report;
	pthread_t thread;
	CUdevice device;
	CUcontext context;
	CUmodule module;
	CUfunction kernel;
	CUdeviceptr address;
	void *memory;
	int error;

	must(cuInit(0), "begin");
	must(cuDeviceGet(&device, 0), "find a device");
	must(cuDevicePrimaryCtxRetain(&context, device), "open it");
	must(cuCtxSetCurrent(context), "use it");
	must(cuModuleLoadData(&module, kernels_ptx), "load the kernels");
	must(cuModuleGetFunction(&kernel, module, "endless"), "find the kernel");
	must(cuMemHostAlloc(&memory, 4096, CU_MEMHOSTALLOC_DEVICEMAP), "allocate");
	must(cuMemHostGetDevicePointer(&address, memory, 0), "map");
	memset(memory, 0, 4096);
	words = memory;
	if (pthread_create(&thread, NULL, wait_for_end, NULL))
		return 2;
	error = gloop_run(kernel, &shape, (void *[]){NULL, &address, &rounds}, &options, &report);
	if (error)
		fprintf(stderr, "endless: gloop_run: %s, CUDA's error %d\n", strerror(-error),
			report.cuda);
	words[0] = words[1] = 1;
	pthread_join(thread, NULL);
	return error != 0;
}
