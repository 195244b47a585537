/* SPDX-License-Identifier: MIT
 *
 * How many blocks of a kernel fit on a multiprocessor.
 */
#include "driver.h"

int main(void)
{
	int blocks, wide, grid, block, most;

	begin();
	most = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
	CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel("add"), 128, 0));
	CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&wide, kernel("add"), 1024, 0));
	REQUIRE(blocks >= wide && wide >= 1 && blocks * 128 <= most && wide * 1024 <= most);
	CHECK(cuOccupancyMaxPotentialBlockSize(&grid, &block, kernel("add"), NULL, 0, 0));
	REQUIRE(grid >= attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) && block >= 32 &&
		block <= 1024);
	EXPECT(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel("add"), 0, 0),
		CUDA_ERROR_INVALID_VALUE);
	return passed();
}
