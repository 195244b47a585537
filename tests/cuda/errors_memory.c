/* SPDX-License-Identifier: MIT
 *
 * Errors of memory and copies.
 */
#include "errors.h"

#define FAR (1ull << 60) /* an address that nothing has */
#define HUGE (1ull << 50)

static void of_allocations(void **state)
{
	CUdeviceptr memory;
	unsigned flags;
	size_t bytes;
	void *host;

	INVALID_VALUE(cuMemAlloc(NULL, 16));
	INVALID_VALUE(cuMemAlloc(&memory, 0));
	REFUSED(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&memory, HUGE));
	INVALID_VALUE(cuMemAllocPitch(NULL, &bytes, 16, 16, 4));
	INVALID_VALUE(cuMemAllocPitch(&memory, NULL, 16, 16, 4));
	INVALID_VALUE(cuMemAllocPitch(&memory, &bytes, 0, 16, 4));
	INVALID_VALUE(cuMemAllocPitch(&memory, &bytes, 16, 16, 3));
	INVALID_VALUE(cuMemAllocHost(NULL, 16));
	INVALID_VALUE(cuMemHostAlloc(NULL, 16, 0));
	INVALID_VALUE(cuMemHostAlloc(&host, 16, 0x8000));
	INVALID_VALUE(cuMemAllocManaged(NULL, 16, CU_MEM_ATTACH_GLOBAL));
	INVALID_VALUE(cuMemAllocManaged(&memory, 0, CU_MEM_ATTACH_GLOBAL));
	INVALID_VALUE(cuMemAllocManaged(&memory, 16, 0x80));
	INVALID_VALUE(cuMemFree(gone.memory));
	INVALID_VALUE(cuMemFree(alive.memory + 16));
	INVALID_VALUE(cuMemFree((CUdeviceptr)garbage));
	INVALID_VALUE(cuMemFreeHost(gone.host));
	INVALID_VALUE(cuMemFreeHost(garbage));
	NOT_FOUND(cuMemGetAddressRange(&memory, &bytes, (CUdeviceptr)garbage));
	NOT_FOUND(cuMemGetAddressRange(&memory, &bytes, gone.memory));
	INVALID_VALUE(cuMemHostGetDevicePointer(NULL, alive.host, 0));
	INVALID_VALUE(cuMemHostGetDevicePointer(&memory, NULL, 0));
	INVALID_VALUE(cuMemHostGetDevicePointer(&memory, garbage, 0));
	INVALID_VALUE(cuMemHostGetDevicePointer(&memory, gone.host, 0));
	INVALID_VALUE(cuMemHostGetDevicePointer(&memory, alive.host, 1));
	INVALID_VALUE(cuMemHostGetFlags(NULL, alive.host));
	INVALID_VALUE(cuMemHostGetFlags(&flags, NULL));
	INVALID_VALUE(cuMemHostGetFlags(&flags, garbage));
	INVALID_VALUE(cuMemHostGetFlags(&flags, gone.host));
	INVALID_VALUE(cuMemHostRegister(NULL, 4096, 0));
	INVALID_VALUE(cuMemHostRegister(garbage, 0, 0));
	INVALID_VALUE(cuMemHostRegister(garbage, sizeof garbage, 0x8000));
	INVALID_VALUE(cuMemHostUnregister(NULL));
	REFUSED(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(garbage));
}

/* Device memory that is not there. */
static void with_address(CUdeviceptr bad)
{
	CUdeviceptr good = alive.memory;
	char host[64] = "";

	INVALID_VALUE(cuMemcpyHtoD(bad, host, 16));
	INVALID_VALUE(cuMemcpyDtoH(host, bad, 16));
	INVALID_VALUE(cuMemcpyDtoD(bad, good, 16));
	INVALID_VALUE(cuMemcpyDtoD(good, bad, 16));
	INVALID_VALUE(cuMemcpyHtoDAsync(bad, host, 16, alive.stream));
	INVALID_VALUE(cuMemcpyDtoHAsync(host, bad, 16, alive.stream));
	INVALID_VALUE(cuMemcpyDtoDAsync(bad, good, 16, alive.stream));
	INVALID_VALUE(cuMemcpyPeer(bad, alive.context, good, alive.context, 16));
	INVALID_VALUE(cuMemcpyPeerAsync(good, alive.context, bad, alive.context, 16, NULL));
	INVALID_VALUE(cuMemsetD8(bad, 0, 16));
	INVALID_VALUE(cuMemsetD16(bad, 0, 8));
	INVALID_VALUE(cuMemsetD32(bad, 0, 4));
	INVALID_VALUE(cuMemsetD2D8(bad, 16, 0, 16, 2));
	INVALID_VALUE(cuMemsetD2D16(bad, 16, 0, 8, 2));
	INVALID_VALUE(cuMemsetD2D32(bad, 16, 0, 4, 2));
	INVALID_VALUE(cuMemsetD8Async(bad, 0, 16, alive.stream));
	INVALID_VALUE(cuMemsetD16Async(bad, 0, 8, alive.stream));
	INVALID_VALUE(cuMemsetD32Async(bad, 0, 4, alive.stream));
	INVALID_VALUE(cuMemsetD2D8Async(bad, 16, 0, 16, 2, alive.stream));
	INVALID_VALUE(cuMemsetD2D16Async(bad, 16, 0, 8, 2, alive.stream));
	INVALID_VALUE(cuMemsetD2D32Async(bad, 16, 0, 4, 2, alive.stream));
}

static void of_addresses(void **state)
{
	with_address(0);
	with_address(FAR);
	with_address(gone.memory);
	with_address(alive.memory + OBJECT_BYTES - 8); /* begins inside, ends outside */
	CRASHES(CUDA_ERROR_INVALID_VALUE, cuMemcpy(gone.memory, alive.memory, 16));
	CRASHES(CUDA_ERROR_INVALID_VALUE, cuMemcpy(alive.memory, gone.memory, 16));
	CRASHES(CUDA_ERROR_INVALID_VALUE,
		cuMemcpyAsync(gone.memory, alive.memory, 16, alive.stream));
	INVALID_VALUE(cuMemcpyHtoD(alive.memory, NULL, 16));
	INVALID_VALUE(cuMemcpyDtoH(NULL, alive.memory, 16));
	INVALID_VALUE(cuMemcpyHtoDAsync(alive.memory, NULL, 16, alive.stream));
	INVALID_VALUE(cuMemcpyDtoHAsync(NULL, alive.memory, 16, alive.stream));
	INVALID_VALUE(cuMemsetD16(alive.memory + 1, 0, 1));
	INVALID_VALUE(cuMemsetD32(alive.memory + 2, 0, 1));
	INVALID_VALUE(cuMemsetD2D32(alive.memory, 8, 0, 4, 2)); /* wider than its pitch */
}

static void with_stream(CUstream bad)
{
	CUDA_MEMCPY2D flat = {0};
	CUDA_MEMCPY3D box = {0};
	CUDA_MEMCPY3D_PEER peer = {0};
	CUdeviceptr to = alive.memory, from = alive.memory + 64;
	CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
	size_t size = 16, first = 0;

	INVALID_HANDLE(cuMemcpyAsync(to, from, 16, bad));
	INVALID_HANDLE(cuMemcpyPeerAsync(to, alive.context, from, alive.context, 16, bad));
	INVALID_HANDLE(cuMemcpyHtoDAsync(to, garbage, 16, bad));
	INVALID_HANDLE(cuMemcpyDtoHAsync(garbage, from, 16, bad));
	INVALID_HANDLE(cuMemcpyDtoDAsync(to, from, 16, bad));
	flat.srcMemoryType = flat.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	flat.srcDevice = from, flat.dstDevice = to, flat.WidthInBytes = 16, flat.Height = 1;
	INVALID_HANDLE(cuMemcpy2DAsync(&flat, bad));
	box.srcMemoryType = box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	box.srcDevice = from, box.dstDevice = to;
	box.WidthInBytes = 16, box.Height = box.Depth = 1;
	INVALID_HANDLE(cuMemcpy3DAsync(&box, bad));
	peer.srcMemoryType = peer.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	peer.srcDevice = from, peer.dstDevice = to;
	peer.srcContext = peer.dstContext = alive.context;
	peer.WidthInBytes = 16, peer.Height = peer.Depth = 1;
	INVALID_HANDLE(cuMemcpy3DPeerAsync(&peer, bad));
	INVALID_HANDLE(cuMemcpyBatchAsync(&to, &from, &size, 1, &attributes, &first, 1, bad));
	INVALID_HANDLE(cuMemsetD8Async(to, 0, 16, bad));
	INVALID_HANDLE(cuMemsetD16Async(to, 0, 8, bad));
	INVALID_HANDLE(cuMemsetD32Async(to, 0, 4, bad));
	INVALID_HANDLE(cuMemsetD2D8Async(to, 16, 0, 16, 2, bad));
	INVALID_HANDLE(cuMemsetD2D16Async(to, 16, 0, 8, 2, bad));
	INVALID_HANDLE(cuMemsetD2D32Async(to, 16, 0, 4, 2, bad));
}

static void of_streams_of_copies(void **state)
{
	OURS(with_stream(GARBAGE(CUstream)));
	OURS(with_stream(gone.stream));
	OURS(with_stream((CUstream)(void *)alive.event));
}

static void of_descriptions(void **state)
{
	CUDA_MEMCPY2D flat = {.WidthInBytes = 16, .Height = 2, .srcPitch = 8, .dstPitch = 16};
	CUDA_MEMCPY3D box = {.WidthInBytes = 16, .Height = 2, .Depth = 2, .srcPitch = 8};
	CUDA_MEMCPY3D_PEER peer = {.WidthInBytes = 16, .Height = 1, .Depth = 1};
	CUdeviceptr to = alive.memory, from = gone.memory;
	CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
	size_t size = 16, first = 0;

	INVALID_VALUE(cuMemcpy2D(NULL));
	INVALID_VALUE(cuMemcpy2DUnaligned(NULL));
	INVALID_VALUE(cuMemcpy2DAsync(NULL, alive.stream));
	INVALID_VALUE(cuMemcpy3D(NULL));
	INVALID_VALUE(cuMemcpy3DAsync(NULL, alive.stream));
	CRASHES(CUDA_ERROR_INVALID_VALUE, cuMemcpy3DPeer(NULL));
	CRASHES(CUDA_ERROR_INVALID_VALUE, cuMemcpy3DPeerAsync(NULL, alive.stream));
	INVALID_VALUE(cuMemcpy2D(&flat)); /* of no type of memory */
	flat.srcMemoryType = flat.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	flat.srcDevice = flat.dstDevice = to;
	INVALID_VALUE(cuMemcpy2D(&flat)); /* the pitch is less than the width */
	INVALID_VALUE(cuMemcpy2DUnaligned(&flat));
	INVALID_VALUE(cuMemcpy2DAsync(&flat, alive.stream));
	flat.srcPitch = 16, flat.srcDevice = gone.memory;
	INVALID_VALUE(cuMemcpy2D(&flat));
	INVALID_VALUE(cuMemcpy2DUnaligned(&flat));
	INVALID_VALUE(cuMemcpy3D(&box));
	box.srcMemoryType = box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	box.srcDevice = gone.memory, box.dstDevice = to, box.srcPitch = box.dstPitch = 16;
	box.srcHeight = box.dstHeight = 2;
	INVALID_VALUE(cuMemcpy3D(&box));
	INVALID_VALUE(cuMemcpy3DAsync(&box, alive.stream));
	peer.srcMemoryType = peer.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	peer.srcDevice = gone.memory, peer.dstDevice = to;
	peer.srcContext = peer.dstContext = alive.context;
	INVALID_VALUE(cuMemcpy3DPeer(&peer));
	peer.srcContext = gone.context;
	OURS(INVALID_CONTEXT(cuMemcpy3DPeer(&peer)));
	OURS(INVALID_CONTEXT(cuMemcpy3DPeerAsync(&peer, alive.stream)));
	INVALID_VALUE(
		cuMemcpyBatchAsync(NULL, &from, &size, 1, &attributes, &first, 1, alive.stream));
	INVALID_VALUE(
		cuMemcpyBatchAsync(&to, &from, NULL, 1, &attributes, &first, 1, alive.stream));
	INVALID_VALUE(cuMemcpyBatchAsync(&to, &to, &size, 1, NULL, &first, 1, alive.stream));
	INVALID_VALUE(
		cuMemcpyBatchAsync(&to, &from, &size, 0, &attributes, &first, 1, alive.stream));
	CRASHES(CUDA_ERROR_INVALID_VALUE,
		cuMemcpyBatchAsync(&to, &from, &size, 1, &attributes, &first, 1, alive.stream));
	INVALID_VALUE(cuMemcpyBatchAsync(&to, &to, &size, 1, &attributes, &first, 1, NULL));
	INVALID_VALUE(cuMemcpyBatchAsync((CUdeviceptr[]){to, to}, (CUdeviceptr[]){from, from},
		(size_t[]){size, size}, 2, (CUmemcpyAttributes[]){attributes, attributes},
		(size_t[]){0, 0}, 2, alive.stream)); /* the second are for no copy */
}

static void of_pointers(void **state)
{
	CUpointer_attribute type = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
	unsigned kind, sync = 1;
	void *data = &kind;

	INVALID_VALUE(cuPointerGetAttribute(NULL, type, alive.memory));
	INVALID_VALUE(cuPointerGetAttribute(&kind, (CUpointer_attribute)999, alive.memory));
	INVALID_VALUE(cuPointerGetAttribute(&kind, type, gone.memory));
	INVALID_VALUE(cuPointerGetAttribute(&kind, type, (CUdeviceptr)garbage));
	INVALID_VALUE(cuPointerGetAttributes(1, NULL, &data, alive.memory));
	INVALID_VALUE(cuPointerGetAttributes(1, &type, NULL, alive.memory));
	INVALID_VALUE(cuPointerSetAttribute(NULL, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, alive.memory));
	INVALID_VALUE(cuPointerSetAttribute(&sync, type, alive.memory));
	INVALID_VALUE(cuPointerSetAttribute(&sync, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, gone.memory));
}

static void of_boxes_in_batches(void **state)
{
	CUmemcpy3DOperand memory = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER};
	CUDA_MEMCPY3D_BATCH_OP good = {.extent = {4, 2, 1},
				       .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM},
			       bad;

	memory.op.ptr.ptr = alive.memory;
	good.src = good.dst = memory;
	good.dst.op.ptr.ptr += 1024;
	assert_success(cuMemcpy3DBatchAsync(1, &good, 0, alive.stream));
	INVALID_VALUE(cuMemcpy3DBatchAsync(0, &good, 0, alive.stream));
	INVALID_VALUE(cuMemcpy3DBatchAsync(1, NULL, 0, alive.stream));
	INVALID_VALUE(cuMemcpy3DBatchAsync(1, &good, 1, alive.stream));
	INVALID_VALUE(cuMemcpy3DBatchAsync(1, &good, 0, NULL));
	INVALID_HANDLE(cuMemcpy3DBatchAsync(1, &good, 0, gone.stream));
	bad = good;
	bad.extent.depth = 0;
	INVALID_VALUE(cuMemcpy3DBatchAsync(1, &bad, 0, alive.stream));
	bad = good;
	bad.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID;
	INVALID_VALUE(cuMemcpy3DBatchAsync(1, &bad, 0, alive.stream));
	bad = good;
	bad.src.type = (CUmemcpy3DOperandType)7;
	INVALID_VALUE(cuMemcpy3DBatchAsync(1, &bad, 0, alive.stream));
	bad = good;
	bad.src.op.ptr.ptr = 0;
	INVALID_VALUE(cuMemcpy3DBatchAsync(1, &bad, 0, alive.stream));
	bad = good;
	bad.src.op.ptr.rowLength = 3;
	INVALID_VALUE(cuMemcpy3DBatchAsync(1, &bad, 0, alive.stream));
	bad = good;
	bad.dst.op.ptr.layerHeight = 1;
	INVALID_VALUE(cuMemcpy3DBatchAsync(1, &bad, 0, alive.stream));
	bad = good;
	bad.dst.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
	bad.dst.op.array.array = NULL;
	OURS(INVALID_HANDLE(cuMemcpy3DBatchAsync(1, &bad, 0, alive.stream)));
}

/* Devices without concurrent managed access have none of these. */
static void of_managed_batches(CUdeviceptr managed)
{
	CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, fixture_device};
	CUmemLocation nowhere = {CU_MEM_LOCATION_TYPE_DEVICE, NO_DEVICE};
	CUdeviceptr plain = alive.memory;
	size_t size = 16, first = 0;

	INVALID_VALUE(cuMemPrefetchBatchAsync(NULL, &size, 1, &here, &first, 1, 0, alive.stream));
	INVALID_VALUE(
		cuMemPrefetchBatchAsync(&managed, &size, 0, &here, &first, 1, 0, alive.stream));
	INVALID_VALUE(
		cuMemPrefetchBatchAsync(&managed, &size, 1, &here, &first, 1, 1, alive.stream));
	INVALID_VALUE(cuMemPrefetchBatchAsync(&managed, &size, 1, &here, &first, 1, 0, NULL));
	INVALID_HANDLE(
		cuMemPrefetchBatchAsync(&managed, &size, 1, &here, &first, 1, 0, gone.stream));
	INVALID_VALUE(cuMemDiscardBatchAsync(&managed, NULL, 1, 0, alive.stream));
	INVALID_VALUE(cuMemDiscardBatchAsync(&managed, &size, 1, 0, NULL));
	INVALID_VALUE(cuMemDiscardAndPrefetchBatchAsync(
		NULL, &size, 1, &here, &first, 1, 0, alive.stream));
	if (!fixture_attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS))
		return;
	INVALID_VALUE(cuMemDiscardBatchAsync(&plain, &size, 1, 0, alive.stream));
	INVALID_VALUE(cuMemPrefetchBatchAsync(&plain, &size, 1, &here, &first, 1, 0, alive.stream));
	INVALID_VALUE(
		cuMemPrefetchBatchAsync(&managed, &size, 1, NULL, &first, 1, 0, alive.stream));
	INVALID_VALUE(
		cuMemPrefetchBatchAsync(&managed, &size, 1, &here, &first, 2, 0, alive.stream));
	INVALID_DEVICE(
		cuMemPrefetchBatchAsync(&managed, &size, 1, &nowhere, &first, 1, 0, alive.stream));
	first = 1;
	INVALID_VALUE(
		cuMemPrefetchBatchAsync(&managed, &size, 1, &here, &first, 1, 0, alive.stream));
}

static void of_managed_memory(void **state)
{
	CUmem_range_attribute mostly = CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY;
	CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, fixture_device};
	CUmemLocation nowhere = {CU_MEM_LOCATION_TYPE_DEVICE, NO_DEVICE};
	CUdeviceptr managed;
	size_t size = sizeof(int);
	int value;
	void *data = &value;

	assert_success(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
	of_managed_batches(managed);
	INVALID_VALUE(cuMemPrefetchAsync(alive.memory, 16, here, 0, NULL)); /* not managed */
	INVALID_VALUE(cuMemPrefetchAsync(managed, 0, here, 0, NULL));
	INVALID_VALUE(cuMemPrefetchAsync(managed, 16, here, 1, NULL));
	INVALID_DEVICE(cuMemPrefetchAsync(managed, 16, nowhere, 0, NULL));
	INVALID_HANDLE(cuMemPrefetchAsync(managed, 16, here, 0, gone.stream));
	INVALID_VALUE(cuMemAdvise(alive.memory, 16, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
	INVALID_VALUE(cuMemAdvise(managed, 16, (CUmem_advise)99, here));
	INVALID_VALUE(cuMemAdvise(managed, 16, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, nowhere));
	INVALID_VALUE(cuMemAdvise(managed, 16, CU_MEM_ADVISE_SET_READ_MOSTLY, (CUmemLocation){0}));
	INVALID_VALUE(cuMemRangeGetAttribute(NULL, size, mostly, managed, 16));
	INVALID_VALUE(cuMemRangeGetAttribute(&value, 3, mostly, managed, 16));
	INVALID_VALUE(
		cuMemRangeGetAttribute(&value, size, (CUmem_range_attribute)999, managed, 16));
	INVALID_VALUE(cuMemRangeGetAttributes(NULL, &size, &mostly, 1, managed, 16));
	INVALID_VALUE(cuMemRangeGetAttributes(&data, NULL, &mostly, 1, managed, 16));
	INVALID_VALUE(cuMemRangeGetAttributes(&data, &size, NULL, 1, managed, 16));
	INVALID_VALUE(cuStreamAttachMemAsync(alive.stream, alive.memory, 0, CU_MEM_ATTACH_SINGLE));
	INVALID_VALUE(cuStreamAttachMemAsync(alive.stream, managed, 0, 0x80));
	INVALID_HANDLE(cuStreamAttachMemAsync(gone.stream, managed, 0, CU_MEM_ATTACH_GLOBAL));
	assert_success(cuMemFree(managed));
	INVALID_VALUE(cuMemPrefetchAsync(managed, 16, here, 0, NULL));
	INVALID_VALUE(cuMemAdvise(managed, 16, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
	INVALID_VALUE(cuMemRangeGetAttribute(&value, size, mostly, managed, 16));
	INVALID_VALUE(cuMemRangeGetAttributes(&data, &size, &mostly, 1, managed, 16));
	INVALID_VALUE(cuStreamAttachMemAsync(alive.stream, managed, 0, CU_MEM_ATTACH_SINGLE));
}

static void of_memory_between_processes(void **state)
{
	CUipcMemHandle memory_handle = {{0}};
	CUipcEventHandle event_handle = {{0}};
	CUdeviceptr memory;
	CUevent event;

	INVALID_VALUE(cuIpcGetMemHandle(NULL, alive.memory));
	INVALID_VALUE(cuIpcGetMemHandle(&memory_handle, gone.memory));
	INVALID_VALUE(cuIpcGetMemHandle(&memory_handle, (CUdeviceptr)garbage));
	INVALID_VALUE(cuIpcOpenMemHandle(NULL, memory_handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	INVALID_VALUE(
		cuIpcOpenMemHandle(&memory, memory_handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	INVALID_VALUE(cuIpcOpenMemHandle(&memory, memory_handle, 0x80));
	INVALID_VALUE(cuIpcCloseMemHandle(alive.memory));
	INVALID_VALUE(cuIpcCloseMemHandle(gone.memory));
	INVALID_VALUE(cuIpcGetEventHandle(NULL, alive.event));
	INVALID_VALUE(cuIpcGetEventHandle(&event_handle, NULL));
	INVALID_HANDLE(cuIpcGetEventHandle(&event_handle, gone.event));
	INVALID_HANDLE(cuIpcGetEventHandle(&event_handle, alive.event)); /* not interprocess */
	INVALID_VALUE(cuIpcOpenEventHandle(NULL, event_handle));
	REFUSED(CUDA_ERROR_MAP_FAILED, cuIpcOpenEventHandle(&event, event_handle));
}

static void of_shared_memory(void **state)
{
	CUdeviceptr memory;
	CUshmInfo info;
	void *mapped;
	int64_t read;
	int id;

	if (errors_of_vendor())
		skip();
	INVALID_VALUE(cuGdevMemMap(NULL, alive.memory, 16));
	INVALID_VALUE(cuGdevMemMap(&mapped, alive.memory, 0));
	INVALID_VALUE(cuGdevMemUnmap(NULL));
	INVALID_VALUE(cuGdevMemRead(alive.memory, 0, 0, 0, 0, &read));
	INVALID_VALUE(cuGdevMemRead(alive.memory, 16, 0, 0, 0, NULL));
	INVALID_VALUE(cuGdevMemRead(alive.memory, 16, 0, UINT64_MAX, 0, &read));
	INVALID_VALUE(cuGdevMemRead(alive.memory, 16, 0, 0, 1 << 30, &read));
	REFUSED(CUDA_ERROR_NOT_SUPPORTED, cuGdevMemRead((CUdeviceptr)&read, 16, 0, 0, 0, &read));
	INVALID_VALUE(cuGdevMemWrite(alive.memory, 0, 0, 0, 0, &read));
	INVALID_VALUE(cuGdevMemWrite(alive.memory, 16, 0, 0, 0, NULL));
	INVALID_VALUE(cuGdevMemWrite(alive.memory, 16, 0, UINT64_MAX, 0, &read));
	INVALID_VALUE(cuGdevMemWrite(alive.memory, 16, 0, 0, 1 << 30, &read));
	REFUSED(CUDA_ERROR_NOT_SUPPORTED, cuGdevMemWrite((CUdeviceptr)&read, 16, 0, 0, 0, &read));
	INVALID_VALUE(cuGdevCtxGetRevoked(NULL));
	INVALID_VALUE(cuShmGet(NULL, 0, 4096, 01000));
	INVALID_VALUE(cuShmGet(&id, 0, 0, 01000));
	INVALID_VALUE(cuShmAt(NULL, 0, 0));
	INVALID_VALUE(cuShmAt(&memory, -1, 0));
	INVALID_VALUE(cuShmDt(0));
	INVALID_VALUE(cuShmDt(alive.memory));
	INVALID_VALUE(cuShmCtl(-1, 2, &info));
	INVALID_VALUE(cuShmCtl(-1, 99, &info));
}

int errors_of_memory(void)
{
	const struct CMUnitTest tests[] = {
		ERRORS_TEST(of_allocations),
		ERRORS_TEST(of_addresses),
		ERRORS_TEST(of_streams_of_copies),
		ERRORS_TEST(of_descriptions),
		ERRORS_TEST(of_pointers),
		ERRORS_TEST(of_boxes_in_batches),
		ERRORS_TEST(of_managed_memory),
		ERRORS_TEST(of_memory_between_processes),
		ERRORS_TEST(of_shared_memory),
	};

	return ERRORS_RUN(tests);
}
