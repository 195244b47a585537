/* SPDX-License-Identifier: MIT
 *
 * The calls that ask and set. What they answer to what is wrong is in errors_*.c.
 */
#include "fixture.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

/* What newer headers do not declare: the first symbols of calls that have newer ones. */
#undef cuCtxDestroy
#undef cuCtxPushCurrent
#undef cuCtxPopCurrent
#undef cuStreamDestroy
#undef cuEventDestroy
#undef cuDevicePrimaryCtxRelease
#undef cuDevicePrimaryCtxSetFlags
#undef cuDevicePrimaryCtxReset
#undef cuDeviceGetUuid
#undef cuEventElapsedTime
#undef cuMemHostRegister
#undef cuLinkCreate
#undef cuLinkAddData
#undef cuLinkAddFile
#undef cuIpcOpenMemHandle
#undef cuMemAdvise
CUresult cuCtxDestroy(CUcontext context);
CUresult cuCtxPushCurrent(CUcontext context);
CUresult cuCtxPopCurrent(CUcontext *context);
CUresult cuStreamDestroy(CUstream stream);
CUresult cuEventDestroy(CUevent event);
CUresult cuProfilerInitialize(const char *config, const char *output, int mode);

static char garbage[64];

/* NVIDIA's library follows some handles without a look; these are for ours. */
static bool is_vendor(void)
{
	return getenv("TEST_VENDOR");
}

/* ---- before cuInit; the first test of the program ---- */

static void before_cuInit_nothing_works(void **state)
{
	CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
	unsigned long long id;
	CUmemoryPool pool;
	CUcontext context;
	CUdeviceptr memory;
	CUfunction function;
	CUlibrary library;
	CUmodule module;
	CUstream stream;
	CUevent event;
	CUgraph graph;
	int number, version;
	size_t bytes;
	void *host;

	assert_success(cuDriverGetVersion(&version));
	assert_true(version >= 13000);
	const struct {
		const char *call;
		CUresult result;
	} cases[] = {
#define CASE(call) {#call, call}
		CASE(cuDeviceGetCount(&number)),
		CASE(cuDeviceGet(&number, 0)),
		CASE(cuDeviceTotalMem(&bytes, 0)),
		CASE(cuDeviceGetDefaultMemPool(&pool, 0)),
		CASE(cuMemGetMemPool(&pool, &location, CU_MEM_ALLOCATION_TYPE_PINNED)),
		CASE(cuCtxCreate(&context, NULL, 0, 0)),
		CASE(cuCtxGetCurrent(&context)),
		CASE(cuCtxSetCurrent(NULL)),
		CASE(cuCtxSynchronize()),
		CASE(cuCtxGetId(NULL, &id)),
		CASE(cuDevicePrimaryCtxRetain(&context, 0)),
		CASE(cuMemAlloc(&memory, 16)),
		CASE(cuMemFree(16)),
		CASE(cuMemAllocHost(&host, 16)),
		CASE(cuMemGetInfo(&bytes, &bytes)),
		CASE(cuMemcpyDtoH(garbage, 16, 16)),
		CASE(cuMemsetD8(16, 0, 16)),
		CASE(cuStreamCreate(&stream, 0)),
		CASE(cuStreamSynchronize(NULL)),
		CASE(cuEventCreate(&event, 0)),
		CASE(cuModuleLoadData(&module, kernels_ptx)),
		CASE(cuModuleGetFunction(&function, NULL, "add")),
		CASE(cuLibraryLoadData(&library, kernels_ptx, NULL, NULL, 0, NULL, NULL, 0)),
		CASE(cuGraphCreate(&graph, 0)),
#undef CASE
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		if (cases[i].result != CUDA_ERROR_NOT_INITIALIZED)
			fail_msg("%s: %d", cases[i].call, cases[i].result);
}

/* What belongs to one context is not used in another. */
static void another_context_is_the_wrong_one(void **state)
{
	CUfunction function = fixture_function("empty");
	CUcontext other;
	CUstream stream;
	CUevent event;

	assert_success(cuStreamCreate(&stream, 0));
	assert_success(cuEventCreate(&event, 0));
	other = fixture_context_create();
	assert_result(cuEventRecord(event, NULL), CUDA_ERROR_INVALID_HANDLE);
	if (!is_vendor())
		assert_result(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
			CUDA_ERROR_INVALID_HANDLE);
	assert_success(cuStreamSynchronize(stream)); /* waiting is fine from anywhere */
	assert_success(cuEventSynchronize(event));
	assert_success(cuCtxDestroy(other));
	assert_success(cuCtxSetCurrent(fixture_context));
	assert_success(cuStreamDestroy(stream));
	assert_success(cuEventDestroy(event));
}

/* ---- contexts ---- */

static void contexts_are_set_up(void **state)
{
	CUexecAffinityParam affinity = {0};
	unsigned long long id, other_id;
	CUsharedconfig shared;
	CUfunc_cache cache;
	CUcontext other, popped;
	CUdevice device;
	unsigned flags;
	size_t limit;

	assert_success(cuCtxGetId(fixture_context, &id));
	assert_success(cuCtxCreate_v3(&other, NULL, 0, CU_CTX_SCHED_SPIN, fixture_device));
	assert_success(cuCtxGetId(NULL, &other_id));
	assert_int_not_equal(id, other_id);
	assert_success(cuCtxGetFlags(&flags));
	assert_int_equal(flags & CU_CTX_SCHED_MASK, CU_CTX_SCHED_SPIN);
	assert_success(cuCtxSetFlags(CU_CTX_SCHED_YIELD));
	assert_success(cuCtxGetFlags(&flags));
	assert_int_equal(flags & CU_CTX_SCHED_MASK, CU_CTX_SCHED_YIELD);
	assert_result(cuCtxSetFlags(0x1000), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1));
	assert_success(cuCtxGetCacheConfig(&cache));
	assert_success(cuCtxSetSharedMemConfig(CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE));
	assert_success(cuCtxGetSharedMemConfig(&shared));
	assert_result(cuCtxSetCacheConfig((CUfunc_cache)9), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 2 << 20));
	assert_success(cuCtxGetLimit(&limit, CU_LIMIT_PRINTF_FIFO_SIZE));
	assert_true(limit >= 2 << 20);
	assert_result(cuCtxSetLimit((CUlimit)99, 1), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuCtxGetLimit(&limit, CU_LIMIT_CIG_ENABLED));
	assert_int_equal(limit, 0);
	assert_success(cuCtxGetLimit(&limit, CU_LIMIT_SHMEM_SIZE));
	assert_true(limit >= 48 << 10);
	assert_result(cuCtxSetLimit(CU_LIMIT_CIG_ENABLED, 1), CUDA_ERROR_NOT_PERMITTED);
	assert_result(cuCtxSetLimit(CU_LIMIT_SHMEM_SIZE, 1), CUDA_ERROR_NOT_PERMITTED);
	assert_success(cuCtxResetPersistingL2Cache());
	assert_success(cuCtxGetDevice_v2(&device, other));
	assert_int_equal(device, fixture_device);
	assert_success(cuCtxSynchronize_v2(fixture_context));
	assert_result(cuCtxGetExecAffinity(NULL, CU_EXEC_AFFINITY_TYPE_SM_COUNT),
		CUDA_ERROR_INVALID_VALUE);
	if (!is_vendor())
		assert_result(cuCtxGetExecAffinity(&affinity, CU_EXEC_AFFINITY_TYPE_SM_COUNT),
			CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
	assert_result(cuCtxEnablePeerAccess(other, 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
	assert_result(cuCtxDisablePeerAccess(fixture_context), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
	assert_success(cuCtxPopCurrent(&popped));
	assert_ptr_equal(popped, other);
	assert_success(cuCtxPushCurrent(other));
	assert_success(cuCtxDestroy(other));
	assert_success(cuCtxSetCurrent(fixture_context));
}

static void primary_contexts_have_flags(void **state)
{
	unsigned flags;
	CUcontext context;
	int active;

	assert_success(cuDevicePrimaryCtxSetFlags_v2(fixture_device, CU_CTX_SCHED_YIELD));
	assert_success(cuDevicePrimaryCtxGetState(fixture_device, &flags, &active));
	assert_int_equal(flags & CU_CTX_SCHED_MASK, CU_CTX_SCHED_YIELD);
	assert_success(cuDevicePrimaryCtxSetFlags(fixture_device, CU_CTX_SCHED_AUTO));
	assert_success(cuDevicePrimaryCtxRetain(&context, fixture_device));
	assert_success(cuDevicePrimaryCtxReset(fixture_device));
	assert_success(cuDevicePrimaryCtxRetain(&context, fixture_device));
	assert_success(cuDevicePrimaryCtxRelease(fixture_device));
	assert_result(cuDevicePrimaryCtxSetFlags_v2(99, 0), CUDA_ERROR_INVALID_DEVICE);
	assert_result(cuDevicePrimaryCtxGetState(fixture_device, NULL, &active),
		CUDA_ERROR_INVALID_VALUE);
}

/* ---- devices ---- */

static void devices_are_found_and_asked(void **state)
{
	const void *table;
	char bus[32];
	CUdevice device;
	CUuuid uuid, first;
	int number, count;

	assert_success(cuDeviceGetPCIBusId(bus, sizeof bus, fixture_device));
	assert_success(cuDeviceGetByPCIBusId(&device, bus));
	assert_int_equal(device, fixture_device);
	assert_result(cuDeviceGetByPCIBusId(NULL, bus), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuDeviceGetUuid_v2(&uuid, fixture_device));
	assert_success(cuDeviceGetUuid(&first, fixture_device));
	assert_memory_equal(&uuid, &first, sizeof uuid);
	assert_result(cuDeviceGetUuid_v2(&uuid, 99), CUDA_ERROR_INVALID_DEVICE);
	assert_success(cuDeviceGetExecAffinitySupport(
		&number, CU_EXEC_AFFINITY_TYPE_SM_COUNT, fixture_device));
	assert_success(cuDeviceGetCount(&count));
	if (count > 1) {
		assert_success(cuDeviceCanAccessPeer(&number, 0, 1));
		assert_success(cuDeviceGetP2PAttribute(
			&number, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1));
	}
	assert_result(cuDeviceCanAccessPeer(&number, 0, 99), CUDA_ERROR_INVALID_DEVICE);
	assert_result(
		cuDeviceGetP2PAttribute(&number, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 99),
		CUDA_ERROR_INVALID_DEVICE);
	assert_result(cuGetExportTable(&table, NULL), CUDA_ERROR_INVALID_VALUE);
}

/* ---- code ---- */

static void functions_are_asked(void **state)
{
	CUfunction function = fixture_function("add");
	CUlaunchConfig config = {1, 1, 1, 128, 1, 1, 0, NULL, NULL, 0};
	CUfunctionLoadingState loading;
	CUmoduleLoadingMode mode;
	CUmodule module;
	const char *name;
	int blocks, grid, size;
	size_t bytes;

	assert_success(cuFuncGetName(&name, function));
	assert_string_equal(name, "add");
	assert_success(cuFuncGetModule(&module, function));
	assert_ptr_equal(module, fixture_module);
	assert_success(cuFuncLoad(function));
	assert_success(cuFuncIsLoaded(&loading, function));
	assert_int_equal(loading, CU_FUNCTION_LOADING_STATE_LOADED);
	assert_success(cuFuncSetCacheConfig(function, CU_FUNC_CACHE_PREFER_SHARED));
	assert_success(cuFuncSetSharedMemConfig(function, CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE));
	assert_success(cuModuleGetLoadingMode(&mode));
	assert_success(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
		&blocks, function, 128, 0, CU_OCCUPANCY_DEFAULT));
	assert_true(blocks > 0);
	assert_success(cuOccupancyMaxPotentialBlockSizeWithFlags(
		&grid, &size, function, NULL, 0, 0, CU_OCCUPANCY_DEFAULT));
	assert_true(size > 0);
	assert_success(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, function, 1, 128));
	assert_true(bytes > 0);
	assert_success(cuOccupancyMaxPotentialClusterSize(&size, function, &config));
	assert_true(size >= 1);
	assert_success(cuOccupancyMaxActiveClusters(&size, function, &config));
	assert_int_equal(size, 0); /* the launch has none */
	if (is_vendor())
		return;
	assert_result(cuOccupancyAvailableDynamicSMemPerBlock(NULL, function, 1, 128),
		CUDA_ERROR_INVALID_VALUE);
	assert_result(
		cuOccupancyMaxActiveClusters(NULL, function, &config), CUDA_ERROR_INVALID_VALUE);
}

/* Where the device has no clusters, one of one block is all there is. */
static void clusters_are_told(void **state)
{
	CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
	CUlaunchConfig config = {16, 1, 1, 128, 1, 1, 0, NULL, &attribute, 1};
	CUfunction function = fixture_function("empty");
	int supported, largest, count, value;

	attribute.value.clusterDim.x = attribute.value.clusterDim.y = 1;
	attribute.value.clusterDim.z = 1;
	assert_success(cuDeviceGetAttribute(
		&supported, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, fixture_device));
	assert_success(cuOccupancyMaxPotentialClusterSize(&largest, function, &config));
	assert_int_equal(largest, supported ? 8 : 1);
	assert_success(cuOccupancyMaxActiveClusters(&count, function, &config));
	assert_true(count >= 1);
	assert_success(cuLaunchKernelEx(&config, function, NULL, NULL));
	attribute.value.clusterDim.x = 16;
	assert_result(cuOccupancyMaxActiveClusters(&count, function, &config),
		CUDA_ERROR_INVALID_CLUSTER_SIZE);
	assert_result(
		cuLaunchKernelEx(&config, function, NULL, NULL), CUDA_ERROR_INVALID_CLUSTER_SIZE);
	assert_success(cuFuncSetAttribute(
		function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
	assert_success(cuFuncGetAttribute(
		&value, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, function));
	assert_int_equal(value, 1);
	if (supported) {
		assert_success(cuLaunchKernelEx(&config, function, NULL, NULL));
		assert_success(cuOccupancyMaxPotentialClusterSize(&largest, function, &config));
		assert_int_equal(largest, 16);
		assert_success(cuOccupancyMaxActiveClusters(&count, function, &config));
		assert_true(count >= 1);
	}
	assert_success(cuCtxSynchronize());
	assert_success(cuFuncSetAttribute(
		function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 0));
}

/* One of a matrix of 64 x 32 floats: the same for whoever asks again, another for another. */
static void tensor_maps_are_made(void **state)
{
	static const uint64_t sizes[] = {32, 64, 1, 1}, strides[] = {128, 8192, 8192};
	static const uint32_t box[] = {16, 16}, ones[] = {1, 1, 1, 1};
	static const int corner[2] = {0, 0};
	CUtensorMap maps[3];
	CUdeviceptr memory;
	int supported;

	assert_success(cuDeviceGetAttribute(
		&supported, CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, fixture_device));
	memset(maps, 0, sizeof maps);
	assert_success(cuMemAlloc(&memory, 16384));
	for (int i = 0; i < 3; i++)
		assert_result(
			cuTensorMapEncodeTiled(&maps[i], CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2,
				(void *)(memory + (i == 2) * 8192), sizes, strides, box, ones,
				CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
				CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
			supported ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED);
	assert_memory_equal(&maps[0], &maps[1], sizeof maps[0]);
	if (supported)
		assert_memory_not_equal(&maps[0], &maps[2], sizeof maps[0]);
	assert_result(cuTensorMapReplaceAddress(&maps[1], (void *)(memory + 8192)),
		supported ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED);
	assert_memory_equal(&maps[1], &maps[2], sizeof maps[0]);
	assert_result(cuTensorMapEncodeIm2col(&maps[0], CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4,
			      (void *)memory, sizes, strides, corner, corner, 32, 16, ones,
			      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
			      CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
		supported ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED);
	assert_success(cuMemFree(memory));
}

static void count_function(void *user, CUfunction function)
{
	CUmodule module;

	assert_success(cuFuncGetModule(&module, function));
	assert_ptr_equal(module, fixture_module);
	++*(unsigned *)user;
}

/* What cuBLAS and cuFFT call in tables that no header has: slots of size_t, the first the table's size. */
static void private_tables_answer(void **state)
{
	static const CUuuid
		numbers = {"\x21\x31\x8c\x60\x97\x14\x32\x48\x8c\xa6\x41\xff\x73\x24\xc8\xf2"},
		threads = {"\x42\xd8\x5a\x81\x23\xf6\xcb\x47\x82\x98\xf6\xe7\x8a\x3a\xec\xdc"},
		modules = {"\x6e\x16\x3f\xbe\xb9\x58\x44\x4d\x83\x5c\xe1\x82\xaf\xf1\x99\x1e"};
	void (*const *table)(void);
	unsigned long long id;
	unsigned count, counted = 0;
	uint64_t number = 0;
	CUcontext context;
	CUstream stream;

	assert_success(cuGetExportTable((const void **)&table, &threads));
	assert_success(((CUresult(*)(CUcontext *))table[2])(&context));
	assert_ptr_equal(context, fixture_context);
	assert_success(cuGetExportTable((const void **)&table, &numbers));
	assert_success(((CUresult(*)(CUcontext, uint64_t *))table[4])(context, &number));
	assert_success(cuCtxGetId(context, &id));
	assert_int_equal(number, id);
	assert_success(((CUresult(*)(CUcontext, CUstream, CUstream *, int))table[51])(
		context, NULL, &stream, 0));
	assert_success(((CUresult(*)(CUcontext, CUstream, uint64_t *))table[39])(
		context, stream, &number));
	assert_success(cuStreamGetId(NULL, &id));
	assert_int_equal(number, id);
	assert_success(cuGetExportTable((const void **)&table, &modules));
	assert_true((size_t)table[0] > 0x37);
	assert_success(cuModuleGetFunctionCount(&count, fixture_module));
	assert_int_equal(
		((int (*)(CUcontext, CUmodule, void (*)(void *, CUfunction), void *))table[7])(
			context, fixture_module, count_function, &counted),
		count);
	assert_int_equal(counted, count);
}

static void libraries_are_asked(void **state)
{
	char path[] = "/tmp/gdev-test-XXXXXX";
	int fd = mkstemp(path), value;
	CUlibrary library, owner;
	CUfunction function;
	CUdeviceptr variable;
	CUmodule module;
	CUkernel kernel;
	size_t bytes, offset;

	assert_int_equal(write(fd, kernels_ptx, strlen(kernels_ptx)), strlen(kernels_ptx));
	close(fd);
	assert_success(cuLibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL, NULL, 0));
	unlink(path);
	assert_result(cuLibraryLoadFromFile(&owner, path, NULL, NULL, 0, NULL, NULL, 0),
		CUDA_ERROR_FILE_NOT_FOUND);
	assert_success(cuLibraryGetKernel(&kernel, library, "mixed"));
	assert_success(cuKernelGetLibrary(&owner, kernel));
	assert_ptr_equal(owner, library);
	assert_success(cuKernelGetFunction(&function, kernel));
	assert_success(cuKernelGetParamInfo(kernel, 3, &offset, &bytes));
	assert_int_equal(offset, 12);
	assert_success(cuKernelSetAttribute(
		CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024, kernel, fixture_device));
	assert_success(cuKernelGetAttribute(
		&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel, fixture_device));
	assert_int_equal(value, 1024);
	assert_success(cuKernelSetCacheConfig(kernel, CU_FUNC_CACHE_PREFER_L1, fixture_device));
	assert_success(cuLibraryGetModule(&module, library));
	assert_success(cuLibraryGetGlobal(&variable, &bytes, library, "variable"));
	assert_int_equal(bytes, 16);
	assert_result(
		cuLibraryGetGlobal(&variable, &bytes, library, "nobody"), CUDA_ERROR_NOT_FOUND);
	assert_success(cuLibraryUnload(library));
}

static void modules_and_libraries_list_their_functions(void **state)
{
	CUfunction functions[32];
	CUkernel kernels[32];
	CUlibrary library;
	const char *name;
	unsigned count, kernel_count;
	bool found = false;

	assert_success(cuModuleGetFunctionCount(&count, fixture_module));
	assert_in_range(count, 2, 32);
	assert_success(cuModuleEnumerateFunctions(functions, count, fixture_module));
	for (unsigned i = 0; i < count; i++) {
		assert_success(cuFuncGetName(&name, functions[i]));
		found = found || !strcmp(name, "mixed");
	}
	assert_true(found);
	assert_success(cuLibraryLoadData(&library, kernels_ptx, NULL, NULL, 0, NULL, NULL, 0));
	assert_success(cuLibraryGetKernelCount(&kernel_count, library));
	assert_int_equal(kernel_count, count);
	assert_success(cuLibraryEnumerateKernels(kernels, kernel_count, library));
	assert_success(cuKernelGetName(&name, kernels[0]));
	assert_success(cuLibraryUnload(library));
	assert_result(cuModuleGetFunctionCount(NULL, fixture_module), CUDA_ERROR_INVALID_VALUE);
	assert_result(
		cuModuleEnumerateFunctions(NULL, 1, fixture_module), CUDA_ERROR_INVALID_VALUE);
}

static void one_image_is_linked(void **state)
{
	CUlinkState linker;
	CUmodule module;
	unsigned count;
	size_t bytes;
	void *image;

	assert_success(cuLinkCreate_v2(0, NULL, NULL, &linker));
	assert_success(cuLinkAddData_v2(linker, CU_JIT_INPUT_PTX, (void *)kernels_ptx,
		strlen(kernels_ptx) + 1, "kernels", 0, NULL, NULL));
	assert_success(cuLinkComplete(linker, &image, &bytes));
	assert_success(cuModuleLoadData(&module, image));
	assert_success(cuModuleUnload(module));
	assert_success(cuLinkDestroy(linker));
	assert_success(cuLinkCreate(0, NULL, NULL, &linker));
	assert_success(cuLinkComplete(linker, &image, &bytes)); /* of nothing */
	assert_success(cuModuleLoadData(&module, image));
	assert_success(cuModuleGetFunctionCount(&count, module));
	assert_int_equal(count, 0);
	assert_success(cuModuleUnload(module));
	assert_success(cuLinkDestroy(linker));
	assert_success(cuLinkCreate(0, NULL, NULL, &linker));
	assert_result(cuLinkAddFile_v2(linker, CU_JIT_INPUT_PTX, "/no/such/file", 0, NULL, NULL),
		CUDA_ERROR_FILE_NOT_FOUND);
	assert_result(cuLinkAddFile(linker, CU_JIT_INPUT_PTX, "/no/such/file", 0, NULL, NULL),
		CUDA_ERROR_FILE_NOT_FOUND);
	assert_result(cuLinkAddData(linker, CU_JIT_INPUT_PTX, NULL, 0, "nothing", 0, NULL, NULL),
		CUDA_ERROR_INVALID_VALUE);
	assert_success(cuLinkDestroy(linker));
}

static void an_image_is_whatever_it_is(void **state)
{
	CUmodule module;

	if (is_vendor())
		skip();
	assert_success(cuModuleLoadFatBinary(&module, kernels_ptx));
	assert_success(cuModuleUnload(module));
	assert_result(cuModuleLoadFatBinary(&module, NULL), CUDA_ERROR_INVALID_VALUE);
}

/* ---- memory ---- */

static void pointers_and_pages_are_told_about(void **state)
{
	CUdeviceptr memory = words_alloc(64, 0), older;
	void *pages = aligned_alloc(4096, 4096);
	CUipcMemHandle handle;
	unsigned sync = 1;

	assert_success(cuPointerSetAttribute(&sync, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory));
	assert_result(cuPointerSetAttribute(NULL, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory),
		CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemHostRegister(pages, 4096, 0));
	assert_success(cuMemHostUnregister(pages));
	assert_result(cuMemHostRegister(NULL, 4096, 0), CUDA_ERROR_INVALID_VALUE);
	memset(&handle, 0, sizeof handle);
	assert_result(cuMemAdvise(memory, 64, CU_MEM_ADVISE_SET_READ_MOSTLY, fixture_device),
		CUDA_ERROR_INVALID_VALUE); /* it is not managed */
	assert_int_not_equal(cuIpcOpenMemHandle(&older, handle, 0), CUDA_SUCCESS);
	assert_success(cuMemFree(memory));
	free(pages);
}

/* ---- the rest ---- */

static void the_profiler_is_not_there(void **state)
{
	assert_success(cuProfilerStart());
	assert_success(cuProfilerStop());
	if (!is_vendor())
		assert_result(cuProfilerInitialize("", "", 0), CUDA_ERROR_NOT_SUPPORTED);
}

/* One of the calls that are not there; no header of ours declares them. */
CUresult cuGraphicsUnregisterResource(void *resource);

static void heard(void *data, CUlogLevel level, char *message, size_t length)
{
	*(int *)data +=
		strlen(message) == length && strstr(message, "cuGraphicsUnregisterResource");
}

/* A call that is not supported says so once. */
static void what_is_not_supported_is_said_once(void **state)
{
	CUlogsCallbackHandle callback;
	CUlogIterator before, after;
	char text[1024], path[] = "/tmp/gdev-test-XXXXXX";
	size_t size = sizeof text;
	int count = 0;

	if (is_vendor())
		skip();
	assert_success(cuLogsCurrent(&before, 0));
	assert_success(cuLogsRegisterCallback(heard, &count, &callback));
	assert_result(cuGraphicsUnregisterResource(NULL), CUDA_ERROR_NOT_SUPPORTED);
	assert_result(cuGraphicsUnregisterResource(NULL), CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(count, 1);
	assert_success(cuLogsUnregisterCallback(callback));
	assert_result(cuLogsUnregisterCallback(callback), CUDA_ERROR_INVALID_VALUE);
	after = before;
	assert_success(cuLogsDumpToMemory(&after, text, &size, 0));
	assert_int_equal(after, before + 1);
	assert_non_null(strstr(text, "cuGraphicsUnregisterResource"));
	close(mkstemp(path));
	assert_success(cuLogsDumpToFile(NULL, path, 0));
	unlink(path);
	assert_result(cuLogsDumpToMemory(NULL, NULL, &size, 0), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuLogsCurrent(NULL, 0), CUDA_ERROR_INVALID_VALUE);
}

static void device_memory_is_shared_by_a_key(void **state)
{
	CUdeviceptr first, second;
	CUshmInfo info;
	int id;

	if (is_vendor())
		skip();
	assert_success(cuShmGet(&id, 0 /* IPC_PRIVATE */, 1 << 20, 01000 /* IPC_CREAT */ | 0600));
	assert_success(cuShmAt(&first, id, 0));
	assert_success(cuMemsetD32(first, 7, 1024));
	assert_success(cuShmAt(&second, id, 0));
	words_check(second, 1024, 7);
	assert_success(cuShmCtl(id, 2 /* IPC_STAT */, &info));
	assert_true(info.bytes >= 1 << 20);
	assert_success(cuShmDt(second));
	assert_result(cuShmDt(second), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuShmDt(first));
	assert_success(cuShmCtl(id, 0 /* IPC_RMID */, NULL));
	assert_int_not_equal(cuShmAt(&first, id, 0), CUDA_SUCCESS);
	assert_result(cuShmGet(NULL, 0, 1, 0), CUDA_ERROR_INVALID_VALUE);
}

/* By its backend: the process can reach it. */
static bool device_memory_is_mapped(void)
{
	CUdeviceptr memory;
	CUresult result;
	void *mapped;

	assert_success(cuMemAlloc(&memory, 4096));
	result = cuGdevMemMap(&mapped, memory, 4096);
	assert_success(cuMemFree(memory));
	return result == CUDA_SUCCESS;
}

/* There the host copies the pages that the kernel has of a file. */
static bool is_in_a_guest(void)
{
	return !access("/dev/gdev0", F_OK);
}

static void files_are_read_into_device_memory(void **state)
{
	unsigned char bytes[3000], back[4096], rest[1096] = {0};
	FILE *file = tmpfile();
	CUdeviceptr memory;
	int64_t got;

	if (is_vendor() || (!device_memory_is_mapped() && !is_in_a_guest()))
		skip();
	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)(i * 7 >> 3);
	assert_int_equal(fwrite(bytes, 1, sizeof(bytes), file), sizeof(bytes));
	fflush(file);
	assert_success(cuMemAlloc(&memory, 4096));
	assert_success(cuMemsetD8(memory, 0, 4096));
	assert_success(cuCtxSynchronize());
	memcpy(back, bytes, sizeof(bytes));
	assert_success(cuMemcpyHtoD(memory, back, 64)); /* asks for the copy engine */
	assert_success(cuGdevMemRead(memory, 1000, fileno(file), 0, 0, &got));
	assert_int_equal(got, 1000);
	assert_success(cuGdevMemRead(memory + 1000, 3096, fileno(file), 1000, 0, &got));
	assert_int_equal(got, 2000); /* the file's end */
	assert_success(cuGdevMemRead(memory, 1, -1, 0, 0, &got));
	assert_int_equal(got, -EBADF);
	assert_result(cuGdevMemRead(memory + 1, 4096, fileno(file), 0, 0, &got),
		CUDA_ERROR_NOT_SUPPORTED); /* there is not so much */
	assert_success(cuMemcpyDtoH(back, memory, 4096));
	assert_memory_equal(back, bytes, sizeof(bytes));
	assert_memory_equal(back + sizeof(bytes), rest, sizeof(rest));
	assert_success(cuMemFree(memory));
	fclose(file);
}

static void files_are_written_from_device_memory(void **state)
{
	unsigned char bytes[3000], back[3000];
	FILE *file = tmpfile();
	CUdeviceptr memory;
	int64_t put;

	if (is_vendor() || !device_memory_is_mapped())
		skip();
	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)(i * 7 >> 3);
	assert_success(cuMemAlloc(&memory, 4096));
	assert_success(cuMemcpyHtoD(memory, bytes, sizeof(bytes)));
	assert_success(cuMemcpyDtoH(back, memory, 64)); /* asks for the copy engine */
	assert_success(cuGdevMemWrite(memory + 1000, 2000, fileno(file), 1000, 0, &put));
	assert_int_equal(put, 2000);
	assert_success(cuGdevMemWrite(memory, 1000, fileno(file), 0, 0, &put));
	assert_int_equal(put, 1000);
	assert_success(cuGdevMemWrite(memory, 1, -1, 0, 0, &put));
	assert_int_equal(put, -EBADF);
	assert_result(cuGdevMemWrite(memory + 1, 4096, fileno(file), 0, 0, &put),
		CUDA_ERROR_NOT_SUPPORTED); /* there is not so much */
	assert_int_equal(fread(back, 1, sizeof(back), file), sizeof(back));
	assert_memory_equal(back, bytes, sizeof(bytes));
	assert_int_equal(fread(back, 1, 1, file), 0);
	assert_success(cuMemFree(memory));
	fclose(file);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(before_cuInit_nothing_works),
		TEST(another_context_is_the_wrong_one),
		TEST(contexts_are_set_up),
		TEST(primary_contexts_have_flags),
		TEST(devices_are_found_and_asked),
		TEST(functions_are_asked),
		TEST(clusters_are_told),
		TEST(tensor_maps_are_made),
		TEST(private_tables_answer),
		TEST(libraries_are_asked),
		TEST(modules_and_libraries_list_their_functions),
		TEST(one_image_is_linked),
		TEST(an_image_is_whatever_it_is),
		TEST(pointers_and_pages_are_told_about),
		TEST(the_profiler_is_not_there),
		TEST(what_is_not_supported_is_said_once),
		TEST(device_memory_is_shared_by_a_key),
		TEST(files_are_read_into_device_memory),
		TEST(files_are_written_from_device_memory),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
