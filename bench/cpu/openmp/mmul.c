/* SPDX-License-Identifier: MIT */
#include "kernel.h"

KERNEL(mmul)
{
	float *c = PARAMETER(0, float *);
	const float *a = PARAMETER(1, float *), *b = PARAMETER(2, float *);
	int n = PARAMETER(3, int);

#pragma omp parallel for
	for (int i = 0; i < n; i++) {
		for (int j = 0; j < n; j++)
			c[i * n + j] = 0;
		for (int k = 0; k < n; k++)
			for (int j = 0; j < n; j++)
				c[i * n + j] += a[i * n + k] * b[k * n + j];
	}
}
