/* SPDX-License-Identifier: MIT
 *
 * The limits that a program sets: stack, heap, printf's buffer.
 */
#include "../program.h"

__global__ void deep(int *result, int depth)
{
	volatile char large[4096];

	for (int i = 0; i < 4096; i++)
		large[i] = i + depth;
	*result = large[4095] + large[0];
}

int main()
{
	size_t value;
	int *result, host;

	CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 8192));
	CHECK(cudaDeviceGetLimit(&value, cudaLimitStackSize));
	REQUIRE(value >= 8192);
	CHECK(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 2 << 20));
	CHECK(cudaDeviceGetLimit(&value, cudaLimitPrintfFifoSize));
	REQUIRE(value >= 2 << 20);
	CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 16 << 20));
	CHECK(cudaDeviceGetLimit(&value, cudaLimitMallocHeapSize));
	REQUIRE(value >= 16 << 20);
	EXPECT(cudaDeviceGetLimit(&value, (cudaLimit)99), cudaErrorInvalidValue);
	cudaGetLastError();
	CHECK(cudaMalloc(&result, sizeof *result));
	deep<<<1, 64>>>(result, 3);
	CHECK(cudaMemcpy(&host, result, sizeof host, cudaMemcpyDeviceToHost));
	REQUIRE(host == (char)(4095 + 3) + 3);
	return passed();
}
