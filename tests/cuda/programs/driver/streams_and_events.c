/* SPDX-License-Identifier: MIT
 *
 * A kernel that holds a stream until the host lets it go: what is ready meanwhile, and what is not.
 */
#include "driver.h"

int main(void)
{
	CUstream held, free_stream;
	CUevent event;
	CUdeviceptr data, flag;
	volatile int *host_flag;
	int one = 1, count = 8;

	begin();
	data = numbers(count, 0);
	CHECK(cuMemHostAlloc((void **)&host_flag, 4, CU_MEMHOSTALLOC_DEVICEMAP));
	*host_flag = 0;
	CHECK(cuMemHostGetDevicePointer(&flag, (void *)host_flag, 0));
	CHECK(cuStreamCreate(&held, CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamCreate(&free_stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	CHECK(cuCtxSynchronize());
	LAUNCH(held, "gate", 1, 1, &flag);
	LAUNCH(held, "add", 1, 8, &data, &count, &one);
	CHECK(cuEventRecord(event, held));
	EXPECT(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	EXPECT(cuStreamQuery(held), CUDA_ERROR_NOT_READY);
	EXPECT(cuStreamQuery(free_stream), CUDA_SUCCESS);
	*host_flag = 1;
	CHECK(cuEventSynchronize(event));
	EXPECT(cuStreamQuery(held), CUDA_SUCCESS);
	REQUIRE(number_at(data, 7) == 1);
	return passed();
}
