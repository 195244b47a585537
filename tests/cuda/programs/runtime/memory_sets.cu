/* SPDX-License-Identifier: MIT
 *
 * Memory that is set, by bytes, in rows, and in a stream.
 */
#include "../program.h"

int main()
{
	static unsigned char host[4096];
	unsigned char *device;

	CHECK(cudaMalloc(&device, sizeof host));
	CHECK(cudaMemset(device, 0xab, sizeof host));
	CHECK(cudaMemset2D(device + 64, 128, 0x11, 32, 10));
	CHECK(cudaMemsetAsync(device + 4095, 0x22, 1));
	CHECK(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
	for (int i = 0; i < 4095; i++) {
		bool in_row = i / 128 < 10 && i % 128 >= 64 && i % 128 < 96;
		REQUIRE(host[i] == (in_row ? 0x11 : 0xab));
	}
	REQUIRE(host[4095] == 0x22);
	CHECK(cudaMemset(device, 0, 0));
	EXPECT(cudaMemset(NULL, 0, 1), cudaErrorInvalidValue);
	return passed();
}
