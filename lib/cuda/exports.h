/* SPDX-License-Identifier: MIT
 *
 * Calls of the driver's interface that programs do not name themselves, or no longer: older symbols of the
 * same meaning.
 */
#ifndef GDEV_CUDA_EXPORTS_H
#define GDEV_CUDA_EXPORTS_H

#include "lib/cuda/names.h"

#pragma GCC visibility push(default)

CUresult cuProfilerInitialize(const char *config, const char *output, int mode);

/* of a name that cuda.h leaves alone (per_thread.c) */
CUresult cuStreamGetCtx_v2_ptsz(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx);

/* older symbols (older.c, init.c) */
CUresult cuCtxDestroy(CUcontext context);
CUresult cuCtxPushCurrent(CUcontext context);
CUresult cuCtxPopCurrent(CUcontext *context);
CUresult cuStreamDestroy(CUstream stream);
CUresult cuEventDestroy(CUevent event);

#pragma GCC visibility pop

/* Below their exported names are wrappers that note the calls (generate.py). */
#include "labels.h"

#endif
