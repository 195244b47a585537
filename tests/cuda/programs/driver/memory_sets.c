/* SPDX-License-Identifier: MIT
 *
 * Memory that is set by elements of 8, 16 and 32 bits, also in rows.
 */
#include <stdint.h>

#include "driver.h"

int main(void)
{
	uint8_t bytes[256];
	CUdeviceptr memory;
	uint16_t half;

	begin();
	CHECK(cuMemAlloc(&memory, sizeof bytes));
	CHECK(cuMemsetD8(memory, 1, 256));
	CHECK(cuMemsetD16(memory + 10, 0x1234, 3));
	CHECK(cuMemsetD32(memory + 64, 0xdeadbeef, 4));
	CHECK(cuMemsetD2D8(memory + 128, 16, 9, 2, 5));
	EXPECT(cuMemsetD16(memory + 1, 0, 1), CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemsetD32(memory + 2, 0, 1), CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemcpyDtoH(bytes, memory, sizeof bytes));
	memcpy(&half, bytes + 14, sizeof half);
	REQUIRE(half == 0x1234 && bytes[9] == 1 && bytes[16] == 1);
	REQUIRE(bytes[64] == 0xef && bytes[79] == 0xde && bytes[80] == 1);
	for (int i = 0; i < 5; i++)
		REQUIRE(bytes[128 + 16 * i] == 9 && bytes[129 + 16 * i] == 9 &&
			bytes[130 + 16 * i] == 1);
	return passed();
}
