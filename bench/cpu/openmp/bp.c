/* SPDX-License-Identifier: MIT */
#include "kernel.h"

#include <string.h>

#define HIDDEN 16
#define INPUTS 16

/* The host adds the partial sums up: all is in the first of them. */
KERNEL(bp_forward)
{
	float *partial = PARAMETER(0, float *);
	const float *input = PARAMETER(1, float *), *weights = PARAMETER(2, float *);
	float sum[HIDDEN] = {0};
	int n = grid->x * INPUTS;

#pragma omp parallel for reduction(+ : sum)
	for (int i = 0; i < n; i++)
		for (int unit = 0; unit < HIDDEN; unit++)
			sum[unit] += weights[i * HIDDEN + unit] * input[i];
	memset(partial, 0, (size_t)n * sizeof(*partial));
	memcpy(partial, sum, sizeof(sum));
}

KERNEL(bp_adjust)
{
	float *weights = PARAMETER(0, float *), *previous = PARAMETER(1, float *);
	const float *input = PARAMETER(2, float *), *delta = PARAMETER(3, float *);
	float rate = PARAMETER(4, float), momentum = PARAMETER(5, float);
	int n = grid->x * INPUTS;

#pragma omp parallel for
	for (int i = 0; i < n; i++)
		for (int unit = 0; unit < HIDDEN; unit++) {
			int at = i * HIDDEN + unit;
			float change = rate * delta[unit] * input[i] + momentum * previous[at];

			weights[at] += change;
			previous[at] = change;
		}
}
