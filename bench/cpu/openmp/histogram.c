/* SPDX-License-Identifier: MIT */
#include "kernel.h"

#define BINS 256

KERNEL(histogram)
{
	int *bins = PARAMETER(0, int *), sum[BINS] = {0};
	const unsigned char *bytes = PARAMETER(1, unsigned char *);
	int n = PARAMETER(2, int);

#pragma omp parallel for reduction(+ : sum)
	for (int i = 0; i < n; i++)
		sum[bytes[i]]++;
	for (int i = 0; i < BINS; i++)
		bins[i] += sum[i];
}
