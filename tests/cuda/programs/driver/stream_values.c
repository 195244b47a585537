/* SPDX-License-Identifier: MIT
 *
 * Streams that wait for a value in memory, and write one.
 */
#include "driver.h"

int main(void)
{
	CUstreamBatchMemOpParams both[2] = {
		{.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32,
			 .value = 3,
			 .flags = CU_STREAM_WAIT_VALUE_GEQ}},
		{.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .value = 8}}};
	CUstream first, second;
	CUdeviceptr flags;
	int one = 1;

	begin();
	flags = numbers(4, 0);
	CHECK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
	CHECK(cuFuncLoad(
		kernel("add"))); /* NVIDIA's driver does not load it while a stream waits */
	CHECK(cuCtxSynchronize());
	CHECK(cuStreamWaitValue32(first, flags, 2, CU_STREAM_WAIT_VALUE_EQ));
	LAUNCH(first, "add", 1, 1, &flags, &one, &one);
	both[0].waitValue.address = flags;
	both[1].writeValue.address = flags + 4;
	CHECK(cuStreamBatchMemOp(first, 2, both, 0));
	EXPECT(cuStreamQuery(first), CUDA_ERROR_NOT_READY);
	CHECK(cuStreamWriteValue32(second, flags, 2, 0));
	CHECK(cuStreamWriteValue64(second, flags + 8, 1ull << 32, 0));
	CHECK(cuStreamSynchronize(first));
	CHECK(cuStreamSynchronize(second));
	REQUIRE(number_at(flags, 0) == 3 && number_at(flags, 1) == 8 && number_at(flags, 3) == 1);
	return passed();
}
