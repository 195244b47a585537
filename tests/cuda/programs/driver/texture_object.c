/* SPDX-License-Identifier: MIT
 *
 * A texture object of an array of one dimension, with normalised bytes and linear filtering.
 */
#include "driver.h"

int main(void)
{
	CUDA_ARRAY_DESCRIPTOR shape = {
		.Width = 16, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY}, got;
	CUDA_TEXTURE_DESC how = {.filterMode = CU_TR_FILTER_MODE_LINEAR,
		.addressMode = {CU_TR_ADDRESS_MODE_CLAMP, CU_TR_ADDRESS_MODE_CLAMP,
			CU_TR_ADDRESS_MODE_CLAMP}};
	unsigned char bytes[16];
	CUtexObject texture;
	CUdeviceptr out;
	float results[32];
	CUarray array;

	begin();
	for (int i = 0; i < 16; i++)
		bytes[i] = (unsigned char)(i * 17);
	CHECK(cuArrayCreate(&array, &shape));
	CHECK(cuMemcpyHtoA(array, 0, bytes, sizeof bytes));
	resource.res.array.hArray = array;
	CHECK(cuTexObjectCreate(&texture, &resource, &how, NULL));
	CHECK(cuTexObjectGetResourceDesc(&got, texture));
	REQUIRE(got.resType == CU_RESOURCE_TYPE_ARRAY && got.res.array.hArray == array);
	CHECK(cuMemAlloc(&out, sizeof results));
	LAUNCH(NULL, "fetch", 1, 32, &texture, &out);
	CHECK(cuMemcpyDtoH(results, out, sizeof results));
	for (int i = 1; i < 32; i += 2) { /* in the middle of an element */
		float difference = results[i] - (i / 2) / 15.0f;
		REQUIRE(difference > -1e-6f && difference < 1e-6f);
	}
	REQUIRE(results[8] > 0.23f && results[8] < 0.234f); /* between 3 / 15 and 4 / 15 */
	CHECK(cuTexObjectDestroy(texture));
	CHECK(cuArrayDestroy(array));
	return passed();
}
