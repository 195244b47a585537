/* SPDX-License-Identifier: MIT
 *
 * y = A x for a sparse matrix in compressed rows: a thread a row. values[first[r]] .. values[first[r + 1]]
 * are row r, in those columns.
 */
#include "common/device.h"

extern "C" __global__ void spmv(
	float *y, const int *first, const int *columns, const float *values, const float *x, int n)
{
	int row = blockIdx.x * blockDim.x + threadIdx.x;
	float sum = 0;

	if (row >= n)
		return;
	for (int i = first[row]; i < first[row + 1]; i++)
		sum += values[i] * x[columns[i]];
	y[row] = sum;
}
