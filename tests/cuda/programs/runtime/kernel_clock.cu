/* SPDX-License-Identifier: MIT
 *
 * Clocks that kernels read, and __nanosleep().
 */
#include "../program.h"

__global__ void measure(long long *out)
{
	long long start = clock64(), nanoseconds;
	clock_t small = clock();

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
	for (int i = 0; i < 100; i++)
		__nanosleep(10000);
	out[0] = clock64() - start;
	out[1] = clock() - small;
	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
	out[2] = start - nanoseconds;
}

int main()
{
	long long *device, host[3];

	CHECK(cudaMalloc(&device, sizeof host));
	measure<<<1, 1>>>(device);
	CHECK(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
	REQUIRE(host[0] > 0 && host[1] != 0);
	REQUIRE(host[2] >= 0 && host[2] < 1000 * 1000 * 1000); /* a sleep may end at once */
	return passed();
}
