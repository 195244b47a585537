/* SPDX-License-Identifier: MIT
 *
 * What a pointer is: device, host, managed, or unknown memory.
 */
#include "../program.h"

static cudaPointerAttributes of(const void *pointer)
{
	cudaPointerAttributes attributes;

	CHECK(cudaPointerGetAttributes(&attributes, pointer));
	return attributes;
}

int main()
{
	char *device, *host, *managed, local;

	CHECK(cudaMalloc(&device, 100));
	CHECK(cudaMallocHost(&host, 100));
	CHECK(cudaMallocManaged(&managed, 100));
	REQUIRE(of(device + 50).type == cudaMemoryTypeDevice);
	REQUIRE(of(device + 50).devicePointer == device + 50 && !of(device).hostPointer);
	REQUIRE(of(host + 50).type == cudaMemoryTypeHost && of(host + 50).hostPointer == host + 50);
	REQUIRE(of(managed).type == cudaMemoryTypeManaged);
	REQUIRE(of(&local).type == cudaMemoryTypeUnregistered);
	CHECK(cudaFree(device));
	REQUIRE(of(device).type == cudaMemoryTypeUnregistered);
	return passed();
}
