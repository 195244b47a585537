/* SPDX-License-Identifier: MIT
 *
 * The variants for programs whose default stream is one per thread: the same calls, on the thread's own
 * stream where the program names none.
 */
#include "lib/cuda/exports.h"
#include "lib/cuda/internal.h"

static CUstream own(CUstream stream)
{
	return stream ? stream : CU_STREAM_PER_THREAD;
}

CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount)
{
	return copy_linear(dstDevice, GDEV_SIDE_DEVICE, (CUdeviceptr)srcHost, GDEV_SIDE_HOST,
		ByteCount, CU_STREAM_PER_THREAD, true);
}

CUresult cuMemcpyDtoH_v2_ptds(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount)
{
	return copy_linear((CUdeviceptr)dstHost, GDEV_SIDE_HOST, srcDevice, GDEV_SIDE_DEVICE,
		ByteCount, CU_STREAM_PER_THREAD, true);
}

CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount)
{
	return copy_linear(dstDevice, GDEV_SIDE_DEVICE, srcDevice, GDEV_SIDE_DEVICE, ByteCount,
		CU_STREAM_PER_THREAD, true);
}

CUresult cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *pCopy)
{
	return copy_2d(pCopy, CU_STREAM_PER_THREAD, true);
}

CUresult cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D *pCopy)
{
	return copy_2d(pCopy, CU_STREAM_PER_THREAD, true);
}

CUresult cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D *pCopy)
{
	return copy_3d(pCopy, CU_STREAM_PER_THREAD, true);
}

CUresult cuMemcpyDtoA_v2_ptds(
	CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice, size_t ByteCount)
{
	return array_from_memory(dstArray, dstOffset, srcDevice, GDEV_SIDE_DEVICE, ByteCount,
		CU_STREAM_PER_THREAD, true);
}

CUresult cuMemcpyAtoD_v2_ptds(
	CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset, size_t ByteCount)
{
	return array_to_memory(dstDevice, GDEV_SIDE_DEVICE, srcArray, srcOffset, ByteCount,
		CU_STREAM_PER_THREAD, true);
}

CUresult cuMemcpyHtoA_v2_ptds(
	CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount)
{
	return array_from_memory(dstArray, dstOffset, (CUdeviceptr)srcHost, GDEV_SIDE_HOST,
		ByteCount, CU_STREAM_PER_THREAD, true);
}

CUresult cuMemcpyAtoH_v2_ptds(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount)
{
	return array_to_memory((CUdeviceptr)dstHost, GDEV_SIDE_HOST, srcArray, srcOffset, ByteCount,
		CU_STREAM_PER_THREAD, true);
}

CUresult cuMemcpyAtoA_v2_ptds(
	CUarray dstArray, size_t dstOffset, CUarray srcArray, size_t srcOffset, size_t ByteCount)
{
	return array_to_array(
		dstArray, dstOffset, srcArray, srcOffset, ByteCount, CU_STREAM_PER_THREAD);
}

CUresult cuMemcpyHtoAAsync_v2_ptsz(
	CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount, CUstream hStream)
{
	return array_from_memory(dstArray, dstOffset, (CUdeviceptr)srcHost, GDEV_SIDE_HOST,
		ByteCount, own(hStream), false);
}

CUresult cuMemcpyAtoHAsync_v2_ptsz(
	void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount, CUstream hStream)
{
	return array_to_memory((CUdeviceptr)dstHost, GDEV_SIDE_HOST, srcArray, srcOffset, ByteCount,
		own(hStream), false);
}

CUresult cuMemsetD8_v2_ptds(CUdeviceptr dstDevice, unsigned char uc, size_t N)
{
	return fill(dstDevice, 0, uc, 1, N, 1, CU_STREAM_PER_THREAD, true);
}

CUresult cuMemsetD16_v2_ptds(CUdeviceptr dstDevice, unsigned short us, size_t N)
{
	return fill(dstDevice, 0, us, 2, N, 1, CU_STREAM_PER_THREAD, true);
}

CUresult cuMemsetD32_v2_ptds(CUdeviceptr dstDevice, unsigned int ui, size_t N)
{
	return fill(dstDevice, 0, ui, 4, N, 1, CU_STREAM_PER_THREAD, true);
}

CUresult cuMemsetD2D8_v2_ptds(
	CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height)
{
	return fill(dstDevice, dstPitch, uc, 1, Width, Height, CU_STREAM_PER_THREAD, true);
}

CUresult cuMemsetD2D16_v2_ptds(
	CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height)
{
	return fill(dstDevice, dstPitch, us, 2, Width, Height, CU_STREAM_PER_THREAD, true);
}

CUresult cuMemsetD2D32_v2_ptds(
	CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height)
{
	return fill(dstDevice, dstPitch, ui, 4, Width, Height, CU_STREAM_PER_THREAD, true);
}

CUresult cuMemcpyHtoDAsync_v2_ptsz(
	CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream)
{
	return cuMemcpyHtoDAsync_v2(dstDevice, srcHost, ByteCount, own(hStream));
}

CUresult cuMemcpyDtoHAsync_v2_ptsz(
	void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
{
	return cuMemcpyDtoHAsync_v2(dstHost, srcDevice, ByteCount, own(hStream));
}

CUresult cuMemcpyDtoDAsync_v2_ptsz(
	CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
{
	return cuMemcpyDtoDAsync_v2(dstDevice, srcDevice, ByteCount, own(hStream));
}

CUresult cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D *pCopy, CUstream hStream)
{
	return cuMemcpy2DAsync_v2(pCopy, own(hStream));
}

CUresult cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D *pCopy, CUstream hStream)
{
	return cuMemcpy3DAsync_v2(pCopy, own(hStream));
}

CUresult cuMemPrefetchAsync_v2_ptsz(CUdeviceptr devPtr, size_t count, CUmemLocation location,
	unsigned int flags, CUstream hStream)
{
	return cuMemPrefetchAsync_v2(devPtr, count, location, flags, own(hStream));
}

CUresult cuMemcpy_ptds(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount)
{
	return copy_linear(
		dst, GDEV_SIDE_ANY, src, GDEV_SIDE_ANY, ByteCount, CU_STREAM_PER_THREAD, true);
}

CUresult cuMemcpyPeer_ptds(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
	CUcontext srcContext, size_t ByteCount)
{
	return copy_peer(dstDevice, dstContext, srcDevice, srcContext, ByteCount,
		CU_STREAM_PER_THREAD, true);
}

CUresult cuMemcpy3DPeer_ptds(const CUDA_MEMCPY3D_PEER *pCopy)
{
	return copy_3d_peer(pCopy, CU_STREAM_PER_THREAD, true);
}

CUresult cuMemcpyAsync_ptsz(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream)
{
	return cuMemcpyAsync(dst, src, ByteCount, own(hStream));
}

CUresult cuMemcpyPeerAsync_ptsz(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
	CUcontext srcContext, size_t ByteCount, CUstream hStream)
{
	return cuMemcpyPeerAsync(
		dstDevice, dstContext, srcDevice, srcContext, ByteCount, own(hStream));
}

CUresult cuMemcpy3DPeerAsync_ptsz(const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream)
{
	return cuMemcpy3DPeerAsync(pCopy, own(hStream));
}

CUresult cuMemsetD8Async_ptsz(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream)
{
	return cuMemsetD8Async(dstDevice, uc, N, own(hStream));
}

CUresult cuMemsetD16Async_ptsz(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream)
{
	return cuMemsetD16Async(dstDevice, us, N, own(hStream));
}

CUresult cuMemsetD32Async_ptsz(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream)
{
	return cuMemsetD32Async(dstDevice, ui, N, own(hStream));
}

CUresult cuMemsetD2D8Async_ptsz(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc,
	size_t Width, size_t Height, CUstream hStream)
{
	return cuMemsetD2D8Async(dstDevice, dstPitch, uc, Width, Height, own(hStream));
}

CUresult cuMemsetD2D16Async_ptsz(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us,
	size_t Width, size_t Height, CUstream hStream)
{
	return cuMemsetD2D16Async(dstDevice, dstPitch, us, Width, Height, own(hStream));
}

CUresult cuMemsetD2D32Async_ptsz(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui,
	size_t Width, size_t Height, CUstream hStream)
{
	return cuMemsetD2D32Async(dstDevice, dstPitch, ui, Width, Height, own(hStream));
}

CUresult cuStreamGetPriority_ptsz(CUstream hStream, int *priority)
{
	return cuStreamGetPriority(own(hStream), priority);
}

CUresult cuStreamGetId_ptsz(CUstream hStream, unsigned long long *streamId)
{
	return cuStreamGetId(own(hStream), streamId);
}

CUresult cuStreamGetFlags_ptsz(CUstream hStream, unsigned int *flags)
{
	return cuStreamGetFlags(own(hStream), flags);
}

CUresult cuStreamGetDevice_ptsz(CUstream hStream, CUdevice *device)
{
	return cuStreamGetDevice(own(hStream), device);
}

CUresult cuStreamGetCtx_ptsz(CUstream hStream, CUcontext *pctx)
{
	return cuStreamGetCtx(own(hStream), pctx);
}

CUresult cuStreamGetCtx_v2_ptsz(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx)
{
	return cuStreamGetCtx_v2(own(hStream), pCtx, pGreenCtx);
}

CUresult cuStreamWaitEvent_ptsz(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
	return cuStreamWaitEvent(own(hStream), hEvent, Flags);
}

CUresult cuStreamIsCapturing_ptsz(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
	return cuStreamIsCapturing(own(hStream), captureStatus);
}

CUresult cuStreamAddCallback_ptsz(
	CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags)
{
	return cuStreamAddCallback(own(hStream), callback, userData, flags);
}

CUresult cuStreamAttachMemAsync_ptsz(
	CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags)
{
	return cuStreamAttachMemAsync(own(hStream), dptr, length, flags);
}

CUresult cuStreamQuery_ptsz(CUstream hStream)
{
	return cuStreamQuery(own(hStream));
}

CUresult cuStreamSynchronize_ptsz(CUstream hStream)
{
	return cuStreamSynchronize(own(hStream));
}

CUresult cuEventRecord_ptsz(CUevent hEvent, CUstream hStream)
{
	return cuEventRecord(hEvent, own(hStream));
}

CUresult cuEventRecordWithFlags_ptsz(CUevent hEvent, CUstream hStream, unsigned int flags)
{
	return cuEventRecordWithFlags(hEvent, own(hStream), flags);
}

CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
	unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
	unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream, void **kernelParams,
	void **extra)
{
	return cuLaunchKernel(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,
		sharedMemBytes, own(hStream), kernelParams, extra);
}

CUresult cuLaunchKernelEx_ptsz(
	const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra)
{
	CUlaunchConfig mine;

	if (!config)
		return fail(CUDA_ERROR_INVALID_VALUE, "config is NULL");
	mine = *config;
	mine.hStream = own(mine.hStream);
	return cuLaunchKernelEx(&mine, f, kernelParams, extra);
}

CUresult cuLaunchHostFunc_ptsz(CUstream hStream, CUhostFn fn, void *userData)
{
	return cuLaunchHostFunc(own(hStream), fn, userData);
}

CUresult cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
	unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
	unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream, void **kernelParams)
{
	return cuLaunchCooperativeKernel(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY,
		blockDimZ, sharedMemBytes, own(hStream), kernelParams);
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream hStream)
{
	return cuMemFreeAsync(dptr, own(hStream));
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
	return cuMemAllocAsync(dptr, bytesize, own(hStream));
}

CUresult cuMemPrefetchAsync_ptsz(
	CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream)
{
	return cuMemPrefetchAsync(devPtr, count, dstDevice, own(hStream));
}

CUresult cuStreamWaitValue32_ptsz(
	CUstream stream, CUdeviceptr addr, uint32_t value, unsigned int flags)
{
	return cuStreamWaitValue32(own(stream), addr, value, flags);
}

CUresult cuStreamWaitValue32_v2_ptsz(
	CUstream stream, CUdeviceptr addr, uint32_t value, unsigned int flags)
{
	return cuStreamWaitValue32_v2(own(stream), addr, value, flags);
}

CUresult cuStreamWaitValue64_ptsz(
	CUstream stream, CUdeviceptr addr, uint64_t value, unsigned int flags)
{
	return cuStreamWaitValue64(own(stream), addr, value, flags);
}

CUresult cuStreamWaitValue64_v2_ptsz(
	CUstream stream, CUdeviceptr addr, uint64_t value, unsigned int flags)
{
	return cuStreamWaitValue64_v2(own(stream), addr, value, flags);
}

CUresult cuStreamWriteValue32_ptsz(
	CUstream stream, CUdeviceptr addr, uint32_t value, unsigned int flags)
{
	return cuStreamWriteValue32(own(stream), addr, value, flags);
}

CUresult cuStreamWriteValue32_v2_ptsz(
	CUstream stream, CUdeviceptr addr, uint32_t value, unsigned int flags)
{
	return cuStreamWriteValue32_v2(own(stream), addr, value, flags);
}

CUresult cuStreamWriteValue64_ptsz(
	CUstream stream, CUdeviceptr addr, uint64_t value, unsigned int flags)
{
	return cuStreamWriteValue64(own(stream), addr, value, flags);
}

CUresult cuStreamWriteValue64_v2_ptsz(
	CUstream stream, CUdeviceptr addr, uint64_t value, unsigned int flags)
{
	return cuStreamWriteValue64_v2(own(stream), addr, value, flags);
}

CUresult cuStreamBatchMemOp_ptsz(CUstream stream, unsigned int count,
	CUstreamBatchMemOpParams *paramArray, unsigned int flags)
{
	return cuStreamBatchMemOp(own(stream), count, paramArray, flags);
}

CUresult cuStreamBatchMemOp_v2_ptsz(CUstream stream, unsigned int count,
	CUstreamBatchMemOpParams *paramArray, unsigned int flags)
{
	return cuStreamBatchMemOp_v2(own(stream), count, paramArray, flags);
}

CUresult cuMemAllocFromPoolAsync_ptsz(
	CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream)
{
	return cuMemAllocFromPoolAsync(dptr, bytesize, pool, own(hStream));
}

CUresult cuMemcpy3DBatchAsync_ptsz(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, size_t *failIdx,
	unsigned long long flags, CUstream hStream)
{
	return cuMemcpy3DBatchAsync(numOps, opList, failIdx, flags, own(hStream));
}

CUresult cuMemcpy3DBatchAsync_v2_ptsz(
	size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, unsigned long long flags, CUstream hStream)
{
	return cuMemcpy3DBatchAsync_v2(numOps, opList, flags, own(hStream));
}

CUresult cuMemPrefetchBatchAsync_ptsz(CUdeviceptr *dptrs, size_t *sizes, size_t count,
	CUmemLocation *prefetchLocs, size_t *prefetchLocIdxs, size_t numPrefetchLocs,
	unsigned long long flags, CUstream hStream)
{
	return cuMemPrefetchBatchAsync(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs,
		numPrefetchLocs, flags, own(hStream));
}

CUresult cuMemDiscardBatchAsync_ptsz(
	CUdeviceptr *dptrs, size_t *sizes, size_t count, unsigned long long flags, CUstream hStream)
{
	return cuMemDiscardBatchAsync(dptrs, sizes, count, flags, own(hStream));
}

CUresult cuMemDiscardAndPrefetchBatchAsync_ptsz(CUdeviceptr *dptrs, size_t *sizes, size_t count,
	CUmemLocation *prefetchLocs, size_t *prefetchLocIdxs, size_t numPrefetchLocs,
	unsigned long long flags, CUstream hStream)
{
	return cuMemDiscardAndPrefetchBatchAsync(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs,
		numPrefetchLocs, flags, own(hStream));
}

CUresult cuMemcpyBatchAsync_ptsz(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
	CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, size_t *failIdx,
	CUstream hStream)
{
	return cuMemcpyBatchAsync(
		dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, failIdx, own(hStream));
}

CUresult cuMemcpyBatchAsync_v2_ptsz(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
	size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs,
	CUstream hStream)
{
	return cuMemcpyBatchAsync_v2(
		dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, own(hStream));
}

CUresult cuStreamGetAttribute_ptsz(
	CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue *value_out)
{
	return cuStreamGetAttribute(own(hStream), attr, value_out);
}

CUresult cuStreamSetAttribute_ptsz(
	CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue *value)
{
	return cuStreamSetAttribute(own(hStream), attr, value);
}

CUresult cuStreamCopyAttributes_ptsz(CUstream dst, CUstream src)
{
	return cuStreamCopyAttributes(own(dst), own(src));
}

CUresult cuGraphUpload_ptsz(CUgraphExec hGraphExec, CUstream hStream)
{
	return cuGraphUpload(hGraphExec, own(hStream));
}

CUresult cuGraphLaunch_ptsz(CUgraphExec hGraphExec, CUstream hStream)
{
	return cuGraphLaunch(hGraphExec, own(hStream));
}

/* The upload, of which there is none, is all that the stream is for. */
CUresult cuGraphInstantiateWithParams_ptsz(
	CUgraphExec *phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
	return cuGraphInstantiateWithParams(phGraphExec, hGraph, instantiateParams);
}

CUresult cuStreamBeginCapture_ptsz(CUstream hStream)
{
	return cuStreamBeginCapture(own(hStream));
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream hStream, CUstreamCaptureMode mode)
{
	return cuStreamBeginCapture_v2(own(hStream), mode);
}

CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream hStream, CUgraph hGraph,
	const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
	size_t numDependencies, CUstreamCaptureMode mode)
{
	return cuStreamBeginCaptureToGraph(
		own(hStream), hGraph, dependencies, dependencyData, numDependencies, mode);
}

CUresult cuStreamEndCapture_ptsz(CUstream hStream, CUgraph *phGraph)
{
	return cuStreamEndCapture(own(hStream), phGraph);
}

CUresult cuStreamGetCaptureInfo_ptsz(CUstream hStream, CUstreamCaptureStatus *status, uint64_t *id)
{
	return cuStreamGetCaptureInfo(own(hStream), status, id);
}

CUresult cuStreamGetCaptureInfo_v2_ptsz(CUstream hStream, CUstreamCaptureStatus *status,
	uint64_t *id, CUgraph *graph, const CUgraphNode **nodes, size_t *count)
{
	return cuStreamGetCaptureInfo_v2(own(hStream), status, id, graph, nodes, count);
}

CUresult cuStreamGetCaptureInfo_v3_ptsz(CUstream hStream, CUstreamCaptureStatus *status,
	uint64_t *id, CUgraph *graph, const CUgraphNode **nodes, const CUgraphEdgeData **data,
	size_t *count)
{
	return cuStreamGetCaptureInfo_v3(own(hStream), status, id, graph, nodes, data, count);
}

CUresult cuStreamUpdateCaptureDependencies_ptsz(
	CUstream hStream, CUgraphNode *nodes, size_t count, unsigned int flags)
{
	return cuStreamUpdateCaptureDependencies(own(hStream), nodes, count, flags);
}

CUresult cuStreamUpdateCaptureDependencies_v2_ptsz(CUstream hStream, CUgraphNode *nodes,
	const CUgraphEdgeData *data, size_t count, unsigned int flags)
{
	return cuStreamUpdateCaptureDependencies_v2(own(hStream), nodes, data, count, flags);
}
