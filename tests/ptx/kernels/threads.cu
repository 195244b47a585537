// SPDX-License-Identifier: MIT
// Source of threads.ptx: nvcc -ptx -arch=sm_90 threads.cu -o threads.ptx. Tests read the PTX only.
#include <cooperative_groups.h>

// Trips differ by thread as far as a compiler can see; two collectives with different masks.
extern "C" __global__ void rounds(unsigned *o, int n)
{
	for (int i = threadIdx.x; i < n; i += 32) {
		unsigned m = __ballot_sync(~0u, 1);

		if (threadIdx.x & 1)
			m = __shfl_sync(0xaaaaaaaa, m, 1);
		o[i] = m;
	}
}

// Groups of 8 lanes go round as often as they like.
extern "C" __global__ void groups(int *o, const int *trips)
{
	int t = threadIdx.x, n = trips[t / 8], v = t;
	unsigned mask = 0xffu << (t & 24);

	for (int k = 0; k < n; k++) {
		v += __shfl_xor_sync(mask, v, 1 + k % 7);
		if (__any_sync(mask, v == 77))
			v ^= 3;
		__syncwarp(mask);
	}
	o[t] = v;
}

extern "C" __global__ void halves(int *o)
{
	int t = threadIdx.x;

	o[t] = __reduce_add_sync(t & 16 ? 0xffff0000 : 0xffff, t);
}

// Lanes that are in different rounds of an inner loop wait at the same instruction.
extern "C" __global__ void nested(unsigned *o, int n)
{
	unsigned t = threadIdx.x, sum = 0;

	for (int k = 0; k < n; k++) {
		unsigned mask = ~0u;

		for (int i = 0;; i++) {
			bool more = i < (t * 7 + k * 3) % 5;

			mask = __ballot_sync(mask, more);
			if (!more)
				break;
			sum += __popc(mask);
		}
	}
	o[t] = sum;
}

// Each thread waits for the one after it.
extern "C" __global__ void chain(int *o)
{
	__shared__ volatile int turn;
	__shared__ int sum;
	int t = threadIdx.x;

	if (t == 0) {
		sum = 0;
		turn = blockDim.x - 1;
	}
	__syncthreads();
	while (turn != t)
		;
	sum = sum * 3 + t;
	o[blockIdx.x * blockDim.x + t] = sum;
	__threadfence_block();
	turn = t - 1;
}

extern "C" __global__ void lock(int *o)
{
	__shared__ int locked, sum;

	if (threadIdx.x == 0)
		locked = sum = 0;
	__syncthreads();
	while (atomicCAS(&locked, 0, 1))
		;
	*(volatile int *)&sum = *(volatile int *)&sum + threadIdx.x;
	__threadfence_block();
	atomicExch(&locked, 0);
	__syncthreads();
	o[threadIdx.x] = sum;
}

// Each warp waits, as a whole, until all threads of the next one have written.
extern "C" __global__ void warps(int *o)
{
	__shared__ volatile int written[256];
	int t = threadIdx.x, next = t + 32, v = 1;

	written[t] = 0;
	__syncthreads();
	if (next < blockDim.x)
		do
			v = written[next];
		while (!__all_sync(~0u, v != 0));
	v = __shfl_xor_sync(~0u, v, 1) + t;
	written[t] = v;
	o[t] = v;
}

// A thread polls through the fence of its warp.
extern "C" __global__ void fenced(int *o)
{
	__shared__ int flag;
	int t = threadIdx.x;

	if (t == 0)
		flag = 0;
	__syncthreads();
	if (t == blockDim.x - 1)
		flag = 5;
	while (flag == 0)
		__threadfence_block();
	o[t] = flag;
}

// Half of the block meets at a barrier of its own while the other half polls.
extern "C" __global__ void lower_half(int *o)
{
	__shared__ volatile int ready;
	int t = threadIdx.x;

	if (t == 0)
		ready = 0;
	__syncthreads();
	if (t >= 64) {
		asm volatile("bar.sync 1, 64;" ::: "memory");
		if (t == 64)
			ready = 9;
	}
	while (!ready)
		;
	o[t] = ready;
}

// Lanes wait for each other at different places, in vain.
extern "C" __global__ void vain(int *o, int n)
{
	int v = threadIdx.x;

	for (int i = threadIdx.x; i < n; i += 32) {
		if (threadIdx.x & 1)
			v = __shfl_sync(~0u, v, 1);
		else
			v = __any_sync(~0u, v);
	}
	o[threadIdx.x] = v;
}

// The sum of each diagonal: addresses begin below the array, and advance into it.
extern "C" __global__ void diagonal(int *o)
{
	__shared__ int s[16][16];
	int q = threadIdx.x, sum = 0;

	for (int i = q; i < 256; i += blockDim.x)
		s[i / 16][i % 16] = i * i;
	__syncthreads();
	for (int t = 0; t < 16; t++) {
		int y = q + t - 15;

		if (y >= 0 && y < 16)
			sum += s[y][t];
	}
	o[q] = sum;
}

// Each warp's role has barriers of its own, which are those of the block.
extern "C" __global__ void roles(int *o)
{
	__shared__ int s[96];
	int t = threadIdx.x;

	if (t < 32) {
		s[t] = t + 100;
		asm volatile("bar.sync 0;" ::: "memory");
		o[t] = s[t + 32] + s[t + 64];
	} else {
		s[t] = t * 2;
		asm volatile("bar.sync 0;" ::: "memory");
		o[t] = s[t - 32] + s[t & 31];
	}
}

// Reductions of one barrier, to which each warp comes by an instruction of its own; and of two barriers by one instruction.
extern "C" __global__ void counts(int4 *o)
{
	int t = threadIdx.x, n, all, any, group;

	if (t < 32) {
		n = __syncthreads_count(t % 3 == 0);
		all = __syncthreads_and(t < 32);
		any = __syncthreads_or(t < 0);
	} else {
		n = __syncthreads_count(t % 5 == 0);
		all = __syncthreads_and(t != 70);
		any = __syncthreads_or(t == 50);
	}
	asm volatile("{ .reg .pred p; setp.gt.s32 p, %2, 40; bar.red.popc.u32 %0, %1, 64, p; }"
		     : "=r"(group)
		     : "r"(1 + t / 64), "r"(t)
		     : "memory");
	o[t] = make_int4(n, all, any, group);
}

// Two warps are a tile, which meets in shared memory that is reserved for it.
extern "C" __global__ void tiles(int *o)
{
	auto tile =
		cooperative_groups::tiled_partition<64>(cooperative_groups::this_thread_block());
	int t = threadIdx.x, sum = 0;
	__shared__ int s[128];

	for (int k = 0; k <= t / 64; k++) {
		s[t] = t + k;
		tile.sync();
		sum += s[t ^ 63] + tile.shfl(t, 40) + 1000 * tile.any(t == 70);
		tile.sync();
	}
	o[t] = sum;
}

// A warp fills two buffers in turn, the others empty them: neither waits for what it has only announced.
extern "C" __global__ void producers(int *o, int rounds)
{
	__shared__ int buffer[2][32];
	int t = threadIdx.x, sum = 0;

	if (t < 32) {
		for (int k = 0; k < rounds; k++) {
			asm volatile("bar.sync %0, 128;" ::"r"(3 + k % 2) : "memory");
			buffer[k % 2][t] = k * 32 + t;
			asm volatile("bar.arrive %0, 128;" ::"r"(1 + k % 2) : "memory");
		}
	} else {
		asm volatile("bar.arrive 3, 128;" ::: "memory");
		asm volatile("bar.arrive 4, 128;" ::: "memory");
		for (int k = 0; k < rounds; k++) {
			asm volatile("bar.sync %0, 128;" ::"r"(1 + k % 2) : "memory");
			sum = sum * 3 + buffer[k % 2][t * 7 & 31];
			if (k + 2 < rounds)
				asm volatile("bar.arrive %0, 128;" ::"r"(3 + k % 2) : "memory");
		}
	}
	o[t] = sum;
}

// A cluster of one block.
extern "C" __global__ void cluster(int *o)
{
	__shared__ int s[64];
	int t = threadIdx.x;

	s[t] = t;
	asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
	int v = s[63 - t];
	asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
	asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
	s[t] = v * 2;
	__syncthreads();
	o[t] = s[t ^ 1];
}

// A barrier that wants 96 threads.
extern "C" __global__ void counted(int *o)
{
	if (threadIdx.x < 32) {
		asm volatile("bar.sync 1, 96;" ::: "memory");
		o[threadIdx.x] = 1;
	} else {
		asm volatile("bar.sync 1, 96;" ::: "memory");
		o[threadIdx.x] = 2;
	}
}
