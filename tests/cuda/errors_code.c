/* SPDX-License-Identifier: MIT
 *
 * Errors of modules, libraries, functions, and launches.
 */
#include "errors.h"

static void with_module(CUmodule bad)
{
	CUfunction function;
	CUdeviceptr memory;
	unsigned count;
	size_t bytes;

	INVALID_HANDLE(cuModuleUnload(bad));
	INVALID_HANDLE(cuModuleGetFunction(&function, bad, "add"));
	INVALID_HANDLE(cuModuleGetGlobal(&memory, &bytes, bad, "variable"));
	INVALID_HANDLE(cuModuleGetFunctionCount(&count, bad));
	INVALID_HANDLE(cuModuleEnumerateFunctions(&function, 1, bad));
}

static void of_modules(void **state)
{
	CUfunction function;
	CUdeviceptr memory;
	CUmodule module;
	size_t bytes;

	with_module(NULL);
	OURS(with_module(GARBAGE(CUmodule)));
	OURS(with_module(gone.module));
	OURS(with_module((CUmodule)(void *)alive.function));
	INVALID_VALUE(cuModuleLoad(NULL, "/no/such/file"));
	INVALID_VALUE(cuModuleLoad(&module, NULL));
	REFUSED(CUDA_ERROR_FILE_NOT_FOUND, cuModuleLoad(&module, "/no/such/file"));
	INVALID_VALUE(cuModuleLoadData(NULL, kernels_ptx));
	INVALID_VALUE(cuModuleLoadData(&module, NULL));
	REFUSED(CUDA_ERROR_INVALID_PTX, cuModuleLoadData(&module, ".version 7.0\nnonsense"));
	INVALID_VALUE(cuModuleLoadDataEx(NULL, kernels_ptx, 0, NULL, NULL));
	INVALID_VALUE(cuModuleLoadDataEx(&module, NULL, 0, NULL, NULL));
	INVALID_VALUE(cuModuleLoadDataEx(&module, kernels_ptx, 1, NULL, NULL));
	INVALID_VALUE(cuModuleLoadFatBinary(NULL, kernels_ptx));
	INVALID_VALUE(cuModuleLoadFatBinary(&module, NULL));
	INVALID_VALUE(cuModuleGetFunction(NULL, alive.module, "add"));
	INVALID_VALUE(cuModuleGetFunction(&function, alive.module, NULL));
	NOT_FOUND(cuModuleGetFunction(&function, alive.module, "nobody"));
	INVALID_VALUE(cuModuleGetGlobal(&memory, &bytes, alive.module, NULL));
	NOT_FOUND(cuModuleGetGlobal(&memory, &bytes, alive.module, "nobody"));
	INVALID_VALUE(cuModuleGetFunctionCount(NULL, alive.module));
	INVALID_VALUE(cuModuleEnumerateFunctions(NULL, 1, alive.module));
	CRASHES(CUDA_ERROR_INVALID_VALUE, cuModuleGetLoadingMode(NULL));
}

static void with_link(CUlinkState bad)
{
	size_t bytes;
	void *image;

	INVALID_HANDLE(cuLinkAddData(
		bad, CU_JIT_INPUT_PTX, (void *)kernels_ptx, 1000, "kernels", 0, NULL, NULL));
	INVALID_HANDLE(cuLinkAddFile(bad, CU_JIT_INPUT_PTX, "/no/such/file", 0, NULL, NULL));
	INVALID_HANDLE(cuLinkComplete(bad, &image, &bytes));
	INVALID_HANDLE(cuLinkDestroy(bad));
}

static void of_links(void **state)
{
	void *ptx = (void *)kernels_ptx;
	CUlinkState link;
	size_t bytes;

	with_link(NULL);
	OURS(with_link(GARBAGE(CUlinkState)));
	OURS(with_link(gone.link));
	OURS(with_link((CUlinkState)(void *)alive.module));
	INVALID_VALUE(cuLinkCreate(0, NULL, NULL, NULL));
	INVALID_VALUE(cuLinkCreate(1, NULL, NULL, &link));
	INVALID_VALUE(cuLinkAddData(alive.link, CU_JIT_INPUT_PTX, NULL, 16, "", 0, NULL, NULL));
	INVALID_VALUE(cuLinkAddData(alive.link, CU_JIT_INPUT_PTX, ptx, 0, "", 0, NULL, NULL));
	INVALID_VALUE(cuLinkAddData(alive.link, 99, ptx, 16, "", 0, NULL, NULL));
	INVALID_VALUE(cuLinkAddFile(alive.link, CU_JIT_INPUT_PTX, NULL, 0, NULL, NULL));
	REFUSED(CUDA_ERROR_FILE_NOT_FOUND,
		cuLinkAddFile(alive.link, CU_JIT_INPUT_PTX, "/no/such/file", 0, NULL, NULL));
	INVALID_VALUE(cuLinkComplete(alive.link, NULL, &bytes));
}

static void with_library(CUlibrary bad)
{
	CUdeviceptr memory;
	CUkernel kernel;
	CUmodule module;
	unsigned count;
	void *function;
	size_t bytes;

	INVALID_HANDLE(cuLibraryUnload(bad));
	INVALID_HANDLE(cuLibraryGetKernel(&kernel, bad, "add"));
	INVALID_HANDLE(cuLibraryGetModule(&module, bad));
	INVALID_HANDLE(cuLibraryGetKernelCount(&count, bad));
	INVALID_HANDLE(cuLibraryEnumerateKernels(&kernel, 1, bad));
	INVALID_HANDLE(cuLibraryGetGlobal(&memory, &bytes, bad, "variable"));
	INVALID_HANDLE(cuLibraryGetManaged(&memory, &bytes, bad, "variable"));
	INVALID_HANDLE(cuLibraryGetUnifiedFunction(&function, bad, "add"));
}

static void of_libraries(void **state)
{
	CUlibrary library;
	CUdeviceptr memory;
	CUkernel kernel;
	void *function;
	size_t bytes;

	with_library(NULL);
	OURS(with_library(GARBAGE(CUlibrary)));
	OURS(with_library(gone.library));
	OURS(with_library((CUlibrary)(void *)alive.module));
	INVALID_VALUE(cuLibraryLoadData(NULL, kernels_ptx, NULL, NULL, 0, NULL, NULL, 0));
	INVALID_VALUE(cuLibraryLoadData(&library, NULL, NULL, NULL, 0, NULL, NULL, 0));
	INVALID_VALUE(cuLibraryLoadData(&library, kernels_ptx, NULL, NULL, 1, NULL, NULL, 0));
	CRASHES(CUDA_ERROR_INVALID_VALUE,
		cuLibraryLoadData(&library, kernels_ptx, NULL, NULL, 0, NULL, NULL, 1));
	INVALID_VALUE(cuLibraryLoadFromFile(NULL, "/no", NULL, NULL, 0, NULL, NULL, 0));
	INVALID_VALUE(cuLibraryLoadFromFile(&library, NULL, NULL, NULL, 0, NULL, NULL, 0));
	REFUSED(CUDA_ERROR_FILE_NOT_FOUND,
		cuLibraryLoadFromFile(&library, "/no/file", NULL, NULL, 0, NULL, NULL, 0));
	INVALID_VALUE(cuLibraryGetKernel(NULL, alive.library, "add"));
	INVALID_VALUE(cuLibraryGetKernel(&kernel, alive.library, NULL));
	NOT_FOUND(cuLibraryGetKernel(&kernel, alive.library, "nobody"));
	INVALID_VALUE(cuLibraryGetModule(NULL, alive.library));
	INVALID_VALUE(cuLibraryGetKernelCount(NULL, alive.library));
	INVALID_VALUE(cuLibraryEnumerateKernels(NULL, 1, alive.library));
	INVALID_VALUE(cuLibraryGetGlobal(&memory, &bytes, alive.library, NULL));
	NOT_FOUND(cuLibraryGetGlobal(&memory, &bytes, alive.library, "nobody"));
	INVALID_VALUE(cuLibraryGetManaged(&memory, &bytes, alive.library, NULL));
	INVALID_VALUE(cuLibraryGetManaged(NULL, NULL, alive.library, "variable"));
	NOT_FOUND(cuLibraryGetManaged(&memory, &bytes, alive.library, "variable"));
	INVALID_VALUE(cuLibraryGetUnifiedFunction(NULL, alive.library, "add"));
	INVALID_VALUE(cuLibraryGetUnifiedFunction(&function, alive.library, NULL));
	NOT_FOUND(cuLibraryGetUnifiedFunction(&function, alive.library, "add"));
}

static void with_kernel(CUkernel bad)
{
	CUresult wrong = bad ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
	CUfunction_attribute registers = CU_FUNC_ATTRIBUTE_NUM_REGS;
	CUfunction function;
	CUlibrary library;
	size_t offset, size;
	const char *name;
	int number;

	INVALID_HANDLE(cuKernelGetFunction(&function, bad));
	INVALID_HANDLE(cuKernelGetLibrary(&library, bad));
	INVALID_HANDLE(cuKernelGetAttribute(&number, registers, bad, fixture_device));
	INVALID_HANDLE(cuKernelSetAttribute(
		CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 0, bad, fixture_device));
	INVALID_HANDLE(cuKernelSetCacheConfig(bad, CU_FUNC_CACHE_PREFER_L1, fixture_device));
	REFUSED(wrong, cuKernelGetName(&name, bad));
	REFUSED(wrong, cuKernelGetParamInfo(bad, 0, &offset, &size));
}

static void of_kernels(void **state)
{
	CUfunction_attribute registers = CU_FUNC_ATTRIBUTE_NUM_REGS;
	CUfunction_attribute shared = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
	CUfunc_cache more_l1 = CU_FUNC_CACHE_PREFER_L1;
	CUkernel kernel = alive.kernel;
	size_t offset, size;
	int number;

	with_kernel(NULL);
	OURS(with_kernel(GARBAGE(CUkernel)));
	OURS(with_kernel(gone.kernel));
	OURS(with_kernel((CUkernel)(void *)alive.library));
	INVALID_VALUE(cuKernelGetFunction(NULL, kernel));
	INVALID_VALUE(cuKernelGetLibrary(NULL, kernel));
	INVALID_VALUE(cuKernelGetAttribute(NULL, registers, kernel, fixture_device));
	INVALID_VALUE(cuKernelGetAttribute(&number, 999, kernel, fixture_device));
	INVALID_DEVICE(cuKernelGetAttribute(&number, registers, kernel, NO_DEVICE));
	INVALID_VALUE(cuKernelSetAttribute(registers, 1, kernel, fixture_device));
	INVALID_VALUE(cuKernelSetAttribute(shared, -1, kernel, fixture_device));
	INVALID_DEVICE(cuKernelSetAttribute(shared, 0, kernel, NO_DEVICE));
	INVALID_VALUE(cuKernelSetCacheConfig(kernel, (CUfunc_cache)9, fixture_device));
	INVALID_DEVICE(cuKernelSetCacheConfig(kernel, more_l1, NO_DEVICE));
	INVALID_VALUE(cuKernelGetName(NULL, kernel));
	INVALID_VALUE(cuKernelGetParamInfo(kernel, 99, &offset, &size));
	INVALID_VALUE(cuKernelGetParamInfo(kernel, 0, NULL, &size));
}

static void with_function(CUfunction bad)
{
	CUresult wrong = bad ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
	CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, NULL, NULL, 0};
	CUfunctionLoadingState loading;
	CUmodule module;
	size_t offset, size;
	const char *name;
	int number, other;
	float real = 0;

	INVALID_HANDLE(cuFuncGetAttribute(&number, CU_FUNC_ATTRIBUTE_NUM_REGS, bad));
	INVALID_HANDLE(cuFuncSetAttribute(bad, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 0));
	INVALID_HANDLE(cuFuncSetCacheConfig(bad, CU_FUNC_CACHE_PREFER_L1));
	INVALID_HANDLE(cuFuncSetSharedMemConfig(bad, CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE));
	REFUSED(wrong, cuFuncGetModule(&module, bad));
	REFUSED(wrong, cuFuncGetName(&name, bad));
	REFUSED(wrong, cuFuncGetParamInfo(bad, 0, &offset, &size));
	INVALID_HANDLE(cuFuncIsLoaded(&loading, bad));
	INVALID_HANDLE(cuFuncLoad(bad));
	INVALID_HANDLE(cuLaunchKernel(bad, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	INVALID_HANDLE(cuLaunchKernelEx(&config, bad, NULL, NULL));
	INVALID_HANDLE(cuLaunchCooperativeKernel(bad, 1, 1, 1, 1, 1, 1, 0, NULL, NULL));
	INVALID_HANDLE(cuFuncSetBlockShape(bad, 1, 1, 1));
	INVALID_HANDLE(cuFuncSetSharedSize(bad, 0));
	INVALID_HANDLE(cuParamSetSize(bad, 4));
	INVALID_HANDLE(cuParamSeti(bad, 0, 0));
	INVALID_HANDLE(cuParamSetf(bad, 0, real));
	INVALID_HANDLE(cuParamSetv(bad, 0, &number, sizeof number));
	INVALID_HANDLE(cuLaunch(bad));
	INVALID_HANDLE(cuLaunchGrid(bad, 1, 1));
	INVALID_HANDLE(cuLaunchGridAsync(bad, 1, 1, NULL));
	INVALID_HANDLE(cuOccupancyMaxActiveBlocksPerMultiprocessor(&number, bad, 32, 0));
	INVALID_HANDLE(
		cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&number, bad, 32, 0, 0));
	INVALID_HANDLE(cuOccupancyMaxPotentialBlockSize(&number, &other, bad, NULL, 0, 0));
	INVALID_HANDLE(
		cuOccupancyMaxPotentialBlockSizeWithFlags(&number, &other, bad, NULL, 0, 0, 0));
	INVALID_HANDLE(cuOccupancyAvailableDynamicSMemPerBlock(&size, bad, 1, 32));
	REFUSED(wrong, cuOccupancyMaxPotentialClusterSize(&number, bad, &config));
	REFUSED(wrong, cuOccupancyMaxActiveClusters(&number, bad, &config));
}

static void of_functions(void **state)
{
	CUfunction function = alive.function;
	size_t offset, size;
	int number;

	with_function(NULL);
	OURS(with_function(GARBAGE(CUfunction)));
	OURS(with_function(gone.function));
	OURS(with_function((CUfunction)(void *)alive.module));
	INVALID_VALUE(cuFuncGetAttribute(NULL, CU_FUNC_ATTRIBUTE_NUM_REGS, function));
	INVALID_VALUE(cuFuncGetAttribute(&number, 999, function));
	INVALID_VALUE(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_NUM_REGS, 1));
	INVALID_VALUE(
		cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, -1));
	INVALID_VALUE(cuFuncSetAttribute(
		function, CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, 9));
	INVALID_VALUE(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, -1));
	INVALID_VALUE(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET, 1));
	INVALID_VALUE(cuFuncSetCacheConfig(function, (CUfunc_cache)9));
	INVALID_VALUE(cuFuncSetSharedMemConfig(function, (CUsharedconfig)9));
	INVALID_VALUE(cuFuncGetModule(NULL, function));
	INVALID_VALUE(cuFuncGetName(NULL, function));
	INVALID_VALUE(cuFuncGetParamInfo(function, 99, &offset, &size));
	INVALID_VALUE(cuFuncGetParamInfo(function, 0, NULL, &size));
	INVALID_VALUE(cuFuncIsLoaded(NULL, function));
}

static void of_launches(void **state)
{
	CUfunction add = alive.function, empty = fixture_function("empty");
	CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, gone.stream, NULL, 0};
	void *extra[] = {(void *)77, CU_LAUNCH_PARAM_END};
	void *params[] = {garbage, garbage, garbage, garbage};
	CUcontext other;

	INVALID_VALUE(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	INVALID_VALUE(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
	INVALID_VALUE(cuLaunchKernel(empty, 0, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	INVALID_VALUE(cuLaunchKernel(empty, 1, 1, 1, 1, 0, 1, 0, NULL, NULL, NULL));
	INVALID_VALUE(cuLaunchKernel(empty, 1, 1, 1, 4096, 1, 1, 0, NULL, NULL, NULL));
	INVALID_VALUE(cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 1u << 30, NULL, NULL, NULL));
	INVALID_HANDLE(cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, gone.stream, NULL, NULL));
	INVALID_HANDLE(cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, GARBAGE(CUstream), NULL, NULL));
	OURS(INVALID_HANDLE(cuLaunchKernelEx(&config, empty, NULL, NULL)));
	config.hStream = NULL, config.numAttrs = 1;
	INVALID_VALUE(cuLaunchKernelEx(&config, empty, NULL, NULL));
	INVALID_VALUE(cuLaunchKernelEx(NULL, empty, NULL, NULL));
	INVALID_VALUE(cuLaunchCooperativeKernel(empty, 0, 1, 1, 1, 1, 1, 0, NULL, NULL));
	REFUSED(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
		cuLaunchCooperativeKernel(empty, 1u << 20, 1, 1, 1024, 1, 1, 0, NULL, NULL));
	INVALID_HANDLE(cuLaunchCooperativeKernel(empty, 1, 1, 1, 1, 1, 1, 0, gone.stream, NULL));
	other = fixture_context_create();
	INVALID_HANDLE(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	assert_success(cuCtxDestroy(other));
}

static void of_launches_of_4(void **state)
{
	CUfunction function = fixture_function("empty");

	INVALID_VALUE(cuFuncSetBlockShape(function, 0, 1, 1));
	INVALID_VALUE(cuFuncSetBlockShape(function, -1, 1, 1));
	INVALID_VALUE(cuParamSetSize(function, 1u << 20));
	CRASHES(CUDA_ERROR_INVALID_VALUE, cuParamSeti(function, -1, 0));
	INVALID_VALUE(cuParamSeti(function, 1 << 20, 0));
	CRASHES(CUDA_ERROR_INVALID_VALUE, cuParamSetf(function, -1, 0));
	INVALID_VALUE(cuParamSetf(function, 1 << 20, 0));
	INVALID_VALUE(cuParamSetv(function, 0, NULL, 4));
	CRASHES(CUDA_ERROR_INVALID_VALUE, cuParamSetv(function, -1, garbage, 4));
	INVALID_VALUE(cuParamSetv(function, 0, garbage, 1u << 20));
	assert_success(cuLaunch(function)); /* one thread, while nothing else is said */
	INVALID_VALUE(cuLaunchGrid(function, 0, 1));
	INVALID_VALUE(cuLaunchGrid(function, 1, -1));
	INVALID_VALUE(cuLaunchGridAsync(function, 0, 1, NULL));
	INVALID_HANDLE(cuLaunchGridAsync(function, 1, 1, gone.stream));
	INVALID_VALUE(cuFuncSetSharedSize(function, ~0u));
}

static void of_occupancy(void **state)
{
	CUlaunchConfig config = {1, 1, 1, 32, 1, 1, 0, NULL, NULL, 0};
	CUfunction function = alive.function;
	int number, other;
	size_t size;

	INVALID_VALUE(cuOccupancyMaxActiveBlocksPerMultiprocessor(NULL, function, 32, 0));
	INVALID_VALUE(cuOccupancyMaxActiveBlocksPerMultiprocessor(&number, function, 0, 0));
	INVALID_VALUE(
		cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(NULL, function, 32, 0, 0));
	INVALID_VALUE(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
		&number, function, 32, 0, 0x80));
	INVALID_VALUE(cuOccupancyMaxPotentialBlockSize(NULL, &other, function, NULL, 0, 0));
	INVALID_VALUE(cuOccupancyMaxPotentialBlockSize(&number, NULL, function, NULL, 0, 0));
	INVALID_VALUE(cuOccupancyMaxPotentialBlockSizeWithFlags(
		&number, &other, function, NULL, 0, 0, 0x80));
	INVALID_VALUE(
		cuOccupancyMaxPotentialBlockSizeWithFlags(NULL, &other, function, NULL, 0, 0, 0));
	CRASHES(CUDA_ERROR_INVALID_VALUE,
		cuOccupancyAvailableDynamicSMemPerBlock(NULL, function, 1, 32));
	INVALID_VALUE(cuOccupancyAvailableDynamicSMemPerBlock(&size, function, 0, 32));
	INVALID_VALUE(cuOccupancyAvailableDynamicSMemPerBlock(&size, function, 1, 0));
	INVALID_VALUE(cuOccupancyMaxPotentialClusterSize(NULL, function, &config));
	INVALID_VALUE(cuOccupancyMaxPotentialClusterSize(&number, function, NULL));
	INVALID_VALUE(cuOccupancyMaxActiveClusters(NULL, function, &config));
	INVALID_VALUE(cuOccupancyMaxActiveClusters(&number, function, NULL));
}

static CUresult tiled(CUtensorMap *map, uint32_t rank, const uint64_t *sizes,
	const uint64_t *strides, const uint32_t *box, const uint32_t *element_strides)
{
	return cuTensorMapEncodeTiled(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, rank, garbage, sizes,
		strides, box, element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE,
		CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
		CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

static CUresult im2col(CUtensorMap *map, uint32_t rank, const int *lower, const int *upper)
{
	const uint64_t sizes[5] = {16, 16, 16, 16, 16}, strides[4] = {64, 1024, 16384, 262144};
	const uint32_t ones[5] = {1, 1, 1, 1, 1};

	return cuTensorMapEncodeIm2col(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, rank, garbage, sizes,
		strides, lower, upper, 16, 16, ones, CU_TENSOR_MAP_INTERLEAVE_NONE,
		CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
		CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

static void of_tensor_maps(void **state)
{
	const uint64_t sizes[3] = {16, 16, 16}, strides[2] = {64, 1024};
	const uint32_t ones[3] = {1, 1, 1}, box[2] = {4, 1};
	const int corner[3] = {0, 0, 0};
	CUtensorMap map;

	INVALID_VALUE(cuTensorMapEncodeTiled(
		NULL, 0, 2, garbage, sizes, strides, ones, ones, 0, 0, 0, 0));
	INVALID_VALUE(cuTensorMapEncodeIm2col(
		NULL, 0, 3, garbage, sizes, strides, corner, corner, 1, 1, ones, 0, 0, 0, 0));
	INVALID_VALUE(tiled(NULL, 2, sizes, strides, ones, ones));
	INVALID_VALUE(tiled(&map, 0, sizes, strides, ones, ones));
	INVALID_VALUE(tiled(&map, 6, sizes, strides, ones, ones));
	INVALID_VALUE(tiled(&map, 2, NULL, strides, ones, ones));
	INVALID_VALUE(tiled(&map, 2, sizes, NULL, ones, ones));
	INVALID_VALUE(tiled(&map, 2, sizes, strides, NULL, ones));
	INVALID_VALUE(tiled(&map, 2, sizes, strides, ones, NULL));
	INVALID_VALUE(im2col(NULL, 3, corner, corner));
	INVALID_VALUE(im2col(&map, 2, corner, corner));
	INVALID_VALUE(im2col(&map, 6, corner, corner));
	CRASHES(CUDA_ERROR_INVALID_VALUE, im2col(&map, 3, NULL, corner));
	CRASHES(CUDA_ERROR_INVALID_VALUE, im2col(&map, 3, corner, NULL));
	INVALID_VALUE(cuTensorMapReplaceAddress(NULL, garbage));
	if (cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, (void *)alive.memory,
		    sizes, strides, box, ones, 0, 0, 0, 0) == CUDA_SUCCESS)
		INVALID_VALUE(cuTensorMapReplaceAddress(&map, (void *)(alive.memory + 1)));
	memset(&map, 1, sizeof map);
	if (!fixture_is_hardware()) /* whose driver takes anything for a map */
		OURS(INVALID_VALUE(cuTensorMapReplaceAddress(&map, (void *)alive.memory)));
}

int errors_of_code(void)
{
	const struct CMUnitTest tests[] = {
		ERRORS_TEST(of_modules),
		ERRORS_TEST(of_links),
		ERRORS_TEST(of_libraries),
		ERRORS_TEST(of_kernels),
		ERRORS_TEST(of_functions),
		ERRORS_TEST(of_launches),
		ERRORS_TEST(of_launches_of_4),
		ERRORS_TEST(of_occupancy),
		ERRORS_TEST(of_tensor_maps),
	};

	return ERRORS_RUN(tests);
}
