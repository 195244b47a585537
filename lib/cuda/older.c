/* SPDX-License-Identifier: MIT
 *
 * Symbols of older versions that mean the same as a newer one.
 */
#include "lib/cuda/exports.h"
#include "lib/cuda/internal.h"

CUresult cuCtxDestroy(CUcontext context)
{
	return cuCtxDestroy_v2(context);
}

CUresult cuCtxPushCurrent(CUcontext context)
{
	return cuCtxPushCurrent_v2(context);
}

CUresult cuCtxPopCurrent(CUcontext *context)
{
	return cuCtxPopCurrent_v2(context);
}

CUresult cuStreamDestroy(CUstream stream)
{
	return cuStreamDestroy_v2(stream);
}

CUresult cuEventDestroy(CUevent event)
{
	return cuEventDestroy_v2(event);
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
	return cuEventElapsedTime_v2(milliseconds, start, end);
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
	return cuDevicePrimaryCtxRelease_v2(device);
}

CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
	return cuDevicePrimaryCtxReset_v2(device);
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags)
{
	return cuDevicePrimaryCtxSetFlags_v2(device, flags);
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
	return cuDeviceGetUuid_v2(uuid, device);
}

CUresult cuMemHostRegister(void *pointer, size_t bytes, unsigned int flags)
{
	return cuMemHostRegister_v2(pointer, bytes, flags);
}
