/* SPDX-License-Identifier: MIT
 *
 * Parameters of all sizes: as pointers to them, and as one buffer that the program lays out itself.
 */
#include <stdint.h>

#include "driver.h"

struct mixed {
	char letter;
	double number;
	short triple[3];
};

struct layout {
	CUdeviceptr out;
	char a;
	short b;
	long long c;
	float d;
	struct mixed e;
};

int main(void)
{
	struct layout buffer = {0, 1, 20, 300, 0.5f, {2, 1000, {0, 0, 7}}};
	size_t bytes = sizeof buffer, offset, size;
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE,
		&bytes, CU_LAUNCH_PARAM_END};
	CUfunction mixed;
	double result;

	begin();
	mixed = kernel("mixed");
	buffer.out = numbers(2, 0);
	CHECK(cuLaunchKernel(mixed, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
	CHECK(cuMemcpyDtoH(&result, buffer.out, sizeof result));
	REQUIRE(result == 1330.5);
	buffer.c = 400;
	LAUNCH(NULL, "mixed", 1, 1, &buffer.out, &buffer.a, &buffer.b, &buffer.c, &buffer.d,
		&buffer.e);
	CHECK(cuMemcpyDtoH(&result, buffer.out, sizeof result));
	REQUIRE(result == 1430.5);
	CHECK(cuFuncGetParamInfo(mixed, 5, &offset, &size));
	REQUIRE(offset == offsetof(struct layout, e) && size == sizeof(struct mixed));
	EXPECT(cuFuncGetParamInfo(mixed, 6, &offset, &size), CUDA_ERROR_INVALID_VALUE);
	return passed();
}
