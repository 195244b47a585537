/* SPDX-License-Identifier: MIT
 *
 * Errors of devices, contexts, and what belongs to neither.
 */
#include "errors.h"

/* No header declares it any more. */
CUresult cuProfilerInitialize(const char *config, const char *output, int mode);

static void of_devices(void **state)
{
	const CUatomicOperation add = CU_ATOMIC_OPERATION_INTEGER_ADD, no = CU_ATOMIC_OPERATION_MAX;
	CUexecAffinityType affinity = CU_EXEC_AFFINITY_TYPE_SM_COUNT;
	CUdevprop properties;
	CUdevice device;
	CUuuid uuid;
	char text[64];
	unsigned found;
	int number;
	size_t bytes;

	INVALID_VALUE(cuInit(1));
	INVALID_VALUE(cuDriverGetVersion(NULL));
	INVALID_VALUE(cuDeviceGet(NULL, 0));
	INVALID_DEVICE(cuDeviceGet(&device, -1));
	INVALID_DEVICE(cuDeviceGet(&device, NO_DEVICE));
	INVALID_VALUE(cuDeviceGetCount(NULL));
	INVALID_VALUE(cuDeviceGetName(NULL, 10, fixture_device));
	CRASHES(CUDA_ERROR_INVALID_VALUE, cuDeviceGetName(text, 0, fixture_device));
	DIFFERS(CUDA_ERROR_INVALID_VALUE, CUDA_SUCCESS, "takes it for a large size",
		cuDeviceGetName(text, -1, fixture_device));
	INVALID_DEVICE(cuDeviceGetName(text, sizeof text, NO_DEVICE));
	INVALID_VALUE(cuDeviceGetUuid(NULL, fixture_device));
	INVALID_DEVICE(cuDeviceGetUuid(&uuid, NO_DEVICE));
	INVALID_VALUE(cuDeviceTotalMem(NULL, fixture_device));
	INVALID_DEVICE(cuDeviceTotalMem(&bytes, NO_DEVICE));
	INVALID_VALUE(cuDeviceGetAttribute(NULL, CU_DEVICE_ATTRIBUTE_WARP_SIZE, fixture_device));
	INVALID_VALUE(cuDeviceGetAttribute(&number, (CUdevice_attribute)100000, fixture_device));
	INVALID_VALUE(cuDeviceGetAttribute(&number, (CUdevice_attribute)-1, fixture_device));
	INVALID_DEVICE(cuDeviceGetAttribute(&number, CU_DEVICE_ATTRIBUTE_WARP_SIZE, NO_DEVICE));
	INVALID_VALUE(cuDeviceGetProperties(NULL, fixture_device));
	INVALID_DEVICE(cuDeviceGetProperties(&properties, NO_DEVICE));
	INVALID_VALUE(cuDeviceComputeCapability(NULL, &number, fixture_device));
	INVALID_VALUE(cuDeviceComputeCapability(&number, NULL, fixture_device));
	INVALID_DEVICE(cuDeviceComputeCapability(&number, &number, NO_DEVICE));
	INVALID_VALUE(cuDeviceGetExecAffinitySupport(NULL, affinity, fixture_device));
	INVALID_DEVICE(cuDeviceGetExecAffinitySupport(&number, affinity, NO_DEVICE));
	INVALID_VALUE(cuDeviceGetByPCIBusId(NULL, "0000:01:00.0"));
	INVALID_VALUE(cuDeviceGetByPCIBusId(&device, NULL));
	INVALID_VALUE(cuDeviceGetByPCIBusId(&device, "nonsense"));
	INVALID_DEVICE(cuDeviceGetByPCIBusId(&device, "0000:fe:1f.0"));
	INVALID_VALUE(cuDeviceGetPCIBusId(NULL, 32, fixture_device));
	INVALID_VALUE(cuDeviceGetPCIBusId(text, 0, fixture_device));
	INVALID_DEVICE(cuDeviceGetPCIBusId(text, sizeof text, NO_DEVICE));
	INVALID_VALUE(cuDeviceCanAccessPeer(NULL, fixture_device, fixture_device));
	INVALID_DEVICE(cuDeviceCanAccessPeer(&number, fixture_device, NO_DEVICE));
	INVALID_DEVICE(cuDeviceCanAccessPeer(&number, NO_DEVICE, fixture_device));
	INVALID_VALUE(cuDeviceGetP2PAttribute(
		NULL, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, fixture_device, fixture_device));
	INVALID_DEVICE(cuDeviceGetP2PAttribute(
		&number, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, fixture_device, NO_DEVICE));
	INVALID_DEVICE(cuDeviceGetHostAtomicCapabilities(&found, &add, 1, NO_DEVICE));
	INVALID_VALUE(cuDeviceGetHostAtomicCapabilities(NULL, &add, 1, fixture_device));
	INVALID_VALUE(cuDeviceGetHostAtomicCapabilities(&found, NULL, 1, fixture_device));
	INVALID_VALUE(cuDeviceGetHostAtomicCapabilities(&found, &add, 0, fixture_device));
	INVALID_VALUE(cuDeviceGetHostAtomicCapabilities(&found, &no, 1, fixture_device));
	INVALID_DEVICE(
		cuDeviceGetP2PAtomicCapabilities(&found, &add, 1, fixture_device, fixture_device));
	INVALID_DEVICE(
		cuDeviceGetP2PAtomicCapabilities(&found, &add, 1, fixture_device, NO_DEVICE));
}

static void of_primary_contexts(void **state)
{
	CUcontext context;
	unsigned flags;
	int active;

	INVALID_VALUE(cuDevicePrimaryCtxRetain(NULL, fixture_device));
	INVALID_DEVICE(cuDevicePrimaryCtxRetain(&context, NO_DEVICE));
	INVALID_DEVICE(cuDevicePrimaryCtxRelease(NO_DEVICE));
	INVALID_CONTEXT(cuDevicePrimaryCtxRelease(fixture_device));
	INVALID_VALUE(cuDevicePrimaryCtxSetFlags(fixture_device, 0x8000));
	INVALID_DEVICE(cuDevicePrimaryCtxSetFlags(NO_DEVICE, 0));
	INVALID_VALUE(cuDevicePrimaryCtxGetState(fixture_device, NULL, &active));
	INVALID_VALUE(cuDevicePrimaryCtxGetState(fixture_device, &flags, NULL));
	INVALID_DEVICE(cuDevicePrimaryCtxGetState(NO_DEVICE, &flags, &active));
	INVALID_DEVICE(cuDevicePrimaryCtxReset(NO_DEVICE));
}

static void with_context(CUcontext bad)
{
	CUresult wrong = bad ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_VALUE;
	CUdevice device;
	unsigned version;
	unsigned long long id;

	REFUSED(wrong, cuCtxDestroy(bad));
	REFUSED(wrong, cuCtxPushCurrent(bad));
	INVALID_CONTEXT(cuCtxDetach(bad));
	INVALID_CONTEXT(cuCtxEnablePeerAccess(bad, 0));
	INVALID_CONTEXT(cuCtxDisablePeerAccess(bad));
	if (!bad)
		return; /* to the rest it means the current one */
	INVALID_CONTEXT(cuCtxSetCurrent(bad));
	INVALID_CONTEXT(cuCtxGetId(bad, &id));
	INVALID_CONTEXT(cuCtxGetApiVersion(bad, &version));
	INVALID_CONTEXT(cuCtxGetDevice_v2(&device, bad));
	INVALID_CONTEXT(cuCtxSynchronize_v2(bad));
	INVALID_CONTEXT(cuCtxRecordEvent(bad, alive.event));
	INVALID_CONTEXT(cuCtxWaitEvent(bad, alive.event));
	INVALID_CONTEXT(cuMemcpyPeer(alive.memory, bad, alive.memory, alive.context, 16));
	INVALID_CONTEXT(cuMemcpyPeer(alive.memory, alive.context, alive.memory, bad, 16));
	INVALID_CONTEXT(
		cuMemcpyPeerAsync(alive.memory, bad, alive.memory, alive.context, 16, NULL));
}

static void of_context_handles(void **state)
{
	with_context(NULL);
	OURS(with_context(GARBAGE(CUcontext)));
	OURS(with_context(gone.context));
	OURS(with_context((CUcontext)(void *)alive.stream));
}

static void of_contexts(void **state)
{
	CUexecAffinityParam affinity;
	CUctxCreateParams params = {0};
	CUcontext context;
	unsigned version;
	size_t bytes;

	INVALID_VALUE(cuCtxCreate(NULL, NULL, 0, fixture_device));
	INVALID_VALUE(cuCtxCreate(&context, &params, 0x8000, fixture_device));
	INVALID_DEVICE(cuCtxCreate(&context, NULL, 0, NO_DEVICE));
	INVALID_VALUE(cuCtxGetId(alive.context, NULL));
	INVALID_VALUE(cuCtxGetCurrent(NULL));
	INVALID_VALUE(cuCtxGetDevice(NULL));
	INVALID_VALUE(cuCtxGetFlags(NULL));
	INVALID_VALUE(cuCtxSetFlags(0x8000));
	INVALID_VALUE(cuCtxSetLimit((CUlimit)99, 1));
	INVALID_VALUE(cuCtxGetLimit(NULL, CU_LIMIT_STACK_SIZE));
	INVALID_VALUE(cuCtxGetLimit(&bytes, (CUlimit)99));
	INVALID_VALUE(cuCtxGetCacheConfig(NULL));
	INVALID_VALUE(cuCtxSetCacheConfig((CUfunc_cache)9));
	INVALID_VALUE(cuCtxGetSharedMemConfig(NULL));
	INVALID_VALUE(cuCtxSetSharedMemConfig((CUsharedconfig)9));
	INVALID_VALUE(cuCtxGetApiVersion(alive.context, NULL));
	INVALID_VALUE(cuCtxAttach(NULL, 0));
	INVALID_VALUE(cuCtxAttach(&context, 1));
	INVALID_VALUE(cuCtxGetExecAffinity(NULL, CU_EXEC_AFFINITY_TYPE_SM_COUNT));
	REFUSED(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY,
		cuCtxGetExecAffinity(&affinity, (CUexecAffinityType)77));
	REFUSED(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
		cuCtxEnablePeerAccess(alive.context, 0)); /* to oneself */
	REFUSED(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(alive.context));
	INVALID_HANDLE(cuCtxRecordEvent(alive.context, NULL));
	INVALID_HANDLE(cuCtxRecordEvent(alive.context, gone.event));
	INVALID_HANDLE(cuCtxWaitEvent(alive.context, NULL));
	INVALID_HANDLE(cuCtxWaitEvent(alive.context, gone.event));
	assert_success(cuCtxGetApiVersion(NULL, &version));
}

static void of_entry_points(void **state)
{
	CUdriverProcAddressQueryResult status;
	const char *text;
	const void *table;
	CUuuid nobody = {{0}};
	void *address;

	CRASHES(CUDA_ERROR_INVALID_VALUE, cuGetErrorString(CUDA_SUCCESS, NULL));
	INVALID_VALUE(cuGetErrorString((CUresult)123456, &text));
	CRASHES(CUDA_ERROR_INVALID_VALUE, cuGetErrorName(CUDA_SUCCESS, NULL));
	INVALID_VALUE(cuGetErrorName((CUresult)123456, &text));
	CRASHES(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress(NULL, &address, 13000, 0, &status));
	CRASHES(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress("cuInit", NULL, 13000, 0, &status));
	INVALID_VALUE(cuGetProcAddress("cuInit", &address, 13000, 0xff00, &status));
	INVALID_VALUE(cuGetExportTable(NULL, &nobody));
	INVALID_VALUE(cuGetExportTable(&table, NULL));
	REFUSED(CUDA_ERROR_NOT_SUPPORTED, cuProfilerInitialize("", "", 0));
}

static void of_logs(void **state)
{
	char text[64];
	size_t size = sizeof text, tiny = 0;
	CUlogsCallbackHandle callback;

	INVALID_VALUE(cuLogsRegisterCallback(NULL, NULL, &callback));
	INVALID_VALUE(cuLogsUnregisterCallback(NULL));
	OURS(INVALID_VALUE(cuLogsUnregisterCallback(GARBAGE(CUlogsCallbackHandle))));
	INVALID_VALUE(cuLogsCurrent(NULL, 0));
	INVALID_VALUE(cuLogsDumpToFile(NULL, NULL, 0));
	INVALID_VALUE(cuLogsDumpToFile(NULL, "/no/such/folder/file", 0));
	INVALID_VALUE(cuLogsDumpToMemory(NULL, NULL, &size, 0));
	INVALID_VALUE(cuLogsDumpToMemory(NULL, text, NULL, 0));
	INVALID_VALUE(cuLogsDumpToMemory(NULL, text, &tiny, 0));
	INVALID_VALUE(cuLogsDumpToMemory(NULL, text, &size, 1));
}

int errors_of_contexts(void)
{
	const struct CMUnitTest tests[] = {
		ERRORS_TEST(of_devices),
		ERRORS_TEST(of_primary_contexts),
		ERRORS_TEST(of_context_handles),
		ERRORS_TEST(of_contexts),
		ERRORS_TEST(of_entry_points),
		ERRORS_TEST(of_logs),
	};

	return ERRORS_RUN(tests);
}
