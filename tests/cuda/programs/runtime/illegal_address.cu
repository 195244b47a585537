/* SPDX-License-Identifier: MIT
 *
 * A kernel that writes where nothing is: an error that stays until the device is reset.
 */
#include "../program.h"

__global__ void stray(int *where)
{
	*where = 1;
}

int main()
{
	int *memory, value = 7;

	CHECK(cudaMalloc(&memory, sizeof *memory));
	stray<<<1, 1>>>((int *)16);
	EXPECT(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
	EXPECT(cudaMemcpy(&value, memory, sizeof value, cudaMemcpyDeviceToHost),
		cudaErrorIllegalAddress);
	EXPECT(cudaGetLastError(), cudaErrorIllegalAddress);
	return passed();
}
