/* SPDX-License-Identifier: MIT */
#include "kernel.h"

KERNEL(sgemm)
{
	float *c = PARAMETER(0, float *);
	const float *a = PARAMETER(1, float *), *b = PARAMETER(2, float *);
	int n = PARAMETER(3, int);
	float alpha = PARAMETER(4, float), beta = PARAMETER(5, float);

#pragma omp parallel for
	for (int i = 0; i < n; i++) {
		for (int j = 0; j < n; j++)
			c[i * n + j] *= beta;
		for (int k = 0; k < n; k++)
			for (int j = 0; j < n; j++)
				c[i * n + j] += alpha * a[i * n + k] * b[k * n + j];
	}
}
