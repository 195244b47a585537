/* SPDX-License-Identifier: MIT
 *
 * What device code uses of CUDA C, for Debian's clang, which has the compiler but not NVIDIA's headers:
 * thread and block indices, fences, atomics, and the few mathematical functions that the examples
 * call. Under nvcc all of that is built in.
 */
#ifndef EXAMPLES_DEVICE_H
#define EXAMPLES_DEVICE_H

/* A parameter's type. CUDA's pointers do not say where they point. */
#define POINTER_TO_SHARED(type) type *

#ifndef __NVCC__

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __forceinline__ inline __attribute__((always_inline))

/* Indices are registers of the device; a member of threadIdx is read by a builtin of the compiler. */
#define DEVICE_INDEX(name, sreg)                                                                   \
	struct device_index_##name {                                                               \
		__declspec(property(get = get_x)) unsigned x;                                      \
		__declspec(property(get = get_y)) unsigned y;                                      \
		__declspec(property(get = get_z)) unsigned z;                                      \
		static __device__ __forceinline__ unsigned get_x()                                 \
		{                                                                                  \
			return __nvvm_read_ptx_sreg_##sreg##_x();                                  \
		}                                                                                  \
		static __device__ __forceinline__ unsigned get_y()                                 \
		{                                                                                  \
			return __nvvm_read_ptx_sreg_##sreg##_y();                                  \
		}                                                                                  \
		static __device__ __forceinline__ unsigned get_z()                                 \
		{                                                                                  \
			return __nvvm_read_ptx_sreg_##sreg##_z();                                  \
		}                                                                                  \
	};                                                                                         \
	extern const __device__ struct device_index_##name name;

DEVICE_INDEX(threadIdx, tid)
DEVICE_INDEX(blockIdx, ctaid)
DEVICE_INDEX(blockDim, ntid)
DEVICE_INDEX(gridDim, nctaid)
#undef DEVICE_INDEX

struct __attribute__((aligned(16))) float4 {
	float x, y, z, w;
};

static __device__ __forceinline__ float sqrtf(float x)
{
	return __nvvm_sqrt_rn_f(x);
}

static __device__ __forceinline__ float rsqrtf(float x)
{
	return __nvvm_rsqrt_approx_f(x);
}

static __device__ __forceinline__ float fabsf(float x)
{
	return __builtin_fabsf(x);
}

/* e^x = 2^(x log2 e), as __expf() of CUDA: a few units in the last place. */
static __device__ __forceinline__ float __expf(float x)
{
	return __nvvm_ex2_approx_f(x * 1.4426950408889634f);
}

static __device__ __forceinline__ float __logf(float x)
{
	return __nvvm_lg2_approx_f(x) * 0.6931471805599453f;
}

static __device__ __forceinline__ int atomicAdd(int *address, int value)
{
	return __nvvm_atom_add_gen_i(address, value);
}

static __device__ __forceinline__ unsigned atomicAdd(unsigned *address, unsigned value)
{
	return (unsigned)atomicAdd((int *)address, (int)value);
}

static __device__ __forceinline__ int atomicMin(int *address, int value)
{
	return __nvvm_atom_min_gen_i(address, value);
}

static __device__ __forceinline__ int atomicCAS(int *address, int compare, int value)
{
	return __nvvm_atom_cas_gen_i(address, compare, value);
}

static __device__ __forceinline__ void __threadfence()
{
	__nvvm_membar_gl();
}

#endif /* __NVCC__ */
#endif
