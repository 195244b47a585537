/* SPDX-License-Identifier: MIT
 *
 * A product of matrices by a warp: halves in, floats out (nvcuda::wmma).
 */
#include <cuda_fp16.h>
#include <mma.h>

#include "../program.h"

using namespace nvcuda;

enum { N = 16 };

__global__ void multiply(const __half *a, const __half *b, float *c)
{
	wmma::fragment<wmma::matrix_a, N, N, N, __half, wmma::row_major> left;
	wmma::fragment<wmma::matrix_b, N, N, N, __half, wmma::col_major> right;
	wmma::fragment<wmma::accumulator, N, N, N, float> sum;

	wmma::fill_fragment(sum, 1.0f);
	wmma::load_matrix_sync(left, a, N);
	wmma::load_matrix_sync(right, b, N);
	wmma::mma_sync(sum, left, right, sum);
	wmma::store_matrix_sync(c, sum, N, wmma::mem_row_major);
}

int main()
{
	static __half a[N][N], b[N][N];
	static float c[N][N];
	__half *device_a, *device_b;
	float *device_c;

	for (int i = 0; i < N; i++)
		for (int j = 0; j < N; j++) {
			a[i][j] = __float2half(i - j);
			b[j][i] = __float2half((i * j) % 5); /* row i, column j */
		}
	CHECK(cudaMalloc(&device_a, sizeof a));
	CHECK(cudaMalloc(&device_b, sizeof b));
	CHECK(cudaMalloc(&device_c, sizeof c));
	CHECK(cudaMemcpy(device_a, a, sizeof a, cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(device_b, b, sizeof b, cudaMemcpyHostToDevice));
	multiply<<<1, 32>>>(device_a, device_b, device_c);
	CHECK(cudaMemcpy(c, device_c, sizeof c, cudaMemcpyDeviceToHost));
	for (int i = 0; i < N; i++)
		for (int j = 0; j < N; j++) {
			float sum = 1;
			for (int k = 0; k < N; k++)
				sum += (i - k) * (k * j % 5);
			REQUIRE(c[i][j] == sum);
		}
	return passed();
}
