/* SPDX-License-Identifier: MIT
 *
 * Errors of texture and surface objects, and of references. A device without arrays answers every call that it does not support them: there
 * the tests are skipped.
 */
#include "errors.h"

static CUarray array; /* of 64 x 16 floats, with stores; NULL: there are none */
static CUDA_RESOURCE_DESC resource;
static CUtexObject texture, gone_texture;
static CUsurfObject surface, gone_surface;

static const CUDA_TEXTURE_DESC plain_sampling;

static int setup(void **state)
{
	CUDA_ARRAY3D_DESCRIPTOR description = {
		64, 16, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_SURFACE_LDST};
	CUresult result;

	if (errors_setup(state))
		return -1;
	result = cuArray3DCreate(&array, &description);
	if (result == CUDA_ERROR_NOT_SUPPORTED) {
		array = NULL;
		return 0;
	}
	assert_success(result);
	resource =
		(CUDA_RESOURCE_DESC){.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = array};
	assert_success(cuTexObjectCreate(&texture, &resource, &plain_sampling, NULL));
	assert_success(cuTexObjectCreate(&gone_texture, &resource, &plain_sampling, NULL));
	assert_success(cuSurfObjectCreate(&surface, &resource));
	assert_success(cuSurfObjectCreate(&gone_surface, &resource));
	assert_success(cuTexObjectDestroy(gone_texture));
	assert_success(cuSurfObjectDestroy(gone_surface));
	return 0;
}

static int teardown(void **state)
{
	if (array) {
		assert_success(cuTexObjectDestroy(texture));
		assert_success(cuSurfObjectDestroy(surface));
		assert_success(cuArrayDestroy(array));
	}
	return errors_teardown(state);
}

static void of_resources(void **state)
{
	CUDA_RESOURCE_DESC good = {.resType = CU_RESOURCE_TYPE_LINEAR}, bad;
	CUDA_TEXTURE_DESC sampling = plain_sampling;
	CUtexObject made;

	if (!array)
		skip();
	good.res.linear.devPtr = alive.memory;
	good.res.linear.format = CU_AD_FORMAT_FLOAT;
	good.res.linear.numChannels = 1;
	good.res.linear.sizeInBytes = 1024;
	INVALID_VALUE(cuTexObjectCreate(NULL, &good, &sampling, NULL));
	INVALID_VALUE(cuTexObjectCreate(&made, NULL, &sampling, NULL));
	INVALID_VALUE(cuTexObjectCreate(&made, &good, NULL, NULL));
	bad = good, bad.res.linear.devPtr = 0;
	INVALID_VALUE(cuTexObjectCreate(&made, &bad, &sampling, NULL));
	bad = good, bad.res.linear.devPtr += 4;
	INVALID_VALUE(cuTexObjectCreate(&made, &bad, &sampling, NULL));
	bad = good, bad.res.linear.devPtr = 1ull << 60;
	INVALID_VALUE(cuTexObjectCreate(&made, &bad, &sampling, NULL));
	bad = good, bad.res.linear.sizeInBytes = 0;
	INVALID_VALUE(cuTexObjectCreate(&made, &bad, &sampling, NULL));
	bad = good, bad.res.linear.sizeInBytes = 1ull << 50;
	INVALID_VALUE(cuTexObjectCreate(&made, &bad, &sampling, NULL));
	bad = good, bad.res.linear.numChannels = 3;
	INVALID_VALUE(cuTexObjectCreate(&made, &bad, &sampling, NULL));
	bad = good, bad.res.linear.format = (CUarray_format)0;
	INVALID_VALUE(cuTexObjectCreate(&made, &bad, &sampling, NULL));
	bad = good, bad.flags = 1;
	INVALID_VALUE(cuTexObjectCreate(&made, &bad, &sampling, NULL));
	bad = good, bad.resType = (CUresourcetype)9;
	INVALID_VALUE(cuTexObjectCreate(&made, &bad, &sampling, NULL));
	good = (CUDA_RESOURCE_DESC){.resType = CU_RESOURCE_TYPE_PITCH2D};
	good.res.pitch2D.devPtr = alive.memory;
	good.res.pitch2D.format = CU_AD_FORMAT_FLOAT;
	good.res.pitch2D.numChannels = 1;
	good.res.pitch2D.width = good.res.pitch2D.height = 16;
	good.res.pitch2D.pitchInBytes = 64;
	bad = good, bad.res.pitch2D.pitchInBytes = 32; /* less than a row */
	INVALID_VALUE(cuTexObjectCreate(&made, &bad, &sampling, NULL));
	bad = good, bad.res.pitch2D.pitchInBytes = 65;
	INVALID_VALUE(cuTexObjectCreate(&made, &bad, &sampling, NULL));
	bad = good, bad.res.pitch2D.width = 0;
	INVALID_VALUE(cuTexObjectCreate(&made, &bad, &sampling, NULL));
	bad = good, bad.res.pitch2D.height = 1ull << 40;
	INVALID_VALUE(cuTexObjectCreate(&made, &bad, &sampling, NULL));
	if (errors_of_vendor())
		return;
	good = resource, good.res.array.hArray = NULL;
	INVALID_HANDLE(cuTexObjectCreate(&made, &good, &sampling, NULL));
	INVALID_HANDLE(cuSurfObjectCreate(&made, &good));
	good.res.array.hArray = GARBAGE(CUarray);
	INVALID_HANDLE(cuTexObjectCreate(&made, &good, &sampling, NULL));
	good.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
	INVALID_HANDLE(cuTexObjectCreate(&made, &good, &sampling, NULL));
}

static void of_sampling(void **state)
{
	CUDA_ARRAY3D_DESCRIPTOR bytes = {8, 8, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0};
	CUDA_RESOURCE_DESC of_bytes = {.resType = CU_RESOURCE_TYPE_ARRAY};
	CUDA_RESOURCE_VIEW_DESC view = {
		.format = CU_RES_VIEW_FORMAT_FLOAT_1X32, .width = 64, .height = 16};
	CUDA_RESOURCE_VIEW_DESC bad_view;
	CUDA_TEXTURE_DESC bad;
	CUtexObject made;

	if (!array)
		skip();
	bad = plain_sampling, bad.flags = 0x8000;
	INVALID_VALUE(cuTexObjectCreate(&made, &resource, &bad, NULL));
	bad = plain_sampling, bad.addressMode[1] = (CUaddress_mode)9;
	INVALID_VALUE(cuTexObjectCreate(&made, &resource, &bad, NULL));
	bad = plain_sampling, bad.filterMode = (CUfilter_mode)7;
	INVALID_VALUE(cuTexObjectCreate(&made, &resource, &bad, NULL));
	bad = plain_sampling, bad.flags = CU_TRSF_SEAMLESS_CUBEMAP; /* of what is no cube */
	INVALID_VALUE(cuTexObjectCreate(&made, &resource, &bad, NULL));
	bad_view = view, bad_view.width = 63;
	INVALID_VALUE(cuTexObjectCreate(&made, &resource, &plain_sampling, &bad_view));
	bad_view = view, bad_view.format = CU_RES_VIEW_FORMAT_FLOAT_2X32;
	INVALID_VALUE(cuTexObjectCreate(&made, &resource, &plain_sampling, &bad_view));
	bad_view = view, bad_view.lastMipmapLevel = 1;
	INVALID_VALUE(cuTexObjectCreate(&made, &resource, &plain_sampling, &bad_view));
	assert_success(cuArray3DCreate(&of_bytes.res.array.hArray, &bytes));
	bad = plain_sampling, bad.filterMode = CU_TR_FILTER_MODE_LINEAR;
	bad.flags = CU_TRSF_READ_AS_INTEGER;
	INVALID_VALUE(cuTexObjectCreate(&made, &of_bytes, &bad, NULL));
	INVALID_VALUE(cuSurfObjectCreate(&made, &of_bytes)); /* without stores */
	assert_success(cuArrayDestroy(of_bytes.res.array.hArray));
	INVALID_VALUE(cuSurfObjectCreate(NULL, &resource));
	INVALID_VALUE(cuSurfObjectCreate(&made, NULL));
}

static void with_objects(CUtexObject bad, CUsurfObject bad_surface)
{
	CUDA_RESOURCE_VIEW_DESC view;
	CUDA_TEXTURE_DESC sampling;
	CUDA_RESOURCE_DESC got;

	INVALID_VALUE(cuTexObjectDestroy(bad));
	INVALID_VALUE(cuTexObjectGetResourceDesc(&got, bad));
	INVALID_VALUE(cuTexObjectGetTextureDesc(&sampling, bad));
	INVALID_VALUE(cuTexObjectGetResourceViewDesc(&view, bad));
	INVALID_VALUE(cuSurfObjectDestroy(bad_surface));
	INVALID_VALUE(cuSurfObjectGetResourceDesc(&got, bad_surface));
}

static void of_objects(void **state)
{
	CUDA_RESOURCE_VIEW_DESC view;

	if (!array)
		skip();
	if (!errors_of_vendor()) {
		with_objects(0, 0);
		with_objects((CUtexObject)alive.memory, (CUsurfObject)alive.memory);
		with_objects(gone_texture, gone_surface);
		with_objects(surface, texture);
	}
	INVALID_VALUE(cuTexObjectGetResourceDesc(NULL, texture));
	INVALID_VALUE(cuTexObjectGetTextureDesc(NULL, texture));
	INVALID_VALUE(cuTexObjectGetResourceViewDesc(NULL, texture));
	INVALID_VALUE(cuTexObjectGetResourceViewDesc(&view, texture)); /* it has none */
	INVALID_VALUE(cuSurfObjectGetResourceDesc(NULL, surface));
}

/* A reference that is none; what it is asked for is sound. */
static void with_reference(CUtexref bad, CUsurfref bad_surface)
{
	CUDA_ARRAY_DESCRIPTOR rows = {16, 16, CU_AD_FORMAT_FLOAT, 1};
	CUmipmappedArray mipmapped;
	CUarray_format format;
	CUaddress_mode mode;
	CUfilter_mode filter;
	CUdeviceptr memory;
	float numbers[4] = {0};
	unsigned flags;
	CUarray bound;
	size_t offset;
	int channels;

	INVALID_VALUE(cuTexRefDestroy(bad));
	INVALID_VALUE(cuParamSetTexRef(alive.function, CU_PARAM_TR_DEFAULT, bad));
	INVALID_VALUE(cuTexRefSetArray(bad, array, CU_TRSA_OVERRIDE_FORMAT));
	INVALID_VALUE(cuTexRefSetMipmappedArray(bad, NULL, CU_TRSA_OVERRIDE_FORMAT));
	INVALID_VALUE(cuTexRefSetAddress(&offset, bad, alive.memory, 64));
	INVALID_VALUE(cuTexRefSetAddress2D(bad, &rows, alive.memory, 64));
	INVALID_VALUE(cuTexRefSetFormat(bad, CU_AD_FORMAT_FLOAT, 1));
	INVALID_VALUE(cuTexRefSetAddressMode(bad, 0, CU_TR_ADDRESS_MODE_CLAMP));
	INVALID_VALUE(cuTexRefSetFilterMode(bad, CU_TR_FILTER_MODE_POINT));
	INVALID_VALUE(cuTexRefSetMipmapFilterMode(bad, CU_TR_FILTER_MODE_POINT));
	INVALID_VALUE(cuTexRefSetMipmapLevelBias(bad, 0));
	INVALID_VALUE(cuTexRefSetMipmapLevelClamp(bad, 0, 1));
	INVALID_VALUE(cuTexRefSetMaxAnisotropy(bad, 1));
	INVALID_VALUE(cuTexRefSetBorderColor(bad, numbers));
	INVALID_VALUE(cuTexRefSetFlags(bad, 0));
	INVALID_VALUE(cuTexRefGetAddress(&memory, bad));
	INVALID_VALUE(cuTexRefGetArray(&bound, bad));
	INVALID_VALUE(cuTexRefGetMipmappedArray(&mipmapped, bad));
	INVALID_VALUE(cuTexRefGetFormat(&format, &channels, bad));
	INVALID_VALUE(cuTexRefGetAddressMode(&mode, bad, 0));
	INVALID_VALUE(cuTexRefGetFilterMode(&filter, bad));
	INVALID_VALUE(cuTexRefGetMipmapFilterMode(&filter, bad));
	INVALID_VALUE(cuTexRefGetMipmapLevelBias(numbers, bad));
	INVALID_VALUE(cuTexRefGetMipmapLevelClamp(numbers, numbers + 1, bad));
	INVALID_VALUE(cuTexRefGetMaxAnisotropy(&channels, bad));
	INVALID_VALUE(cuTexRefGetBorderColor(numbers, bad));
	INVALID_VALUE(cuTexRefGetFlags(&flags, bad));
	INVALID_VALUE(cuSurfRefSetArray(bad_surface, array, 0));
	INVALID_VALUE(cuSurfRefGetArray(&bound, bad_surface));
}

static void of_references(void **state)
{
	CUaddress_mode mode;
	CUdeviceptr memory;
	CUsurfref area;
	CUtexref image;
	CUarray bound;

	if (!array || errors_of_vendor() || cuTexRefCreate(&image) == CUDA_ERROR_NOT_SUPPORTED)
		skip();
	with_reference(NULL, NULL);
	with_reference(GARBAGE(CUtexref), GARBAGE(CUsurfref));
	assert_success(cuTexRefDestroy(image));
	with_reference(image, NULL);
	assert_success(cuTexRefCreate(&image));
	INVALID_VALUE(cuTexRefCreate(NULL));
	INVALID_VALUE(cuTexRefSetArray(image, array, 0)); /* without its flag */
	INVALID_HANDLE(cuTexRefSetArray(image, NULL, CU_TRSA_OVERRIDE_FORMAT));
	INVALID_HANDLE(cuTexRefSetMipmappedArray(image, NULL, CU_TRSA_OVERRIDE_FORMAT));
	INVALID_VALUE(cuTexRefSetAddress(NULL, image, alive.memory + 4, 64));
	INVALID_VALUE(cuTexRefSetAddress(NULL, image, 0, 64));
	INVALID_VALUE(cuTexRefSetAddress2D(image, NULL, alive.memory, 64));
	INVALID_VALUE(cuTexRefSetFormat(image, CU_AD_FORMAT_FLOAT, 3));
	INVALID_VALUE(cuTexRefSetAddressMode(image, 3, CU_TR_ADDRESS_MODE_CLAMP));
	INVALID_VALUE(cuTexRefSetAddressMode(image, 0, (CUaddress_mode)9));
	INVALID_VALUE(cuTexRefSetFilterMode(image, (CUfilter_mode)9));
	INVALID_VALUE(cuTexRefSetMipmapFilterMode(image, (CUfilter_mode)9));
	INVALID_VALUE(cuTexRefSetBorderColor(image, NULL));
	INVALID_VALUE(cuTexRefSetFlags(image, 0x8000));
	INVALID_VALUE(cuTexRefGetAddress(&memory, image)); /* of what is not bound */
	INVALID_VALUE(cuTexRefGetArray(&bound, image));
	INVALID_VALUE(cuTexRefGetAddressMode(&mode, image, 3));
	INVALID_VALUE(cuParamSetTexRef(alive.function, CU_PARAM_TR_DEFAULT, image));
	assert_success(cuTexRefDestroy(image));
	NOT_FOUND(cuModuleGetTexRef(&image, alive.module, "no such name"));
	NOT_FOUND(cuModuleGetTexRef(&image, alive.module, "variable"));
	INVALID_VALUE(cuModuleGetTexRef(NULL, alive.module, "variable"));
	INVALID_VALUE(cuModuleGetTexRef(&image, alive.module, NULL));
	INVALID_HANDLE(cuModuleGetTexRef(&image, gone.module, "variable"));
	NOT_FOUND(cuModuleGetSurfRef(&area, alive.module, "no such name"));
	INVALID_VALUE(cuModuleGetSurfRef(NULL, alive.module, "variable"));
	INVALID_HANDLE(cuModuleGetSurfRef(&area, GARBAGE(CUmodule), "variable"));
}

#define TEXTURES_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int errors_of_textures(void)
{
	const struct CMUnitTest tests[] = {
		TEXTURES_TEST(of_resources),
		TEXTURES_TEST(of_sampling),
		TEXTURES_TEST(of_objects),
		TEXTURES_TEST(of_references),
	};

	return ERRORS_RUN(tests);
}
