/* SPDX-License-Identifier: MIT */
#include "kernel.h"

KERNEL(stencil)
{
	float *out = PARAMETER(0, float *);
	const float *in = PARAMETER(1, float *);
	int n = PARAMETER(2, int);
	float centre = PARAMETER(3, float), around = PARAMETER(4, float);

#pragma omp parallel for
	for (int z = 1; z < n - 1; z++)
		for (int y = 1; y < n - 1; y++)
			for (int x = 1; x < n - 1; x++) {
				int i = (z * n + y) * n + x;

				out[i] = centre * in[i] +
					 around * (in[i - 1] + in[i + 1] + in[i - n] + in[i + n] +
							  in[i - n * n] + in[i + n * n]);
			}
}
