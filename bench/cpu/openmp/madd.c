/* SPDX-License-Identifier: MIT */
#include "kernel.h"

KERNEL(madd)
{
	float *c = PARAMETER(0, float *);
	const float *a = PARAMETER(1, float *), *b = PARAMETER(2, float *);
	int n = PARAMETER(3, int);

#pragma omp parallel for
	for (int i = 0; i < n * n; i++)
		c[i] = a[i] + b[i];
}
