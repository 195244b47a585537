/* SPDX-License-Identifier: MIT
 *
 * A program of 2011: nothing but CUDA 4.0, as its header and its guides had it. It is compiled with
 * GDEV_CUDA_API_VERSION=4000; where the vendor's library has no more of it (the calls before
 * cuLaunchKernel), the cases are skipped with TEST_VENDOR.
 */
#include "fixture.h"

#define CHECK(call) assert_int_equal(call, CUDA_SUCCESS)

static int aligned(int offset, int alignment)
{
	return (offset + alignment - 1) & ~(alignment - 1);
}

static CUdevice device;
static CUcontext context;
static CUmodule module;

static int start(void **state)
{
	int count;

	CHECK(cuInit(0));
	CHECK(cuDeviceGetCount(&count));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuCtxCreate(&context, CU_CTX_SCHED_AUTO | CU_CTX_MAP_HOST, device));
	CHECK(cuModuleLoadData(&module, kernels_ptx));
	return 0;
}

static int end(void **state)
{
	CHECK(cuModuleUnload(module));
	CHECK(cuCtxDestroy(context));
	return 0;
}

static void the_version_is_that_of_the_program(void **state)
{
	assert_int_equal(CUDA_VERSION, 4000);
	assert_int_equal(sizeof(CUdeviceptr), 8);
}

/* The way of matrixMulDrv, in which the parameters are set one after the other. */
static void parameters_are_set_one_after_the_other(void **state)
{
	uint32_t words[1000], n = 1000, v = 41;
	CUfunction function;
	CUdeviceptr memory;
	CUstream stream;
	int offset = 0;

	if (getenv("TEST_VENDOR"))
		skip();
	CHECK(cuModuleGetFunction(&function, module, "add"));
	CHECK(cuMemAlloc(&memory, sizeof words));
	CHECK(cuMemsetD32(memory, 1, 1000));
	offset = aligned(offset, (int)__alignof(memory));
	CHECK(cuParamSetv(function, offset, &memory, sizeof memory));
	offset += sizeof memory;
	offset = aligned(offset, (int)__alignof(n));
	CHECK(cuParamSeti(function, offset, n));
	offset += sizeof n;
	CHECK(cuParamSeti(function, offset, v));
	offset += sizeof v;
	CHECK(cuParamSetSize(function, (unsigned)offset));
	CHECK(cuFuncSetSharedSize(function, 0));
	CHECK(cuFuncSetBlockShape(function, 100, 1, 1));
	CHECK(cuStreamCreate(&stream, 0));
	CHECK(cuLaunchGrid(function, 10, 1));
	CHECK(cuLaunchGridAsync(function, 10, 1, stream));
	CHECK(cuFuncSetBlockShape(function, 1000, 1, 1));
	CHECK(cuLaunch(function));
	CHECK(cuCtxSynchronize());
	CHECK(cuMemcpyDtoH(words, memory, sizeof words));
	for (int i = 0; i < 1000; i++)
		assert_int_equal(words[i], 1 + 3 * 41);
	assert_int_equal(cuParamSetf(NULL, 0, 1.0f), CUDA_ERROR_INVALID_HANDLE);
	CHECK(cuParamSetf(function, 12, 0.0f)); /* a zero of either kind */
	CHECK(cuLaunch(function));
	CHECK(cuMemcpyDtoH(words, memory, sizeof words));
	assert_int_equal(words[999], 1 + 3 * 41);
	CHECK(cuStreamDestroy(stream));
	CHECK(cuMemFree(memory));
}

/* What 4.0 brought: cuLaunchKernel, registered memory, pointers of one address space. */
static void what_4_0_brought(void **state)
{
	uint32_t *words = aligned_alloc(4096, 4096), n = 1024, v = 1;
	CUdeviceptr memory;
	CUmemorytype type;
	void *params[] = {&memory, &n, &v};
	CUfunction function;

	CHECK(cuModuleGetFunction(&function, module, "add"));
	CHECK(cuMemAlloc(&memory, 4096));
	memset(words, 0, 4096);
	CHECK(cuMemHostRegister(words, 4096, 0));
	CHECK(cuMemcpyHtoDAsync(memory, words, 4096, NULL));
	CHECK(cuLaunchKernel(function, 4, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
	CHECK(cuMemcpyDtoHAsync(words, memory, 4096, NULL));
	CHECK(cuCtxSynchronize());
	assert_int_equal(words[1023], 1);
	CHECK(cuMemHostUnregister(words));
	CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory));
	assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
	CHECK(cuMemFree(memory));
	free(words);
}

static void contexts_are_attached_pushed_and_popped(void **state)
{
	CUcontext other, popped;

	CHECK(cuCtxCreate(&other, 0, device));
	CHECK(cuCtxPopCurrent(&popped));
	assert_ptr_equal(popped, other);
	CHECK(cuCtxPushCurrent(other));
	CHECK(cuCtxDestroy(other));
	CHECK(cuCtxSetCurrent(context));
	if (getenv("TEST_VENDOR"))
		return;
	CHECK(cuCtxAttach(&other, 0));
	assert_ptr_equal(other, context);
	CHECK(cuCtxDetach(other)); /* once for the attach: it is still there */
	CHECK(cuCtxSynchronize());
}

static void events_measure(void **state)
{
	CUevent begin, finish;
	float ms = -1;

	CHECK(cuEventCreate(&begin, CU_EVENT_DEFAULT));
	CHECK(cuEventCreate(&finish, CU_EVENT_DEFAULT));
	CHECK(cuEventRecord(begin, 0));
	CHECK(cuEventRecord(finish, 0));
	CHECK(cuEventSynchronize(finish));
	CHECK(cuEventElapsedTime(&ms, begin, finish));
	assert_true(ms >= 0);
	CHECK(cuEventDestroy(begin));
	CHECK(cuEventDestroy(finish));
}

/* As its compiler wrote references then; `fetch` writes what is at (x + 0.5, y + 0.5), `store` turns an array around. */
static const char references_ptx[] =
	".version 3.0\n.target sm_20\n.address_size 64\n"
	".global .texref image;\n.global .texref line;\n.global .surfref area;\n"
	".entry fetch(.param .u64 p_out)\n{\n"
	".reg .b64 %o, %a;\n.reg .b32 %x, %y, %i, %r<4>;\n.reg .f32 %f<8>;\n"
	"ld.param.u64 %o, [p_out];\nmov.u32 %x, %tid.x;\nmov.u32 %y, %tid.y;\n"
	"cvt.rn.f32.u32 %f0, %x;\nadd.f32 %f0, %f0, 0f3F000000;\n"
	"cvt.rn.f32.u32 %f1, %y;\nadd.f32 %f1, %f1, 0f3F000000;\n"
	"tex.2d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [image, {%f0, %f1, %f1, %f1}];\n"
	"shl.b32 %i, %y, 3;\nadd.u32 %i, %i, %x;\nmul.wide.u32 %a, %i, 4;\nadd.u64 %o, %o, %a;\n"
	"st.global.f32 [%o], %f2;\nret;\n}\n"
	".entry words(.param .u64 p_out)\n{\n"
	".reg .b64 %o, %a;\n.reg .b32 %i, %j, %r<4>;\n"
	"ld.param.u64 %o, [p_out];\nmov.u32 %i, %tid.x;\nadd.s32 %j, %i, 1;\n"
	"tex.1d.v4.u32.s32 {%r0, %r1, %r2, %r3}, [line, {%j, %j, %j, %j}];\n"
	"mul.wide.u32 %a, %i, 4;\nadd.u64 %o, %o, %a;\nst.global.u32 [%o], %r0;\nret;\n}\n"
	".entry store()\n{\n.reg .b32 %x, %y, %v;\n"
	"mov.u32 %x, %tid.x;\nmov.u32 %y, %tid.y;\nshl.b32 %x, %x, 2;\n"
	"suld.b.2d.b32.trap %v, [area, {%x, %y}];\nadd.u32 %v, %v, 1;\n"
	"sust.b.2d.b32.trap [area, {%x, %y}], %v;\nret;\n}\n";

static CUfunction of_block(CUmodule of, const char *name, int width, int height)
{
	CUfunction function;

	CHECK(cuModuleGetFunction(&function, of, name));
	CHECK(cuFuncSetBlockShape(function, width, height, 1));
	return function;
}

static void launch_with(CUfunction function, CUdeviceptr out)
{
	CHECK(cuParamSetv(function, 0, &out, sizeof out));
	CHECK(cuParamSetSize(function, sizeof out));
	CHECK(cuLaunchGrid(function, 1, 1));
}

static void rows_into(CUarray array, const void *rows)
{
	CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = rows,
		.srcPitch = 32,
		.dstMemoryType = CU_MEMORYTYPE_ARRAY,
		.dstArray = array,
		.WidthInBytes = 32,
		.Height = 4};

	CHECK(cuMemcpy2D(&copy));
}

static void a_texture_reference_reads_what_is_bound(void **state)
{
	CUDA_ARRAY_DESCRIPTOR description = {8, 4, CU_AD_FORMAT_FLOAT, 1};
	float in[32], got[32];
	CUdeviceptr out, rows;
	CUfunction fetch;
	CUtexref image;
	CUmodule code;
	CUarray array;
	CUresult result;
	size_t pitch;

	if (getenv("TEST_VENDOR"))
		skip();
	result = cuArrayCreate(&array, &description);
	if (result == CUDA_ERROR_NOT_SUPPORTED)
		skip();
	CHECK(result);
	for (int i = 0; i < 32; i++)
		in[i] = (float)i;
	rows_into(array, in);
	CHECK(cuModuleLoadData(&code, references_ptx));
	CHECK(cuMemAlloc(&out, sizeof got));
	CHECK(cuModuleGetTexRef(&image, code, "image"));
	CHECK(cuTexRefSetArray(image, array, CU_TRSA_OVERRIDE_FORMAT));
	CHECK(cuTexRefSetAddressMode(image, 0, CU_TR_ADDRESS_MODE_CLAMP));
	CHECK(cuTexRefSetAddressMode(image, 1, CU_TR_ADDRESS_MODE_CLAMP));
	CHECK(cuTexRefSetFilterMode(image, CU_TR_FILTER_MODE_LINEAR));
	CHECK(cuTexRefSetFlags(image, 0));
	CHECK(cuTexRefSetFormat(image, CU_AD_FORMAT_FLOAT, 1));
	fetch = of_block(code, "fetch", 8, 4);
	CHECK(cuParamSetTexRef(fetch, CU_PARAM_TR_DEFAULT, image));
	launch_with(fetch, out);
	CHECK(cuMemcpyDtoH(got, out, sizeof got));
	assert_memory_equal(got, in, sizeof got);

	/* The same with rows of memory; the first launch is not touched by what is set after it. */
	CHECK(cuMemAllocPitch(&rows, &pitch, 32, 4, 4));
	for (unsigned y = 0; y < 4; y++)
		CHECK(cuMemsetD32(rows + y * pitch, 0x40000000, 8)); /* 2 */
	launch_with(fetch, out);
	CHECK(cuTexRefSetAddress2D(image, &description, rows, pitch));
	CHECK(cuMemcpyDtoH(got, out, sizeof got));
	assert_memory_equal(got, in, sizeof got);
	launch_with(fetch, out);
	CHECK(cuMemcpyDtoH(got, out, sizeof got));
	for (int i = 0; i < 32; i++)
		assert_true(got[i] == 2);
	CHECK(cuMemFree(rows));
	CHECK(cuMemFree(out));
	CHECK(cuModuleUnload(code));
	CHECK(cuArrayDestroy(array));
}

static void a_texture_reference_reads_linear_memory(void **state)
{
	uint32_t in[20], got[20];
	CUdeviceptr memory, out;
	CUtexref line;
	CUmodule code;
	CUresult result;
	size_t offset;

	if (getenv("TEST_VENDOR"))
		skip();
	CHECK(cuModuleLoadData(&code, references_ptx));
	result = cuModuleGetTexRef(&line, code, "line");
	if (result == CUDA_ERROR_NOT_SUPPORTED) {
		cuModuleUnload(code);
		skip();
	}
	CHECK(result);
	for (uint32_t i = 0; i < 20; i++)
		in[i] = 1000 + i;
	CHECK(cuMemAlloc(&memory, 4096));
	CHECK(cuMemAlloc(&out, sizeof got));
	CHECK(cuMemcpyHtoD(memory + 4, in, sizeof in));
	CHECK(cuTexRefSetFormat(line, CU_AD_FORMAT_UNSIGNED_INT32, 1));
	CHECK(cuTexRefSetFlags(line, CU_TRSF_READ_AS_INTEGER));
	CHECK(cuTexRefSetAddress(&offset, line, memory + 4, sizeof in));
	assert_int_equal(offset, 4);
	launch_with(of_block(code, "words", 20, 1), out);
	CHECK(cuMemcpyDtoH(got, out, sizeof got));
	assert_memory_equal(got, in, sizeof got);
	CHECK(cuMemFree(memory));
	CHECK(cuMemFree(out));
	CHECK(cuModuleUnload(code));
}

static void a_surface_reference_is_read_and_written(void **state)
{
	CUDA_ARRAY3D_DESCRIPTOR description = {
		8, 4, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, CUDA_ARRAY3D_SURFACE_LDST};
	uint32_t in[32], got[32];
	CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
		.dstMemoryType = CU_MEMORYTYPE_HOST,
		.dstHost = got,
		.dstPitch = 32,
		.WidthInBytes = 32,
		.Height = 4};
	CUfunction store;
	CUsurfref area;
	CUarray bound;
	CUmodule code;
	CUresult result;

	if (getenv("TEST_VENDOR"))
		skip();
	result = cuArray3DCreate(&copy.srcArray, &description);
	if (result == CUDA_ERROR_NOT_SUPPORTED)
		skip();
	CHECK(result);
	for (uint32_t i = 0; i < 32; i++)
		in[i] = i * 3;
	rows_into(copy.srcArray, in);
	CHECK(cuModuleLoadData(&code, references_ptx));
	CHECK(cuModuleGetSurfRef(&area, code, "area"));
	CHECK(cuSurfRefSetArray(area, copy.srcArray, 0));
	CHECK(cuSurfRefGetArray(&bound, area));
	assert_ptr_equal(bound, copy.srcArray);
	store = of_block(code, "store", 8, 4);
	CHECK(cuParamSetSize(store, 0));
	CHECK(cuLaunchGrid(store, 1, 1));
	CHECK(cuMemcpy2D(&copy));
	for (uint32_t i = 0; i < 32; i++)
		assert_int_equal(got[i], i * 3 + 1);
	CHECK(cuModuleUnload(code));
	CHECK(cuArrayDestroy(copy.srcArray));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)

/* As the first Gdev added it, by the names that mean something else today. */
static void device_memory_is_mapped(void **state)
{
	CUdeviceptr memory;
	CUresult result;
	uint32_t *words;

	if (getenv("TEST_VENDOR"))
		skip();
	CHECK(cuMemAlloc(&memory, 4096));
	result = cuMemMap((void **)&words, memory, 4096);
	if (result != CUDA_ERROR_NOT_SUPPORTED) { /* an NVIDIA GPU's cannot be */
		CHECK(result);
		words[5] = 4711;
		words[6] = 0;
		CHECK(cuMemcpyDtoD(memory + 24, memory + 20, 4));
		CHECK(cuCtxSynchronize());
		assert_int_equal(words[6], 4711);
		CHECK(cuMemUnmap(words));
	}
	CHECK(cuMemFree(memory));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(device_memory_is_mapped),
		TEST(the_version_is_that_of_the_program),
		TEST(parameters_are_set_one_after_the_other),
		TEST(what_4_0_brought),
		TEST(contexts_are_attached_pushed_and_popped),
		TEST(events_measure),
		TEST(a_texture_reference_reads_what_is_bound),
		TEST(a_texture_reference_reads_linear_memory),
		TEST(a_surface_reference_is_read_and_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
