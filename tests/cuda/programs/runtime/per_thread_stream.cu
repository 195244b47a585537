/* SPDX-License-Identifier: MIT
 *
 * With default streams of their own, each thread's work is apart.
 * nvcc --default-stream per-thread
 */
#include <thread>

#include "../program.h"

__global__ void fill(int *data, int count, int value)
{
	for (int i = threadIdx.x; i < count; i += blockDim.x)
		data[i] = value;
}

static void work(int number)
{
	const int count = 1000;
	int *device, *host;

	CHECK(cudaMalloc(&device, count * sizeof *device));
	CHECK(cudaMallocHost(&host, count * sizeof *host));
	for (int round = 0; round < 10; round++) {
		fill<<<1, 64>>>(device, count, number * 100 + round);
		CHECK(cudaMemcpyAsync(host, device, count * sizeof *host, cudaMemcpyDeviceToHost));
		CHECK(cudaStreamSynchronize(0));
		for (int i = 0; i < count; i++)
			REQUIRE(host[i] == number * 100 + round);
	}
	CHECK(cudaFree(device));
	CHECK(cudaFreeHost(host));
}

int main()
{
	std::thread threads[4];

	for (int i = 0; i < 4; i++)
		threads[i] = std::thread(work, i);
	for (int i = 0; i < 4; i++)
		threads[i].join();
	return passed();
}
