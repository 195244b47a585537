/* SPDX-License-Identifier: MIT
 *
 * Blocks in clusters: each reads its neighbour's shared memory.
 * nvcc -arch=compute_90
 */
#include <cooperative_groups.h>

#include "../program.h"

namespace cg = cooperative_groups;

__global__ void __cluster_dims__(2) exchange(int *out)
{
	__shared__ int mine;
	cg::cluster_group cluster = cg::this_cluster();

	if (threadIdx.x == 0)
		mine = blockIdx.x * 10;
	cluster.sync();
	if (threadIdx.x == 0)
		out[blockIdx.x] = *cluster.map_shared_rank(&mine, cluster.block_rank() ^ 1);
	cluster.sync();
}

int main()
{
	int *device, host[8], has;

	CHECK(cudaDeviceGetAttribute(&has, cudaDevAttrClusterLaunch, 0));
	if (!has)
		return skipped("the device has no clusters");
	CHECK(cudaMalloc(&device, sizeof host));
	exchange<<<8, 32>>>(device);
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
	for (int i = 0; i < 8; i++)
		REQUIRE(host[i] == (i ^ 1) * 10);
	return passed();
}
