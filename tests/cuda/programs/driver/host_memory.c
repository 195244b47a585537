/* SPDX-License-Identifier: MIT
 *
 * Page-locked memory by its flags, registered memory, and what the driver knows of a host pointer.
 */
#include "driver.h"

int main(void)
{
	int *memory, count = 64, four = 4, ordinal;
	CUdeviceptr seen;
	CUmemorytype type;
	unsigned flags, managed;
	void *host;

	begin();
	CHECK(cuMemHostAlloc(
		(void **)&memory, 4096, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
	CHECK(cuMemHostGetFlags(&flags, memory));
	REQUIRE(flags & CU_MEMHOSTALLOC_PORTABLE);
	memset(memory, 0, 4096);
	CHECK(cuMemHostGetDevicePointer(&seen, memory, 0));
	LAUNCH(NULL, "add", 1, 64, &seen, &count, &four);
	CHECK(cuCtxSynchronize());
	REQUIRE(memory[63] == 4 && memory[64] == 0);
	CHECK(cuPointerGetAttribute(
		&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)memory + 100));
	REQUIRE(type == CU_MEMORYTYPE_HOST);
	CHECK(cuPointerGetAttribute(
		&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, (CUdeviceptr)memory + 100));
	REQUIRE(host == (char *)memory + 100);
	CHECK(cuPointerGetAttribute(
		&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, (CUdeviceptr)memory));
	CHECK(cuPointerGetAttribute(
		&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, (CUdeviceptr)memory));
	REQUIRE(!managed && ordinal == 0);
	CHECK(cuMemFreeHost(memory));
	EXPECT(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)memory),
		CUDA_ERROR_INVALID_VALUE);
	return passed();
}
