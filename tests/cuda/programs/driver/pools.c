/* SPDX-License-Identifier: MIT
 *
 * Pools of memory in the Driver API, and what they say of themselves.
 */
#include "driver.h"

int main(void)
{
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	cuuint64_t keep = 1 << 20, used, high;
	CUmemoryPool pool;
	CUstream stream;
	CUdeviceptr first, second;
	int count = 1000, two = 2;

	begin();
	CHECK(cuStreamCreate(&stream, 0));
	CHECK(cuMemPoolCreate(&pool, &properties));
	CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	CHECK(cuMemAllocFromPoolAsync(&first, 4000, pool, stream));
	CHECK(cuMemsetD32Async(first, 5, 1000, stream));
	LAUNCH(stream, "add", 4, 256, &first, &count, &two);
	CHECK(cuMemAllocFromPoolAsync(&second, 4000, pool, stream));
	CHECK(cuMemcpyDtoDAsync(second, first, 4000, stream));
	CHECK(cuMemFreeAsync(first, stream));
	CHECK(cuStreamSynchronize(stream));
	REQUIRE(number_at(second, 999) == 7);
	CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
	CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &high));
	REQUIRE(used >= 4000 && high >= 8000 && high >= used);
	CHECK(cuMemFree(second));
	CHECK(cuMemPoolDestroy(pool));
	return passed();
}
