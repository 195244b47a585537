/* SPDX-License-Identifier: MIT
 *
 * More memory than there is: an error that changes nothing else.
 */
#include "../program.h"

int main()
{
	size_t available, total;
	char *memory = NULL, *other;

	CHECK(cudaMalloc(&other, 1 << 20));
	CHECK(cudaMemGetInfo(&available, &total));
	REQUIRE(available > 0 && available <= total);
	EXPECT(cudaMalloc(&memory, total * 64), cudaErrorMemoryAllocation);
	EXPECT(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
	EXPECT(cudaGetLastError(), cudaErrorMemoryAllocation);
	CHECK(cudaMemset(other, 1, 1 << 20));
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaFree(other));
	EXPECT(cudaFree(other), cudaErrorInvalidValue);
	CHECK(cudaFree(NULL));
	return passed();
}
