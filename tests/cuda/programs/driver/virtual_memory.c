/* SPDX-License-Identifier: MIT
 *
 * Addresses and memory apart: a range is reserved, memory mapped into it, and the range's memory grows where it is.
 */
#include "driver.h"

int main(void)
{
	CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemAccessDesc access = {
		.location = properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle parts[2];
	CUdeviceptr range;
	size_t grain;
	int count, one = 1;

	begin();
	REQUIRE(attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED));
	CHECK(cuMemGetAllocationGranularity(&grain, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	CHECK(cuMemAddressReserve(&range, 4 * grain, 0, 0, 0));
	EXPECT(cuMemsetD8(range, 0, 1), CUDA_ERROR_INVALID_VALUE);
	for (int i = 0; i < 2; i++) {
		CHECK(cuMemCreate(&parts[i], grain, &properties, 0));
		CHECK(cuMemMap(range + i * grain, grain, 0, parts[i], 0));
		CHECK(cuMemSetAccess(range + i * grain, grain, &access, 1));
		count = (int)(grain * (size_t)(i + 1) / sizeof(int));
		if (i == 0)
			CHECK(cuMemsetD32(range, 40, grain / sizeof(int)));
		else
			CHECK(cuMemsetD32(range + grain, 50, grain / sizeof(int)));
		LAUNCH(NULL, "add", (unsigned)(count + 255) / 256, 256, &range, &count, &one);
	}
	REQUIRE(number_at(range, 0) == 42);
	REQUIRE(number_at(range, (int)(grain / sizeof(int))) == 51);
	CHECK(cuMemUnmap(range, grain));
	EXPECT(cuMemsetD8(range, 0, 1), CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemMap(range + 2 * grain, grain, 0, parts[0], 0)); /* its contents stay */
	CHECK(cuMemSetAccess(range + 2 * grain, grain, &access, 1));
	REQUIRE(number_at(range + 2 * grain, 0) == 42);
	CHECK(cuMemUnmap(range + grain, 2 * grain));
	for (int i = 0; i < 2; i++)
		CHECK(cuMemRelease(parts[i]));
	CHECK(cuMemAddressFree(range, 4 * grain));
	return passed();
}
