/* SPDX-License-Identifier: MIT */
#include "kernel.h"

#define BLOCK 16

KERNEL(nw_diagonal)
{
	int *score = PARAMETER(0, int *);
	const int *similarity = PARAMETER(1, int *);
	int n = PARAMETER(2, int), penalty = PARAMETER(3, int), diagonal = PARAMETER(4, int);
	int first_i = PARAMETER(5, int), width = n + 1;

#pragma omp parallel for
	for (int i = first_i; i < first_i + grid->x; i++)
		for (int row = i * BLOCK; row < (i + 1) * BLOCK; row++)
			for (int column = (diagonal - i) * BLOCK;
				column < (diagonal - i + 1) * BLOCK; column++) {
				int *here = score + (row + 1) * width + column + 1;
				int both = here[-width - 1] + similarity[row * n + column];
				int gap = (here[-width] > here[-1] ? here[-width] : here[-1]) -
					  penalty;

				*here = both > gap ? both : gap;
			}
}
