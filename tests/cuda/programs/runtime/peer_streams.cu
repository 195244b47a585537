/* SPDX-License-Identifier: MIT
 *
 * A stream of one device waits for an event of another device, and an asynchronous copy goes between them.
 */
#include "../program.h"

__global__ void fill(int *data, int value)
{
	data[threadIdx.x] = value * threadIdx.x;
}

__global__ void sum(const int *data, int *result)
{
	atomicAdd(result, data[threadIdx.x]);
}

int main()
{
	cudaStream_t streams[2];
	cudaEvent_t filled;
	int *data[2], *result, host, devices;

	CHECK(cudaGetDeviceCount(&devices));
	if (devices < 2)
		return skipped("there is one device");
	for (int i = 0; i < 2; i++) {
		CHECK(cudaSetDevice(i));
		CHECK(cudaStreamCreate(&streams[i]));
		CHECK(cudaMalloc(&data[i], 128 * sizeof(int)));
	}
	CHECK(cudaMalloc(&result, sizeof *result));
	CHECK(cudaMemset(result, 0, sizeof *result));
	CHECK(cudaSetDevice(0));
	CHECK(cudaEventCreate(&filled));
	for (int round = 1; round <= 10; round++) {
		fill<<<1, 128, 0, streams[0]>>>(data[0], round);
		CHECK(cudaMemcpyPeerAsync(data[1], 1, data[0], 0, 128 * sizeof(int), streams[0]));
		CHECK(cudaEventRecord(filled, streams[0]));
		CHECK(cudaSetDevice(1));
		CHECK(cudaStreamWaitEvent(streams[1], filled));
		sum<<<1, 128, 0, streams[1]>>>(data[1], result);
		CHECK(cudaStreamSynchronize(streams[1]));
		CHECK(cudaSetDevice(0));
	}
	CHECK(cudaMemcpy(&host, result, sizeof host, cudaMemcpyDefault));
	REQUIRE(host == 127 * 64 * 55);
	return passed();
}
