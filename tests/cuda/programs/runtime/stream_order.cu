/* SPDX-License-Identifier: MIT
 *
 * What is on one stream runs in order; what is on several need not wait for each other.
 */
#include "../program.h"

__global__ void step(int *value, int factor, int summand)
{
	*value = *value * factor + summand;
}

int main()
{
	cudaStream_t streams[4];
	int *device, *host;

	CHECK(cudaMallocHost(&host, 4 * sizeof *host));
	CHECK(cudaMalloc(&device, 4 * sizeof *device));
	for (int i = 0; i < 4; i++) {
		CHECK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
		CHECK(cudaMemsetAsync(device + i, 0, sizeof *device, streams[i]));
	}
	for (int round = 1; round <= 8; round++)
		for (int i = 0; i < 4; i++)
			step<<<1, 1, 0, streams[i]>>>(device + i, 2, round + i);
	for (int i = 0; i < 4; i++) {
		CHECK(cudaMemcpyAsync(
			host + i, device + i, sizeof *host, cudaMemcpyDeviceToHost, streams[i]));
		CHECK(cudaStreamSynchronize(streams[i]));
		EXPECT(cudaStreamQuery(streams[i]), cudaSuccess);
		CHECK(cudaStreamDestroy(streams[i]));
	}
	for (int i = 0; i < 4; i++) {
		int expected = 0;
		for (int round = 1; round <= 8; round++)
			expected = expected * 2 + round + i;
		REQUIRE(host[i] == expected);
	}
	return passed();
}
