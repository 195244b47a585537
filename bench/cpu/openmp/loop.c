/* SPDX-License-Identifier: MIT */
#include "kernel.h"

KERNEL(loop)
{
	unsigned *out = PARAMETER(0, unsigned *);
	unsigned iterations = PARAMETER(1, unsigned), seed = PARAMETER(2, unsigned);
	unsigned threads = (unsigned)(grid->x * grid->block_x);

#pragma omp parallel for
	for (unsigned thread = 0; thread < threads; thread++) {
		unsigned x = seed + thread;

		for (unsigned i = 0; i < iterations; i++)
			x = x * 1664525u + 1013904223u;
		out[thread] = x;
	}
}
