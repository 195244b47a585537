/* SPDX-License-Identifier: MIT
 *
 * Computes a little with the CUDA Driver API, says where its libcuda is from, and then waits for the end
 * of its standard input, so that a test can look at what serves it. Built against an installed gdev.
 */
#include <cuda.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static const char ptx[] = ".version 6.0\n"
			  ".target sm_70\n"
			  ".address_size 64\n"
			  ".visible .entry answer(.param .u64 at)\n"
			  "{\n"
			  "	.reg .u64 %a;\n"
			  "	ld.param.u64 %a, [at];\n"
			  "	st.global.u32 [%a], 42;\n"
			  "	ret;\n"
			  "}\n";

static void must(CUresult result, const char *what)
{
	const char *name = "?";

	if (result == CUDA_SUCCESS)
		return;
	cuGetErrorName(result, &name);
	fprintf(stderr, "installed: cannot %s: %s\n", what, name);
	exit(1);
}

int main(void)
{
	CUcontext context;
	CUmodule module;
	CUfunction answer;
	CUdeviceptr word;
	Dl_info from;
	unsigned value = 0;
	void *params[] = {&word};

	must(cuInit(0), "start");
	must(cuCtxCreate(&context, NULL, 0, 0), "create a context");
	must(cuModuleLoadData(&module, ptx), "load the kernel");
	must(cuModuleGetFunction(&answer, module, "answer"), "find the kernel");
	must(cuMemAlloc(&word, sizeof value), "allocate");
	must(cuLaunchKernel(answer, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL), "launch");
	must(cuMemcpyDtoH(&value, word, sizeof value), "copy");
	if (!dladdr((void *)cuInit, &from))
		return 1;
	printf("%u %s\n", value, from.dli_fname);
	fflush(stdout);
	while (getchar() != EOF)
		;
	must(cuCtxDestroy(context), "destroy the context");
	return 0;
}
