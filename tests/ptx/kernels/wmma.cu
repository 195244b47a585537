// SPDX-License-Identifier: MIT
// Source of wmma.ptx: nvcc -std=c++17 -ptx -arch=sm_90 wmma.cu -o wmma.ptx. Tests read the PTX only.
#include <mma.h>

using namespace nvcuda::wmma;

template <class Layout> struct is_row {
	static const bool value = false;
};
template <> struct is_row<row_major> {
	static const bool value = true;
};

// Each warp: d = 2 a b + c. Rows and columns in memory are eight elements longer than those of the matrices.
template <class In, class Out, int M, int N, int K, class A, class B, class T>
__device__ void product(const void *a, const void *b, const Out *c, Out *d)
{
	const T *left = (const T *)a + threadIdx.x / 32 * 4096,
		*right = (const T *)b + threadIdx.x / 32 * 4096;
	fragment<matrix_a, M, N, K, In, A> x;
	fragment<matrix_b, M, N, K, In, B> y;
	fragment<accumulator, M, N, K, Out> z, sum;

	load_matrix_sync(x, left, is_row<A>::value ? K + 8 : M + 8);
	load_matrix_sync(y, right, is_row<B>::value ? N + 8 : K + 8);
	load_matrix_sync(z, c, N + 8, mem_row_major);
	mma_sync(sum, x, y, z);
	for (int k = 0; k < z.num_elements; k++)
		z.x[k] = sum.x[k];
	mma_sync(sum, x, y, z);
	store_matrix_sync(d + threadIdx.x / 32 * 1024, sum, M + 8, mem_col_major);
}

#define PRODUCT(name, In, Out, M, N, K, A, B, T)                                                   \
	extern "C" __global__ void name(const void *a, const void *b, const Out *c, Out *d)        \
	{                                                                                          \
		product<In, Out, M, N, K, A##_major, B##_major, T>(a, b, c, d);                    \
	}

PRODUCT(f16_f32_16x16, __half, float, 16, 16, 16, row, col, __half)
PRODUCT(f16_f32_32x8, __half, float, 32, 8, 16, col, row, __half)
PRODUCT(f16_f32_8x32, __half, float, 8, 32, 16, row, row, __half)
PRODUCT(f16_f16_16x16, __half, __half, 16, 16, 16, row, col, __half)
PRODUCT(f16_f16_32x8, __half, __half, 32, 8, 16, col, row, __half)
PRODUCT(f16_f16_8x32, __half, __half, 8, 32, 16, row, row, __half)
PRODUCT(bf16_16x16, __nv_bfloat16, float, 16, 16, 16, row, col, __nv_bfloat16)
PRODUCT(bf16_32x8, __nv_bfloat16, float, 32, 8, 16, col, row, __nv_bfloat16)
PRODUCT(bf16_8x32, __nv_bfloat16, float, 8, 32, 16, row, row, __nv_bfloat16)
PRODUCT(s8_16x16, signed char, int, 16, 16, 16, row, col, signed char)
PRODUCT(s8_32x8, signed char, int, 32, 8, 16, col, row, signed char)
PRODUCT(s8_8x32, signed char, int, 8, 32, 16, row, row, signed char)
PRODUCT(u8_16x16, unsigned char, int, 16, 16, 16, row, col, unsigned char)
PRODUCT(u8_32x8, unsigned char, int, 32, 8, 16, col, row, unsigned char)
PRODUCT(u8_8x32, unsigned char, int, 8, 32, 16, row, row, unsigned char)
PRODUCT(tf32, precision::tf32, float, 16, 16, 8, col, row, float)
PRODUCT(f64, double, double, 8, 8, 4, row, row, double)

// Elements of less than a byte: rows of a and columns of b.
template <class In, int K, class Multiply>
__device__ void small(const void *a, const void *b, const int *c, int *d, Multiply multiply)
{
	fragment<matrix_a, 8, 8, K, In, row_major> x;
	fragment<matrix_b, 8, 8, K, In, col_major> y;
	fragment<accumulator, 8, 8, K, int> z;

	load_matrix_sync(x, a, 2 * K);
	load_matrix_sync(y, b, 2 * K);
	load_matrix_sync(z, c, 16, mem_row_major);
	multiply(z, x, y);
	store_matrix_sync(d, z, 8, mem_row_major);
}

#define SMALL(name, In, K, ...)                                                                    \
	extern "C" __global__ void name(const void *a, const void *b, const int *c, int *d)        \
	{                                                                                          \
		small<In, K>(a, b, c, d, [](auto &z, auto &x, auto &y) { __VA_ARGS__; });          \
	}

SMALL(s4, experimental::precision::s4, 32, mma_sync(z, x, y, z))
SMALL(u4, experimental::precision::u4, 32, mma_sync(z, x, y, z, true))
SMALL(b1_xor, experimental::precision::b1, 128, bmma_sync(z, x, y, z, experimental::bmmaBitOpXOR))
SMALL(b1_and, experimental::precision::b1, 128, bmma_sync(z, x, y, z, experimental::bmmaBitOpAND))
