/* SPDX-License-Identifier: MIT
 *
 * Host and kernel use managed memory at the same time, and wait for each other through it.
 */
#include "../program.h"

__global__ void answer(volatile int *ball, int rounds)
{
	for (int round = 0; round < rounds; round++) {
		while (*ball != 2 * round + 1)
			;
		*ball = 2 * round + 2;
	}
}

int main()
{
	const int rounds = 20;
	volatile int *ball;
	int concurrent;

	CHECK(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, 0));
	if (!concurrent)
		return skipped("the device has no concurrent managed access");
	CHECK(cudaMallocManaged((void **)&ball, sizeof *ball));
	*ball = 0;
	answer<<<1, 1>>>(ball, rounds);
	for (int round = 0; round < rounds; round++) {
		*ball = 2 * round + 1;
		while (*ball != 2 * round + 2)
			;
	}
	CHECK(cudaDeviceSynchronize());
	return passed();
}
