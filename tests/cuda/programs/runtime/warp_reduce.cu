/* SPDX-License-Identifier: MIT
 *
 * Reductions that one instruction does.
 * nvcc -arch=compute_80
 */
#include "../program.h"

__global__ void reduce(unsigned *out)
{
	unsigned lane = threadIdx.x;

	out[0] = __reduce_add_sync(~0u, lane);
	out[1] = __reduce_max_sync(~0u, lane * 3 % 32);
	out[2] = __reduce_min_sync(~0u, lane + 5);
	out[3] = __reduce_or_sync(~0u, 1u << lane % 4);
	out[4] = __reduce_xor_sync(~0u, lane < 5 ? 1u << lane : 0);
	if (lane < 8)
		out[5] = __reduce_add_sync(0xff, 2);
}

int main()
{
	unsigned *device, host[6];

	CHECK(cudaMalloc(&device, sizeof host));
	reduce<<<1, 32>>>(device);
	CHECK(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
	REQUIRE(host[0] == 496 && host[1] == 31 && host[2] == 5 && host[3] == 15 && host[4] == 31 &&
		host[5] == 16);
	return passed();
}
