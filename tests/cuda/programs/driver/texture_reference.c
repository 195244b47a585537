/* SPDX-License-Identifier: MIT
 *
 * A texture reference, as programs before CUDA 5 have it: a variable of the module that the host binds.
 */
#include "driver.h"

static const char text[] = ".version 3.0\n.target sm_20\n.address_size 64\n"
			   ".global .texref image;\n"
			   ".entry fetch(.param .u64 out)\n"
			   "{\n"
			   "\t.reg .u32 %i; .reg .f32 %f<5>; .reg .u64 %d<3>;\n"
			   "\tld.param.u64 %d0, [out];\n"
			   "\tmov.u32 %i, %tid.x;\n"
			   "\tcvt.rn.f32.u32 %f4, %i;\n"
			   "\ttex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [image, {%f4, %f4}];\n"
			   "\tmul.wide.u32 %d1, %i, 4;\n"
			   "\tadd.u64 %d2, %d0, %d1;\n"
			   "\tst.global.f32 [%d2], %f0;\n"
			   "\texit;\n"
			   "}\n";

int main(void)
{
	CUDA_ARRAY_DESCRIPTOR shape = {
		.Width = 4, .Height = 4, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
	CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcPitch = 16,
		.dstMemoryType = CU_MEMORYTYPE_ARRAY,
		.WidthInBytes = 16,
		.Height = 4};
	float image[4][4], results[4];
	CUmodule other;
	CUfunction fetch;
	CUtexref reference;
	CUarray array;
	CUdeviceptr out;

	begin();
	for (int i = 0; i < 16; i++)
		image[i / 4][i % 4] = i;
	CHECK(cuArrayCreate(&array, &shape));
	copy.srcHost = image;
	copy.dstArray = array;
	CHECK(cuMemcpy2D(&copy));
	CHECK(cuModuleLoadData(&other, text));
	CHECK(cuModuleGetFunction(&fetch, other, "fetch"));
	CHECK(cuModuleGetTexRef(&reference, other, "image"));
	CHECK(cuTexRefSetArray(reference, array, CU_TRSA_OVERRIDE_FORMAT));
	CHECK(cuTexRefSetAddressMode(reference, 0, CU_TR_ADDRESS_MODE_CLAMP));
	CHECK(cuTexRefSetFilterMode(reference, CU_TR_FILTER_MODE_POINT));
	CHECK(cuMemAlloc(&out, sizeof results));
	CHECK(cuLaunchKernel(fetch, 1, 1, 1, 4, 1, 1, 0, NULL, (void *[]){&out}, NULL));
	CHECK(cuMemcpyDtoH(results, out, sizeof results));
	for (int i = 0; i < 4; i++)
		REQUIRE(results[i] == 5 * i);
	return passed();
}
