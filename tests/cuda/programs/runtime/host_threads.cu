/* SPDX-License-Identifier: MIT
 *
 * Threads of the host that use one device at once, and streams of each other.
 */
#include <thread>

#include "../program.h"

__global__ void add(int *data, int value)
{
	atomicAdd(data + threadIdx.x, value);
}

static void work(int *data, cudaStream_t mine, cudaStream_t theirs)
{
	CHECK(cudaSetDevice(0));
	for (int i = 0; i < 50; i++) {
		add<<<1, 32, 0, mine>>>(data, 1);
		add<<<1, 32, 0, theirs>>>(data, 100);
		EXPECT(cudaGetLastError(), cudaSuccess);
		add<<<1, 2000>>>(data, 0); /* its error is this thread's alone */
		EXPECT(cudaGetLastError(), cudaErrorInvalidValue);
	}
}

int main()
{
	std::thread threads[4];
	cudaStream_t streams[4];
	int *data, host[32];

	CHECK(cudaMalloc(&data, sizeof host));
	CHECK(cudaMemset(data, 0, sizeof host));
	CHECK(cudaDeviceSynchronize());
	for (int i = 0; i < 4; i++)
		CHECK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
	for (int i = 0; i < 4; i++)
		threads[i] = std::thread(work, data, streams[i], streams[(i + 1) % 4]);
	for (int i = 0; i < 4; i++)
		threads[i].join();
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaMemcpy(host, data, sizeof host, cudaMemcpyDeviceToHost));
	for (int i = 0; i < 32; i++)
		REQUIRE(host[i] == 4 * 50 * 101);
	return passed();
}
