/* SPDX-License-Identifier: MIT
 *
 * cuda.h without its macros that make the current version of a call out of its plain name: this library
 * has all versions, and calls each by its own name.
 */
#ifndef GDEV_CUDA_NAMES_H
#define GDEV_CUDA_NAMES_H

#include "gdev/cuda.h"

#undef cuCtxCreate
#undef cuCtxDestroy
#undef cuCtxPopCurrent
#undef cuCtxPushCurrent
#undef cuDeviceGetUuid
#undef cuDevicePrimaryCtxRelease
#undef cuDevicePrimaryCtxReset
#undef cuDevicePrimaryCtxSetFlags
#undef cuDeviceTotalMem
#undef cuEventDestroy
#undef cuEventElapsedTime
#undef cuEventRecord
#undef cuEventRecordWithFlags
#undef cuGetProcAddress
#undef cuLaunchCooperativeKernel
#undef cuLaunchHostFunc
#undef cuLaunchKernel
#undef cuLaunchKernelEx
#undef cuLinkAddData
#undef cuLinkAddFile
#undef cuLinkCreate
#undef cuMemAdvise
#undef cuMemAlloc
#undef cuMemAllocAsync
#undef cuMemAllocHost
#undef cuMemAllocPitch
#undef cuMemFree
#undef cuMemFreeAsync
#undef cuMemGetAddressRange
#undef cuMemGetInfo
#undef cuMemHostGetDevicePointer
#undef cuMemHostRegister
#undef cuMemPrefetchAsync
#undef cuMemcpy
#undef cuMemcpy2D
#undef cuMemcpy2DAsync
#undef cuMemcpy2DUnaligned
#undef cuMemcpy3D
#undef cuMemcpy3DAsync
#undef cuMemcpy3DPeer
#undef cuMemcpy3DPeerAsync
#undef cuMemcpyAsync
#undef cuMemcpyDtoD
#undef cuMemcpyDtoDAsync
#undef cuMemcpyDtoH
#undef cuMemcpyDtoHAsync
#undef cuMemcpyHtoD
#undef cuMemcpyHtoDAsync
#undef cuMemcpyPeer
#undef cuMemcpyPeerAsync
#undef cuMemsetD16
#undef cuMemsetD16Async
#undef cuMemsetD2D16
#undef cuMemsetD2D16Async
#undef cuMemsetD2D32
#undef cuMemsetD2D32Async
#undef cuMemsetD2D8
#undef cuMemsetD2D8Async
#undef cuMemsetD32
#undef cuMemsetD32Async
#undef cuMemsetD8
#undef cuMemsetD8Async
#undef cuModuleGetGlobal
#undef cuStreamAddCallback
#undef cuStreamAttachMemAsync
#undef cuStreamDestroy
#undef cuStreamGetCtx
#undef cuStreamGetDevice
#undef cuStreamGetFlags
#undef cuStreamGetId
#undef cuStreamGetPriority
#undef cuStreamIsCapturing
#undef cuStreamQuery
#undef cuStreamSynchronize
#undef cuStreamWaitEvent
#undef cuStreamWriteValue64

#endif
