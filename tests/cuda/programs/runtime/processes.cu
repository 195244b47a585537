/* SPDX-License-Identifier: MIT
 *
 * Children that fork before CUDA is used each have a context of their own; a fault in one is not the other's.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "../program.h"

__global__ void write(int *where)
{
	*where = 5;
}

static int child(bool stray)
{
	int *memory, value = 0;

	CHECK(cudaMalloc(&memory, sizeof *memory));
	write<<<1, 1>>>(stray ? (int *)64 : memory);
	EXPECT(cudaDeviceSynchronize(), stray ? cudaErrorIllegalAddress : cudaSuccess);
	if (!stray)
		CHECK(cudaMemcpy(&value, memory, sizeof value, cudaMemcpyDeviceToHost));
	REQUIRE(value == (stray ? 0 : 5));
	return 0;
}

int main()
{
	int status;

	for (int i = 0; i < 4; i++)
		if (!fork())
			return child(i % 2);
	for (int i = 0; i < 4; i++)
		REQUIRE(wait(&status) > 0 && !status);
	child(false);
	return passed();
}
