/* SPDX-License-Identifier: MIT
 *
 * Pools of one's own: where an allocation came from, a limit, and memory that is freed in another stream.
 */
#include "../program.h"

int main()
{
	cudaMemPoolProps properties = {};
	cudaMemPool_t pool, current;
	cudaStream_t first, second;
	cudaEvent_t done;
	char *data;

	properties.allocType = cudaMemAllocationTypePinned;
	properties.location.type = cudaMemLocationTypeDevice;
	properties.maxSize = 64 << 20;
	CHECK(cudaMemPoolCreate(&pool, &properties));
	CHECK(cudaStreamCreate(&first));
	CHECK(cudaStreamCreate(&second));
	CHECK(cudaEventCreate(&done));
	CHECK(cudaMallocFromPoolAsync(&data, 1 << 20, pool, first));
	CHECK(cudaMemsetAsync(data, 1, 1 << 20, first));
	CHECK(cudaEventRecord(done, first));
	CHECK(cudaStreamWaitEvent(second, done));
	CHECK(cudaFreeAsync(data, second));
	EXPECT(cudaMallocFromPoolAsync(&data, 1 << 30, pool, first), cudaErrorMemoryAllocation);
	cudaGetLastError();
	CHECK(cudaDeviceSetMemPool(0, pool));
	CHECK(cudaDeviceGetMemPool(&current, 0));
	REQUIRE(current == pool);
	CHECK(cudaMallocAsync(&data, 4096, first));
	CHECK(cudaFree(data));
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaMemPoolDestroy(pool));
	return passed();
}
