/* SPDX-License-Identifier: MIT
 *
 * Half a GiB in one piece: its first and last bytes, and copies that go in pieces.
 */
#include "../program.h"

__global__ void touch(unsigned char *data, size_t bytes)
{
	data[0] = 1;
	data[bytes / 2] = 2;
	data[bytes - 1] = 3;
}

int main()
{
	const size_t bytes = 512ull << 20, part = 8 << 20;
	unsigned char *device, *host = (unsigned char *)malloc(part), byte;

	CHECK(cudaMalloc(&device, bytes));
	touch<<<1, 1>>>(device, bytes);
	CHECK(cudaMemcpy(&byte, device + bytes / 2, 1, cudaMemcpyDeviceToHost));
	REQUIRE(byte == 2);
	for (size_t i = 0; i < part; i++)
		host[i] = i * 7;
	host[part - 1] = 9;
	CHECK(cudaMemcpy(device + bytes - part, host, part, cudaMemcpyHostToDevice));
	memset(host, 0, part);
	CHECK(cudaMemcpy(host, device + bytes - part, part, cudaMemcpyDeviceToHost));
	for (size_t i = 0; i < part - 1; i++)
		REQUIRE(host[i] == (unsigned char)(i * 7));
	REQUIRE(host[part - 1] == 9);
	CHECK(cudaFree(device));
	return passed();
}
