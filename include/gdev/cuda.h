/* SPDX-License-Identifier: MIT
 *
 * The CUDA Driver API, as far as gdev implements it: types, values and calls by which a program written
 * for <cuda.h> of CUDA 13.0 compiles here and runs on gdev's libcuda.so.1, or on any other. Layouts, names
 * and values are those of the interface (tests/cuda checks them against NVIDIA's header where there is
 * one). Compile with pkg-config --cflags --libs gdev-cuda. docs/cuda-coverage.md says what exists.
 *
 * Order (the enumerations are in cuda_values.h): types, results, device, contexts, modules, memory, streams and events, launches, and what gdev
 * adds (shared device memory).
 */
#ifndef GDEV_CUDA_H
#define GDEV_CUDA_H
#ifdef __cuda_cuda_h__
#error "another cuda.h has been included before"
#endif
#define __cuda_cuda_h__

#include <stddef.h>
#include <stdint.h>

#include "cuda_values.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define CUDA_VERSION 13000
#define CUDAAPI
#define CUDA_CB

/* ---- types ---- */

typedef unsigned long long CUdeviceptr_v2;
typedef CUdeviceptr_v2 CUdeviceptr;
typedef int CUdevice_v1;
typedef CUdevice_v1 CUdevice;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUlib_st *CUlibrary;
typedef struct CUkern_st *CUkernel;
typedef struct CUarray_st *CUarray;
typedef struct CUmipmappedArray_st *CUmipmappedArray;
typedef struct CUtexref_st *CUtexref;
typedef struct CUsurfref_st *CUsurfref;
typedef struct CUevent_st *CUevent;
typedef struct CUstream_st *CUstream;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUgraphDeviceUpdatableNode_st *CUgraphDeviceNode;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct CUlinkState_st *CUlinkState;

#ifndef CU_UUID_HAS_BEEN_DEFINED
#define CU_UUID_HAS_BEEN_DEFINED
typedef struct CUuuid_st {
	char bytes[16];
} CUuuid;
#endif

/* ---- results ---- */

CUresult CUDAAPI cuGetErrorString(CUresult error, const char **pStr);
CUresult CUDAAPI cuGetErrorName(CUresult error, const char **pStr);

CUresult CUDAAPI cuInit(unsigned int Flags);
CUresult CUDAAPI cuDriverGetVersion(int *driverVersion);

CUresult CUDAAPI cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion,
	uint64_t flags, CUdriverProcAddressQueryResult *symbolStatus);
#define cuGetProcAddress cuGetProcAddress_v2
CUresult CUDAAPI cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId);

/* ---- device ---- */

#define CU_DEVICE_CPU ((CUdevice)-1)
#define CU_DEVICE_INVALID ((CUdevice)-2)

typedef struct CUdevprop_st {
	int maxThreadsPerBlock;
	int maxThreadsDim[3];
	int maxGridSize[3];
	int sharedMemPerBlock;
	int totalConstantMemory;
	int SIMDWidth;
	int memPitch;
	int regsPerBlock;
	int clockRate;
	int textureAlign;
} CUdevprop_v1;
typedef CUdevprop_v1 CUdevprop;

CUresult CUDAAPI cuDeviceGetCount(int *count);
CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal);
CUresult CUDAAPI cuDeviceGetName(char *name, int len, CUdevice dev);
CUresult CUDAAPI cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev);
#define cuDeviceGetUuid cuDeviceGetUuid_v2
CUresult CUDAAPI cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev);
#define cuDeviceTotalMem cuDeviceTotalMem_v2
CUresult CUDAAPI cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev);
CUresult CUDAAPI cuDeviceGetProperties(CUdevprop *prop, CUdevice dev);
CUresult CUDAAPI cuDeviceComputeCapability(int *major, int *minor, CUdevice dev);
CUresult CUDAAPI cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev);
CUresult CUDAAPI cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId);
CUresult CUDAAPI cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev);
CUresult CUDAAPI cuDeviceGetP2PAttribute(
	int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice, CUdevice dstDevice);

/* ---- contexts ---- */

typedef struct CUexecAffinitySmCount_st {
	unsigned int val;
} CUexecAffinitySmCount_v1;
typedef CUexecAffinitySmCount_v1 CUexecAffinitySmCount;
typedef struct CUexecAffinityParam_st {
	CUexecAffinityType type;
	union {
		CUexecAffinitySmCount smCount;
	} param;
} CUexecAffinityParam_v1;
typedef CUexecAffinityParam_v1 CUexecAffinityParam;
typedef struct CUctxCigParam_st {
	CUcigDataType sharedDataType;
	void *sharedData;
} CUctxCigParam;
typedef struct CUctxCreateParams_st {
	CUexecAffinityParam *execAffinityParams;
	int numExecAffinityParams;
	CUctxCigParam *cigParams;
} CUctxCreateParams;

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev);
CUresult CUDAAPI cuDevicePrimaryCtxRelease_v2(CUdevice dev);
#define cuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2
CUresult CUDAAPI cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags);
#define cuDevicePrimaryCtxSetFlags cuDevicePrimaryCtxSetFlags_v2
CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active);
CUresult CUDAAPI cuDevicePrimaryCtxReset_v2(CUdevice dev);
#define cuDevicePrimaryCtxReset cuDevicePrimaryCtxReset_v2

/* As in CUDA 13, cuCtxCreate is the call with parameters. Programs of before say GDEV_CUDA_API_BEFORE_13
 * to have cuCtxCreate(context, flags, device). */
CUresult CUDAAPI cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev);
CUresult CUDAAPI cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams,
	unsigned int flags, CUdevice dev);
CUresult CUDAAPI cuCtxCreate_v4(
	CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags, CUdevice dev);
#ifdef GDEV_CUDA_API_BEFORE_13
#define cuCtxCreate cuCtxCreate_v2
#else
#define cuCtxCreate cuCtxCreate_v4
#endif
CUresult CUDAAPI cuCtxDestroy_v2(CUcontext ctx);
#define cuCtxDestroy cuCtxDestroy_v2
CUresult CUDAAPI cuCtxPushCurrent_v2(CUcontext ctx);
#define cuCtxPushCurrent cuCtxPushCurrent_v2
CUresult CUDAAPI cuCtxPopCurrent_v2(CUcontext *pctx);
#define cuCtxPopCurrent cuCtxPopCurrent_v2
CUresult CUDAAPI cuCtxSetCurrent(CUcontext ctx);
CUresult CUDAAPI cuCtxGetCurrent(CUcontext *pctx);
CUresult CUDAAPI cuCtxGetDevice(CUdevice *device);
CUresult CUDAAPI cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx);
CUresult CUDAAPI cuCtxGetFlags(unsigned int *flags);
CUresult CUDAAPI cuCtxSetFlags(unsigned int flags);
CUresult CUDAAPI cuCtxGetId(CUcontext ctx, unsigned long long *ctxId);
CUresult CUDAAPI cuCtxSynchronize(void);
CUresult CUDAAPI cuCtxSynchronize_v2(CUcontext ctx);
CUresult CUDAAPI cuCtxSetLimit(CUlimit limit, size_t value);
CUresult CUDAAPI cuCtxGetLimit(size_t *pvalue, CUlimit limit);
CUresult CUDAAPI cuCtxGetCacheConfig(CUfunc_cache *pconfig);
CUresult CUDAAPI cuCtxSetCacheConfig(CUfunc_cache config);
CUresult CUDAAPI cuCtxGetSharedMemConfig(CUsharedconfig *pConfig);
CUresult CUDAAPI cuCtxSetSharedMemConfig(CUsharedconfig config);
CUresult CUDAAPI cuCtxGetApiVersion(CUcontext ctx, unsigned int *version);
CUresult CUDAAPI cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority);
CUresult CUDAAPI cuCtxResetPersistingL2Cache(void);
CUresult CUDAAPI cuCtxAttach(CUcontext *pctx, unsigned int flags);
CUresult CUDAAPI cuCtxDetach(CUcontext ctx);
CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags);
CUresult CUDAAPI cuCtxDisablePeerAccess(CUcontext peerContext);

/* ---- modules, libraries, functions ---- */

CUresult CUDAAPI cuModuleLoad(CUmodule *module, const char *fname);
CUresult CUDAAPI cuModuleLoadData(CUmodule *module, const void *image);
CUresult CUDAAPI cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
	CUjit_option *options, void **optionValues);
CUresult CUDAAPI cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin);
CUresult CUDAAPI cuModuleUnload(CUmodule hmod);
CUresult CUDAAPI cuModuleGetLoadingMode(CUmoduleLoadingMode *mode);
CUresult CUDAAPI cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name);
CUresult CUDAAPI cuModuleGetGlobal_v2(
	CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name);
#define cuModuleGetGlobal cuModuleGetGlobal_v2

CUresult CUDAAPI cuLinkCreate_v2(
	unsigned int numOptions, CUjit_option *options, void **optionValues, CUlinkState *stateOut);
#define cuLinkCreate cuLinkCreate_v2
CUresult CUDAAPI cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size,
	const char *name, unsigned int numOptions, CUjit_option *options, void **optionValues);
#define cuLinkAddData cuLinkAddData_v2
CUresult CUDAAPI cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path,
	unsigned int numOptions, CUjit_option *options, void **optionValues);
#define cuLinkAddFile cuLinkAddFile_v2
CUresult CUDAAPI cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut);
CUresult CUDAAPI cuLinkDestroy(CUlinkState state);

CUresult CUDAAPI cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
	void **jitOptionsValues, unsigned int numJitOptions, CUlibraryOption *libraryOptions,
	void **libraryOptionValues, unsigned int numLibraryOptions);
CUresult CUDAAPI cuLibraryLoadFromFile(CUlibrary *library, const char *fileName,
	CUjit_option *jitOptions, void **jitOptionsValues, unsigned int numJitOptions,
	CUlibraryOption *libraryOptions, void **libraryOptionValues,
	unsigned int numLibraryOptions);
CUresult CUDAAPI cuLibraryUnload(CUlibrary library);
CUresult CUDAAPI cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name);
CUresult CUDAAPI cuLibraryGetModule(CUmodule *pMod, CUlibrary library);
CUresult CUDAAPI cuLibraryGetGlobal(
	CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name);
CUresult CUDAAPI cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel);
CUresult CUDAAPI cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel);
CUresult CUDAAPI cuKernelGetAttribute(
	int *pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev);
CUresult CUDAAPI cuKernelSetAttribute(
	CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev);
CUresult CUDAAPI cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev);
CUresult CUDAAPI cuKernelGetName(const char **name, CUkernel hfunc);
CUresult CUDAAPI cuKernelGetParamInfo(
	CUkernel kernel, size_t paramIndex, size_t *paramOffset, size_t *paramSize);

CUresult CUDAAPI cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc);
CUresult CUDAAPI cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value);
CUresult CUDAAPI cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config);
CUresult CUDAAPI cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config);
CUresult CUDAAPI cuFuncGetModule(CUmodule *hmod, CUfunction hfunc);
CUresult CUDAAPI cuFuncGetName(const char **name, CUfunction hfunc);
CUresult CUDAAPI cuFuncGetParamInfo(
	CUfunction func, size_t paramIndex, size_t *paramOffset, size_t *paramSize);
CUresult CUDAAPI cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function);
CUresult CUDAAPI cuFuncLoad(CUfunction function);

/* ---- memory ---- */

#define CU_MEMHOSTALLOC_PORTABLE 0x01
#define CU_MEMHOSTALLOC_DEVICEMAP 0x02
#define CU_MEMHOSTALLOC_WRITECOMBINED 0x04
#define CU_MEMHOSTREGISTER_PORTABLE 0x01
#define CU_MEMHOSTREGISTER_DEVICEMAP 0x02
#define CU_MEMHOSTREGISTER_IOMEMORY 0x04
#define CU_MEMHOSTREGISTER_READ_ONLY 0x08

typedef struct CUmemLocation_st {
	CUmemLocationType type;
	int id;
} CUmemLocation_v1;
typedef CUmemLocation_v1 CUmemLocation;

typedef struct CUDA_MEMCPY2D_st {
	size_t srcXInBytes, srcY;
	CUmemorytype srcMemoryType;
	const void *srcHost;
	CUdeviceptr srcDevice;
	CUarray srcArray;
	size_t srcPitch;
	size_t dstXInBytes, dstY;
	CUmemorytype dstMemoryType;
	void *dstHost;
	CUdeviceptr dstDevice;
	CUarray dstArray;
	size_t dstPitch;
	size_t WidthInBytes;
	size_t Height;
} CUDA_MEMCPY2D_v2;
typedef CUDA_MEMCPY2D_v2 CUDA_MEMCPY2D;

typedef struct CUDA_MEMCPY3D_st {
	size_t srcXInBytes, srcY, srcZ, srcLOD;
	CUmemorytype srcMemoryType;
	const void *srcHost;
	CUdeviceptr srcDevice;
	CUarray srcArray;
	void *reserved0;
	size_t srcPitch, srcHeight;
	size_t dstXInBytes, dstY, dstZ, dstLOD;
	CUmemorytype dstMemoryType;
	void *dstHost;
	CUdeviceptr dstDevice;
	CUarray dstArray;
	void *reserved1;
	size_t dstPitch, dstHeight;
	size_t WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D_v2;
typedef CUDA_MEMCPY3D_v2 CUDA_MEMCPY3D;

typedef struct CUDA_MEMCPY3D_PEER_st {
	size_t srcXInBytes, srcY, srcZ, srcLOD;
	CUmemorytype srcMemoryType;
	const void *srcHost;
	CUdeviceptr srcDevice;
	CUarray srcArray;
	CUcontext srcContext;
	size_t srcPitch, srcHeight;
	size_t dstXInBytes, dstY, dstZ, dstLOD;
	CUmemorytype dstMemoryType;
	void *dstHost;
	CUdeviceptr dstDevice;
	CUarray dstArray;
	CUcontext dstContext;
	size_t dstPitch, dstHeight;
	size_t WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D_PEER_v1;
typedef CUDA_MEMCPY3D_PEER_v1 CUDA_MEMCPY3D_PEER;

CUresult CUDAAPI cuMemGetInfo_v2(size_t *free, size_t *total);
#define cuMemGetInfo cuMemGetInfo_v2
CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize);
#define cuMemAlloc cuMemAlloc_v2
CUresult CUDAAPI cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes,
	size_t Height, unsigned int ElementSizeBytes);
#define cuMemAllocPitch cuMemAllocPitch_v2
CUresult CUDAAPI cuMemFree_v2(CUdeviceptr dptr);
#define cuMemFree cuMemFree_v2
CUresult CUDAAPI cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr);
#define cuMemGetAddressRange cuMemGetAddressRange_v2
CUresult CUDAAPI cuMemAllocHost_v2(void **pp, size_t bytesize);
#define cuMemAllocHost cuMemAllocHost_v2
CUresult CUDAAPI cuMemFreeHost(void *p);
CUresult CUDAAPI cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags);
CUresult CUDAAPI cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags);
#define cuMemHostGetDevicePointer cuMemHostGetDevicePointer_v2
CUresult CUDAAPI cuMemHostGetFlags(unsigned int *pFlags, void *p);
CUresult CUDAAPI cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags);
#define cuMemHostRegister cuMemHostRegister_v2
CUresult CUDAAPI cuMemHostUnregister(void *p);
CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags);
CUresult CUDAAPI cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location,
	unsigned int flags, CUstream hStream);
CUresult CUDAAPI cuMemAdvise_v2(
	CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location);
#define cuMemAdvise cuMemAdvise_v2
CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream);
CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream);
CUresult CUDAAPI cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr);
CUresult CUDAAPI cuPointerGetAttributes(
	unsigned int numAttributes, CUpointer_attribute *attributes, void **data, CUdeviceptr ptr);
CUresult CUDAAPI cuPointerSetAttribute(
	const void *value, CUpointer_attribute attribute, CUdeviceptr ptr);

CUresult CUDAAPI cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount);
CUresult CUDAAPI cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
	CUcontext srcContext, size_t ByteCount);
CUresult CUDAAPI cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount);
CUresult CUDAAPI cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount);
CUresult CUDAAPI cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount);
CUresult CUDAAPI cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy);
CUresult CUDAAPI cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *pCopy);
CUresult CUDAAPI cuMemcpy3D_v2(const CUDA_MEMCPY3D *pCopy);
CUresult CUDAAPI cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *pCopy);
CUresult CUDAAPI cuMemcpyAsync(
	CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream);
CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext,
	CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount, CUstream hStream);
CUresult CUDAAPI cuMemcpyHtoDAsync_v2(
	CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream);
CUresult CUDAAPI cuMemcpyDtoHAsync_v2(
	void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream);
CUresult CUDAAPI cuMemcpyDtoDAsync_v2(
	CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream);
CUresult CUDAAPI cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream);
CUresult CUDAAPI cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream);
CUresult CUDAAPI cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream);

CUresult CUDAAPI cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N);
CUresult CUDAAPI cuMemsetD16_v2(CUdeviceptr dstDevice, unsigned short us, size_t N);
CUresult CUDAAPI cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned int ui, size_t N);
CUresult CUDAAPI cuMemsetD2D8_v2(
	CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height);
CUresult CUDAAPI cuMemsetD2D16_v2(
	CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height);
CUresult CUDAAPI cuMemsetD2D32_v2(
	CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height);
CUresult CUDAAPI cuMemsetD8Async(
	CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream);
CUresult CUDAAPI cuMemsetD16Async(
	CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream);
CUresult CUDAAPI cuMemsetD32Async(
	CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream);
CUresult CUDAAPI cuMemsetD2D8Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc,
	size_t Width, size_t Height, CUstream hStream);
CUresult CUDAAPI cuMemsetD2D16Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us,
	size_t Width, size_t Height, CUstream hStream);
CUresult CUDAAPI cuMemsetD2D32Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui,
	size_t Width, size_t Height, CUstream hStream);

/* ---- virtual memory management ---- */

typedef unsigned long long CUmemGenericAllocationHandle;

typedef enum CUmemAllocationType_enum {
	CU_MEM_ALLOCATION_TYPE_INVALID = 0,
	CU_MEM_ALLOCATION_TYPE_PINNED = 1,
	CU_MEM_ALLOCATION_TYPE_MAX = 0x7FFFFFFF,
} CUmemAllocationType;

typedef enum CUmemAllocationHandleType_enum {
	CU_MEM_HANDLE_TYPE_NONE = 0,
	CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1,
	CU_MEM_HANDLE_TYPE_MAX = 0x7FFFFFFF,
} CUmemAllocationHandleType;

typedef enum CUmemAccess_flags_enum {
	CU_MEM_ACCESS_FLAGS_PROT_NONE = 0,
	CU_MEM_ACCESS_FLAGS_PROT_READ = 1,
	CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3,
	CU_MEM_ACCESS_FLAGS_PROT_MAX = 0x7FFFFFFF,
} CUmemAccess_flags;

typedef struct CUmemAccessDesc_st {
	CUmemLocation location;
	CUmemAccess_flags flags;
} CUmemAccessDesc_v1;
typedef CUmemAccessDesc_v1 CUmemAccessDesc;

typedef struct CUmemAllocationProp_st {
	CUmemAllocationType type;
	CUmemAllocationHandleType requestedHandleTypes;
	CUmemLocation location;
	void *win32HandleMetaData;
	struct {
		unsigned char compressionType;
		unsigned char gpuDirectRDMACapable;
		unsigned short usage;
		unsigned char reserved[4];
	} allocFlags;
} CUmemAllocationProp_v1;
typedef CUmemAllocationProp_v1 CUmemAllocationProp;

CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment,
	CUdeviceptr addr, unsigned long long flags);
CUresult CUDAAPI cuMemAddressFree(CUdeviceptr ptr, size_t size);
CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
	const CUmemAllocationProp *prop, unsigned long long flags);
CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle);
CUresult CUDAAPI cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
	CUmemGenericAllocationHandle handle, unsigned long long flags);
CUresult CUDAAPI cuMemUnmap(CUdeviceptr ptr, size_t size);
CUresult CUDAAPI cuMemSetAccess(
	CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count);
CUresult CUDAAPI cuMemExportToShareableHandle(void *shareableHandle,
	CUmemGenericAllocationHandle handle, CUmemAllocationHandleType handleType,
	unsigned long long flags);
CUresult CUDAAPI cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle,
	void *osHandle, CUmemAllocationHandleType shHandleType);

/* ---- streams and events ---- */

#define CU_STREAM_LEGACY ((CUstream)0x1)
#define CU_STREAM_PER_THREAD ((CUstream)0x2)

typedef void(CUDA_CB *CUstreamCallback)(CUstream hStream, CUresult status, void *userData);
typedef void(CUDA_CB *CUhostFn)(void *userData);

CUresult CUDAAPI cuStreamCreate(CUstream *phStream, unsigned int Flags);
CUresult CUDAAPI cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority);
CUresult CUDAAPI cuStreamDestroy_v2(CUstream hStream);
#define cuStreamDestroy cuStreamDestroy_v2
CUresult CUDAAPI cuStreamGetPriority(CUstream hStream, int *priority);
CUresult CUDAAPI cuStreamGetFlags(CUstream hStream, unsigned int *flags);
CUresult CUDAAPI cuStreamGetId(CUstream hStream, unsigned long long *streamId);
CUresult CUDAAPI cuStreamGetCtx(CUstream hStream, CUcontext *pctx);
CUresult CUDAAPI cuStreamGetDevice(CUstream hStream, CUdevice *device);
CUresult CUDAAPI cuStreamQuery(CUstream hStream);
CUresult CUDAAPI cuStreamSynchronize(CUstream hStream);
CUresult CUDAAPI cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags);
CUresult CUDAAPI cuStreamAddCallback(
	CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags);
CUresult CUDAAPI cuStreamAttachMemAsync(
	CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags);
CUresult CUDAAPI cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus);
CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode);
CUresult CUDAAPI cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData);

CUresult CUDAAPI cuEventCreate(CUevent *phEvent, unsigned int Flags);
CUresult CUDAAPI cuEventDestroy_v2(CUevent hEvent);
#define cuEventDestroy cuEventDestroy_v2
CUresult CUDAAPI cuEventRecord(CUevent hEvent, CUstream hStream);
CUresult CUDAAPI cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags);
CUresult CUDAAPI cuEventQuery(CUevent hEvent);
CUresult CUDAAPI cuEventSynchronize(CUevent hEvent);
CUresult CUDAAPI cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd);
#define cuEventElapsedTime cuEventElapsedTime_v2

typedef enum CUstreamWriteValue_flags_enum {
	CU_STREAM_WRITE_VALUE_DEFAULT = 0,
	CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER = 1,
} CUstreamWriteValue_flags;

CUresult CUDAAPI cuStreamWriteValue64_v2(
	CUstream stream, CUdeviceptr addr, uint64_t value, unsigned int flags);
#define cuStreamWriteValue64 cuStreamWriteValue64_v2

/* ---- launches ---- */

#define CU_LAUNCH_PARAM_END_AS_INT 0x00
#define CU_LAUNCH_PARAM_END ((void *)CU_LAUNCH_PARAM_END_AS_INT)
#define CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT 0x01
#define CU_LAUNCH_PARAM_BUFFER_POINTER ((void *)CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT)
#define CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT 0x02
#define CU_LAUNCH_PARAM_BUFFER_SIZE ((void *)CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT)
#define CU_LAUNCH_KERNEL_REQUIRED_BLOCK_DIM 1
#define CU_PARAM_TR_DEFAULT -1

typedef struct CUaccessPolicyWindow_st {
	void *base_ptr;
	size_t num_bytes;
	float hitRatio;
	CUaccessProperty hitProp;
	CUaccessProperty missProp;
} CUaccessPolicyWindow_v1;
typedef CUaccessPolicyWindow_v1 CUaccessPolicyWindow;

typedef struct CUlaunchMemSyncDomainMap_st {
	unsigned char default_;
	unsigned char remote;
} CUlaunchMemSyncDomainMap;

typedef union CUlaunchAttributeValue_union {
	char pad[64];
	CUaccessPolicyWindow accessPolicyWindow;
	int cooperative;
	CUsynchronizationPolicy syncPolicy;
	struct {
		unsigned int x, y, z;
	} clusterDim;
	CUclusterSchedulingPolicy clusterSchedulingPolicyPreference;
	int programmaticStreamSerializationAllowed;
	struct {
		CUevent event;
		int flags;
		int triggerAtBlockStart;
	} programmaticEvent;
	struct {
		CUevent event;
		int flags;
	} launchCompletionEvent;
	int priority;
	CUlaunchMemSyncDomainMap memSyncDomainMap;
	CUlaunchMemSyncDomain memSyncDomain;
	struct {
		unsigned int x, y, z;
	} preferredClusterDim;
	struct {
		int deviceUpdatable;
		CUgraphDeviceNode devNode;
	} deviceUpdatableKernelNode;
	unsigned int sharedMemCarveout;
	unsigned int nvlinkUtilCentricScheduling;
} CUlaunchAttributeValue;

typedef struct CUlaunchAttribute_st {
	CUlaunchAttributeID id;
	char pad[8 - sizeof(CUlaunchAttributeID)];
	CUlaunchAttributeValue value;
} CUlaunchAttribute;

typedef struct CUlaunchConfig_st {
	unsigned int gridDimX, gridDimY, gridDimZ;
	unsigned int blockDimX, blockDimY, blockDimZ;
	unsigned int sharedMemBytes;
	CUstream hStream;
	CUlaunchAttribute *attrs;
	unsigned int numAttrs;
} CUlaunchConfig;

typedef size_t(CUDA_CB *CUoccupancyB2DSize)(int blockSize);

CUresult CUDAAPI cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
	unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
	unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream, void **kernelParams,
	void **extra);
CUresult CUDAAPI cuLaunchKernelEx(
	const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra);
CUresult CUDAAPI cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX,
	unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX,
	unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes,
	CUstream hStream, void **kernelParams);

/* CUDA 2.0 to 4.0 */
CUresult CUDAAPI cuFuncSetBlockShape(CUfunction hfunc, int x, int y, int z);
CUresult CUDAAPI cuFuncSetSharedSize(CUfunction hfunc, unsigned int bytes);
CUresult CUDAAPI cuParamSetSize(CUfunction hfunc, unsigned int numbytes);
CUresult CUDAAPI cuParamSeti(CUfunction hfunc, int offset, unsigned int value);
CUresult CUDAAPI cuParamSetf(CUfunction hfunc, int offset, float value);
CUresult CUDAAPI cuParamSetv(CUfunction hfunc, int offset, void *ptr, unsigned int numbytes);
CUresult CUDAAPI cuLaunch(CUfunction f);
CUresult CUDAAPI cuLaunchGrid(CUfunction f, int grid_width, int grid_height);
CUresult CUDAAPI cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height, CUstream hStream);

CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessor(
	int *numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize);
CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
	int *numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize, unsigned int flags);
CUresult CUDAAPI cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func,
	CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize, int blockSizeLimit);
CUresult CUDAAPI cuOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize,
	CUfunction func, CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize,
	int blockSizeLimit, unsigned int flags);
CUresult CUDAAPI cuOccupancyAvailableDynamicSMemPerBlock(
	size_t *dynamicSmemSize, CUfunction func, int numBlocks, int blockSize);

/* ---- shared device memory, which gdev adds (Gdev, section 4.2) ----
 * As shmget, shmat, shmdt and shmctl: cmd is IPC_STAT (fills *buf), IPC_SET (takes buf->mode) or IPC_RMID
 * (buf may be NULL); flags are those of <sys/shm.h>. */

typedef struct CUshmInfo_st {
	unsigned int id, uid, gid, mode;
	unsigned long long bytes;
	unsigned int attached;
} CUshmInfo;

CUresult CUDAAPI cuShmGet(int *id, int key, size_t size, int flags);
CUresult CUDAAPI cuShmAt(CUdeviceptr *dptr, int id, int flags);
CUresult CUDAAPI cuShmDt(CUdeviceptr dptr);
CUresult CUDAAPI cuShmCtl(int id, int cmd, CUshmInfo *buf);

/* ---- names of the current version, and of the per-thread default stream ---- */

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
__typeof__(cuMemcpyHtoD_v2) cuMemcpyHtoD_v2_ptds;
__typeof__(cuMemcpyDtoH_v2) cuMemcpyDtoH_v2_ptds;
__typeof__(cuMemcpyDtoD_v2) cuMemcpyDtoD_v2_ptds;
__typeof__(cuMemcpy2D_v2) cuMemcpy2D_v2_ptds;
__typeof__(cuMemcpy2DUnaligned_v2) cuMemcpy2DUnaligned_v2_ptds;
__typeof__(cuMemcpy3D_v2) cuMemcpy3D_v2_ptds;
__typeof__(cuMemsetD8_v2) cuMemsetD8_v2_ptds;
__typeof__(cuMemsetD16_v2) cuMemsetD16_v2_ptds;
__typeof__(cuMemsetD32_v2) cuMemsetD32_v2_ptds;
__typeof__(cuMemsetD2D8_v2) cuMemsetD2D8_v2_ptds;
__typeof__(cuMemsetD2D16_v2) cuMemsetD2D16_v2_ptds;
__typeof__(cuMemsetD2D32_v2) cuMemsetD2D32_v2_ptds;
__typeof__(cuMemcpyHtoDAsync_v2) cuMemcpyHtoDAsync_v2_ptsz;
__typeof__(cuMemcpyDtoHAsync_v2) cuMemcpyDtoHAsync_v2_ptsz;
__typeof__(cuMemcpyDtoDAsync_v2) cuMemcpyDtoDAsync_v2_ptsz;
__typeof__(cuMemcpy2DAsync_v2) cuMemcpy2DAsync_v2_ptsz;
__typeof__(cuMemcpy3DAsync_v2) cuMemcpy3DAsync_v2_ptsz;
__typeof__(cuMemPrefetchAsync_v2) cuMemPrefetchAsync_v2_ptsz;
__typeof__(cuMemcpy) cuMemcpy_ptds;
__typeof__(cuMemcpyPeer) cuMemcpyPeer_ptds;
__typeof__(cuMemcpy3DPeer) cuMemcpy3DPeer_ptds;
__typeof__(cuMemcpyAsync) cuMemcpyAsync_ptsz;
__typeof__(cuMemcpyPeerAsync) cuMemcpyPeerAsync_ptsz;
__typeof__(cuMemcpy3DPeerAsync) cuMemcpy3DPeerAsync_ptsz;
__typeof__(cuMemsetD8Async) cuMemsetD8Async_ptsz;
__typeof__(cuMemsetD16Async) cuMemsetD16Async_ptsz;
__typeof__(cuMemsetD32Async) cuMemsetD32Async_ptsz;
__typeof__(cuMemsetD2D8Async) cuMemsetD2D8Async_ptsz;
__typeof__(cuMemsetD2D16Async) cuMemsetD2D16Async_ptsz;
__typeof__(cuMemsetD2D32Async) cuMemsetD2D32Async_ptsz;
__typeof__(cuStreamGetPriority) cuStreamGetPriority_ptsz;
__typeof__(cuStreamGetId) cuStreamGetId_ptsz;
__typeof__(cuStreamGetFlags) cuStreamGetFlags_ptsz;
__typeof__(cuStreamGetDevice) cuStreamGetDevice_ptsz;
__typeof__(cuStreamGetCtx) cuStreamGetCtx_ptsz;
__typeof__(cuStreamWaitEvent) cuStreamWaitEvent_ptsz;
__typeof__(cuStreamIsCapturing) cuStreamIsCapturing_ptsz;
__typeof__(cuStreamAddCallback) cuStreamAddCallback_ptsz;
__typeof__(cuStreamAttachMemAsync) cuStreamAttachMemAsync_ptsz;
__typeof__(cuStreamQuery) cuStreamQuery_ptsz;
__typeof__(cuStreamSynchronize) cuStreamSynchronize_ptsz;
__typeof__(cuEventRecord) cuEventRecord_ptsz;
__typeof__(cuEventRecordWithFlags) cuEventRecordWithFlags_ptsz;
__typeof__(cuLaunchKernel) cuLaunchKernel_ptsz;
__typeof__(cuLaunchKernelEx) cuLaunchKernelEx_ptsz;
__typeof__(cuLaunchHostFunc) cuLaunchHostFunc_ptsz;
__typeof__(cuLaunchCooperativeKernel) cuLaunchCooperativeKernel_ptsz;
__typeof__(cuMemFreeAsync) cuMemFreeAsync_ptsz;
__typeof__(cuMemAllocAsync) cuMemAllocAsync_ptsz;
#define cuMemcpy cuMemcpy_ptds
#define cuMemcpyPeer cuMemcpyPeer_ptds
#define cuMemcpy3DPeer cuMemcpy3DPeer_ptds
#define cuMemcpyAsync cuMemcpyAsync_ptsz
#define cuMemcpyPeerAsync cuMemcpyPeerAsync_ptsz
#define cuMemcpy3DPeerAsync cuMemcpy3DPeerAsync_ptsz
#define cuMemsetD8Async cuMemsetD8Async_ptsz
#define cuMemsetD16Async cuMemsetD16Async_ptsz
#define cuMemsetD32Async cuMemsetD32Async_ptsz
#define cuMemsetD2D8Async cuMemsetD2D8Async_ptsz
#define cuMemsetD2D16Async cuMemsetD2D16Async_ptsz
#define cuMemsetD2D32Async cuMemsetD2D32Async_ptsz
#define cuStreamGetPriority cuStreamGetPriority_ptsz
#define cuStreamGetId cuStreamGetId_ptsz
#define cuStreamGetFlags cuStreamGetFlags_ptsz
#define cuStreamGetDevice cuStreamGetDevice_ptsz
#define cuStreamGetCtx cuStreamGetCtx_ptsz
#define cuStreamWaitEvent cuStreamWaitEvent_ptsz
#define cuStreamIsCapturing cuStreamIsCapturing_ptsz
#define cuStreamAddCallback cuStreamAddCallback_ptsz
#define cuStreamAttachMemAsync cuStreamAttachMemAsync_ptsz
#define cuStreamQuery cuStreamQuery_ptsz
#define cuStreamSynchronize cuStreamSynchronize_ptsz
#define cuEventRecord cuEventRecord_ptsz
#define cuEventRecordWithFlags cuEventRecordWithFlags_ptsz
#define cuLaunchKernel cuLaunchKernel_ptsz
#define cuLaunchKernelEx cuLaunchKernelEx_ptsz
#define cuLaunchHostFunc cuLaunchHostFunc_ptsz
#define cuLaunchCooperativeKernel cuLaunchCooperativeKernel_ptsz
#define cuMemFreeAsync cuMemFreeAsync_ptsz
#define cuMemAllocAsync cuMemAllocAsync_ptsz
#define GDEV_PTDS(name) name##_ptds
#define GDEV_PTSZ(name) name##_ptsz
#else
#define GDEV_PTDS(name) name
#define GDEV_PTSZ(name) name
#endif
#define cuMemcpyHtoD GDEV_PTDS(cuMemcpyHtoD_v2)
#define cuMemcpyDtoH GDEV_PTDS(cuMemcpyDtoH_v2)
#define cuMemcpyDtoD GDEV_PTDS(cuMemcpyDtoD_v2)
#define cuMemcpy2D GDEV_PTDS(cuMemcpy2D_v2)
#define cuMemcpy2DUnaligned GDEV_PTDS(cuMemcpy2DUnaligned_v2)
#define cuMemcpy3D GDEV_PTDS(cuMemcpy3D_v2)
#define cuMemsetD8 GDEV_PTDS(cuMemsetD8_v2)
#define cuMemsetD16 GDEV_PTDS(cuMemsetD16_v2)
#define cuMemsetD32 GDEV_PTDS(cuMemsetD32_v2)
#define cuMemsetD2D8 GDEV_PTDS(cuMemsetD2D8_v2)
#define cuMemsetD2D16 GDEV_PTDS(cuMemsetD2D16_v2)
#define cuMemsetD2D32 GDEV_PTDS(cuMemsetD2D32_v2)
#define cuMemcpyHtoDAsync GDEV_PTSZ(cuMemcpyHtoDAsync_v2)
#define cuMemcpyDtoHAsync GDEV_PTSZ(cuMemcpyDtoHAsync_v2)
#define cuMemcpyDtoDAsync GDEV_PTSZ(cuMemcpyDtoDAsync_v2)
#define cuMemcpy2DAsync GDEV_PTSZ(cuMemcpy2DAsync_v2)
#define cuMemcpy3DAsync GDEV_PTSZ(cuMemcpy3DAsync_v2)
#define cuMemPrefetchAsync GDEV_PTSZ(cuMemPrefetchAsync_v2)

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
