/* SPDX-License-Identifier: MIT
 *
 * assert in a kernel: the context fails with cudaErrorAssert, and stays so.
 */
#include <assert.h>

#include "../program.h"

__global__ void check(int limit)
{
	assert(threadIdx.x < limit);
}

int main()
{
	int *memory;

	check<<<1, 32>>>(32);
	CHECK(cudaDeviceSynchronize());
	check<<<1, 32>>>(31);
	CHECK(cudaGetLastError());
	EXPECT(cudaDeviceSynchronize(), cudaErrorAssert);
	EXPECT(cudaMalloc(&memory, 4), cudaErrorAssert);
	return passed();
}
