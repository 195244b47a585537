/* SPDX-License-Identifier: MIT
 *
 * cuGetProcAddress: the driver's functions by name and version.
 */
#include "driver.h"

int main(void)
{
	CUresult (*get_count)(int *) = NULL;
	CUresult (*alloc)(CUdeviceptr *, size_t) = NULL;
	CUdriverProcAddressQueryResult found;
	CUdeviceptr memory;
	void *none;
	int count = 0, version;

	begin();
	CHECK(cuDriverGetVersion(&version));
	REQUIRE(version >= 12000);
	CHECK(cuGetProcAddress("cuDeviceGetCount", (void **)&get_count, 12000, 0, &found));
	REQUIRE(found == CU_GET_PROC_ADDRESS_SUCCESS && get_count(&count) == CUDA_SUCCESS &&
		count >= 1);
	CHECK(cuGetProcAddress("cuMemAlloc", (void **)&alloc, 12000, 0, &found));
	CHECK(alloc(&memory, 100));
	CHECK(cuGetProcAddress("cuNoSuchFunction", &none, 12000, 0, &found));
	REQUIRE(found == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	return passed();
}
