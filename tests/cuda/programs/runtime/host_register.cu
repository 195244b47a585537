/* SPDX-License-Identifier: MIT
 *
 * Memory that the program has already is registered: asynchronous copies use it as they use page-locked memory.
 */
#include "../program.h"

int main()
{
	const size_t bytes = 3 << 20;
	unsigned char *memory = (unsigned char *)aligned_alloc(4096, bytes), *device;
	cudaPointerAttributes attributes;
	cudaStream_t stream;

	memset(memory, 1, bytes);
	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaMalloc(&device, bytes));
	CHECK(cudaHostRegister(memory, bytes, cudaHostRegisterDefault));
	EXPECT(cudaHostRegister(memory, 4096, cudaHostRegisterDefault),
		cudaErrorHostMemoryAlreadyRegistered);
	cudaGetLastError();
	CHECK(cudaPointerGetAttributes(&attributes, memory + 100));
	REQUIRE(attributes.type == cudaMemoryTypeHost);
	CHECK(cudaMemcpyAsync(device, memory, bytes, cudaMemcpyHostToDevice, stream));
	CHECK(cudaMemsetAsync(device + 1000, 7, 1000, stream));
	CHECK(cudaMemcpyAsync(memory, device, bytes, cudaMemcpyDeviceToHost, stream));
	CHECK(cudaStreamSynchronize(stream));
	for (size_t i = 0; i < bytes; i++)
		REQUIRE(memory[i] == (i / 1000 == 1 ? 7 : 1));
	CHECK(cudaHostUnregister(memory));
	EXPECT(cudaHostUnregister(memory), cudaErrorHostMemoryNotRegistered);
	return passed();
}
