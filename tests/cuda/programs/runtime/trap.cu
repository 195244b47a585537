/* SPDX-License-Identifier: MIT
 *
 * A kernel that ends itself by __trap().
 */
#include "../program.h"

__global__ void give_up(int when)
{
	if (threadIdx.x == when)
		__trap();
}

int main()
{
	give_up<<<1, 32>>>(50);
	CHECK(cudaDeviceSynchronize());
	give_up<<<1, 32>>>(5);
	EXPECT(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
	return passed();
}
