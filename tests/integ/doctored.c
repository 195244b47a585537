/* SPDX-License-Identifier: MIT
 *
 * A program that needs what gdev does not have, for `gdev doctor`; it is never run. Linked with a missing function,
 * asks for another by name, and carries PTX with a missing instruction.
 */
#include <cuda.h>
#include <stdio.h>

CUresult cuDeviceGetLuid(char *luid, unsigned *mask, CUdevice device);

static const char kernels[] = ".version 7.8\n"
			      ".target sm_80\n"
			      ".address_size 64\n"
			      ".visible .entry good() { ret; }\n"
			      ".visible .entry bad(.param .u64 p)\n"
			      "{\n"
			      "	.reg .b32 %r<2>;\n"
			      "	vmad.u32.u32.u32 %r1, %r1, %r1, %r1;\n"
			      "	ret;\n"
			      "}\n";

int main(void)
{
	CUmodule module;
	void *found;
	char luid[8];
	unsigned mask;

	cuDeviceGetLuid(luid, &mask, 0);
	cuGetProcAddress("cuMulticastCreate", &found, 12010, 0, NULL);
	printf("%p\n", found);
	return cuModuleLoadData(&module, kernels);
}
