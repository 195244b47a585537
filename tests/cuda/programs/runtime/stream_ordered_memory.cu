/* SPDX-License-Identifier: MIT
 *
 * cudaMallocAsync and cudaFreeAsync: what is freed in a stream serves the next allocation there; a pool keeps memory.
 */
#include "../program.h"

__global__ void fill(int *data, int value)
{
	data[threadIdx.x] = value;
}

int main()
{
	unsigned long long threshold = ~0ull, reserved, used;
	cudaMemPool_t pool;
	cudaStream_t stream;
	int *data, host[256];

	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
	CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
	for (int round = 0; round < 20; round++) {
		CHECK(cudaMallocAsync(&data, sizeof host, stream));
		fill<<<1, 256, 0, stream>>>(data, round);
		CHECK(cudaMemcpyAsync(host, data, sizeof host, cudaMemcpyDeviceToHost, stream));
		CHECK(cudaFreeAsync(data, stream));
		CHECK(cudaStreamSynchronize(stream));
		REQUIRE(host[0] == round && host[255] == round);
	}
	CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved));
	CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
	REQUIRE(reserved > 0 && used == 0);
	CHECK(cudaMemPoolTrimTo(pool, 0));
	CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved));
	REQUIRE(reserved == 0);
	return passed();
}
