/* SPDX-License-Identifier: MIT
 *
 * Cooperative groups: tiles of a warp, reductions and scans over them, and the threads that take a branch.
 */
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

#include "../program.h"

namespace cg = cooperative_groups;

struct results {
	int sum[64], highest[64], scan[64], place[64], of_branch;
};

__global__ void tiles(struct results *r)
{
	cg::thread_block block = cg::this_thread_block();
	cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
	int i = block.thread_rank();

	r->sum[i] = cg::reduce(tile, i, cg::plus<int>());
	r->highest[i] = cg::reduce(tile, i % 5, cg::greater<int>());
	r->scan[i] = cg::inclusive_scan(tile, 1);
	r->place[i] = tile.shfl(i, 2) + tile.meta_group_rank() * 1000;
	if (i % 3 == 0) {
		cg::coalesced_group branch = cg::coalesced_threads();
		if (branch.thread_rank() == 0)
			atomicAdd(&r->of_branch, branch.size());
	}
	block.sync();
}

int main()
{
	struct results host = {}, *device;

	CHECK(cudaMalloc(&device, sizeof host));
	CHECK(cudaMemset(device, 0, sizeof host));
	tiles<<<1, 64>>>(device);
	CHECK(cudaMemcpy(&host, device, sizeof host, cudaMemcpyDeviceToHost));
	for (int i = 0; i < 64; i++) {
		int first = i / 8 * 8, highest = 0;
		for (int j = first; j < first + 8; j++)
			highest = j % 5 > highest ? j % 5 : highest;
		REQUIRE(host.sum[i] == 8 * first + 28);
		REQUIRE(host.highest[i] == highest);
		REQUIRE(host.scan[i] == i % 8 + 1);
		REQUIRE(host.place[i] == first + 2 + i / 8 * 1000);
	}
	REQUIRE(host.of_branch == 22);
	return passed();
}
