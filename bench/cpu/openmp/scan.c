/* SPDX-License-Identifier: MIT */
#include "kernel.h"

#include <omp.h>

#define THREADS 256

/* The sums of parts, and then each part from the sum of those before it; no block is left to be added to. */
KERNEL(scan_blocks)
{
	int *out = PARAMETER(0, int *);
	const int *in = PARAMETER(2, int *);
	int n = PARAMETER(3, int), sum_of_part[THREADS + 1] = {0};

#pragma omp parallel num_threads(omp_get_max_threads() < THREADS ? omp_get_max_threads() : THREADS)
	{
		int parts = omp_get_num_threads(), part = omp_get_thread_num(), sum = 0;
		int begin = (int)((long)n * part / parts),
		    end = (int)((long)n * (part + 1) / parts);

		for (int i = begin; i < end; i++)
			sum += in[i];
		sum_of_part[part + 1] = sum;
#pragma omp barrier
		sum = 0;
		for (int i = 0; i <= part; i++)
			sum += sum_of_part[i];
		for (int i = begin; i < end; i++)
			out[i] = sum += in[i];
	}
}

NOTHING_LEFT(scan_add)
