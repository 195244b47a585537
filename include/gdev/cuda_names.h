/* SPDX-License-Identifier: MIT
 *
 * What the plain names of calls mean, by the version of the API that a program is written for and by
 * whether its default stream is one per thread. Included by cuda.h. Made from lib/cuda/functions.def
 * by `ninja -C build cuda-names`; do not edit.
 */
#ifndef GDEV_CUDA_NAMES_H
#define GDEV_CUDA_NAMES_H

#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM) || defined(GDEV_CUDA_WITHOUT_NAMES)
__typeof__(cuMemcpy) cuMemcpy_ptds;
__typeof__(cuMemcpyPeer) cuMemcpyPeer_ptds;
__typeof__(cuMemcpyHtoD_v2) cuMemcpyHtoD_v2_ptds;
__typeof__(cuMemcpyDtoH_v2) cuMemcpyDtoH_v2_ptds;
__typeof__(cuMemcpyDtoD_v2) cuMemcpyDtoD_v2_ptds;
__typeof__(cuMemcpyDtoA_v2) cuMemcpyDtoA_v2_ptds;
__typeof__(cuMemcpyAtoD_v2) cuMemcpyAtoD_v2_ptds;
__typeof__(cuMemcpyHtoA_v2) cuMemcpyHtoA_v2_ptds;
__typeof__(cuMemcpyAtoH_v2) cuMemcpyAtoH_v2_ptds;
__typeof__(cuMemcpyAtoA_v2) cuMemcpyAtoA_v2_ptds;
__typeof__(cuMemcpy2D_v2) cuMemcpy2D_v2_ptds;
__typeof__(cuMemcpy2DUnaligned_v2) cuMemcpy2DUnaligned_v2_ptds;
__typeof__(cuMemcpy3D_v2) cuMemcpy3D_v2_ptds;
__typeof__(cuMemcpy3DPeer) cuMemcpy3DPeer_ptds;
__typeof__(cuMemcpyAsync) cuMemcpyAsync_ptsz;
__typeof__(cuMemcpyPeerAsync) cuMemcpyPeerAsync_ptsz;
__typeof__(cuMemcpyHtoDAsync_v2) cuMemcpyHtoDAsync_v2_ptsz;
__typeof__(cuMemcpyDtoHAsync_v2) cuMemcpyDtoHAsync_v2_ptsz;
__typeof__(cuMemcpyDtoDAsync_v2) cuMemcpyDtoDAsync_v2_ptsz;
__typeof__(cuMemcpyHtoAAsync_v2) cuMemcpyHtoAAsync_v2_ptsz;
__typeof__(cuMemcpyAtoHAsync_v2) cuMemcpyAtoHAsync_v2_ptsz;
__typeof__(cuMemcpy2DAsync_v2) cuMemcpy2DAsync_v2_ptsz;
__typeof__(cuMemcpy3DAsync_v2) cuMemcpy3DAsync_v2_ptsz;
__typeof__(cuMemcpy3DPeerAsync) cuMemcpy3DPeerAsync_ptsz;
__typeof__(cuMemcpyBatchAsync) cuMemcpyBatchAsync_ptsz;
__typeof__(cuMemcpyBatchAsync_v2) cuMemcpyBatchAsync_v2_ptsz;
__typeof__(cuMemcpy3DBatchAsync) cuMemcpy3DBatchAsync_ptsz;
__typeof__(cuMemcpy3DBatchAsync_v2) cuMemcpy3DBatchAsync_v2_ptsz;
__typeof__(cuMemsetD8_v2) cuMemsetD8_v2_ptds;
__typeof__(cuMemsetD16_v2) cuMemsetD16_v2_ptds;
__typeof__(cuMemsetD32_v2) cuMemsetD32_v2_ptds;
__typeof__(cuMemsetD2D8_v2) cuMemsetD2D8_v2_ptds;
__typeof__(cuMemsetD2D16_v2) cuMemsetD2D16_v2_ptds;
__typeof__(cuMemsetD2D32_v2) cuMemsetD2D32_v2_ptds;
__typeof__(cuMemsetD8Async) cuMemsetD8Async_ptsz;
__typeof__(cuMemsetD16Async) cuMemsetD16Async_ptsz;
__typeof__(cuMemsetD32Async) cuMemsetD32Async_ptsz;
__typeof__(cuMemsetD2D8Async) cuMemsetD2D8Async_ptsz;
__typeof__(cuMemsetD2D16Async) cuMemsetD2D16Async_ptsz;
__typeof__(cuMemsetD2D32Async) cuMemsetD2D32Async_ptsz;
__typeof__(cuMemMapArrayAsync) cuMemMapArrayAsync_ptsz;
__typeof__(cuMemFreeAsync) cuMemFreeAsync_ptsz;
__typeof__(cuMemAllocAsync) cuMemAllocAsync_ptsz;
__typeof__(cuMemAllocFromPoolAsync) cuMemAllocFromPoolAsync_ptsz;
__typeof__(cuMemPrefetchAsync) cuMemPrefetchAsync_ptsz;
__typeof__(cuMemPrefetchAsync_v2) cuMemPrefetchAsync_v2_ptsz;
__typeof__(cuMemPrefetchBatchAsync) cuMemPrefetchBatchAsync_ptsz;
__typeof__(cuMemDiscardBatchAsync) cuMemDiscardBatchAsync_ptsz;
__typeof__(cuMemDiscardAndPrefetchBatchAsync) cuMemDiscardAndPrefetchBatchAsync_ptsz;
__typeof__(cuStreamGetId) cuStreamGetId_ptsz;
__typeof__(cuStreamGetPriority) cuStreamGetPriority_ptsz;
__typeof__(cuStreamGetFlags) cuStreamGetFlags_ptsz;
__typeof__(cuStreamGetCtx) cuStreamGetCtx_ptsz;
__typeof__(cuStreamWaitEvent) cuStreamWaitEvent_ptsz;
__typeof__(cuStreamAddCallback) cuStreamAddCallback_ptsz;
__typeof__(cuStreamBeginCapture) cuStreamBeginCapture_ptsz;
__typeof__(cuStreamBeginCapture_v2) cuStreamBeginCapture_v2_ptsz;
__typeof__(cuStreamBeginCaptureToGraph) cuStreamBeginCaptureToGraph_ptsz;
__typeof__(cuStreamEndCapture) cuStreamEndCapture_ptsz;
__typeof__(cuStreamIsCapturing) cuStreamIsCapturing_ptsz;
__typeof__(cuStreamGetCaptureInfo) cuStreamGetCaptureInfo_ptsz;
__typeof__(cuStreamGetCaptureInfo_v2) cuStreamGetCaptureInfo_v2_ptsz;
__typeof__(cuStreamGetCaptureInfo_v3) cuStreamGetCaptureInfo_v3_ptsz;
__typeof__(cuStreamUpdateCaptureDependencies) cuStreamUpdateCaptureDependencies_ptsz;
__typeof__(cuStreamUpdateCaptureDependencies_v2) cuStreamUpdateCaptureDependencies_v2_ptsz;
__typeof__(cuStreamAttachMemAsync) cuStreamAttachMemAsync_ptsz;
__typeof__(cuStreamQuery) cuStreamQuery_ptsz;
__typeof__(cuStreamSynchronize) cuStreamSynchronize_ptsz;
__typeof__(cuStreamCopyAttributes) cuStreamCopyAttributes_ptsz;
__typeof__(cuStreamGetAttribute) cuStreamGetAttribute_ptsz;
__typeof__(cuStreamSetAttribute) cuStreamSetAttribute_ptsz;
__typeof__(cuEventRecord) cuEventRecord_ptsz;
__typeof__(cuEventRecordWithFlags) cuEventRecordWithFlags_ptsz;
__typeof__(cuStreamWaitValue32) cuStreamWaitValue32_ptsz;
__typeof__(cuStreamWaitValue32_v2) cuStreamWaitValue32_v2_ptsz;
__typeof__(cuStreamWaitValue64) cuStreamWaitValue64_ptsz;
__typeof__(cuStreamWaitValue64_v2) cuStreamWaitValue64_v2_ptsz;
__typeof__(cuStreamWriteValue32) cuStreamWriteValue32_ptsz;
__typeof__(cuStreamWriteValue32_v2) cuStreamWriteValue32_v2_ptsz;
__typeof__(cuStreamWriteValue64) cuStreamWriteValue64_ptsz;
__typeof__(cuStreamWriteValue64_v2) cuStreamWriteValue64_v2_ptsz;
__typeof__(cuStreamBatchMemOp) cuStreamBatchMemOp_ptsz;
__typeof__(cuStreamBatchMemOp_v2) cuStreamBatchMemOp_v2_ptsz;
__typeof__(cuLaunchKernel) cuLaunchKernel_ptsz;
__typeof__(cuLaunchKernelEx) cuLaunchKernelEx_ptsz;
__typeof__(cuLaunchCooperativeKernel) cuLaunchCooperativeKernel_ptsz;
__typeof__(cuLaunchHostFunc) cuLaunchHostFunc_ptsz;
__typeof__(cuGraphInstantiateWithParams) cuGraphInstantiateWithParams_ptsz;
__typeof__(cuGraphUpload) cuGraphUpload_ptsz;
__typeof__(cuGraphLaunch) cuGraphLaunch_ptsz;
__typeof__(cuStreamGetDevice) cuStreamGetDevice_ptsz;
#endif

#ifndef GDEV_CUDA_WITHOUT_NAMES /* the library itself calls each version by its symbol */
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define GDEV_PTDS(name) name##_ptds
#define GDEV_PTSZ(name) name##_ptsz
#else
#define GDEV_PTDS(name) name
#define GDEV_PTSZ(name) name
#endif
#if GDEV_CUDA_API_VERSION >= 12000
#define cuDeviceGetUuid cuDeviceGetUuid_v2
#endif
#define cuDeviceTotalMem cuDeviceTotalMem_v2
#if GDEV_CUDA_API_VERSION >= 11000
#define cuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2
#endif
#if GDEV_CUDA_API_VERSION >= 11000
#define cuDevicePrimaryCtxSetFlags cuDevicePrimaryCtxSetFlags_v2
#endif
#if GDEV_CUDA_API_VERSION >= 11000
#define cuDevicePrimaryCtxReset cuDevicePrimaryCtxReset_v2
#endif
#if GDEV_CUDA_API_VERSION >= 13000
#define cuCtxCreate cuCtxCreate_v4
#else
#define cuCtxCreate cuCtxCreate_v2
#endif
#define cuCtxDestroy cuCtxDestroy_v2
#define cuCtxPushCurrent cuCtxPushCurrent_v2
#define cuCtxPopCurrent cuCtxPopCurrent_v2
#define cuModuleGetGlobal cuModuleGetGlobal_v2
#if GDEV_CUDA_API_VERSION >= 6050
#define cuLinkCreate cuLinkCreate_v2
#endif
#if GDEV_CUDA_API_VERSION >= 6050
#define cuLinkAddData cuLinkAddData_v2
#endif
#if GDEV_CUDA_API_VERSION >= 6050
#define cuLinkAddFile cuLinkAddFile_v2
#endif
#define cuMemGetInfo cuMemGetInfo_v2
#define cuMemAlloc cuMemAlloc_v2
#define cuMemAllocPitch cuMemAllocPitch_v2
#define cuMemFree cuMemFree_v2
#define cuMemGetAddressRange cuMemGetAddressRange_v2
#define cuMemAllocHost cuMemAllocHost_v2
#define cuMemHostGetDevicePointer cuMemHostGetDevicePointer_v2
#if GDEV_CUDA_API_VERSION >= 11000
#define cuIpcOpenMemHandle cuIpcOpenMemHandle_v2
#endif
#if GDEV_CUDA_API_VERSION >= 6050
#define cuMemHostRegister cuMemHostRegister_v2
#endif
#define cuMemcpy GDEV_PTDS(cuMemcpy)
#define cuMemcpyPeer GDEV_PTDS(cuMemcpyPeer)
#define cuMemcpyHtoD GDEV_PTDS(cuMemcpyHtoD_v2)
#define cuMemcpyDtoH GDEV_PTDS(cuMemcpyDtoH_v2)
#define cuMemcpyDtoD GDEV_PTDS(cuMemcpyDtoD_v2)
#define cuMemcpyDtoA GDEV_PTDS(cuMemcpyDtoA_v2)
#define cuMemcpyAtoD GDEV_PTDS(cuMemcpyAtoD_v2)
#define cuMemcpyHtoA GDEV_PTDS(cuMemcpyHtoA_v2)
#define cuMemcpyAtoH GDEV_PTDS(cuMemcpyAtoH_v2)
#define cuMemcpyAtoA GDEV_PTDS(cuMemcpyAtoA_v2)
#define cuMemcpy2D GDEV_PTDS(cuMemcpy2D_v2)
#define cuMemcpy2DUnaligned GDEV_PTDS(cuMemcpy2DUnaligned_v2)
#define cuMemcpy3D GDEV_PTDS(cuMemcpy3D_v2)
#define cuMemcpy3DPeer GDEV_PTDS(cuMemcpy3DPeer)
#define cuMemcpyAsync GDEV_PTSZ(cuMemcpyAsync)
#define cuMemcpyPeerAsync GDEV_PTSZ(cuMemcpyPeerAsync)
#define cuMemcpyHtoDAsync GDEV_PTSZ(cuMemcpyHtoDAsync_v2)
#define cuMemcpyDtoHAsync GDEV_PTSZ(cuMemcpyDtoHAsync_v2)
#define cuMemcpyDtoDAsync GDEV_PTSZ(cuMemcpyDtoDAsync_v2)
#define cuMemcpyHtoAAsync GDEV_PTSZ(cuMemcpyHtoAAsync_v2)
#define cuMemcpyAtoHAsync GDEV_PTSZ(cuMemcpyAtoHAsync_v2)
#define cuMemcpy2DAsync GDEV_PTSZ(cuMemcpy2DAsync_v2)
#define cuMemcpy3DAsync GDEV_PTSZ(cuMemcpy3DAsync_v2)
#define cuMemcpy3DPeerAsync GDEV_PTSZ(cuMemcpy3DPeerAsync)
#if GDEV_CUDA_API_VERSION >= 13000
#define cuMemcpyBatchAsync GDEV_PTSZ(cuMemcpyBatchAsync_v2)
#else
#define cuMemcpyBatchAsync GDEV_PTSZ(cuMemcpyBatchAsync)
#endif
#if GDEV_CUDA_API_VERSION >= 13000
#define cuMemcpy3DBatchAsync GDEV_PTSZ(cuMemcpy3DBatchAsync_v2)
#else
#define cuMemcpy3DBatchAsync GDEV_PTSZ(cuMemcpy3DBatchAsync)
#endif
#define cuMemsetD8 GDEV_PTDS(cuMemsetD8_v2)
#define cuMemsetD16 GDEV_PTDS(cuMemsetD16_v2)
#define cuMemsetD32 GDEV_PTDS(cuMemsetD32_v2)
#define cuMemsetD2D8 GDEV_PTDS(cuMemsetD2D8_v2)
#define cuMemsetD2D16 GDEV_PTDS(cuMemsetD2D16_v2)
#define cuMemsetD2D32 GDEV_PTDS(cuMemsetD2D32_v2)
#define cuMemsetD8Async GDEV_PTSZ(cuMemsetD8Async)
#define cuMemsetD16Async GDEV_PTSZ(cuMemsetD16Async)
#define cuMemsetD32Async GDEV_PTSZ(cuMemsetD32Async)
#define cuMemsetD2D8Async GDEV_PTSZ(cuMemsetD2D8Async)
#define cuMemsetD2D16Async GDEV_PTSZ(cuMemsetD2D16Async)
#define cuMemsetD2D32Async GDEV_PTSZ(cuMemsetD2D32Async)
#define cuArrayCreate cuArrayCreate_v2
#define cuArrayGetDescriptor cuArrayGetDescriptor_v2
#define cuArray3DCreate cuArray3DCreate_v2
#define cuArray3DGetDescriptor cuArray3DGetDescriptor_v2
#define cuMemMapArrayAsync GDEV_PTSZ(cuMemMapArrayAsync)
#define cuMemFreeAsync GDEV_PTSZ(cuMemFreeAsync)
#define cuMemAllocAsync GDEV_PTSZ(cuMemAllocAsync)
#define cuMemAllocFromPoolAsync GDEV_PTSZ(cuMemAllocFromPoolAsync)
#if GDEV_CUDA_API_VERSION >= 13000
#define cuMemPrefetchAsync GDEV_PTSZ(cuMemPrefetchAsync_v2)
#else
#define cuMemPrefetchAsync GDEV_PTSZ(cuMemPrefetchAsync)
#endif
#if GDEV_CUDA_API_VERSION >= 13000
#define cuMemAdvise cuMemAdvise_v2
#endif
#define cuMemPrefetchBatchAsync GDEV_PTSZ(cuMemPrefetchBatchAsync)
#define cuMemDiscardBatchAsync GDEV_PTSZ(cuMemDiscardBatchAsync)
#define cuMemDiscardAndPrefetchBatchAsync GDEV_PTSZ(cuMemDiscardAndPrefetchBatchAsync)
#define cuStreamGetId GDEV_PTSZ(cuStreamGetId)
#define cuStreamGetPriority GDEV_PTSZ(cuStreamGetPriority)
#define cuStreamGetFlags GDEV_PTSZ(cuStreamGetFlags)
#define cuStreamGetCtx GDEV_PTSZ(cuStreamGetCtx)
#define cuStreamWaitEvent GDEV_PTSZ(cuStreamWaitEvent)
#define cuStreamAddCallback GDEV_PTSZ(cuStreamAddCallback)
#if GDEV_CUDA_API_VERSION >= 10010
#define cuStreamBeginCapture GDEV_PTSZ(cuStreamBeginCapture_v2)
#else
#define cuStreamBeginCapture GDEV_PTSZ(cuStreamBeginCapture)
#endif
#define cuStreamBeginCaptureToGraph GDEV_PTSZ(cuStreamBeginCaptureToGraph)
#define cuStreamEndCapture GDEV_PTSZ(cuStreamEndCapture)
#define cuStreamIsCapturing GDEV_PTSZ(cuStreamIsCapturing)
#if GDEV_CUDA_API_VERSION >= 13000
#define cuStreamGetCaptureInfo GDEV_PTSZ(cuStreamGetCaptureInfo_v3)
#elif GDEV_CUDA_API_VERSION >= 12000
#define cuStreamGetCaptureInfo GDEV_PTSZ(cuStreamGetCaptureInfo_v2)
#else
#define cuStreamGetCaptureInfo GDEV_PTSZ(cuStreamGetCaptureInfo)
#endif
#if GDEV_CUDA_API_VERSION >= 13000
#define cuStreamUpdateCaptureDependencies GDEV_PTSZ(cuStreamUpdateCaptureDependencies_v2)
#else
#define cuStreamUpdateCaptureDependencies GDEV_PTSZ(cuStreamUpdateCaptureDependencies)
#endif
#define cuStreamAttachMemAsync GDEV_PTSZ(cuStreamAttachMemAsync)
#define cuStreamQuery GDEV_PTSZ(cuStreamQuery)
#define cuStreamSynchronize GDEV_PTSZ(cuStreamSynchronize)
#define cuStreamDestroy cuStreamDestroy_v2
#define cuStreamCopyAttributes GDEV_PTSZ(cuStreamCopyAttributes)
#define cuStreamGetAttribute GDEV_PTSZ(cuStreamGetAttribute)
#define cuStreamSetAttribute GDEV_PTSZ(cuStreamSetAttribute)
#define cuEventRecord GDEV_PTSZ(cuEventRecord)
#define cuEventRecordWithFlags GDEV_PTSZ(cuEventRecordWithFlags)
#define cuEventDestroy cuEventDestroy_v2
#if GDEV_CUDA_API_VERSION >= 13000
#define cuEventElapsedTime cuEventElapsedTime_v2
#endif
#if GDEV_CUDA_API_VERSION >= 12000
#define cuStreamWaitValue32 GDEV_PTSZ(cuStreamWaitValue32_v2)
#else
#define cuStreamWaitValue32 GDEV_PTSZ(cuStreamWaitValue32)
#endif
#if GDEV_CUDA_API_VERSION >= 12000
#define cuStreamWaitValue64 GDEV_PTSZ(cuStreamWaitValue64_v2)
#else
#define cuStreamWaitValue64 GDEV_PTSZ(cuStreamWaitValue64)
#endif
#if GDEV_CUDA_API_VERSION >= 12000
#define cuStreamWriteValue32 GDEV_PTSZ(cuStreamWriteValue32_v2)
#else
#define cuStreamWriteValue32 GDEV_PTSZ(cuStreamWriteValue32)
#endif
#if GDEV_CUDA_API_VERSION >= 12000
#define cuStreamWriteValue64 GDEV_PTSZ(cuStreamWriteValue64_v2)
#else
#define cuStreamWriteValue64 GDEV_PTSZ(cuStreamWriteValue64)
#endif
#if GDEV_CUDA_API_VERSION >= 12000
#define cuStreamBatchMemOp GDEV_PTSZ(cuStreamBatchMemOp_v2)
#else
#define cuStreamBatchMemOp GDEV_PTSZ(cuStreamBatchMemOp)
#endif
#define cuLaunchKernel GDEV_PTSZ(cuLaunchKernel)
#define cuLaunchKernelEx GDEV_PTSZ(cuLaunchKernelEx)
#define cuLaunchCooperativeKernel GDEV_PTSZ(cuLaunchCooperativeKernel)
#define cuLaunchHostFunc GDEV_PTSZ(cuLaunchHostFunc)
#if GDEV_CUDA_API_VERSION >= 12000
#define cuGraphAddKernelNode cuGraphAddKernelNode_v2
#endif
#if GDEV_CUDA_API_VERSION >= 12000
#define cuGraphKernelNodeGetParams cuGraphKernelNodeGetParams_v2
#endif
#if GDEV_CUDA_API_VERSION >= 12000
#define cuGraphKernelNodeSetParams cuGraphKernelNodeSetParams_v2
#endif
#if GDEV_CUDA_API_VERSION >= 13000
#define cuGraphGetEdges cuGraphGetEdges_v2
#endif
#if GDEV_CUDA_API_VERSION >= 13000
#define cuGraphNodeGetDependencies cuGraphNodeGetDependencies_v2
#endif
#if GDEV_CUDA_API_VERSION >= 13000
#define cuGraphNodeGetDependentNodes cuGraphNodeGetDependentNodes_v2
#endif
#if GDEV_CUDA_API_VERSION >= 13000
#define cuGraphAddDependencies cuGraphAddDependencies_v2
#endif
#if GDEV_CUDA_API_VERSION >= 13000
#define cuGraphRemoveDependencies cuGraphRemoveDependencies_v2
#endif
#define cuGraphInstantiateWithParams GDEV_PTSZ(cuGraphInstantiateWithParams)
#if GDEV_CUDA_API_VERSION >= 12000
#define cuGraphExecKernelNodeSetParams cuGraphExecKernelNodeSetParams_v2
#endif
#define cuGraphUpload GDEV_PTSZ(cuGraphUpload)
#define cuGraphLaunch GDEV_PTSZ(cuGraphLaunch)
#if GDEV_CUDA_API_VERSION >= 12000
#define cuGraphExecUpdate cuGraphExecUpdate_v2
#endif
#if GDEV_CUDA_API_VERSION >= 13000
#define cuGraphAddNode cuGraphAddNode_v2
#endif
#define cuTexRefSetAddress cuTexRefSetAddress_v2
#if GDEV_CUDA_API_VERSION >= 4010
#define cuTexRefSetAddress2D cuTexRefSetAddress2D_v3
#else
#define cuTexRefSetAddress2D cuTexRefSetAddress2D_v2
#endif
#define cuTexRefGetAddress cuTexRefGetAddress_v2
#if GDEV_CUDA_API_VERSION >= 12000
#define cuGetProcAddress cuGetProcAddress_v2
#endif
#define cuStreamGetDevice GDEV_PTSZ(cuStreamGetDevice)
#if GDEV_CUDA_API_VERSION >= 12000
#define cuGraphInstantiate cuGraphInstantiateWithFlags
#elif GDEV_CUDA_API_VERSION >= 11000
#define cuGraphInstantiate cuGraphInstantiate_v2
#endif
#endif
#endif
