/* SPDX-License-Identifier: MIT
 *
 * LU decomposition in place, in blocks of 16 x 16. Step k has three kernels, each of which needs the one
 * before: the block on the diagonal is decomposed; then the blocks right of it and below it are solved
 * against it; then all the blocks right of and below those have their product subtracted. The same step
 * follows for the remaining matrix, which begins at the next diagonal block.
 */
#include "common/device.h"

#define BLOCK 16

/* One block of 16 threads; a thread is a column in one half of a step and a row in the other. */
extern "C" __global__ void lud_diagonal(float *m, int n, int offset)
{
	__shared__ float d[BLOCK][BLOCK + 1];
	int t = threadIdx.x;

	m += offset * n + offset;
	for (int i = 0; i < BLOCK; i++)
		d[i][t] = m[i * n + t];
	__syncthreads();
	for (int k = 0; k < BLOCK - 1; k++) {
		if (t > k)
			d[t][k] /= d[k][k];
		__syncthreads();
		if (t > k)
			for (int j = k + 1; j < BLOCK; j++)
				d[t][j] -= d[t][k] * d[k][j];
		__syncthreads();
	}
	for (int i = 0; i < BLOCK; i++)
		m[i * n + t] = d[i][t];
}

/* Block b: 16 threads solve block b + 1 of the row (L X = M), 16 the same of the column (X U = M). */
extern "C" __global__ void lud_perimeter(float *m, int n, int offset)
{
	__shared__ float d[BLOCK][BLOCK + 1], row[BLOCK][BLOCK + 1], column[BLOCK][BLOCK + 1];
	int t = threadIdx.x % BLOCK;
	int next = offset + (blockIdx.x + 1) * BLOCK;
	float *m_row = m + offset * n + next, *m_column = m + next * n + offset;

	m += offset * n + offset;
	if (threadIdx.x < BLOCK) {
		for (int i = 0; i < BLOCK; i++) {
			d[i][t] = m[i * n + t];
			row[i][t] = m_row[i * n + t];
		}
	} else {
		for (int i = 0; i < BLOCK; i++)
			column[i][t] = m_column[i * n + t];
	}
	__syncthreads();
	if (threadIdx.x < BLOCK) {
		for (int i = 1; i < BLOCK; i++)
			for (int k = 0; k < i; k++)
				row[i][t] -= d[i][k] * row[k][t];
	} else {
		for (int i = 0; i < BLOCK; i++) {
			for (int k = 0; k < i; k++)
				column[t][i] -= column[t][k] * d[k][i];
			column[t][i] /= d[i][i];
		}
	}
	__syncthreads();
	for (int i = 0; i < BLOCK; i++) {
		if (threadIdx.x < BLOCK)
			m_row[i * n + t] = row[i][t];
		else
			m_column[i * n + t] = column[i][t];
	}
}

/* A block a block of the rest: M -= (block of the column) (block of the row). */
extern "C" __global__ void lud_inner(float *m, int n, int offset)
{
	__shared__ float row[BLOCK][BLOCK], column[BLOCK][BLOCK];
	int x = threadIdx.x, y = threadIdx.y;
	int i = offset + (blockIdx.y + 1) * BLOCK + y, j = offset + (blockIdx.x + 1) * BLOCK + x;
	float sum = 0;

	row[y][x] = m[(offset + y) * n + j];
	column[y][x] = m[i * n + offset + x];
	__syncthreads();
	for (int k = 0; k < BLOCK; k++)
		sum += column[y][k] * row[k][x];
	m[i * n + j] -= sum;
}
