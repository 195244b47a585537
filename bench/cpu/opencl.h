/* SPDX-License-Identifier: MIT
 *
 * The words of CUDA C that device code of the programs uses, for OpenCL C: what examples/common/device.h
 * is for clang. opencl.py puts it before what it translates.
 */
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __restrict__ restrict
#define __shared__ __local
#define POINTER_TO_SHARED(type) __local type *

#define __syncthreads() barrier(CLK_LOCAL_MEM_FENCE)

/* The name of a type there. */
#define half half_of_it

#define sqrtf sqrt
#define rsqrtf rsqrt
#define fabsf fabs
#define __expf native_exp
#define __logf native_log
#define atomicAdd atomic_add
