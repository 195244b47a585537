/* SPDX-License-Identifier: MIT
 *
 * What a device says of itself, by properties and by attributes.
 */
#include "../program.h"

int main()
{
	cudaDeviceProp properties;
	int devices, value, driver, runtime;
	char bus[32];
	int device;

	CHECK(cudaGetDeviceCount(&devices));
	REQUIRE(devices >= 1);
	CHECK(cudaDriverGetVersion(&driver));
	CHECK(cudaRuntimeGetVersion(&runtime));
	REQUIRE(driver >= runtime / 1000 * 1000);
	CHECK(cudaGetDeviceProperties(&properties, 0));
	REQUIRE(properties.name[0] && properties.totalGlobalMem > 64 << 20);
	REQUIRE(properties.warpSize == 32 && properties.maxThreadsPerBlock == 1024);
	REQUIRE(properties.maxThreadsDim[0] == 1024 && properties.maxThreadsDim[2] == 64);
	REQUIRE(properties.maxGridSize[0] == 0x7fffffff && properties.maxGridSize[1] == 65535);
	REQUIRE(properties.sharedMemPerBlock == 48 << 10 && properties.totalConstMem == 64 << 10);
	REQUIRE(properties.major >= 7 && properties.multiProcessorCount >= 1);
	REQUIRE(properties.unifiedAddressing && properties.canMapHostMemory);
	CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
	REQUIRE(value == properties.multiProcessorCount);
	CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMinor, 0));
	REQUIRE(value == properties.minor);
	CHECK(cudaDeviceGetPCIBusId(bus, sizeof bus, 0));
	CHECK(cudaDeviceGetByPCIBusId(&device, bus));
	REQUIRE(device == 0);
	EXPECT(cudaSetDevice(devices), cudaErrorInvalidDevice);
	return passed();
}
