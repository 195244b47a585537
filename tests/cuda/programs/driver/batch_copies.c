/* SPDX-License-Identifier: MIT
 *
 * Many copies by one call.
 */
#include "driver.h"

int main(void)
{
	enum { COUNT = 5 };
	static int host[COUNT][100];
	CUmemcpyAttributes how = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
	CUdeviceptr to[COUNT], from[COUNT];
	size_t sizes[COUNT], first = 0;
	CUstream stream;

	begin();
	CHECK(cuStreamCreate(&stream, 0));
	for (int i = 0; i < COUNT; i++) {
		for (int k = 0; k < 100; k++)
			host[i][k] = i * 1000 + k;
		to[i] = numbers(100, 0);
		from[i] = (CUdeviceptr)host[i];
		sizes[i] = sizeof host[i] - (size_t)i * 40;
	}
	CHECK(cuMemcpyBatchAsync(to, from, sizes, COUNT, &how, &first, 1, stream));
	CHECK(cuStreamSynchronize(stream));
	for (int i = 0; i < COUNT; i++) {
		REQUIRE(number_at(to[i], 0) == i * 1000);
		REQUIRE(number_at(to[i], 99) == (i ? 0 : 99));
	}
	return passed();
}
