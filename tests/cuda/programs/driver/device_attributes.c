/* SPDX-License-Identifier: MIT
 *
 * Attributes of the device, and a few that must fit to each other.
 */
#include "driver.h"

int main(void)
{
	char name[100], bus[20];
	CUdevice same;
	CUuuid uuid;
	size_t total, available;
	int any = 0;

	begin();
	CHECK(cuDeviceGetName(name, sizeof name, device));
	CHECK(cuDeviceTotalMem(&total, device));
	CHECK(cuMemGetInfo(&available, &total));
	REQUIRE(name[0] && available <= total);
	REQUIRE(attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE) == 32);
	REQUIRE(attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK) == 1024);
	REQUIRE(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR) >=
		attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
	REQUIRE(attribute(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING) == 1);
	REQUIRE(attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE) > 0 ||
		attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) >= 7);
	REQUIRE(attribute(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH) >= 16384);
	CHECK(cuDeviceGetUuid(&uuid, device));
	for (int i = 0; i < 16; i++)
		any |= uuid.bytes[i];
	REQUIRE(any);
	CHECK(cuDeviceGetPCIBusId(bus, sizeof bus, device));
	CHECK(cuDeviceGetByPCIBusId(&same, bus));
	REQUIRE(same == device);
	return passed();
}
