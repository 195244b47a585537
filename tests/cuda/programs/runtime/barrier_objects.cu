/* SPDX-License-Identifier: MIT
 *
 * cuda::barrier: half of the block produces, half consumes, and they wait for each other's phases only.
 * nvcc -arch=compute_80
 */
#include <cuda/barrier>

#include "../program.h"

enum { HALF = 64, ROUNDS = 6 };

using block_barrier = cuda::barrier<cuda::thread_scope_block>;

__global__ void hand_over(int *out)
{
	__shared__ alignas(block_barrier) char place[2][sizeof(block_barrier)];
	__shared__ int buffer[HALF];
	block_barrier *full = (block_barrier *)place[0], *empty = (block_barrier *)place[1];
	int i = threadIdx.x % HALF, sum = 0;

	if (threadIdx.x == 0) {
		init(full, 2 * HALF);
		init(empty, 2 * HALF);
	}
	__syncthreads();
	if (threadIdx.x < HALF) {
		for (int round = 0; round < ROUNDS; round++) {
			buffer[i] = round * 100 + i;
			(void)full->arrive();
			empty->arrive_and_wait();
		}
		return;
	}
	for (int round = 0; round < ROUNDS; round++) {
		full->arrive_and_wait();
		sum += buffer[HALF - 1 - i];
		(void)empty->arrive();
	}
	out[i] = sum;
}

int main()
{
	int *device, host[HALF];

	CHECK(cudaMalloc(&device, sizeof host));
	hand_over<<<1, 2 * HALF>>>(device);
	CHECK(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
	for (int i = 0; i < HALF; i++)
		REQUIRE(host[i] == 100 * 15 + ROUNDS * (HALF - 1 - i));
	return passed();
}
