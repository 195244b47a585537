/* SPDX-License-Identifier: MIT
 *
 * Copies within a cluster: from one block's shared memory to another's, from global memory to that of several blocks, and stores and
 * updates in another block's memory, all of which barriers in memory count.
 * nvcc -arch=compute_90
 */
#include "../program.h"

enum { BLOCKS = 4, NUMBERS = 64, BYTES = NUMBERS * 4 };

__device__ unsigned of_block(const void *mine, unsigned rank)
{
	unsigned at;

	asm("mapa.shared::cluster.u32 %0, %1, %2;"
		: "=r"(at)
		: "r"((unsigned)__cvta_generic_to_shared(mine)), "r"(rank));
	return at;
}

__device__ unsigned my_rank()
{
	unsigned rank;

	asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
	return rank;
}

__device__ void meet()
{
	asm volatile("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" ::: "memory");
}

/* The barrier expects one arrival, and so many bytes. */
__device__ void expect(unsigned long long *barrier, int bytes)
{
	unsigned at = (unsigned)__cvta_generic_to_shared(barrier);

	if (threadIdx.x == 0) {
		asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(at) : "memory");
		asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
		asm volatile(
			"mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(at), "r"(bytes)
			: "memory");
	}
	meet();
}

__device__ void await(unsigned long long *barrier)
{
	unsigned done = 0;

	while (!done)
		asm volatile("{ .reg .pred p;"
			     " mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0;"
			     " selp.u32 %0, 1, 0, p; }"
			     : "=r"(done)
			     : "r"((unsigned)__cvta_generic_to_shared(barrier))
			     : "memory");
}

/* Each block sends its numbers to the next one. */
__global__ void __cluster_dims__(BLOCKS) ring(int *out)
{
	__shared__ alignas(16) int mine[NUMBERS], theirs[NUMBERS];
	__shared__ unsigned long long barrier;
	unsigned next = (my_rank() + 1) % BLOCKS;

	mine[threadIdx.x] = blockIdx.x * 100 + threadIdx.x;
	asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
	expect(&barrier, BYTES);
	if (threadIdx.x == 0)
		asm volatile(
			"cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
			" [%0], [%1], %2, [%3];" ::"r"(of_block(theirs, next)),
			"r"((unsigned)__cvta_generic_to_shared(mine)), "r"(BYTES),
			"r"(of_block(&barrier, next))
			: "memory");
	await(&barrier);
	out[blockIdx.x * NUMBERS + threadIdx.x] = theirs[threadIdx.x];
	meet();
}

/* The first block brings a part to itself and to the two last. */
__global__ void __cluster_dims__(BLOCKS) several(int *out, const int *in)
{
	__shared__ alignas(16) int part[NUMBERS];
	__shared__ unsigned long long barrier;
	unsigned rank = my_rank();
	unsigned short mask = 1 | 1 << 2 | 1 << 3;

	part[threadIdx.x] = -1;
	expect(&barrier, mask >> rank & 1 ? BYTES : 0);
	if (rank == 0 && threadIdx.x == 0)
		asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
			     ".multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(
				     (unsigned)__cvta_generic_to_shared(part)),
			     "l"(in + blockIdx.x / BLOCKS * NUMBERS), "r"(BYTES),
			     "r"((unsigned)__cvta_generic_to_shared(&barrier)), "h"(mask)
			     : "memory");
	await(&barrier);
	meet();
	out[blockIdx.x * NUMBERS + threadIdx.x] = part[threadIdx.x];
}

/* All threads store a number at the next block, and two more as a vector, and add to what the one after has. */
__global__ void __cluster_dims__(BLOCKS) stores(int *out)
{
	__shared__ alignas(16) int one[NUMBERS], two[2 * NUMBERS], sum, least;
	__shared__ unsigned long long barrier;
	unsigned rank = my_rank(), next = (rank + 1) % BLOCKS, after = (rank + 2) % BLOCKS;
	int value = blockIdx.x * 1000 + threadIdx.x;

	if (threadIdx.x == 0) {
		sum = 5;
		least = 1 << 30;
	}
	expect(&barrier, NUMBERS * (4 + 8 + 4 + 4));
	asm volatile(
		"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::
			"r"(of_block(&one[threadIdx.x], next)),
		"r"(value), "r"(of_block(&barrier, next))
		: "memory");
	asm volatile(
		"st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.s32 [%0], {%1, %2}, [%3];" ::
			"r"(of_block(&two[2 * threadIdx.x], next)),
		"r"(value + 1), "r"(value + 2), "r"(of_block(&barrier, next))
		: "memory");
	asm volatile(
		"red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32"
		" [%0], %1, [%2];" ::"r"(of_block(&sum, after)),
		"r"(value), "r"(of_block(&barrier, after))
		: "memory");
	asm volatile(
		"red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.min.s32"
		" [%0], %1, [%2];" ::"r"(of_block(&least, after)),
		"r"(value), "r"(of_block(&barrier, after))
		: "memory");
	await(&barrier);
	out[blockIdx.x * NUMBERS + threadIdx.x] =
		one[threadIdx.x] + two[2 * threadIdx.x] * 3 + two[2 * threadIdx.x + 1] * 7;
	if (threadIdx.x == 0)
		out[gridDim.x * NUMBERS + blockIdx.x] = sum * 2 + least;
	meet();
}

int main()
{
	enum { GRID = 2 * BLOCKS };
	int *out, *in, host[GRID * NUMBERS + GRID], numbers[2 * NUMBERS], has;

	CHECK(cudaDeviceGetAttribute(&has, cudaDevAttrClusterLaunch, 0));
	if (!has)
		return skipped("the device has no clusters");
	for (int k = 0; k < 2 * NUMBERS; k++)
		numbers[k] = k * k;
	CHECK(cudaMalloc(&out, sizeof host));
	CHECK(cudaMalloc(&in, sizeof numbers));
	CHECK(cudaMemcpy(in, numbers, sizeof numbers, cudaMemcpyHostToDevice));
	ring<<<GRID, NUMBERS>>>(out);
	CHECK(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
	for (int b = 0; b < GRID; b++)
		for (int k = 0; k < NUMBERS; k++)
			REQUIRE(host[b * NUMBERS + k] ==
				(b / BLOCKS * BLOCKS + (b + BLOCKS - 1) % BLOCKS) * 100 + k);
	several<<<GRID, NUMBERS>>>(out, in);
	CHECK(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
	for (int b = 0; b < GRID; b++)
		for (int k = 0; k < NUMBERS; k++)
			REQUIRE(host[b * NUMBERS + k] ==
				(b % BLOCKS == 1 ? -1 : numbers[b / BLOCKS * NUMBERS + k]));
	stores<<<GRID, NUMBERS>>>(out);
	CHECK(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
	for (int b = 0; b < GRID; b++) {
		int before = b / BLOCKS * BLOCKS + (b + BLOCKS - 1) % BLOCKS;
		int two = b / BLOCKS * BLOCKS + (b + BLOCKS - 2) % BLOCKS;

		for (int k = 0; k < NUMBERS; k++)
			REQUIRE(host[b * NUMBERS + k] == (before * 1000 + k) * 11 + 3 + 14);
		REQUIRE(host[GRID * NUMBERS + b] ==
			(5 + NUMBERS * two * 1000 + NUMBERS * (NUMBERS - 1) / 2) * 2 + two * 1000);
	}
	return passed();
}
