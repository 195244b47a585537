/* SPDX-License-Identifier: MIT
 *
 * Managed memory of the Driver API: attached to a stream, and attributes of ranges.
 */
#include "driver.h"

int main(void)
{
	int *memory, count = 128, three = 3, read_mostly;
	CUdeviceptr seen;
	CUstream stream;
	unsigned managed;

	begin();
	CHECK(cuMemAllocManaged(&seen, 4096, CU_MEM_ATTACH_HOST));
	memory = (int *)seen;
	for (int i = 0; i < 128; i++)
		memory[i] = i;
	CHECK(cuStreamCreate(&stream, 0));
	CHECK(cuStreamAttachMemAsync(stream, seen, 0, CU_MEM_ATTACH_SINGLE));
	CHECK(cuStreamSynchronize(stream));
	LAUNCH(stream, "add", 1, 128, &seen, &count, &three);
	CHECK(cuStreamSynchronize(stream));
	REQUIRE(memory[0] == 3 && memory[127] == 130);
	CHECK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, seen));
	REQUIRE(managed);
	CHECK(cuMemAdvise(seen, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY,
		(CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST}));
	CHECK(cuMemRangeGetAttribute(
		&read_mostly, sizeof read_mostly, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, seen, 4096));
	REQUIRE(read_mostly == 1);
	CHECK(cuMemFree(seen));
	return passed();
}
