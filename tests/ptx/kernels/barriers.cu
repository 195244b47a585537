// SPDX-License-Identifier: MIT
// Source of barriers.ptx: nvcc -std=c++17 -ptx -arch=sm_90 barriers.cu -o barriers.ptx. Tests read the PTX only.
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda/pipeline>

using barrier = cuda::barrier<cuda::thread_scope_block>;

// 64 threads fill two buffers in turn, 64 empty them.
extern "C" __global__ void producers(const int *in, int *out, int rounds)
{
	__shared__ int buffer[2][64];
	__shared__ barrier full[2], empty[2];
	int t = threadIdx.x, sum = 0;

	if (t < 2) {
		init(&full[t], blockDim.x);
		init(&empty[t], blockDim.x);
	}
	__syncthreads();
	if (t < 64) {
		for (int k = 0; k < rounds; k++) {
			empty[k & 1].arrive_and_wait();
			buffer[k & 1][t] = in[k * 64 + t];
			(void)full[k & 1].arrive();
		}
		return;
	}
	(void)empty[0].arrive();
	(void)empty[1].arrive();
	for (int k = 0; k < rounds; k++) {
		full[k & 1].arrive_and_wait();
		sum = sum * 3 + buffer[k & 1][t * 5 & 63];
		if (k + 2 < rounds)
			(void)empty[k & 1].arrive();
	}
	out[t - 64] = sum;
}

// Copies in bulk, whose bytes a barrier counts.
extern "C" __global__ void bulk(const int *in, int *out, int rounds)
{
	__shared__ alignas(16) int buffer[256];
	__shared__ barrier come;
	auto block = cooperative_groups::this_thread_block();
	int t = threadIdx.x, sum = 0;

	if (t == 0)
		init(&come, block.size());
	block.sync();
	for (int k = 0; k < rounds; k++) {
		cuda::memcpy_async(block, buffer, in + k * 256,
			cuda::aligned_size_t<16>(sizeof(buffer)), come);
		come.arrive_and_wait();
		sum += buffer[t * 7 & 255] * (k + 1);
		block.sync();
	}
	out[t] = sum;
}

// A pipeline of two stages, whose copies arrive at its barriers.
extern "C" __global__ void stages(const int *in, int *out, int rounds)
{
	__shared__ alignas(16) int buffer[2][128];
	__shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
	auto block = cooperative_groups::this_thread_block();
	auto pipeline = cuda::make_pipeline(block, &state);
	int t = threadIdx.x, sum = 0;

	for (int k = -1; k < rounds; k++) {
		if (k + 1 < rounds) {
			pipeline.producer_acquire();
			cuda::memcpy_async(block, buffer[(k + 1) & 1], in + (k + 1) * 128,
				sizeof(*buffer), pipeline);
			pipeline.producer_commit();
		}
		if (k < 0)
			continue;
		pipeline.consumer_wait();
		block.sync();
		sum = sum * 5 + buffer[k & 1][(t + k) & 127];
		pipeline.consumer_release();
		block.sync();
	}
	out[t] = sum;
}

// Threads that leave are not waited for any more.
extern "C" __global__ void leaving(const int *in, int *out, int rounds)
{
	__shared__ barrier come;
	__shared__ int sums[16];
	int t = threadIdx.x;

	if (t == 0)
		init(&come, blockDim.x);
	if (t < 16)
		sums[t] = 0;
	__syncthreads();
	for (int k = 0; k < rounds; k++) {
		if (t % 16 == k) {
			come.arrive_and_drop();
			return;
		}
		atomicAdd(&sums[k], in[t]);
		come.arrive_and_wait();
		out[k * blockDim.x + t] = sums[k];
	}
}
