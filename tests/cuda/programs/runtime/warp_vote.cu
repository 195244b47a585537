/* SPDX-License-Identifier: MIT
 *
 * Votes of a warp: any, all, ballot, who is active in a branch, who has the same value.
 */
#include "../program.h"

struct results {
	unsigned ballot, active, any, all, same[32], every;
	int agreed;
};

__global__ void vote(struct results *r)
{
	int lane = threadIdx.x;

	r->ballot = __ballot_sync(~0u, lane % 3 == 0);
	r->any = __any_sync(~0u, lane == 17) != 0;
	r->all = __all_sync(~0u, lane < 31) != 0;
	r->same[lane] = __match_any_sync(~0u, lane / 4);
	r->every = __match_all_sync(~0u, 12, &r->agreed);
	if (lane < 10)
		r->active = __ballot_sync(0x3ff, true);
}

int main()
{
	struct results host, *device;

	CHECK(cudaMalloc(&device, sizeof host));
	vote<<<1, 32>>>(device);
	CHECK(cudaMemcpy(&host, device, sizeof host, cudaMemcpyDeviceToHost));
	REQUIRE(host.ballot == 0x49249249);
	REQUIRE(host.any == 1 && host.all == 0);
	REQUIRE(host.every == ~0u && host.agreed);
	REQUIRE(host.active == 0x3ff);
	for (int i = 0; i < 32; i++)
		REQUIRE(host.same[i] == 0xfu << i / 4 * 4);
	return passed();
}
