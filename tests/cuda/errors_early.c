/* SPDX-License-Identifier: MIT
 *
 * That cuInit was not called is what a call finds first, whatever else is wrong with its arguments.
 */
#include "errors.h"

static void of_contexts(CUresult expected)
{
	REFUSED(expected, cuDeviceSetMemPool(0, alive.pool));
	REFUSED(expected, cuDeviceGetExecAffinitySupport(NULL, 0, 0));
	REFUSED(expected, cuCtxGetId(alive.context, NULL));
	REFUSED(expected, cuCtxGetApiVersion(alive.context, NULL));
	REFUSED(expected, cuCtxDetach(alive.context));
	REFUSED(expected, cuCtxGetExecAffinity(NULL, 0));
	REFUSED(expected, cuDeviceCanAccessPeer(NULL, 0, 0));
	REFUSED(expected, cuCtxDisablePeerAccess(alive.context));
	REFUSED(expected, cuDeviceGetP2PAttribute(NULL, 0, 0, 0));
	REFUSED(expected, cuDeviceGetP2PAtomicCapabilities(NULL, NULL, 0, 0, 0));
	REFUSED(expected, cuDeviceGetHostAtomicCapabilities(NULL, NULL, 0, 0));
	REFUSED(expected, cuDeviceGraphMemTrim(0));
	REFUSED(expected, cuDeviceGetGraphMemAttribute(0, 0, NULL));
	REFUSED(expected, cuDeviceSetGraphMemAttribute(0, 0, NULL));
	REFUSED(expected, cuDeviceGetDevResource(0, NULL, 0));
	REFUSED(expected, cuCtxGetDevResource(alive.context, NULL, 0));
	REFUSED(expected, cuDevSmResourceSplitByCount(NULL, NULL, NULL, NULL, 0, 0));
	REFUSED(expected, cuDevResourceGenerateDesc(NULL, NULL, 0));
	REFUSED(expected, cuGreenCtxCreate(NULL, NULL, 0, 0));
	REFUSED(expected, cuGreenCtxDestroy(NULL));
	REFUSED(expected, cuGreenCtxGetDevResource(NULL, NULL, 0));
	REFUSED(expected, cuGreenCtxRecordEvent(NULL, NULL));
	REFUSED(expected, cuGreenCtxWaitEvent(NULL, NULL));
	REFUSED(expected, cuGreenCtxStreamCreate(NULL, NULL, 0, 0));
	REFUSED(expected, cuGreenCtxGetId(NULL, NULL));
	REFUSED(expected, cuCtxFromGreenCtx(NULL, NULL));
	REFUSED(expected, cuStreamGetGreenCtx(NULL, NULL));
}

static void of_code(CUresult expected)
{
	REFUSED(expected, cuModuleGetGlobal(NULL, NULL, alive.module, NULL));
	REFUSED(expected, cuLibraryGetManaged(NULL, NULL, alive.library, NULL));
	REFUSED(expected, cuLibraryGetUnifiedFunction(NULL, alive.library, NULL));
	REFUSED(expected, cuModuleGetFunctionCount(NULL, alive.module));
	REFUSED(expected, cuModuleEnumerateFunctions(NULL, 0, alive.module));
	REFUSED(expected, cuLinkAddData(alive.link, 0, NULL, 0, NULL, 0, NULL, NULL));
	REFUSED(expected, cuLinkAddFile(alive.link, 0, NULL, 0, NULL, NULL));
	REFUSED(expected, cuLinkComplete(alive.link, NULL, NULL));
	REFUSED(expected, cuLinkDestroy(alive.link));
	REFUSED(expected, cuFuncGetAttribute(NULL, 0, alive.function));
	REFUSED(expected, cuFuncSetAttribute(alive.function, 0, 0));
	REFUSED(expected, cuFuncSetCacheConfig(alive.function, 0));
	REFUSED(expected, cuFuncSetSharedMemConfig(alive.function, 0));
	REFUSED(expected, cuFuncGetName(NULL, alive.function));
	REFUSED(expected, cuFuncGetParamInfo(alive.function, 0, NULL, NULL));
	REFUSED(expected, cuFuncIsLoaded(NULL, alive.function));
	REFUSED(expected, cuFuncLoad(alive.function));
	REFUSED(expected,
		cuLaunchKernel(alive.function, 0, 0, 0, 0, 0, 0, 0, alive.stream, NULL, NULL));
	REFUSED(expected, cuLaunchKernelEx(NULL, alive.function, NULL, NULL));
	REFUSED(expected,
		cuLaunchCooperativeKernel(alive.function, 0, 0, 0, 0, 0, 0, 0, alive.stream, NULL));
	REFUSED(expected, cuLaunchHostFunc(alive.stream, NULL, NULL));
	REFUSED(expected, cuFuncSetBlockShape(alive.function, 0, 0, 0));
	REFUSED(expected, cuFuncSetSharedSize(alive.function, 0));
	REFUSED(expected, cuParamSetSize(alive.function, 0));
	REFUSED(expected, cuParamSeti(alive.function, 0, 0));
	REFUSED(expected, cuParamSetf(alive.function, 0, 0));
	REFUSED(expected, cuParamSetv(alive.function, 0, NULL, 0));
	REFUSED(expected, cuLaunch(alive.function));
	REFUSED(expected, cuLaunchGrid(alive.function, 0, 0));
	REFUSED(expected, cuLaunchGridAsync(alive.function, 0, 0, alive.stream));
	REFUSED(expected, cuOccupancyMaxActiveBlocksPerMultiprocessor(NULL, alive.function, 0, 0));
	REFUSED(expected, cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
				  NULL, alive.function, 0, 0, 0));
	REFUSED(expected, cuOccupancyMaxPotentialBlockSize(NULL, NULL, alive.function, NULL, 0, 0));
	REFUSED(expected, cuOccupancyMaxPotentialBlockSizeWithFlags(
				  NULL, NULL, alive.function, NULL, 0, 0, 0));
	REFUSED(expected, cuOccupancyAvailableDynamicSMemPerBlock(NULL, alive.function, 0, 0));
	REFUSED(expected, cuOccupancyMaxPotentialClusterSize(NULL, alive.function, NULL));
	REFUSED(expected, cuOccupancyMaxActiveClusters(NULL, alive.function, NULL));
	REFUSED(expected, cuFuncGetModule(NULL, alive.function));
	REFUSED(expected, cuLibraryLoadFromFile(NULL, NULL, NULL, NULL, 0, NULL, NULL, 0));
	REFUSED(expected, cuLibraryGetKernel(NULL, alive.library, NULL));
	REFUSED(expected, cuLibraryGetKernelCount(NULL, alive.library));
	REFUSED(expected, cuLibraryEnumerateKernels(NULL, 0, alive.library));
	REFUSED(expected, cuKernelGetLibrary(NULL, alive.kernel));
	REFUSED(expected, cuKernelGetAttribute(NULL, 0, alive.kernel, 0));
	REFUSED(expected, cuKernelSetAttribute(0, 0, alive.kernel, 0));
	REFUSED(expected, cuKernelSetCacheConfig(alive.kernel, 0, 0));
	REFUSED(expected, cuKernelGetName(NULL, alive.kernel));
	REFUSED(expected, cuKernelGetParamInfo(alive.kernel, 0, NULL, NULL));
}

static void of_memory(CUresult expected)
{
	CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0};

	REFUSED(expected, cuMemHostGetFlags(NULL, NULL));
	REFUSED(expected, cuIpcGetMemHandle(NULL, alive.memory));
	REFUSED(expected, cuIpcOpenMemHandle(NULL, (CUipcMemHandle){{0}}, 0));
	REFUSED(expected, cuIpcCloseMemHandle(alive.memory));
	REFUSED(expected, cuMemHostUnregister(NULL));
	REFUSED(expected,
		cuMemcpyPeer(alive.memory, alive.context, alive.memory, alive.context, 0));
	CRASHES(expected, cuMemcpy3DPeer(NULL));
	REFUSED(expected, cuMemcpyPeerAsync(alive.memory, alive.context, alive.memory,
				  alive.context, 0, alive.stream));
	CRASHES(expected, cuMemcpy3DPeerAsync(NULL, alive.stream));
	REFUSED(expected, cuMemcpyBatchAsync(NULL, NULL, NULL, 0, NULL, NULL, 0, alive.stream));
	REFUSED(expected, cuMemcpy3DBatchAsync(0, NULL, 0, alive.stream));
	REFUSED(expected, cuMemPrefetchBatchAsync(NULL, NULL, 0, NULL, NULL, 0, 0, alive.stream));
	REFUSED(expected, cuMemDiscardBatchAsync(NULL, NULL, 0, 0, alive.stream));
	REFUSED(expected,
		cuMemDiscardAndPrefetchBatchAsync(NULL, NULL, 0, NULL, NULL, 0, 0, alive.stream));
	REFUSED(expected, cuMemAddressReserve(NULL, 0, 0, alive.memory, 0));
	REFUSED(expected, cuMemAddressFree(alive.memory, 0));
	REFUSED(expected, cuMemCreate(NULL, 0, NULL, 0));
	REFUSED(expected, cuMemRelease(0));
	REFUSED(expected, cuMemMap(alive.memory, 0, 0, 0, 0));
	REFUSED(expected, cuMemUnmap(alive.memory, 0));
	REFUSED(expected, cuMemSetAccess(alive.memory, 0, NULL, 0));
	REFUSED(expected, cuMemGetAccess(NULL, NULL, alive.memory));
	REFUSED(expected, cuMemExportToShareableHandle(NULL, 0, 0, 0));
	REFUSED(expected, cuMemImportFromShareableHandle(NULL, NULL, 0));
	REFUSED(expected, cuMemGetAllocationGranularity(NULL, NULL, 0));
	REFUSED(expected, cuMemGetAllocationPropertiesFromHandle(NULL, 0));
	REFUSED(expected, cuMemRetainAllocationHandle(NULL, NULL));
	REFUSED(expected, cuMemPoolTrimTo(alive.pool, 0));
	REFUSED(expected, cuMemPoolSetAttribute(alive.pool, 0, NULL));
	REFUSED(expected, cuMemPoolGetAttribute(alive.pool, 0, NULL));
	REFUSED(expected, cuMemPoolSetAccess(alive.pool, NULL, 0));
	REFUSED(expected, cuMemPoolGetAccess(NULL, alive.pool, NULL));
	REFUSED(expected, cuMemPoolCreate(NULL, NULL));
	REFUSED(expected, cuMemPoolExportToShareableHandle(NULL, alive.pool, 0, 0));
	REFUSED(expected, cuMemPoolImportFromShareableHandle(NULL, NULL, 0, 0));
	REFUSED(expected, cuMemPoolExportPointer(NULL, alive.memory));
	REFUSED(expected, cuMemPoolImportPointer(NULL, alive.pool, NULL));
	REFUSED(expected, cuMemGetDefaultMemPool(NULL, NULL, 0));
	REFUSED(expected, cuMemSetMemPool(NULL, 0, alive.pool));
	REFUSED(expected, cuPointerGetAttribute(NULL, 0, alive.memory));
	REFUSED(expected, cuMemPrefetchAsync(alive.memory, 0, here, 0, alive.stream));
	REFUSED(expected, cuMemAdvise(alive.memory, 0, 0, here));
	REFUSED(expected, cuMemRangeGetAttribute(NULL, 0, 0, alive.memory, 0));
	REFUSED(expected, cuMemRangeGetAttributes(NULL, NULL, NULL, 0, alive.memory, 0));
	REFUSED(expected, cuPointerSetAttribute(NULL, 0, alive.memory));
	REFUSED(expected, cuPointerGetAttributes(0, NULL, NULL, alive.memory));
	REFUSED(expected,
		cuTensorMapEncodeTiled(NULL, 0, 0, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0));
	REFUSED(expected, cuTensorMapEncodeIm2col(NULL, 0, 0, NULL, NULL, NULL, NULL, NULL, 0, 0,
				  NULL, 0, 0, 0, 0));
	REFUSED(expected, cuTensorMapReplaceAddress(NULL, NULL));
	OURS(REFUSED(expected, cuGdevMemMap(NULL, 0, 0)));
	OURS(REFUSED(expected, cuGdevMemUnmap(NULL)));
	OURS(REFUSED(expected, cuGdevMemRead(0, 0, 0, 0, 0, NULL)));
	OURS(REFUSED(expected, cuGdevMemWrite(0, 0, 0, 0, 0, NULL)));
	OURS(REFUSED(expected, cuGdevCtxGetRevoked(NULL)));
	OURS(REFUSED(expected, cuGdevStreamWait(NULL, 0)));
	OURS(REFUSED(expected, cuShmGet(NULL, 0, 0, 0)));
	OURS(REFUSED(expected, cuShmAt(NULL, 0, 0)));
	OURS(REFUSED(expected, cuShmDt(alive.memory)));
	OURS(REFUSED(expected, cuShmCtl(0, 0, NULL)));
}

static void of_streams(CUresult expected)
{
	REFUSED(expected, cuIpcGetEventHandle(NULL, alive.event));
	REFUSED(expected, cuIpcOpenEventHandle(NULL, (CUipcEventHandle){{0}}));
	REFUSED(expected, cuStreamGetId(alive.stream, NULL));
	REFUSED(expected, cuStreamAddCallback(alive.stream, NULL, NULL, 0));
	REFUSED(expected, cuStreamBeginCapture(alive.stream, 0));
	REFUSED(expected, cuStreamBeginCaptureToGraph(alive.stream, alive.graph, NULL, NULL, 0, 0));
	REFUSED(expected, cuThreadExchangeStreamCaptureMode(NULL));
	REFUSED(expected, cuStreamEndCapture(alive.stream, NULL));
	REFUSED(expected, cuStreamIsCapturing(alive.stream, NULL));
	REFUSED(expected, cuStreamGetCaptureInfo(alive.stream, NULL, NULL, NULL, NULL, NULL, NULL));
	REFUSED(expected, cuStreamUpdateCaptureDependencies(alive.stream, NULL, NULL, 0, 0));
	REFUSED(expected, cuStreamAttachMemAsync(alive.stream, alive.memory, 0, 0));
	REFUSED(expected, cuStreamDestroy(alive.stream));
	REFUSED(expected, cuStreamCopyAttributes(alive.stream, alive.stream));
	REFUSED(expected, cuStreamGetAttribute(alive.stream, 0, NULL));
	REFUSED(expected, cuStreamSetAttribute(alive.stream, 0, NULL));
	REFUSED(expected, cuEventElapsedTime(NULL, alive.event, alive.event));
	REFUSED(expected, cuStreamBatchMemOp(alive.stream, 0, NULL, 0));
	REFUSED(expected, cuStreamGetDevice(alive.stream, NULL));
	REFUSED(expected, cuCtxRecordEvent(alive.context, alive.event));
	REFUSED(expected, cuCtxWaitEvent(alive.context, alive.event));
}

static void of_graphs(CUresult expected)
{
	REFUSED(expected, cuGraphAddKernelNode(NULL, alive.graph, NULL, 0, NULL));
	REFUSED(expected, cuGraphKernelNodeGetParams(alive.node, NULL));
	REFUSED(expected, cuGraphKernelNodeSetParams(alive.node, NULL));
	REFUSED(expected, cuGraphAddMemcpyNode(NULL, alive.graph, NULL, 0, NULL, alive.context));
	REFUSED(expected, cuGraphMemcpyNodeGetParams(alive.node, NULL));
	REFUSED(expected, cuGraphMemcpyNodeSetParams(alive.node, NULL));
	REFUSED(expected, cuGraphAddMemsetNode(NULL, alive.graph, NULL, 0, NULL, alive.context));
	REFUSED(expected, cuGraphMemsetNodeGetParams(alive.node, NULL));
	REFUSED(expected, cuGraphMemsetNodeSetParams(alive.node, NULL));
	REFUSED(expected, cuGraphAddHostNode(NULL, alive.graph, NULL, 0, NULL));
	REFUSED(expected, cuGraphHostNodeGetParams(alive.node, NULL));
	REFUSED(expected, cuGraphHostNodeSetParams(alive.node, NULL));
	REFUSED(expected, cuGraphAddChildGraphNode(NULL, alive.graph, NULL, 0, alive.graph));
	REFUSED(expected, cuGraphChildGraphNodeGetGraph(alive.node, NULL));
	REFUSED(expected, cuGraphAddEmptyNode(NULL, alive.graph, NULL, 0));
	REFUSED(expected, cuGraphAddEventRecordNode(NULL, alive.graph, NULL, 0, alive.event));
	REFUSED(expected, cuGraphEventRecordNodeGetEvent(alive.node, NULL));
	REFUSED(expected, cuGraphEventRecordNodeSetEvent(alive.node, alive.event));
	REFUSED(expected, cuGraphAddEventWaitNode(NULL, alive.graph, NULL, 0, alive.event));
	REFUSED(expected, cuGraphEventWaitNodeGetEvent(alive.node, NULL));
	REFUSED(expected, cuGraphEventWaitNodeSetEvent(alive.node, alive.event));
	REFUSED(expected, cuGraphAddBatchMemOpNode(NULL, alive.graph, NULL, 0, NULL));
	REFUSED(expected, cuGraphBatchMemOpNodeGetParams(alive.node, NULL));
	REFUSED(expected, cuGraphBatchMemOpNodeSetParams(alive.node, NULL));
	REFUSED(expected, cuGraphClone(NULL, alive.graph));
	REFUSED(expected, cuGraphNodeFindInClone(NULL, alive.node, alive.graph));
	REFUSED(expected, cuGraphNodeGetType(alive.node, NULL));
	REFUSED(expected, cuGraphGetNodes(alive.graph, NULL, NULL));
	REFUSED(expected, cuGraphGetRootNodes(alive.graph, NULL, NULL));
	REFUSED(expected, cuGraphGetEdges(alive.graph, NULL, NULL, NULL, NULL));
	REFUSED(expected, cuGraphNodeGetDependencies(alive.node, NULL, NULL, NULL));
	REFUSED(expected, cuGraphNodeGetDependentNodes(alive.node, NULL, NULL, NULL));
	REFUSED(expected, cuGraphAddDependencies(alive.graph, NULL, NULL, NULL, 0));
	REFUSED(expected, cuGraphRemoveDependencies(alive.graph, NULL, NULL, NULL, 0));
	REFUSED(expected, cuGraphDestroyNode(alive.node));
	REFUSED(expected, cuGraphKernelNodeCopyAttributes(alive.node, alive.node));
	REFUSED(expected, cuGraphKernelNodeGetAttribute(alive.node, 0, NULL));
	REFUSED(expected, cuGraphKernelNodeSetAttribute(alive.node, 0, NULL));
	REFUSED(expected, cuGraphConditionalHandleCreate(NULL, alive.graph, NULL, 0, 0));
	REFUSED(expected, cuGraphAddNode(NULL, alive.graph, NULL, NULL, 0, NULL));
	REFUSED(expected, cuGraphNodeSetParams(alive.node, NULL));
	REFUSED(expected, cuGraphExecNodeSetParams(alive.exec, alive.node, NULL));
	REFUSED(expected, cuGraphAddMemAllocNode(NULL, alive.graph, NULL, 0, NULL));
	REFUSED(expected, cuGraphMemAllocNodeGetParams(alive.node, NULL));
	REFUSED(expected, cuGraphAddMemFreeNode(NULL, alive.graph, NULL, 0, alive.memory));
	REFUSED(expected, cuGraphMemFreeNodeGetParams(alive.node, NULL));
}

static void of_executable_graphs(CUresult expected)
{
	REFUSED(expected, cuGraphExecBatchMemOpNodeSetParams(alive.exec, alive.node, NULL));
	REFUSED(expected, cuGraphInstantiateWithFlags(NULL, alive.graph, 0));
	REFUSED(expected, cuGraphInstantiateWithParams(NULL, alive.graph, NULL));
	REFUSED(expected, cuGraphExecGetFlags(alive.exec, NULL));
	REFUSED(expected, cuGraphExecKernelNodeSetParams(alive.exec, alive.node, NULL));
	REFUSED(expected,
		cuGraphExecMemcpyNodeSetParams(alive.exec, alive.node, NULL, alive.context));
	REFUSED(expected,
		cuGraphExecMemsetNodeSetParams(alive.exec, alive.node, NULL, alive.context));
	REFUSED(expected, cuGraphExecHostNodeSetParams(alive.exec, alive.node, NULL));
	REFUSED(expected, cuGraphExecChildGraphNodeSetParams(alive.exec, alive.node, alive.graph));
	REFUSED(expected, cuGraphExecEventRecordNodeSetEvent(alive.exec, alive.node, alive.event));
	REFUSED(expected, cuGraphExecEventWaitNodeSetEvent(alive.exec, alive.node, alive.event));
	REFUSED(expected, cuGraphUpload(alive.exec, alive.stream));
	REFUSED(expected, cuGraphDebugDotPrint(alive.graph, NULL, 0));
	REFUSED(expected, cuGraphExecDestroy(alive.exec));
	REFUSED(expected, cuGraphExecUpdate(alive.exec, alive.graph, NULL));
	REFUSED(expected, cuGraphNodeSetEnabled(alive.exec, alive.node, 0));
	REFUSED(expected, cuGraphNodeGetEnabled(alive.exec, alive.node, NULL));
	REFUSED(expected, cuUserObjectCreate(NULL, NULL, NULL, 0, 0));
	REFUSED(expected, cuUserObjectRetain(alive.object, 0));
	REFUSED(expected, cuUserObjectRelease(alive.object, 0));
	REFUSED(expected, cuGraphRetainUserObject(alive.graph, alive.object, 0, 0));
	REFUSED(expected, cuGraphReleaseUserObject(alive.graph, alive.object, 0));
	REFUSED(expected, cuGraphInstantiate(NULL, alive.graph, 0));
}

static void of_arrays(CUresult expected)
{
	REFUSED(expected, cuArray3DCreate(NULL, NULL));
	REFUSED(expected, cuArrayCreate(NULL, NULL));
	REFUSED(expected, cuArray3DGetDescriptor(NULL, NULL));
	REFUSED(expected, cuArrayGetDescriptor(NULL, NULL));
	REFUSED(expected, cuArrayDestroy(NULL));
	REFUSED(expected, cuMipmappedArrayCreate(NULL, NULL, 1));
	REFUSED(expected, cuMipmappedArrayGetLevel(NULL, NULL, 0));
	REFUSED(expected, cuMipmappedArrayDestroy(NULL));
	REFUSED(expected, cuArrayGetSparseProperties(NULL, NULL));
	REFUSED(expected, cuMipmappedArrayGetSparseProperties(NULL, NULL));
	REFUSED(expected, cuArrayGetMemoryRequirements(NULL, NULL, 0));
	REFUSED(expected, cuMipmappedArrayGetMemoryRequirements(NULL, NULL, 0));
	REFUSED(expected, cuArrayGetPlane(NULL, NULL, 0));
	REFUSED(expected, cuDeviceGetTexture1DLinearMaxWidth(NULL, 0, 1, 0));
	REFUSED(expected, cuMemcpyHtoA(NULL, 0, NULL, 16));
	REFUSED(expected, cuMemcpyAtoH(NULL, NULL, 0, 16));
	REFUSED(expected, cuMemcpyDtoA(NULL, 0, 0, 16));
	REFUSED(expected, cuMemcpyAtoD(0, NULL, 0, 16));
	REFUSED(expected, cuMemcpyAtoA(NULL, 0, NULL, 0, 16));
	REFUSED(expected, cuMemcpyHtoAAsync(NULL, 0, NULL, 16, alive.stream));
	REFUSED(expected, cuMemcpyAtoHAsync(NULL, NULL, 0, 16, alive.stream));
	REFUSED(expected, cuTexObjectCreate(NULL, NULL, NULL, NULL));
	REFUSED(expected, cuTexObjectDestroy(0));
	REFUSED(expected, cuTexObjectGetResourceDesc(NULL, 0));
	REFUSED(expected, cuTexObjectGetTextureDesc(NULL, 0));
	REFUSED(expected, cuTexObjectGetResourceViewDesc(NULL, 0));
	REFUSED(expected, cuSurfObjectCreate(NULL, NULL));
	REFUSED(expected, cuSurfObjectDestroy(0));
	REFUSED(expected, cuSurfObjectGetResourceDesc(NULL, 0));
}

static void of_references(CUresult expected)
{
	REFUSED(expected, cuModuleGetTexRef(NULL, alive.module, NULL));
	REFUSED(expected, cuModuleGetSurfRef(NULL, alive.module, NULL));
	REFUSED(expected, cuParamSetTexRef(alive.function, 0, NULL));
	REFUSED(expected, cuTexRefCreate(NULL));
	REFUSED(expected, cuTexRefDestroy(NULL));
	REFUSED(expected, cuTexRefSetArray(NULL, NULL, 0));
	REFUSED(expected, cuTexRefSetMipmappedArray(NULL, NULL, 0));
	REFUSED(expected, cuTexRefSetAddress(NULL, NULL, 0, 0));
	REFUSED(expected, cuTexRefSetAddress2D(NULL, NULL, 0, 0));
	REFUSED(expected, cuTexRefSetFormat(NULL, 0, 0));
	REFUSED(expected, cuTexRefSetAddressMode(NULL, 0, 0));
	REFUSED(expected, cuTexRefSetFilterMode(NULL, 0));
	REFUSED(expected, cuTexRefSetMipmapFilterMode(NULL, 0));
	REFUSED(expected, cuTexRefSetMipmapLevelBias(NULL, 0));
	REFUSED(expected, cuTexRefSetMipmapLevelClamp(NULL, 0, 0));
	REFUSED(expected, cuTexRefSetMaxAnisotropy(NULL, 0));
	REFUSED(expected, cuTexRefSetBorderColor(NULL, NULL));
	REFUSED(expected, cuTexRefSetFlags(NULL, 0));
	REFUSED(expected, cuTexRefGetAddress(NULL, NULL));
	REFUSED(expected, cuTexRefGetArray(NULL, NULL));
	REFUSED(expected, cuTexRefGetMipmappedArray(NULL, NULL));
	REFUSED(expected, cuTexRefGetFormat(NULL, NULL, NULL));
	REFUSED(expected, cuTexRefGetAddressMode(NULL, NULL, 0));
	REFUSED(expected, cuTexRefGetFilterMode(NULL, NULL));
	REFUSED(expected, cuTexRefGetMipmapFilterMode(NULL, NULL));
	REFUSED(expected, cuTexRefGetMipmapLevelBias(NULL, NULL));
	REFUSED(expected, cuTexRefGetMipmapLevelClamp(NULL, NULL, NULL));
	REFUSED(expected, cuTexRefGetMaxAnisotropy(NULL, NULL));
	REFUSED(expected, cuTexRefGetBorderColor(NULL, NULL));
	REFUSED(expected, cuTexRefGetFlags(NULL, NULL));
	REFUSED(expected, cuSurfRefSetArray(NULL, NULL, 0));
	REFUSED(expected, cuSurfRefGetArray(NULL, NULL));
}

void errors_of_the_rest(CUresult expected)
{
	of_contexts(expected);
	of_code(expected);
	of_memory(expected);
	of_streams(expected);
	of_graphs(expected);
	of_executable_graphs(expected);
	of_arrays(expected);
	of_references(expected);
}
