/* SPDX-License-Identifier: MIT */
#include "kernel.h"

#define TILE 32

KERNEL(transpose)
{
	float *out = PARAMETER(0, float *);
	const float *in = PARAMETER(1, float *);
	int n = PARAMETER(2, int);

#pragma omp parallel for collapse(2)
	for (int row = 0; row < n; row += TILE)
		for (int column = 0; column < n; column += TILE)
			for (int i = row; i < row + TILE; i++)
				for (int j = column; j < column + TILE; j++)
					out[i * n + j] = in[j * n + i];
}
