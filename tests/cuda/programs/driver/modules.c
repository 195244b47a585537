/* SPDX-License-Identifier: MIT
 *
 * A module: its functions and variables, and what is not in it.
 */
#include "driver.h"

int main(void)
{
	CUdeviceptr variable, constants, out;
	CUfunction function;
	size_t bytes;
	int value = 7, three[3] = {10, 20, 30};

	begin();
	out = numbers(1, 0);
	CHECK(cuModuleGetGlobal(&variable, &bytes, module, "variable"));
	REQUIRE(bytes == sizeof(int) && number_at(variable, 0) == 5);
	CHECK(cuModuleGetGlobal(&constants, &bytes, module, "constants"));
	REQUIRE(bytes == 4 * sizeof(int));
	CHECK(cuMemcpyHtoD(variable, &value, sizeof value));
	CHECK(cuMemcpyHtoD(constants, three, sizeof three));
	LAUNCH(NULL, "use_variables", 1, 1, &out);
	REQUIRE(number_at(out, 0) == 70);
	EXPECT(cuModuleGetFunction(&function, module, "nothing"), CUDA_ERROR_NOT_FOUND);
	EXPECT(cuModuleGetGlobal(&variable, &bytes, module, "nothing"), CUDA_ERROR_NOT_FOUND);
	CHECK(cuModuleUnload(module));
	return passed();
}
