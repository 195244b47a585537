/* SPDX-License-Identifier: MIT
 *
 * See program.h.
 */
#include "program.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

const char step_ptx[] = ".version 6.0\n"
			".target sm_70\n"
			".address_size 64\n"
			".visible .entry step(.param .u64 at, .param .u32 words)\n"
			"{\n"
			"	.reg .u64 %a, %o;\n"
			"	.reg .u32 %v, %i, %b, %n, %c;\n"
			"	.reg .pred %p;\n"
			"	ld.param.u64 %a, [at];\n"
			"	ld.param.u32 %n, [words];\n"
			"	mov.u32 %b, %ctaid.x;\n"
			"	mov.u32 %c, %ntid.x;\n"
			"	mov.u32 %i, %tid.x;\n"
			"	mad.lo.u32 %i, %b, %c, %i;\n"
			"	setp.ge.u32 %p, %i, %n;\n"
			"	@%p bra done;\n"
			"	mul.wide.u32 %o, %i, 4;\n"
			"	add.u64 %a, %a, %o;\n"
			"	ld.global.u32 %v, [%a];\n"
			"	mad.lo.u32 %v, %v, 3, %i;\n"
			"	st.global.u32 [%a], %v;\n"
			"done:\n"
			"	ret;\n"
			"}\n";

const char spin_ptx[] = ".version 6.0\n"
			".target sm_70\n"
			".address_size 64\n"
			".visible .entry spin(.param .u64 at, .param .u32 rounds)\n"
			"{\n"
			"	.reg .u64 %a;\n"
			"	.reg .u32 %n, %v;\n"
			"	.reg .pred %p;\n"
			"	ld.param.u64 %a, [at];\n"
			"	ld.param.u32 %n, [rounds];\n"
			"again:\n"
			"	ld.volatile.global.u32 %v, [%a];\n"
			"	sub.u32 %n, %n, 1;\n"
			"	setp.ne.u32 %p, %n, 0;\n"
			"	@%p bra again;\n"
			"	ret;\n"
			"}\n";

void must(CUresult result, const char *what)
{
	const char *name = "?";

	if (result == CUDA_SUCCESS)
		return;
	cuGetErrorName(result, &name);
	fprintf(stderr, "%s: cannot %s: %s\n", program_invocation_short_name, what, name);
	_exit(result == CUDA_ERROR_OUT_OF_MEMORY ? 2 : 1); /* what is left is the context's */
}

CUfunction begin_with(const char *ptx, const char *kernel)
{
	CUfunction function;
	CUcontext context;
	CUmodule module;

	must(cuInit(0), "start");
	must(cuDevicePrimaryCtxRetain(&context, 0), "make a context");
	must(cuCtxSetCurrent(context), "use it");
	must(cuModuleLoadData(&module, ptx), "load the kernel");
	must(cuModuleGetFunction(&function, module, kernel), "find the kernel");
	return function;
}

CUresult launch_step(CUfunction step, CUdeviceptr at, uint32_t words)
{
	void *parameters[] = {&at, &words};

	return cuLaunchKernel(
		step, (words + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, parameters, NULL);
}
