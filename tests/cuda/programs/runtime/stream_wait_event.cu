/* SPDX-License-Identifier: MIT
 *
 * One stream waits for an event of another.
 */
#include "../program.h"

__global__ void produce(int *data, int value)
{
	data[threadIdx.x] = value + threadIdx.x;
}

__global__ void consume(const int *data, int *sum)
{
	atomicAdd(sum, data[threadIdx.x]);
}

int main()
{
	cudaStream_t producer, consumer;
	cudaEvent_t ready, used;
	int *data, *sum, host;

	CHECK(cudaStreamCreateWithFlags(&producer, cudaStreamNonBlocking));
	CHECK(cudaStreamCreateWithFlags(&consumer, cudaStreamNonBlocking));
	CHECK(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming));
	CHECK(cudaEventCreateWithFlags(&used, cudaEventDisableTiming));
	CHECK(cudaMalloc(&data, 64 * sizeof *data));
	CHECK(cudaMalloc(&sum, sizeof *sum));
	CHECK(cudaMemset(sum, 0, sizeof *sum));
	CHECK(cudaDeviceSynchronize());
	for (int round = 0; round < 50; round++) {
		CHECK(cudaStreamWaitEvent(producer, used)); /* the first time it was not recorded */
		produce<<<1, 64, 0, producer>>>(data, round);
		CHECK(cudaEventRecord(ready, producer));
		CHECK(cudaStreamWaitEvent(consumer, ready));
		consume<<<1, 64, 0, consumer>>>(data, sum);
		CHECK(cudaEventRecord(used, consumer));
	}
	CHECK(cudaStreamSynchronize(consumer));
	CHECK(cudaMemcpy(&host, sum, sizeof host, cudaMemcpyDeviceToHost));
	REQUIRE(host == 64 * (49 * 50 / 2) + 50 * (63 * 64 / 2));
	return passed();
}
