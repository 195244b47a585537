/* SPDX-License-Identifier: MIT
 *
 * The vendor's driver library, opened at run time. gdev links nothing of it and never opens it by a bare
 * name, which could find gdev's own libcuda.so.1.
 */
#ifndef GDEV_DEVICE_CUDA_DRIVER_H
#define GDEV_DEVICE_CUDA_DRIVER_H

#include <stdbool.h>

#include <gdev/cuda.h>

/* X(member, symbol in the library) */
#define DRIVER_FUNCTIONS(X)                                                                        \
	X(cuInit, cuInit)                                                                          \
	X(cuDriverGetVersion, cuDriverGetVersion)                                                  \
	X(cuGetErrorName, cuGetErrorName)                                                          \
	X(cuDeviceGetCount, cuDeviceGetCount)                                                      \
	X(cuDeviceGet, cuDeviceGet)                                                                \
	X(cuDeviceGetName, cuDeviceGetName)                                                        \
	X(cuDeviceGetUuid, cuDeviceGetUuid_v2)                                                     \
	X(cuDeviceCanAccessPeer, cuDeviceCanAccessPeer)                                            \
	X(cuDeviceTotalMem, cuDeviceTotalMem_v2)                                                   \
	X(cuDeviceGetAttribute, cuDeviceGetAttribute)                                              \
	X(cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2)                               \
	X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain)                                      \
	X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2)                                 \
	X(cuCtxSetCurrent, cuCtxSetCurrent)                                                        \
	X(cuMemGetInfo, cuMemGetInfo_v2)                                                           \
	X(cuMemAddressReserve, cuMemAddressReserve)                                                \
	X(cuMemAddressFree, cuMemAddressFree)                                                      \
	X(cuMemCreate, cuMemCreate)                                                                \
	X(cuMemRelease, cuMemRelease)                                                              \
	X(cuMemMap, cuMemMap)                                                                      \
	X(cuMemUnmap, cuMemUnmap)                                                                  \
	X(cuMemSetAccess, cuMemSetAccess)                                                          \
	X(cuMemExportToShareableHandle, cuMemExportToShareableHandle)                              \
	X(cuMemImportFromShareableHandle, cuMemImportFromShareableHandle)                          \
	X(cuMemHostAlloc, cuMemHostAlloc)                                                          \
	X(cuMemFreeHost, cuMemFreeHost)                                                            \
	X(cuMemHostRegister, cuMemHostRegister_v2)                                                 \
	X(cuMemHostUnregister, cuMemHostUnregister)                                                \
	X(cuMemHostGetDevicePointer, cuMemHostGetDevicePointer_v2)                                 \
	X(cuMemcpyAsync, cuMemcpyAsync)                                                            \
	X(cuMemcpy3DAsync, cuMemcpy3DAsync_v2)                                                     \
	X(cuArray3DCreate, cuArray3DCreate_v2)                                                     \
	X(cuArrayDestroy, cuArrayDestroy)                                                          \
	X(cuMipmappedArrayCreate, cuMipmappedArrayCreate)                                          \
	X(cuMipmappedArrayGetLevel, cuMipmappedArrayGetLevel)                                      \
	X(cuMipmappedArrayDestroy, cuMipmappedArrayDestroy)                                        \
	X(cuTexObjectCreate, cuTexObjectCreate)                                                    \
	X(cuTexObjectDestroy, cuTexObjectDestroy)                                                  \
	X(cuSurfObjectCreate, cuSurfObjectCreate)                                                  \
	X(cuSurfObjectDestroy, cuSurfObjectDestroy)                                                \
	X(cuMemsetD2D8Async, cuMemsetD2D8Async)                                                    \
	X(cuMemsetD2D16Async, cuMemsetD2D16Async)                                                  \
	X(cuMemsetD2D32Async, cuMemsetD2D32Async)                                                  \
	X(cuModuleLoadDataEx, cuModuleLoadDataEx)                                                  \
	X(cuModuleGetLoadingMode, cuModuleGetLoadingMode)                                          \
	X(cuLinkCreate, cuLinkCreate_v2)                                                           \
	X(cuLinkAddData, cuLinkAddData_v2)                                                         \
	X(cuLinkComplete, cuLinkComplete)                                                          \
	X(cuLinkDestroy, cuLinkDestroy)                                                            \
	X(cuModuleUnload, cuModuleUnload)                                                          \
	X(cuModuleGetFunction, cuModuleGetFunction)                                                \
	X(cuModuleGetFunctionCount, cuModuleGetFunctionCount)                                      \
	X(cuModuleEnumerateFunctions, cuModuleEnumerateFunctions)                                  \
	X(cuFuncGetName, cuFuncGetName)                                                            \
	X(cuModuleGetGlobal, cuModuleGetGlobal_v2)                                                 \
	X(cuFuncGetAttribute, cuFuncGetAttribute)                                                  \
	X(cuFuncSetAttribute, cuFuncSetAttribute)                                                  \
	X(cuFuncGetParamInfo, cuFuncGetParamInfo)                                                  \
	X(cuOccupancyMaxActiveBlocksPerMultiprocessor,                                             \
		cuOccupancyMaxActiveBlocksPerMultiprocessor)                                       \
	X(cuOccupancyMaxActiveClusters, cuOccupancyMaxActiveClusters)                              \
	X(cuOccupancyMaxPotentialClusterSize, cuOccupancyMaxPotentialClusterSize)                  \
	X(cuTensorMapEncodeTiled, cuTensorMapEncodeTiled)                                          \
	X(cuTensorMapEncodeIm2col, cuTensorMapEncodeIm2col)                                        \
	X(cuTensorMapReplaceAddress, cuTensorMapReplaceAddress)                                    \
	X(cuLaunchKernelEx, cuLaunchKernelEx)                                                      \
	X(cuLaunchKernel, cuLaunchKernel)                                                          \
	X(cuGraphCreate, cuGraphCreate)                                                            \
	X(cuGraphDestroy, cuGraphDestroy)                                                          \
	X(cuGraphAddKernelNode, cuGraphAddKernelNode_v2)                                           \
	X(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags)                                \
	X(cuGraphExecDestroy, cuGraphExecDestroy)                                                  \
	X(cuGraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams_v2)                       \
	X(cuGraphLaunch, cuGraphLaunch)                                                            \
	X(cuStreamCreateWithPriority, cuStreamCreateWithPriority)                                  \
	X(cuStreamDestroy, cuStreamDestroy_v2)                                                     \
	X(cuStreamQuery, cuStreamQuery)                                                            \
	X(cuStreamSynchronize, cuStreamSynchronize)                                                \
	X(cuStreamWriteValue32, cuStreamWriteValue32_v2)                                           \
	X(cuStreamWriteValue64, cuStreamWriteValue64_v2)                                           \
	X(cuStreamWaitValue64, cuStreamWaitValue64_v2)

/* NULL where the library has them no more. */
#define DRIVER_FUNCTIONS_OF_OLD(X)                                                                 \
	X(cuModuleGetTexRef, cuModuleGetTexRef)                                                    \
	X(cuModuleGetSurfRef, cuModuleGetSurfRef)                                                  \
	X(cuTexRefSetArray, cuTexRefSetArray)                                                      \
	X(cuTexRefSetMipmappedArray, cuTexRefSetMipmappedArray)                                    \
	X(cuTexRefSetAddress, cuTexRefSetAddress_v2)                                               \
	X(cuTexRefSetAddress2D, cuTexRefSetAddress2D_v3)                                           \
	X(cuTexRefSetFormat, cuTexRefSetFormat)                                                    \
	X(cuTexRefSetAddressMode, cuTexRefSetAddressMode)                                          \
	X(cuTexRefSetFilterMode, cuTexRefSetFilterMode)                                            \
	X(cuTexRefSetMipmapFilterMode, cuTexRefSetMipmapFilterMode)                                \
	X(cuTexRefSetMipmapLevelBias, cuTexRefSetMipmapLevelBias)                                  \
	X(cuTexRefSetMipmapLevelClamp, cuTexRefSetMipmapLevelClamp)                                \
	X(cuTexRefSetMaxAnisotropy, cuTexRefSetMaxAnisotropy)                                      \
	X(cuTexRefSetBorderColor, cuTexRefSetBorderColor)                                          \
	X(cuTexRefSetFlags, cuTexRefSetFlags)                                                      \
	X(cuSurfRefSetArray, cuSurfRefSetArray)

/* NULL where the library has them not yet. */
#define DRIVER_FUNCTIONS_OF_PARTS(X)                                                               \
	X(cuDeviceGetDevResource, cuDeviceGetDevResource)                                          \
	X(cuDevSmResourceSplitByCount, cuDevSmResourceSplitByCount)                                \
	X(cuDevResourceGenerateDesc, cuDevResourceGenerateDesc)                                    \
	X(cuGreenCtxCreate, cuGreenCtxCreate)                                                      \
	X(cuGreenCtxDestroy, cuGreenCtxDestroy)                                                    \
	X(cuGreenCtxStreamCreate, cuGreenCtxStreamCreate)

/* Likewise. */
#define DRIVER_FUNCTIONS_OF_DEFERRED(X)                                                            \
	X(cuArrayGetMemoryRequirements, cuArrayGetMemoryRequirements)                              \
	X(cuMipmappedArrayGetMemoryRequirements, cuMipmappedArrayGetMemoryRequirements)            \
	X(cuMemMapArrayAsync, cuMemMapArrayAsync)

struct driver {
	bool has_references; /* all of DRIVER_FUNCTIONS_OF_OLD */
	bool has_parts;      /* all of DRIVER_FUNCTIONS_OF_PARTS */
	bool has_deferred;   /* all of DRIVER_FUNCTIONS_OF_DEFERRED */
#define DRIVER_MEMBER(member, symbol) __typeof__(&member) member;
	DRIVER_FUNCTIONS(DRIVER_MEMBER)
	DRIVER_FUNCTIONS_OF_OLD(DRIVER_MEMBER)
	DRIVER_FUNCTIONS_OF_PARTS(DRIVER_MEMBER)
	DRIVER_FUNCTIONS_OF_DEFERRED(DRIVER_MEMBER)
#undef DRIVER_MEMBER
};

/* Opens the library and initialises it, once in this process: NULL when there is none, it is too old,
 * or it finds no device. The reason is then in the log. Thread-safe. */
const struct driver *driver_get(void);

/* 0, or the gdev error for a result. */
int driver_error(CUresult result);

#endif
