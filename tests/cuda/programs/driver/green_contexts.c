/* SPDX-License-Identifier: MIT
 *
 * Two parts of a device: what waits on the one does not keep the other from its work. Both have the memory and the
 * code of the primary context.
 */
#include "driver.h"

#define COUNT 4096

int main(void)
{
	CUdevResource all, parts[2];
	CUdevResourceDesc description;
	CUgreenCtx greens[2];
	CUcontext contexts[2], owner;
	CUstream streams[2];
	CUdeviceptr data, result;
	unsigned parts_made = 2;
	int count = COUNT, one = 1;
	volatile int *flag;
	void *host;
	CUresult error;

	begin();
	error = cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM);
	if (error == CUDA_ERROR_NOT_SUPPORTED)
		return skipped("the driver makes no green contexts");
	CHECK(error);
	REQUIRE((int)all.sm.smCount == attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
	CHECK(cuDevSmResourceSplitByCount(
		parts, &parts_made, &all, NULL, 0, all.sm.minSmPartitionSize));
	if (parts_made < 2)
		return skipped("the device is too small for two parts");
	CHECK(cuMemHostAlloc(&host, sizeof *flag, CU_MEMHOSTALLOC_DEVICEMAP));
	flag = host;
	*flag = 0;
	data = numbers(COUNT, 1);
	result = numbers(1, 0);
	CHECK(cuCtxSynchronize());
	for (int i = 0; i < 2; i++) {
		CHECK(cuDevResourceGenerateDesc(&description, &parts[i], 1));
		CHECK(cuGreenCtxCreate(
			&greens[i], description, device, CU_GREEN_CTX_DEFAULT_STREAM));
		CHECK(cuCtxFromGreenCtx(&contexts[i], greens[i]));
		CHECK(cuGreenCtxStreamCreate(&streams[i], greens[i], CU_STREAM_NON_BLOCKING, 0));
		CHECK(cuStreamGetCtx(streams[i], &owner));
		REQUIRE(owner == contexts[i]);
	}
	LAUNCH(streams[0], "gate", 1, 1, &host);
	LAUNCH(streams[1], "add", COUNT / 256, 256, &data, &count, &one);
	LAUNCH(streams[1], "sum", COUNT / 256, 256, &data, &count, &result);
	CHECK(cuStreamSynchronize(streams[1]));
	EXPECT(cuStreamQuery(streams[0]), CUDA_ERROR_NOT_READY);
	*flag = 1;
	CHECK(cuStreamSynchronize(streams[0]));
	REQUIRE(number_at(result, 0) == 2 * COUNT);
	for (int i = 0; i < 2; i++) {
		CHECK(cuStreamDestroy(streams[i]));
		CHECK(cuGreenCtxDestroy(greens[i]));
	}
	REQUIRE(number_at(data, COUNT - 1) == 2);
	CHECK(cuMemFreeHost(host));
	return passed();
}
