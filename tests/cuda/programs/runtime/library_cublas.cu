/* SPDX-License-Identifier: MIT
 *
 * cuBLAS: vectors, and a matrix with vectors and triangles. Products of matrices, which are machine code alone, are not asked for.
 * nvcc -arch=compute_75 -lcublas
 */
#include <cmath>
#include <cublas_v2.h>

#include "../program.h"

enum { N = 64, ALL = N * N };

static float a[ALL], b[ALL], c[ALL], *left, *right, *out;

static void upload()
{
	CHECK(cudaMemcpy(left, a, sizeof a, cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(right, b, sizeof b, cudaMemcpyHostToDevice));
}

static bool near(double x, double y)
{
	return fabs(x - y) <= 1e-3 * (1 + fabs(y));
}

int main()
{
	const float one = 1, zero = 0, two = 2;
	float result;
	double sum = 0;
	cublasHandle_t h;
	int index;

	for (int i = 0; i < ALL; i++) {
		a[i] = (float)(i % 7 - 3);
		b[i] = (float)(i % 5 - 2);
	}
	CHECK(cudaMalloc(&left, sizeof a));
	CHECK(cudaMalloc(&right, sizeof a));
	CHECK(cudaMalloc(&out, sizeof a));
	CHECK(cublasCreate(&h));
	upload();
	CHECK(cublasSaxpy(h, ALL, &two, left, 1, right, 1));
	CHECK(cudaMemcpy(c, right, sizeof c, cudaMemcpyDeviceToHost));
	for (int i = 0; i < ALL; i++) {
		REQUIRE(c[i] == b[i] + 2 * a[i]);
		sum += (double)a[i] * (double)b[i];
	}
	upload();
	CHECK(cublasSdot(h, ALL, left, 1, right, 1, &result));
	REQUIRE(near(result, sum));
	CHECK(cublasSnrm2(h, N, left, 1, &result));
	sum = 0;
	for (int i = 0; i < N; i++)
		sum += (double)a[i] * (double)a[i];
	REQUIRE(near(result, sqrt(sum)));
	CHECK(cublasIsamax(h, N, left, 1, &index));
	REQUIRE(index == 1); /* counted from one */
	CHECK(cublasSgemv(h, CUBLAS_OP_N, N, N, &one, left, N, right, 1, &zero, out, 1));
	CHECK(cudaMemcpy(c, out, N * sizeof *c, cudaMemcpyDeviceToHost));
	for (int row = 0; row < N; row++) {
		sum = 0;
		for (int k = 0; k < N; k++)
			sum += (double)a[k * N + row] * (double)b[k];
		REQUIRE(near(c[row], sum));
	}
	CHECK(cublasSgeam(
		h, CUBLAS_OP_T, CUBLAS_OP_N, N, N, &one, left, N, &zero, right, N, out, N));
	CHECK(cudaMemcpy(c, out, sizeof c, cudaMemcpyDeviceToHost));
	for (int i = 0; i < ALL; i++)
		REQUIRE(c[i] == a[i % N * N + i / N]);
	for (int i = 0; i < ALL; i++)
		a[i] /= 64;
	upload();
	CHECK(cublasStrsm(h, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N,
		CUBLAS_DIAG_UNIT, N, 4, &one, left, N, right, N));
	CHECK(cudaMemcpy(c, right, sizeof c, cudaMemcpyDeviceToHost));
	for (int column = 0; column < 4; column++)
		for (int row = 0; row < N; row++) {
			sum = c[column * N + row];
			for (int k = 0; k < row; k++)
				sum += (double)a[k * N + row] * (double)c[column * N + k];
			REQUIRE(near(sum, b[column * N + row]));
		}
	CHECK(cublasDestroy(h));
	return passed();
}
