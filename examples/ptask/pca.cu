/* SPDX-License-Identifier: MIT
 *
 * Steps of iterative principal components analysis (Andreut's GS-PCA) of a matrix of n x n, in rows.
 */
#include "common/device.h"

#define THREADS 256

/* The sum of all threads' values, for all of them. */
static __device__ float sum_of_block(float value)
{
	__shared__ float sums[THREADS];

	sums[threadIdx.x] = value;
	__syncthreads();
	for (unsigned half = THREADS / 2; half; half /= 2) {
		if (threadIdx.x < half)
			sums[threadIdx.x] += sums[threadIdx.x + half];
		__syncthreads();
	}
	value = sums[0];
	__syncthreads();
	return value;
}

static __device__ float dot(const float *a, const float *b, int n)
{
	float sum = 0;

	for (int i = threadIdx.x; i < n; i += THREADS)
		sum += a[i] * b[i];
	return sum_of_block(sum);
}

/* A column of the matrix. */
extern "C" __global__ void column(float *out, const float *matrix, int n, int which)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		out[i] = matrix[i * n + which];
}

/* The matrix times a vector: a block a row. */
extern "C" __global__ void times(float *out, const float *matrix, const float *vector, int n)
{
	float sum = dot(matrix + blockIdx.x * n, vector, n);

	if (!threadIdx.x)
		out[blockIdx.x] = sum;
}

/* The transposed matrix times a vector: a thread a column. */
extern "C" __global__ void transposed_times(
	float *out, const float *matrix, const float *vector, int n)
{
	int j = blockIdx.x * blockDim.x + threadIdx.x;
	float sum = 0;

	for (int i = 0; j < n && i < n; i++)
		sum += matrix[i * n + j] * vector[i];
	if (j < n)
		out[j] = sum;
}

/* Takes what is along the unit vectors `a` and `b` (or NULL) out of a vector: one block. */
extern "C" __global__ void orthogonalise(float *vector, const float *a, const float *b, int n)
{
	float along_a = dot(vector, a, n), along_b = b ? dot(vector, b, n) : 0;

	for (int i = threadIdx.x; i < n; i += THREADS)
		vector[i] -= along_a * a[i] + (b ? along_b * b[i] : 0);
}

/* One block. */
extern "C" __global__ void norm(float *out, const float *vector, int n)
{
	float square = dot(vector, vector, n);

	if (!threadIdx.x)
		*out = sqrtf(square);
}

extern "C" __global__ void divide(float *vector, const float *by, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		vector[i] /= *by;
}

extern "C" __global__ void scale(float *out, const float *vector, const float *by, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		out[i] = vector[i] * *by;
}

/* Takes a component out of the matrix. */
extern "C" __global__ void deflate(
	float *matrix, const float *rows, const float *columns, const float *by, int n)
{
	int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;

	if (j < n)
		matrix[i * n + j] -= *by * rows[i] * columns[j];
}
