/* SPDX-License-Identifier: MIT
 *
 * A surface object: a kernel writes an array that the host reads.
 */
#include "driver.h"

int main(void)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = 32,
		.Format = CU_AD_FORMAT_SIGNED_INT32,
		.NumChannels = 1,
		.Flags = CUDA_ARRAY3D_SURFACE_LDST};
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
	CUsurfObject surface;
	int results[32];
	CUarray array;

	begin();
	CHECK(cuArray3DCreate(&array, &shape));
	resource.res.array.hArray = array;
	CHECK(cuSurfObjectCreate(&surface, &resource));
	LAUNCH(NULL, "store", 1, 32, &surface);
	CHECK(cuMemcpyAtoH(results, array, 0, sizeof results));
	for (int i = 0; i < 32; i++)
		REQUIRE(results[i] == 3 * i);
	CHECK(cuSurfObjectDestroy(surface));
	return passed();
}
