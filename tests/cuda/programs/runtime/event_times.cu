/* SPDX-License-Identifier: MIT
 *
 * Events: how long a kernel took, and which events have no time.
 */
#include "../program.h"

__global__ void wait_for(long long nanoseconds)
{
	long long start, now;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
	do
		asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
	while (now - start < nanoseconds);
}

int main()
{
	cudaEvent_t begin, end, untimed;
	float ms = -1;

	CHECK(cudaEventCreate(&begin));
	CHECK(cudaEventCreateWithFlags(&end, cudaEventBlockingSync));
	CHECK(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
	EXPECT(cudaEventElapsedTime(&ms, begin, end), cudaErrorInvalidResourceHandle);
	wait_for<<<1, 1>>>(1000);
	CHECK(cudaEventRecord(begin));
	wait_for<<<1, 1>>>(20 * 1000 * 1000);
	CHECK(cudaEventRecord(end));
	CHECK(cudaEventRecord(untimed));
	EXPECT(cudaEventQuery(end), cudaErrorNotReady);
	CHECK(cudaEventSynchronize(end));
	EXPECT(cudaEventQuery(end), cudaSuccess);
	CHECK(cudaEventElapsedTime(&ms, begin, end));
	REQUIRE(ms >= 19 && ms < 2000);
	EXPECT(cudaEventElapsedTime(&ms, begin, untimed), cudaErrorInvalidResourceHandle);
	CHECK(cudaEventDestroy(begin));
	return passed();
}
