/* SPDX-License-Identifier: MIT
 *
 * Calls with nothing wrong in them, before cuInit, in a forked child, and where no context is current.
 */
#include "errors.h"

#include <sys/wait.h>
#include <unistd.h>

/* Calls on memory of the current context, or in its default stream. */
static void of_current_memory(CUresult expected)
{
	CUDA_MEMCPY2D flat = {.WidthInBytes = 16, .Height = 1};
	CUDA_MEMCPY3D box = {.WidthInBytes = 16, .Height = 1, .Depth = 1};
	CUdeviceptr to = alive.memory, from = to + 64, memory;
	size_t bytes;
	void *host;

	flat.srcMemoryType = flat.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	flat.srcDevice = from, flat.dstDevice = to;
	box.srcMemoryType = box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	box.srcDevice = from, box.dstDevice = to;
	REFUSED(expected, cuMemGetInfo(&bytes, &bytes));
	REFUSED(expected, cuMemAlloc(&memory, 16));
	REFUSED(expected, cuMemAllocPitch(&memory, &bytes, 16, 16, 4));
	REFUSED(expected, cuMemAllocHost(&host, 16));
	REFUSED(expected, cuMemHostAlloc(&host, 16, 0));
	REFUSED(expected, cuMemAllocManaged(&memory, 16, CU_MEM_ATTACH_GLOBAL));
	REFUSED(expected, cuMemGetAddressRange(&memory, &bytes, to));
	REFUSED(expected, cuMemHostGetDevicePointer(&memory, alive.host, 0));
	REFUSED(expected, cuMemHostRegister(garbage, sizeof garbage, 0));
	REFUSED(expected, cuMemcpy(to, from, 16));
	REFUSED(expected, cuMemcpyHtoD(to, garbage, 16));
	REFUSED(expected, cuMemcpyDtoH(garbage, from, 16));
	REFUSED(expected, cuMemcpyDtoD(to, from, 16));
	REFUSED(expected, cuMemcpy2D(&flat));
	REFUSED(expected, cuMemcpy2DUnaligned(&flat));
	REFUSED(expected, cuMemcpy3D(&box));
	REFUSED(expected, cuMemcpyAsync(to, from, 16, NULL));
	REFUSED(expected, cuMemcpyHtoDAsync(to, garbage, 16, NULL));
	REFUSED(expected, cuMemcpyDtoHAsync(garbage, from, 16, NULL));
	REFUSED(expected, cuMemcpyDtoDAsync(to, from, 16, NULL));
	REFUSED(expected, cuMemcpy2DAsync(&flat, NULL));
	REFUSED(expected, cuMemcpy3DAsync(&box, NULL));
	REFUSED(expected, cuMemsetD8(to, 0, 16));
	REFUSED(expected, cuMemsetD16(to, 0, 8));
	REFUSED(expected, cuMemsetD32(to, 0, 4));
	REFUSED(expected, cuMemsetD2D8(to, 16, 0, 16, 1));
	REFUSED(expected, cuMemsetD2D16(to, 16, 0, 8, 1));
	REFUSED(expected, cuMemsetD2D32(to, 16, 0, 4, 1));
	REFUSED(expected, cuMemsetD8Async(to, 0, 16, NULL));
	REFUSED(expected, cuMemsetD16Async(to, 0, 8, NULL));
	REFUSED(expected, cuMemsetD32Async(to, 0, 4, NULL));
	REFUSED(expected, cuMemsetD2D8Async(to, 16, 0, 16, 1, NULL));
	REFUSED(expected, cuMemsetD2D16Async(to, 16, 0, 8, 1, NULL));
	REFUSED(expected, cuMemsetD2D32Async(to, 16, 0, 4, 1, NULL));
	REFUSED(expected, cuMemAllocAsync(&memory, 16, NULL));
	REFUSED(expected, cuMemAllocFromPoolAsync(&memory, 16, alive.pool, NULL));
	REFUSED(expected, cuMemFreeAsync(to, NULL));
}

/* Calls of the current context, or of its default stream. */
static void of_the_current_context(CUresult expected)
{
	CUdeviceptr to = alive.memory, memory;
	CUfunction function;
	CUfunc_cache cache;
	CUsharedconfig shared;
	CUlinkState link;
	CUcontext context;
	CUstream stream;
	CUmodule module;
	CUdevice device;
	CUevent event;
	unsigned flags;
	size_t bytes;
	int least, greatest;

	REFUSED(expected, cuCtxPopCurrent(&context));
	REFUSED(expected, cuCtxGetDevice(&device));
	REFUSED(expected, cuCtxGetFlags(&flags));
	REFUSED(expected, cuCtxSetFlags(0));
	REFUSED(expected, cuCtxSynchronize());
	REFUSED(expected, cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
	REFUSED(expected, cuCtxGetLimit(&bytes, CU_LIMIT_STACK_SIZE));
	REFUSED(expected, cuCtxGetCacheConfig(&cache));
	REFUSED(expected, cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_NONE));
	REFUSED(expected, cuCtxGetSharedMemConfig(&shared));
	REFUSED(expected, cuCtxSetSharedMemConfig(CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE));
	REFUSED(expected, cuCtxGetStreamPriorityRange(&least, &greatest));
	REFUSED(expected, cuCtxResetPersistingL2Cache());
	REFUSED(expected, cuCtxAttach(&context, 0));
	REFUSED(expected, cuCtxEnablePeerAccess(alive.context, 0));
	REFUSED(expected, cuModuleLoad(&module, "/dev/null"));
	REFUSED(expected, cuModuleLoadData(&module, kernels_ptx));
	REFUSED(expected, cuModuleLoadDataEx(&module, kernels_ptx, 0, NULL, NULL));
	REFUSED(expected, cuModuleLoadFatBinary(&module, kernels_ptx));
	REFUSED(expected, cuLinkCreate(0, NULL, NULL, &link));
	REFUSED(expected, cuLibraryGetModule(&module, alive.library));
	REFUSED(expected, cuLibraryGetGlobal(&memory, &bytes, alive.library, "variable"));
	REFUSED(expected, cuKernelGetFunction(&function, alive.kernel));
	REFUSED(expected, cuStreamCreate(&stream, 0));
	REFUSED(expected, cuStreamCreateWithPriority(&stream, 0, 0));
	REFUSED(expected, cuStreamSynchronize(NULL));
	REFUSED(expected, cuStreamQuery(NULL));
	REFUSED(expected, cuStreamGetCtx(NULL, &context));
	REFUSED(expected, cuStreamGetFlags(NULL, &flags));
	REFUSED(expected, cuStreamGetPriority(NULL, &least));
	REFUSED(expected, cuStreamWaitEvent(NULL, alive.event, 0));
	REFUSED(expected, cuStreamWaitValue32(NULL, to, 0, 0));
	REFUSED(expected, cuStreamWaitValue64(NULL, to, 0, 0));
	REFUSED(expected, cuStreamWriteValue32(NULL, to, 0, 0));
	REFUSED(expected, cuStreamWriteValue64(NULL, to, 0, 0));
	REFUSED(expected, cuEventCreate(&event, 0));
	REFUSED(expected, cuEventRecord(alive.event, NULL));
	REFUSED(expected, cuEventRecordWithFlags(alive.event, NULL, 0));
	REFUSED(expected, cuGraphLaunch(alive.exec, NULL));
	REFUSED(expected, cuProfilerStart());
	REFUSED(expected, cuProfilerStop());
	of_current_memory(expected);
}

/* Calls that need cuInit, but no context. */
static void of_the_process(CUresult expected)
{
	CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
	CUdevprop properties;
	CUfunction function;
	CUlibrary library;
	CUcontext context;
	CUgraph graph;
	CUdevice device;
	CUmemoryPool pool;
	CUuuid uuid;
	char text[64];
	size_t bytes;
	unsigned flags;
	int number;

	REFUSED(expected, cuDeviceGetCount(&number));
	REFUSED(expected, cuDeviceGet(&device, 0));
	REFUSED(expected, cuDeviceGetName(text, sizeof text, 0));
	REFUSED(expected, cuDeviceGetUuid(&uuid, 0));
	REFUSED(expected, cuDeviceTotalMem(&bytes, 0));
	REFUSED(expected, cuDeviceGetAttribute(&number, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
	REFUSED(expected, cuDeviceGetProperties(&properties, 0));
	REFUSED(expected, cuDeviceComputeCapability(&number, &number, 0));
	REFUSED(expected, cuDeviceGetByPCIBusId(&device, "0000:01:00.0"));
	REFUSED(expected, cuDeviceGetPCIBusId(text, sizeof text, 0));
	REFUSED(expected, cuDeviceGetDefaultMemPool(&pool, 0));
	REFUSED(expected, cuDeviceGetMemPool(&pool, 0));
	REFUSED(expected, cuMemGetMemPool(&pool, &here, CU_MEM_ALLOCATION_TYPE_PINNED));
	REFUSED(expected, cuModuleGetFunction(&function, alive.module, "add"));
	REFUSED(expected, cuLibraryLoadData(&library, kernels_ptx, NULL, NULL, 0, NULL, NULL, 0));
	REFUSED(expected, cuGraphCreate(&graph, 0));
	REFUSED(expected, cuDevicePrimaryCtxRetain(&context, 0));
	REFUSED(expected, cuDevicePrimaryCtxRelease(0));
	REFUSED(expected, cuDevicePrimaryCtxSetFlags(0, 0));
	REFUSED(expected, cuDevicePrimaryCtxGetState(0, &flags, &number));
	REFUSED(expected, cuDevicePrimaryCtxReset(0));
	REFUSED(expected, cuCtxCreate(&context, NULL, 0, 0));
	REFUSED(expected, cuCtxSetCurrent(NULL));
	REFUSED(expected, cuCtxGetCurrent(&context));
	REFUSED(expected, cuCtxPushCurrent(alive.context));
	REFUSED(expected, cuCtxDestroy(alive.context));
	REFUSED(expected, cuEventQuery(alive.event));
	REFUSED(expected, cuEventSynchronize(alive.event));
	REFUSED(expected, cuEventDestroy(alive.event));
	REFUSED(expected, cuModuleUnload(alive.module));
	REFUSED(expected, cuLibraryUnload(alive.library));
	REFUSED(expected, cuGraphDestroy(alive.graph));
	REFUSED(expected, cuMemPoolDestroy(alive.pool));
	REFUSED(expected, cuMemFreeHost(alive.host));
	REFUSED(expected, cuMemFree(alive.memory));
}

/* Nothing exists yet, so that all handles are null. */
static void before_cuInit(void **state)
{
	errors_arguments_may_be_first();
	of_the_current_context(CUDA_ERROR_NOT_INITIALIZED);
	of_the_process(CUDA_ERROR_NOT_INITIALIZED);
	errors_of_the_rest(CUDA_ERROR_NOT_INITIALIZED);
	assert_int_equal(errors_wrong(), 0);
}

static void without_a_context(void **state)
{
	CUdeviceptr memory;
	void *host;

	assert_success(cuMemAlloc(&memory, 16));
	assert_success(cuMemHostAlloc(&host, 16, 0));
	assert_success(cuCtxSetCurrent(NULL));
	of_the_current_context(CUDA_ERROR_INVALID_CONTEXT);
	assert_success(cuMemFree(0)); /* addresses say whose they are */
	assert_success(cuMemFree(memory));
	assert_success(cuMemFreeHost(host));
}

/* The parent's objects are nothing to a child. (NVIDIA's library cannot be used in one.) */
static void in_a_forked_child(void **state)
{
	pid_t child;
	int status;

	if (errors_of_vendor())
		skip();
	child = fork();
	if (!child) {
		of_the_current_context(CUDA_ERROR_NOT_INITIALIZED);
		of_the_process(CUDA_ERROR_NOT_INITIALIZED);
		errors_of_the_rest(CUDA_ERROR_NOT_INITIALIZED);
		_exit(errors_wrong() > 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

int errors_of_state(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(before_cuInit),
		ERRORS_TEST(without_a_context),
		ERRORS_TEST(in_a_forked_child),
	};

	return ERRORS_RUN(tests);
}
