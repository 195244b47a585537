/* SPDX-License-Identifier: MIT
 *
 * A library: code that belongs to no context, and its kernels.
 */
#include "driver.h"

int main(void)
{
	CUlibrary library;
	CUkernel add;
	CUfunction function;
	CUdeviceptr data, variable;
	const char *name;
	unsigned count;
	size_t bytes;
	int n = 64, three = 3;
	void *arguments[] = {&data, &n, &three};

	begin();
	CHECK(cuLibraryLoadData(&library, kernels_ptx, NULL, NULL, 0, NULL, NULL, 0));
	CHECK(cuLibraryGetKernelCount(&count, library));
	REQUIRE(count == 9);
	CHECK(cuLibraryGetKernel(&add, library, "add"));
	CHECK(cuKernelGetName(&name, add));
	REQUIRE(!strcmp(name, "add"));
	data = numbers(n, 1);
	CHECK(cuLaunchKernel((CUfunction)add, 1, 1, 1, 64, 1, 1, 0, NULL, arguments, NULL));
	CHECK(cuKernelGetFunction(&function, add));
	CHECK(cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, NULL, arguments, NULL));
	REQUIRE(number_at(data, 63) == 7);
	CHECK(cuLibraryGetGlobal(&variable, &bytes, library, "variable"));
	REQUIRE(bytes == sizeof(int) && number_at(variable, 0) == 5);
	CHECK(cuLibraryUnload(library));
	return passed();
}
