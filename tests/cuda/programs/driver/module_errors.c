/* SPDX-License-Identifier: MIT
 *
 * PTX that cannot be compiled: the compiler's log says where it is wrong.
 */
#include "driver.h"

static const char wrong[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
			    ".visible .entry k()\n{\n\tadd.s32 %r1, %r2 %r3;\n\tret;\n";

int main(void)
{
	char log[2000] = "", info[2000] = "";
	CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
		CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES};
	void *values[] = {log, (void *)sizeof log, info, (void *)sizeof info};
	CUmodule other;

	begin();
	EXPECT(cuModuleLoadDataEx(&other, wrong, 4, options, values), CUDA_ERROR_INVALID_PTX);
	REQUIRE(log[0] && strstr(log, "6")); /* the line */
	CHECK(cuModuleLoadDataEx(&other, kernels_ptx, 4, options, values));
	CHECK(cuModuleUnload(other));
	return passed();
}
