/* SPDX-License-Identifier: MIT */
#include "kernel.h"

KERNEL(spmv)
{
	float *y = PARAMETER(0, float *);
	const int *first = PARAMETER(1, int *), *columns = PARAMETER(2, int *);
	const float *values = PARAMETER(3, float *), *x = PARAMETER(4, float *);
	int n = PARAMETER(5, int);

#pragma omp parallel for
	for (int row = 0; row < n; row++) {
		float sum = 0;

		for (int i = first[row]; i < first[row + 1]; i++)
			sum += values[i] * x[columns[i]];
		y[row] = sum;
	}
}
