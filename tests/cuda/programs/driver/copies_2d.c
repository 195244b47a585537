/* SPDX-License-Identifier: MIT
 *
 * Rectangles between host and device, with a place on each side.
 */
#include "driver.h"

int main(void)
{
	unsigned char host[16][16], back[16][16] = {{0}};
	CUDA_MEMCPY2D there = {.srcXInBytes = 3,
		.srcY = 2,
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcPitch = 16,
		.dstXInBytes = 1,
		.dstY = 5,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.WidthInBytes = 7,
		.Height = 6};
	CUDA_MEMCPY2D again = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstMemoryType = CU_MEMORYTYPE_HOST,
		.dstPitch = 16,
		.WidthInBytes = 16,
		.Height = 16};
	CUdeviceptr memory;
	size_t pitch;

	begin();
	for (int i = 0; i < 256; i++)
		host[i / 16][i % 16] = (unsigned char)i;
	CHECK(cuMemAllocPitch(&memory, &pitch, 16, 16, 4));
	CHECK(cuMemsetD2D8(memory, pitch, 0xee, 16, 16));
	there.srcHost = host;
	there.dstDevice = memory;
	there.dstPitch = pitch;
	CHECK(cuMemcpy2D(&there));
	again.srcDevice = memory;
	again.srcPitch = pitch;
	again.dstHost = back;
	CHECK(cuMemcpy2DAsync(&again, NULL));
	CHECK(cuStreamSynchronize(NULL));
	for (int y = 0; y < 16; y++)
		for (int x = 0; x < 16; x++) {
			int inside = x >= 1 && x < 8 && y >= 5 && y < 11;
			REQUIRE(back[y][x] == (inside ? host[y - 3][x + 2] : 0xee));
		}
	there.Height = 20;
	there.srcPitch = 5;
	EXPECT(cuMemcpy2D(&there), CUDA_ERROR_INVALID_VALUE);
	return passed();
}
