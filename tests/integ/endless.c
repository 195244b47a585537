/* SPDX-License-Identifier: MIT
 *
 * Launches a kernel that never ends, where a virtual GPU has a time limit. Exit status 0: everybody who
 * waited was told of it, and so is every call that follows, however late.
 */
#include <cuda.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char ptx[] = ".version 6.0\n"
			  ".target sm_70\n"
			  ".address_size 64\n"
			  ".visible .entry endless(.param .u64 at)\n"
			  "{\n"
			  "	.reg .u64 %a;\n"
			  "	.reg .u32 %v;\n"
			  "	.reg .pred %p;\n"
			  "	ld.param.u64 %a, [at];\n"
			  "again:\n"
			  "	ld.volatile.global.u32 %v, [%a];\n"
			  "	setp.eq.u32 %p, %v, 0;\n"
			  "	@%p bra again;\n"
			  "	ret;\n"
			  "}\n";

static CUcontext context;

static void expect(CUresult result, CUresult wanted, const char *what)
{
	const char *name = "?";

	if (result == wanted)
		return;
	cuGetErrorName(result, &name);
	fprintf(stderr, "endless: %s: %s\n", what, name);
	exit(1);
}

static void *wait_for(void *stream)
{
	expect(cuCtxSetCurrent(context), CUDA_SUCCESS, "use the context");
	expect(cuStreamSynchronize(stream), CUDA_ERROR_LAUNCH_TIMEOUT, "wait in a thread");
	return NULL;
}

int main(void)
{
	CUstream streams[2];
	CUmodule module;
	CUfunction endless;
	CUdeviceptr word, other;
	CUevent event;
	pthread_t threads[2];
	void *params[] = {&word};

	expect(cuInit(0), CUDA_SUCCESS, "cuInit");
	expect(cuCtxCreate(&context, NULL, 0, 0), CUDA_SUCCESS, "create a context");
	expect(cuModuleLoadData(&module, ptx), CUDA_SUCCESS, "load the kernel");
	expect(cuModuleGetFunction(&endless, module, "endless"), CUDA_SUCCESS, "find the kernel");
	expect(cuMemAlloc(&word, 4), CUDA_SUCCESS, "allocate");
	expect(cuMemsetD32(word, 0, 1), CUDA_SUCCESS, "clear the word");
	expect(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS, "create an event");
	for (int i = 0; i < 2; i++)
		expect(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING), CUDA_SUCCESS,
			"create a stream");
	expect(cuLaunchKernel(endless, 1, 1, 1, 1, 1, 1, 0, streams[0], params, NULL), CUDA_SUCCESS,
		"launch");
	expect(cuEventRecord(event, streams[0]), CUDA_SUCCESS, "record the event");
	expect(cuStreamWaitEvent(streams[1], event, 0), CUDA_SUCCESS, "wait for it");
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, wait_for, streams[i]);
	expect(cuMemFree(word), CUDA_ERROR_LAUNCH_TIMEOUT, "free what is in use");
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 3; i++) {
		expect(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_TIMEOUT, "synchronise");
		expect(cuMemAlloc(&other, 8 << 20), CUDA_ERROR_LAUNCH_TIMEOUT, "allocate again");
		expect(cuMemcpyDtoH(params, word, 4), CUDA_ERROR_LAUNCH_TIMEOUT, "copy");
		expect(cuLaunchKernel(endless, 1, 1, 1, 1, 1, 1, 0, streams[1], params, NULL),
			CUDA_ERROR_LAUNCH_TIMEOUT, "launch again");
		usleep(200000); /* the worker is gone by then */
	}
	/* What is ours is freed all the same. */
	cuEventDestroy(event);
	cuModuleUnload(module);
	return 0;
}
