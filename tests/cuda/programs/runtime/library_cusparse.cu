/* SPDX-License-Identifier: MIT
 *
 * cuSPARSE and cuSOLVER: a sparse matrix times a vector and times a matrix, and a matrix as the product of triangles.
 * nvcc -arch=compute_75 -lcusparse -lcusolver
 */
#include <cmath>
#include <cusolverDn.h>
#include <cusparse.h>

#include "../program.h"

enum { N = 100 };

template <class T> static T *uploaded(const T *host, size_t count)
{
	T *data;

	CHECK(cudaMalloc(&data, count * sizeof *data));
	CHECK(cudaMemcpy(data, host, count * sizeof *data, cudaMemcpyHostToDevice));
	return data;
}

/* Two numbers a row: twice the row's at its own place, and one at the next. */
static int sparse()
{
	static int begins[N + 1], places[2 * N];
	static float values[2 * N], x[4 * N], y[4 * N];
	const float one = 1, zero = 0;
	cusparseHandle_t h;
	cusparseSpMatDescr_t matrix;
	cusparseDnVecDescr_t from, to;
	cusparseDnMatDescr_t several, out;
	size_t bytes;
	void *buffer;

	for (int row = 0; row < N; row++) {
		begins[row + 1] = 2 * row + 2;
		places[2 * row] = row;
		places[2 * row + 1] = (row + 1) % N;
		values[2 * row] = 2 * row;
		values[2 * row + 1] = 1;
	}
	places[2 * N - 2] = 0; /* in order */
	places[2 * N - 1] = N - 1;
	values[2 * N - 2] = 1;
	values[2 * N - 1] = 2 * (N - 1);
	for (int i = 0; i < 4 * N; i++)
		x[i] = (float)(i % 9);
	float *in = uploaded(x, 4 * N), *result = uploaded(y, 4 * N);
	CHECK(cusparseCreate(&h));
	CHECK(cusparseCreateCsr(&matrix, N, N, 2 * N, uploaded(begins, N + 1),
		uploaded(places, 2 * N), uploaded(values, 2 * N), CUSPARSE_INDEX_32I,
		CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
	CHECK(cusparseCreateDnVec(&from, N, in, CUDA_R_32F));
	CHECK(cusparseCreateDnVec(&to, N, result, CUDA_R_32F));
	CHECK(cusparseSpMV_bufferSize(h, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix, from,
		&zero, to, CUDA_R_32F, CUSPARSE_SPMV_ALG_DEFAULT, &bytes));
	CHECK(cudaMalloc(&buffer, bytes + 1));
	CHECK(cusparseSpMV(h, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix, from, &zero, to,
		CUDA_R_32F, CUSPARSE_SPMV_ALG_DEFAULT, buffer));
	CHECK(cudaMemcpy(y, result, N * sizeof *y, cudaMemcpyDeviceToHost));
	for (int row = 0; row < N; row++)
		REQUIRE(y[row] == 2 * row * x[row] + x[(row + 1) % N]);
	CHECK(cusparseCreateDnMat(&several, N, 4, N, in, CUDA_R_32F, CUSPARSE_ORDER_COL));
	CHECK(cusparseCreateDnMat(&out, N, 4, N, result, CUDA_R_32F, CUSPARSE_ORDER_COL));
	CHECK(cusparseSpMM_bufferSize(h, CUSPARSE_OPERATION_NON_TRANSPOSE,
		CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix, several, &zero, out, CUDA_R_32F,
		CUSPARSE_SPMM_ALG_DEFAULT, &bytes));
	CHECK(cudaMalloc(&buffer, bytes + 1));
	CHECK(cusparseSpMM(h, CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_NON_TRANSPOSE,
		&one, matrix, several, &zero, out, CUDA_R_32F, CUSPARSE_SPMM_ALG_DEFAULT, buffer));
	CHECK(cudaMemcpy(y, result, sizeof y, cudaMemcpyDeviceToHost));
	for (int i = 0; i < 4 * N; i++)
		REQUIRE(y[i] == 2 * (i % N) * x[i] + x[i / N * N + (i + 1) % N]);
	CHECK(cusparseDestroy(h));
	return 0;
}

static int triangles()
{
	enum { M = 24 };
	static float a[M * M], l[M * M];
	int none = 1, words, *info = uploaded(&none, 1);
	cusolverDnHandle_t h;
	float *work;

	for (int i = 0; i < M * M; i++)
		a[i] = i % M == i / M ? M + 1 : 1;
	float *matrix = uploaded(a, M * M);
	CHECK(cusolverDnCreate(&h));
	CHECK(cusolverDnSpotrf_bufferSize(h, CUBLAS_FILL_MODE_LOWER, M, matrix, M, &words));
	CHECK(cudaMalloc(&work, words * sizeof *work + 1));
	CHECK(cusolverDnSpotrf(h, CUBLAS_FILL_MODE_LOWER, M, matrix, M, work, words, info));
	CHECK(cudaMemcpy(&none, info, sizeof none, cudaMemcpyDeviceToHost));
	REQUIRE(none == 0);
	CHECK(cudaMemcpy(l, matrix, sizeof l, cudaMemcpyDeviceToHost));
	for (int row = 0; row < M; row++)
		for (int column = 0; column <= row; column++) {
			double sum = 0;

			for (int k = 0; k <= column; k++)
				sum += (double)l[k * M + row] * (double)l[k * M + column];
			REQUIRE(fabs(sum - (double)a[column * M + row]) < 1e-3);
		}
	CHECK(cusolverDnDestroy(h));
	return 0;
}

int main()
{
	return sparse() || triangles() ? 1 : passed();
}
