/* SPDX-License-Identifier: MIT
 *
 * Shared memory of a whole cluster: counters that all blocks add to, rounds of a ring, flags and barriers of other blocks, and what
 * becomes of the rest when one fails.
 * nvcc -arch=compute_90
 */
#include <cooperative_groups.h>

#include "../program.h"

namespace cg = cooperative_groups;

enum { THREADS = 64, BINS = 32 };

/* The bins are spread over the cluster's blocks. */
__global__ void count(int *out, const int *in, int each)
{
	extern __shared__ int bins[];
	cg::cluster_group cluster = cg::this_cluster();
	int part = BINS / cluster.num_blocks(), begin = blockIdx.x * each;

	for (int i = threadIdx.x; i < part; i += THREADS)
		bins[i] = 0;
	cluster.sync();
	for (int i = threadIdx.x; i < each; i += THREADS) {
		int bin = in[begin + i];

		atomicAdd(cluster.map_shared_rank(bins, bin / part) + bin % part, 1);
	}
	cluster.sync();
	for (int i = threadIdx.x; i < part; i += THREADS)
		atomicAdd(out + cluster.block_rank() * part + i, bins[i]);
}

struct place {
	unsigned x, y, rank, cluster_x, cluster_y, clusters_x, blocks;
};

__global__ void places(place *out)
{
	cg::cluster_group cluster = cg::this_cluster();
	place *mine = out + blockIdx.y * gridDim.x + blockIdx.x;
	unsigned x, y, n;

	asm("mov.u32 %0, %%clusterid.x;" : "=r"(x));
	asm("mov.u32 %0, %%clusterid.y;" : "=r"(y));
	asm("mov.u32 %0, %%nclusterid.x;" : "=r"(n));
	if (threadIdx.x == 0)
		*mine = {cluster.block_index().x, cluster.block_index().y, cluster.block_rank(), x,
			y, n, cluster.num_blocks()};
}

/* Numbers go round the ring of blocks, with barriers of the block between those of the cluster. */
__global__ void __cluster_dims__(4) ring(int *out, int rounds)
{
	__shared__ int now[THREADS], next[THREADS];
	cg::cluster_group cluster = cg::this_cluster();
	int rank = cluster.block_rank(), t = threadIdx.x;

	now[t] = blockIdx.x * 1000 + t;
	cluster.sync();
	for (int k = 0; k < rounds; k++) {
		next[t] = cluster.map_shared_rank(now, (rank + 1) % 4)[(t + 1) % THREADS];
		cluster.sync();
		now[t] = next[t];
		__syncthreads();
		if (now[THREADS - 1 - t] < 0)
			out[0] = -1;
		cluster.sync();
	}
	out[blockIdx.x * THREADS + t] = now[t];
	cluster.sync();
}

/* A block waits for what another writes to its memory, and for arrivals at its barrier. The last block leaves at once. */
__global__ void __cluster_dims__(3) wait(int *out)
{
	__shared__ int flag;
	__shared__ unsigned long long barrier;
	unsigned long long generic;
	unsigned spaces, rank, mine = (unsigned)__cvta_generic_to_shared(&flag), other, of,
			       done = 0;
	unsigned mine_barrier = (unsigned)__cvta_generic_to_shared(&barrier), other_barrier;

	asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
	if (rank == 2)
		return;
	if (threadIdx.x == 0) {
		flag = 0;
		asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(mine_barrier) : "memory");
	}
	asm volatile("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" ::: "memory");
	asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(other) : "r"(mine), "r"(rank ^ 1));
	asm("mapa.shared::cluster.u32 %0, %1, %2;"
		: "=r"(other_barrier)
		: "r"(mine_barrier), "r"(rank ^ 1));
	asm("getctarank.shared::cluster.u32 %0, %1;" : "=r"(of) : "r"(other));
	asm("mapa.u64 %0, %1, %2;" : "=l"(generic) : "l"(&flag), "r"(rank ^ 1));
	asm("{ .reg .pred p, q, r, s; isspacep.shared::cta p, %1; isspacep.shared::cluster q, %1; isspacep.shared::cta r, %2;"
	    " isspacep.global s, %1; selp.u32 %0, 1, 0, p; @q add.u32 %0, %0, 2; @r add.u32 %0, %0, 4; @s add.u32 %0, %0, 8; }"
		: "=r"(spaces)
		: "l"(generic), "l"(&flag));
	if (threadIdx.x == 0) {
		asm volatile("st.relaxed.cluster.shared::cluster.u32 [%0], %1;" ::"r"(other),
			     "r"(7 + rank)
			     : "memory");
		while (!*(volatile int *)&flag)
			;
		asm volatile("atom.shared::cluster.add.u32 %0, [%1], 10;"
			     : "=r"(done)
			     : "r"(other)
			     : "memory");
		asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(
			other_barrier)
			     : "memory");
		for (done = 0; !done;)
			asm volatile(
				"{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0;"
				" selp.u32 %0, 1, 0, p; }"
				: "=r"(done)
				: "r"(mine_barrier)
				: "memory");
		out[2 * blockIdx.x] = flag;
		out[2 * blockIdx.x + 1] = of * 100 + spaces;
	}
	asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
}

/* The other blocks wait for one that fails. */
__global__ void __cluster_dims__(4) fail(int *out)
{
	cg::cluster_group cluster = cg::this_cluster();

	if (cluster.block_rank() == 2)
		__trap();
	cluster.sync();
	out[blockIdx.x] = 1;
}

/* The warps of the first block wait at two instructions, those of the other at one. */
__global__ void __cluster_dims__(2) roles(int *out)
{
	__shared__ int now;
	cg::cluster_group cluster = cg::this_cluster();
	int rank = cluster.block_rank(), wrong = 0;

	for (int k = 1; k < 9; k++) {
		if (rank == 0 && threadIdx.x < 32) {
			if (threadIdx.x == 0)
				now = k;
			asm volatile(
				"barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" ::
					: "memory");
		} else {
			asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
		}
		wrong += *(volatile int *)cluster.map_shared_rank(&now, 0) != k;
		asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
	}
	atomicAdd(out, wrong);
}

/* A lock in the memory of the first block, which others try to take while the one that has it looks at memory. */
__global__ void __cluster_dims__(4) lock(int *out)
{
	__shared__ int taken, counter;
	cg::cluster_group cluster = cg::this_cluster();
	int *lock = cluster.map_shared_rank(&taken, 0);
	volatile int *count = cluster.map_shared_rank(&counter, 0);

	if (threadIdx.x == 0)
		taken = counter = 0;
	cluster.sync();
	for (int k = 0; threadIdx.x == 0 && k < 10; k++) {
		while (atomicCAS(lock, 0, 1))
			;
		*count = *count + 1;
		__threadfence();
		atomicExch(lock, 0);
	}
	cluster.sync();
	if (cluster.block_rank() == 0 && threadIdx.x == 0)
		out[0] = counter;
}

/* Each block aligns its shared memory itself. */
__global__ void __cluster_dims__(4) aligned(int *out)
{
	extern __shared__ char raw[];
	cg::cluster_group cluster = cg::this_cluster();
	int *mine = (int *)(((unsigned long long)raw + 1023) & ~1023ull);
	unsigned next = (cluster.block_rank() + 1) % 4;

	if (threadIdx.x == 0)
		*mine = 100 + cluster.block_rank();
	cluster.sync();
	if (threadIdx.x == 0)
		out[cluster.block_rank()] = *cluster.map_shared_rank(mine, next);
	cluster.sync();
}

static int counted(int blocks, int of_cluster)
{
	int *in, *out, host[4096], bins[BINS] = {0}, each = 4096 / blocks;
	cudaLaunchAttribute attribute = {};
	cudaLaunchConfig_t config = {};

	for (int i = 0; i < 4096; i++) {
		host[i] = i * i / 7 % BINS;
		bins[host[i]]++;
	}
	CHECK(cudaMalloc(&in, sizeof host));
	CHECK(cudaMalloc(&out, sizeof bins));
	CHECK(cudaMemcpy(in, host, sizeof host, cudaMemcpyHostToDevice));
	CHECK(cudaMemset(out, 0, sizeof bins));
	attribute.id = cudaLaunchAttributeClusterDimension;
	attribute.val.clusterDim.x = of_cluster;
	attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
	config.gridDim = blocks;
	config.blockDim = THREADS;
	config.dynamicSmemBytes = BINS / of_cluster * sizeof(int);
	config.attrs = &attribute;
	config.numAttrs = 1;
	CHECK(cudaLaunchKernelEx(&config, count, out, (const int *)in, each));
	CHECK(cudaMemcpy(host, out, sizeof bins, cudaMemcpyDeviceToHost));
	for (int i = 0; i < BINS; i++)
		REQUIRE(host[i] == bins[i]);
	return 0;
}

static int placed()
{
	place *out, host[8 * 6];
	cudaLaunchAttribute attribute = {};
	cudaLaunchConfig_t config = {};

	CHECK(cudaMalloc(&out, sizeof host));
	attribute.id = cudaLaunchAttributeClusterDimension;
	attribute.val.clusterDim.x = 2;
	attribute.val.clusterDim.y = 3;
	attribute.val.clusterDim.z = 1;
	config.gridDim = dim3(8, 6);
	config.blockDim = 32;
	config.attrs = &attribute;
	config.numAttrs = 1;
	CHECK(cudaLaunchKernelEx(&config, places, out));
	CHECK(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
	for (unsigned y = 0; y < 6; y++)
		for (unsigned x = 0; x < 8; x++) {
			const place *p = &host[y * 8 + x];

			REQUIRE(p->x == x % 2 && p->y == y % 3 && p->rank == x % 2 + y % 3 * 2);
			REQUIRE(p->cluster_x == x / 2 && p->cluster_y == y / 3 &&
				p->clusters_x == 4);
			REQUIRE(p->blocks == 6);
		}
	return 0;
}

int main()
{
	int *out, host[8 * THREADS], has;

	CHECK(cudaDeviceGetAttribute(&has, cudaDevAttrClusterLaunch, 0));
	if (!has)
		return skipped("the device has no clusters");
	for (int n = 1; n <= 8; n *= 2)
		if (counted(16, n))
			return 1;
	if (placed())
		return 1;
	CHECK(cudaMalloc(&out, sizeof host));
	ring<<<8, THREADS>>>(out, 5);
	CHECK(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
	for (int b = 0; b < 8; b++)
		for (int t = 0; t < THREADS; t++)
			REQUIRE(host[b * THREADS + t] ==
				(b / 4 * 4 + (b + 5) % 4) * 1000 + (t + 5) % THREADS);
	wait<<<6, 32>>>(out);
	CHECK(cudaMemcpy(host, out, 12 * sizeof(int), cudaMemcpyDeviceToHost));
	for (int b = 0; b < 6; b++)
		if (b % 3 < 2)
			REQUIRE(host[2 * b] == 7 + (b % 3 ^ 1) + 10 &&
				host[2 * b + 1] == (b % 3 ^ 1) * 100 + 6);
	CHECK(cudaMemset(out, 0, sizeof(int)));
	roles<<<4, 64>>>(out);
	CHECK(cudaMemcpy(host, out, sizeof(int), cudaMemcpyDeviceToHost));
	REQUIRE(host[0] == 0);
	lock<<<4, 64>>>(out);
	CHECK(cudaMemcpy(host, out, sizeof(int), cudaMemcpyDeviceToHost));
	REQUIRE(host[0] == 40);
	aligned<<<4, 32, 2080>>>(out);
	CHECK(cudaMemcpy(host, out, 4 * sizeof(int), cudaMemcpyDeviceToHost));
	for (int b = 0; b < 4; b++)
		REQUIRE(host[b] == 100 + (b + 1) % 4);
	ring<<<6, THREADS>>>(out, 1);
	EXPECT(cudaGetLastError(), cudaErrorInvalidClusterSize);
	fail<<<8, 32>>>(out);
	EXPECT(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
	return passed();
}
