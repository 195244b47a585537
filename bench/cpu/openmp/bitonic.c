/* SPDX-License-Identifier: MIT */
#include "kernel.h"

KERNEL(bitonic_step)
{
	int *values = PARAMETER(0, int *);
	int distance = PARAMETER(1, int), size = PARAMETER(2, int);
	int n = grid->x * grid->block_x;

#pragma omp parallel for
	for (int i = 0; i < n; i++) {
		int partner = i ^ distance;

		if (partner > i) {
			int a = values[i], b = values[partner];

			if ((i & size) == 0 ? a > b : a < b) {
				values[i] = b;
				values[partner] = a;
			}
		}
	}
}
