/* SPDX-License-Identifier: MIT
 *
 * Texture and surface objects: what they are made of and say of themselves, what kernels read and write through them,
 * views, levels, graphs, and handles of nothing.
 */
#include "fixture.h"

#include <stdio.h>

/* read(texture, out, n): out[i] is the element of row i / 8 and column i % 8; level and write as their names say. */
static const char textures_ptx[] =
	".version 6.0\n.target sm_50\n.address_size 64\n"
	".visible .entry read(.param .u64 t, .param .u64 o)\n{\n"
	".reg .b64 %t, %o, %a;\n.reg .b32 %i, %x, %y, %r<4>;\n"
	"ld.param.u64 %t, [t];\nld.param.u64 %o, [o];\nmov.u32 %i, %tid.x;\n"
	"and.b32 %x, %i, 7;\nshr.u32 %y, %i, 3;\n"
	"tex.2d.v4.u32.s32 {%r0, %r1, %r2, %r3}, [%t, {%x, %y}];\n"
	"mul.wide.u32 %a, %i, 4;\nadd.u64 %a, %a, %o;\nst.global.u32 [%a], %r0;\nret;\n}\n"
	".visible .entry read_layer(.param .u64 t, .param .u64 o)\n{\n"
	".reg .b64 %t, %o, %a;\n.reg .b32 %i, %x, %y, %r<4>;\n"
	"ld.param.u64 %t, [t];\nld.param.u64 %o, [o];\nmov.u32 %i, %tid.x;\n"
	"and.b32 %x, %i, 7;\nshr.u32 %y, %i, 3;\n"
	"tex.a2d.v4.u32.s32 {%r0, %r1, %r2, %r3}, [%t, {1, %x, %y, %y}];\n"
	"mul.wide.u32 %a, %i, 4;\nadd.u64 %a, %a, %o;\nst.global.u32 [%a], %r0;\nret;\n}\n"
	".visible .entry level(.param .u64 t, .param .u64 o, .param .f32 l)\n{\n"
	".reg .b64 %t, %o;\n.reg .b32 %r<4>;\n.reg .f32 %l, %h;\n"
	"ld.param.u64 %t, [t];\nld.param.u64 %o, [o];\nld.param.f32 %l, [l];\n"
	"mov.f32 %h, 0f3F000000;\n"
	"tex.level.2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%t, {%h, %h}], %l;\n"
	"st.global.u32 [%o], %r0;\nret;\n}\n"
	".visible .entry write(.param .u64 s, .param .u32 v)\n{\n"
	".reg .b64 %s;\n.reg .b32 %i, %x, %y, %v;\n"
	"ld.param.u64 %s, [s];\nld.param.u32 %v, [v];\nmov.u32 %i, %tid.x;\n"
	"and.b32 %x, %i, 7;\nshr.u32 %y, %i, 3;\nshl.b32 %x, %x, 2;\nadd.u32 %v, %v, %i;\n"
	"sust.b.2d.b32.trap [%s, {%x, %y}], %v;\nret;\n}\n";

static CUmodule textures;
static CUdeviceptr out; /* 32 words */

static int setup(void **state)
{
	if (fixture_setup(state))
		return -1;
	assert_success(cuModuleLoadData(&textures, textures_ptx));
	out = words_alloc(32, 0);
	return 0;
}

static CUfunction kernel(const char *name)
{
	CUfunction function;

	assert_success(cuModuleGetFunction(&function, textures, name));
	return function;
}

static CUresult run(const char *name, unsigned threads, void **params)
{
	CUresult result =
		cuLaunchKernel(kernel(name), 1, 1, 1, threads, 1, 1, 0, NULL, params, NULL);

	return result != CUDA_SUCCESS ? result : cuCtxSynchronize();
}

/* Skips the test where there are no arrays. */
static CUarray words(size_t width, size_t height, size_t depth, unsigned flags)
{
	CUDA_ARRAY3D_DESCRIPTOR description = {
		width, height, depth, CU_AD_FORMAT_UNSIGNED_INT32, 1, flags};
	CUarray array = NULL;
	CUresult result = cuArray3DCreate(&array, &description);

	if (result == CUDA_ERROR_NOT_SUPPORTED && !getenv("TEST_VENDOR"))
		skip();
	assert_success(result);
	return array;
}

/* Element i of a layer is from + i. */
static void number(CUarray array, unsigned layer, uint32_t from)
{
	uint32_t elements[32];
	CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = elements,
		.srcPitch = 32,
		.srcHeight = 4,
		.dstMemoryType = CU_MEMORYTYPE_ARRAY,
		.dstArray = array,
		.dstZ = layer,
		.WidthInBytes = 32,
		.Height = 4,
		.Depth = 1};

	for (uint32_t i = 0; i < 32; i++)
		elements[i] = from + i;
	assert_success(cuMemcpy3D(&copy));
}

static CUDA_RESOURCE_DESC of_array(CUarray array)
{
	return (CUDA_RESOURCE_DESC){.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = array};
}

static void check_numbers(CUdeviceptr memory, uint32_t from)
{
	uint32_t got[32];

	assert_success(cuMemcpyDtoH(got, memory, sizeof got));
	for (uint32_t i = 0; i < 32; i++)
		assert_int_equal(got[i], from + i);
}

static void objects_say_what_they_are_made_of(void **state)
{
	CUarray array = words(8, 4, 0, CUDA_ARRAY3D_SURFACE_LDST);
	CUDA_RESOURCE_DESC resource = of_array(array), got;
	CUDA_TEXTURE_DESC sampling = {.flags = CU_TRSF_READ_AS_INTEGER,
				  .addressMode = {CU_TR_ADDRESS_MODE_BORDER,
					  CU_TR_ADDRESS_MODE_CLAMP, 0}},
			  said;
	CUDA_RESOURCE_VIEW_DESC view = {.format = CU_RES_VIEW_FORMAT_SINT_1X32,
					.width = 8,
					.height = 4},
				seen;
	CUtexObject texture;
	CUsurfObject surface;

	assert_success(cuTexObjectCreate(&texture, &resource, &sampling, &view));
	assert_success(cuTexObjectGetResourceDesc(&got, texture));
	assert_int_equal(got.resType, CU_RESOURCE_TYPE_ARRAY);
	assert_ptr_equal(got.res.array.hArray, array);
	assert_success(cuTexObjectGetTextureDesc(&said, texture));
	assert_int_equal(said.addressMode[0], CU_TR_ADDRESS_MODE_BORDER);
	assert_int_equal(said.flags, CU_TRSF_READ_AS_INTEGER);
	assert_success(cuTexObjectGetResourceViewDesc(&seen, texture));
	assert_int_equal(seen.format, CU_RES_VIEW_FORMAT_SINT_1X32);
	assert_success(cuTexObjectDestroy(texture));
	assert_success(cuSurfObjectCreate(&surface, &resource));
	assert_success(cuSurfObjectGetResourceDesc(&got, surface));
	assert_ptr_equal(got.res.array.hArray, array);
	assert_success(cuSurfObjectDestroy(surface));
	assert_success(cuArrayDestroy(array));
}

static void kernels_read_arrays_and_rows(void **state)
{
	CUarray array = words(8, 4, 0, 0);
	CUDA_RESOURCE_DESC resources[2] = {of_array(array)};
	CUDA_TEXTURE_DESC sampling = {.flags = CU_TRSF_READ_AS_INTEGER};
	CUtexObject texture;
	CUdeviceptr rows;
	size_t pitch;

	number(array, 0, 100);
	assert_success(cuMemAllocPitch(&rows, &pitch, 32, 4, 4));
	resources[1].resType = CU_RESOURCE_TYPE_PITCH2D;
	resources[1].res.pitch2D.devPtr = rows;
	resources[1].res.pitch2D.format = CU_AD_FORMAT_UNSIGNED_INT32;
	resources[1].res.pitch2D.numChannels = 1;
	resources[1].res.pitch2D.width = 8;
	resources[1].res.pitch2D.height = 4;
	resources[1].res.pitch2D.pitchInBytes = pitch;
	for (uint32_t y = 0; y < 4; y++)
		for (uint32_t x = 0; x < 8; x++)
			assert_success(cuMemsetD32(rows + y * pitch + x * 4, 200 + y * 8 + x, 1));
	for (unsigned k = 0; k < 2; k++) {
		assert_success(cuTexObjectCreate(&texture, &resources[k], &sampling, NULL));
		assert_success(run("read", 32, (void *[]){&texture, &out}));
		check_numbers(out, k ? 200 : 100);
		assert_success(cuTexObjectDestroy(texture));
	}
	assert_success(cuMemFree(rows));
	assert_success(cuArrayDestroy(array));
}

static void kernels_write_surfaces(void **state)
{
	CUarray array = words(8, 4, 0, CUDA_ARRAY3D_SURFACE_LDST);
	CUDA_RESOURCE_DESC resource = of_array(array);
	CUDA_TEXTURE_DESC sampling = {.flags = CU_TRSF_READ_AS_INTEGER};
	CUsurfObject surface;
	CUtexObject texture;
	uint32_t value = 3000;

	assert_success(cuSurfObjectCreate(&surface, &resource));
	assert_success(cuTexObjectCreate(&texture, &resource, &sampling, NULL));
	assert_success(run("write", 32, (void *[]){&surface, &value}));
	assert_success(run("read", 32, (void *[]){&texture, &out}));
	check_numbers(out, 3000);
	assert_success(cuSurfObjectDestroy(surface));
	assert_success(cuTexObjectDestroy(texture));
	assert_success(cuArrayDestroy(array));
}

static void views_are_of_some_layers(void **state)
{
	CUarray array = words(8, 4, 5, CUDA_ARRAY3D_LAYERED);
	CUDA_RESOURCE_DESC resource = of_array(array);
	CUDA_TEXTURE_DESC sampling = {.flags = CU_TRSF_READ_AS_INTEGER};
	CUDA_RESOURCE_VIEW_DESC view = {.format = CU_RES_VIEW_FORMAT_UINT_1X32,
		.width = 8,
		.height = 4,
		.depth = 2,
		.firstLayer = 2,
		.lastLayer = 3};
	CUtexObject texture, none;

	for (unsigned l = 0; l < 5; l++)
		number(array, l, 1000 * l);
	assert_success(cuTexObjectCreate(&texture, &resource, &sampling, NULL));
	assert_success(run("read_layer", 32, (void *[]){&texture, &out}));
	check_numbers(out, 1000);
	assert_success(cuTexObjectDestroy(texture));
	assert_result(
		cuTexObjectCreate(&none, &resource, &sampling, &view), CUDA_ERROR_INVALID_VALUE);
	view.depth = 5;
	assert_success(cuTexObjectCreate(&texture, &resource, &sampling, &view));
	assert_success(run("read_layer", 32, (void *[]){&texture, &out}));
	check_numbers(out, 3000);
	assert_success(cuTexObjectDestroy(texture));
	assert_success(cuArrayDestroy(array));
}

static void levels_are_read(void **state)
{
	CUDA_ARRAY3D_DESCRIPTOR description = {8, 8, 0, CU_AD_FORMAT_FLOAT, 1, 0};
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY};
	CUDA_TEXTURE_DESC sampling = {.flags = CU_TRSF_NORMALIZED_COORDINATES,
		.filterMode = CU_TR_FILTER_MODE_LINEAR,
		.mipmapFilterMode = CU_TR_FILTER_MODE_LINEAR,
		.maxMipmapLevelClamp = 10};
	CUDA_RESOURCE_VIEW_DESC view = {.format = CU_RES_VIEW_FORMAT_FLOAT_1X32,
		.width = 8,
		.height = 8,
		.firstMipmapLevel = 2,
		.lastMipmapLevel = 3};
	float image[64], lod = 1.5f, got;
	CUtexObject texture;

	words(1, 0, 0, 0);
	assert_success(
		cuMipmappedArrayCreate(&resource.res.mipmap.hMipmappedArray, &description, 4));
	for (unsigned l = 0; l < 4; l++) {
		CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
			.srcHost = image,
			.srcPitch = 32,
			.dstMemoryType = CU_MEMORYTYPE_ARRAY,
			.WidthInBytes = 32u >> l,
			.Height = 8u >> l};

		for (unsigned i = 0; i < 64; i++)
			image[i] = (float)(1 << l);
		assert_success(cuMipmappedArrayGetLevel(
			&copy.dstArray, resource.res.mipmap.hMipmappedArray, l));
		assert_success(cuMemcpy2D(&copy));
	}
	assert_success(cuTexObjectCreate(&texture, &resource, &sampling, NULL));
	assert_success(run("level", 1, (void *[]){&texture, &out, &lod}));
	assert_success(cuMemcpyDtoH(&got, out, sizeof got));
	assert_true(got == 3);
	assert_success(cuTexObjectDestroy(texture));
	assert_success(cuTexObjectCreate(&texture, &resource, &sampling, &view));
	lod = 0.5f;
	assert_success(run("level", 1, (void *[]){&texture, &out, &lod}));
	assert_success(cuMemcpyDtoH(&got, out, sizeof got));
	assert_true(got == 6);
	assert_success(cuTexObjectDestroy(texture));
	assert_success(cuMipmappedArrayDestroy(resource.res.mipmap.hMipmappedArray));
}

/* An object may be made while a stream captures, and is there when the graph runs. */
static void graphs_use_objects(void **state)
{
	CUarray array = words(8, 4, 0, 0);
	CUDA_RESOURCE_DESC resource = of_array(array);
	CUDA_TEXTURE_DESC sampling = {.flags = CU_TRSF_READ_AS_INTEGER};
	CUtexObject texture;
	CUgraphExec exec;
	CUstream stream;
	CUgraph graph;

	number(array, 0, 7);
	assert_success(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	assert_success(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	assert_success(cuTexObjectCreate(&texture, &resource, &sampling, NULL));
	assert_success(cuLaunchKernel(
		kernel("read"), 1, 1, 1, 32, 1, 1, 0, stream, (void *[]){&texture, &out}, NULL));
	assert_success(cuStreamEndCapture(stream, &graph));
	assert_success(cuGraphInstantiate(&exec, graph, 0));
	for (uint32_t k = 0; k < 3; k++) {
		number(array, 0, k * 50);
		assert_success(cuGraphLaunch(exec, stream));
		assert_success(cuStreamSynchronize(stream));
		check_numbers(out, k * 50);
	}
	assert_success(cuGraphExecDestroy(exec));
	assert_success(cuGraphDestroy(graph));
	assert_success(cuStreamDestroy(stream));
	assert_success(cuTexObjectDestroy(texture));
	assert_success(cuArrayDestroy(array));
}

static void many_objects_are_made(void **state)
{
	enum { MANY = 2000 };
	CUarray array = words(8, 4, 0, 0);
	CUDA_RESOURCE_DESC resource = of_array(array);
	CUDA_TEXTURE_DESC sampling = {.flags = CU_TRSF_READ_AS_INTEGER};
	CUtexObject *objects = calloc(MANY, sizeof *objects);

	number(array, 0, 1);
	for (unsigned k = 0; k < MANY; k++)
		assert_success(cuTexObjectCreate(&objects[k], &resource, &sampling, NULL));
	assert_success(run("read", 32, (void *[]){&objects[MANY - 1], &out}));
	check_numbers(out, 1);
	for (unsigned k = 0; k < MANY; k++)
		assert_success(cuTexObjectDestroy(objects[k]));
	assert_success(cuArrayDestroy(array));
	free(objects);
}

/* What is set of a reference is what it says; that kernels read it so is in test_api4.c. */
static void references_say_what_was_set(void **state)
{
	CUDA_ARRAY3D_DESCRIPTOR description = {8, 4, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4, 0};
	CUDA_ARRAY_DESCRIPTOR rows = {8, 4, CU_AD_FORMAT_FLOAT, 1};
	float color[4] = {1, 2, 3, 4}, got[4];
	CUarray array = words(8, 4, 0, 0), bound;
	CUmipmappedArray levels, bound_levels;
	CUarray_format format;
	CUaddress_mode mode;
	CUfilter_mode filter;
	CUdeviceptr memory, here;
	CUtexref image;
	unsigned flags;
	int number_of;

	assert_success(cuTexRefCreate(&image));
	assert_success(cuTexRefSetArray(image, array, CU_TRSA_OVERRIDE_FORMAT));
	assert_success(cuTexRefGetArray(&bound, image));
	assert_ptr_equal(bound, array);
	assert_success(cuTexRefGetFormat(&format, &number_of, image));
	assert_int_equal(format, CU_AD_FORMAT_UNSIGNED_INT32);
	assert_int_equal(number_of, 1);
	assert_success(cuMipmappedArrayCreate(&levels, &description, 3));
	assert_success(cuTexRefSetMipmappedArray(image, levels, CU_TRSA_OVERRIDE_FORMAT));
	assert_success(cuTexRefGetMipmappedArray(&bound_levels, image));
	assert_ptr_equal(bound_levels, levels);
	assert_success(cuMemAlloc(&memory, 4096));
	assert_success(cuTexRefSetAddress2D(image, &rows, memory, 512));
	assert_success(cuTexRefGetAddress(&here, image));
	assert_int_equal(here, memory);
	assert_success(cuTexRefSetAddress2D_v2(image, &rows, memory, 512));
	assert_success(cuTexRefSetFormat(image, CU_AD_FORMAT_HALF, 2));
	assert_success(cuTexRefSetAddressMode(image, 2, CU_TR_ADDRESS_MODE_MIRROR));
	assert_success(cuTexRefGetAddressMode(&mode, image, 2));
	assert_int_equal(mode, CU_TR_ADDRESS_MODE_MIRROR);
	assert_success(cuTexRefSetFilterMode(image, CU_TR_FILTER_MODE_LINEAR));
	assert_success(cuTexRefGetFilterMode(&filter, image));
	assert_int_equal(filter, CU_TR_FILTER_MODE_LINEAR);
	assert_success(cuTexRefSetMipmapFilterMode(image, CU_TR_FILTER_MODE_LINEAR));
	assert_success(cuTexRefGetMipmapFilterMode(&filter, image));
	assert_int_equal(filter, CU_TR_FILTER_MODE_LINEAR);
	assert_success(cuTexRefSetMipmapLevelBias(image, 1.5f));
	assert_success(cuTexRefGetMipmapLevelBias(got, image));
	assert_true(got[0] == 1.5f);
	assert_success(cuTexRefSetMipmapLevelClamp(image, 0.5f, 3));
	assert_success(cuTexRefGetMipmapLevelClamp(&got[0], &got[1], image));
	assert_true(got[0] == 0.5f && got[1] == 3);
	assert_success(cuTexRefSetMaxAnisotropy(image, 4));
	assert_success(cuTexRefGetMaxAnisotropy(&number_of, image));
	assert_int_equal(number_of, 4);
	assert_success(cuTexRefSetBorderColor(image, color));
	assert_success(cuTexRefGetBorderColor(got, image));
	assert_memory_equal(got, color, sizeof got);
	assert_success(cuTexRefSetFlags(image, CU_TRSF_NORMALIZED_COORDINATES));
	assert_success(cuTexRefGetFlags(&flags, image));
	assert_int_equal(flags, CU_TRSF_NORMALIZED_COORDINATES);
	assert_success(cuTexRefDestroy(image));
	assert_success(cuMemFree(memory));
	assert_success(cuMipmappedArrayDestroy(levels));
	assert_success(cuArrayDestroy(array));
}

/* On the software GPU a handle is an address, and one that is none ends the kernel, and with it the context. On hardware it
 * is a number in a table of the context, and reads of one that is none give anything of that context's. */
static void handles_of_nothing_are_errors(void **state)
{
	CUarray array = words(8, 4, 0, 0);
	CUDA_RESOURCE_DESC resource = of_array(array);
	CUDA_TEXTURE_DESC sampling = {.flags = CU_TRSF_READ_AS_INTEGER};
	CUtexObject bad[2] = {out, 12345678}, good;

	assert_success(cuTexObjectCreate(&good, &resource, &sampling, NULL));
	assert_success(cuTexObjectDestroy(good));
	assert_success(cuArrayDestroy(array));
	if (good <= UINT32_MAX)
		skip();
	for (unsigned k = 0; k < 2; k++) {
		CUdeviceptr memory = out;
		CUcontext context = NULL;

		if (k) { /* the first one has broken the session */
			assert_success(cuCtxCreate(&context, NULL, 0, fixture_device));
			assert_success(cuModuleLoadData(&textures, textures_ptx));
			memory = words_alloc(32, 0);
		}
		assert_result(
			run("read", 1, (void *[]){&bad[k], &memory}), CUDA_ERROR_ILLEGAL_ADDRESS);
		if (context)
			cuCtxDestroy(context);
	}
	assert_success(cuCtxSetCurrent(fixture_context));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(objects_say_what_they_are_made_of),
		TEST(kernels_read_arrays_and_rows),
		TEST(kernels_write_surfaces),
		TEST(views_are_of_some_layers),
		TEST(levels_are_read),
		TEST(graphs_use_objects),
		TEST(many_objects_are_made),
		TEST(references_say_what_was_set),
		TEST(handles_of_nothing_are_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
