/* SPDX-License-Identifier: MIT
 *
 * The four shuffles: a reduction, a scan, a broadcast, and widths below a warp's.
 */
#include "../program.h"

struct results {
	int sum[32], scan[32], told[32], rotated[32];
	double wide[32];
};

__global__ void shuffle(struct results *r)
{
	int lane = threadIdx.x, sum = lane, scan = lane;

	for (int step = 16; step; step /= 2)
		sum += __shfl_xor_sync(~0u, sum, step);
	for (int step = 1; step < 32; step *= 2) {
		int before = __shfl_up_sync(~0u, scan, step);
		if (lane >= step)
			scan += before;
	}
	r->sum[lane] = sum;
	r->scan[lane] = scan;
	r->told[lane] = __shfl_sync(~0u, lane * 10, 3, 8);
	r->rotated[lane] = __shfl_down_sync(~0u, lane, 1, 4);
	r->wide[lane] = __shfl_sync(~0u, lane * 0.5, 31);
}

int main()
{
	struct results host, *device;

	CHECK(cudaMalloc(&device, sizeof host));
	shuffle<<<1, 32>>>(device);
	CHECK(cudaMemcpy(&host, device, sizeof host, cudaMemcpyDeviceToHost));
	for (int i = 0; i < 32; i++) {
		REQUIRE(host.sum[i] == 31 * 32 / 2);
		REQUIRE(host.scan[i] == i * (i + 1) / 2);
		REQUIRE(host.told[i] == (i / 8 * 8 + 3) * 10);
		REQUIRE(host.rotated[i] == (i % 4 == 3 ? i : i + 1));
		REQUIRE(host.wide[i] == 15.5);
	}
	return passed();
}
