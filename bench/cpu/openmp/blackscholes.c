/* SPDX-License-Identifier: MIT */
#include "kernel.h"

#include <math.h>

static inline float normal(float d)
{
	float k = 1 / (1 + 0.2316419f * fabsf(d));
	float tail = 0.39894228040143267794f * expf(-0.5f * d * d) *
		     (k * (0.31938153f +
				  k * (-0.356563782f +
					      k * (1.781477937f + k * (-1.821255978f +
									      k * 1.330274429f)))));

	return d > 0 ? 1 - tail : tail;
}

KERNEL(blackscholes)
{
	float *call = PARAMETER(0, float *), *put = PARAMETER(1, float *);
	const float *price = PARAMETER(2, float *), *strike = PARAMETER(3, float *);
	const float *years = PARAMETER(4, float *);
	float rate = PARAMETER(5, float), volatility = PARAMETER(6, float);
	int n = PARAMETER(7, int);

#pragma omp parallel for
	for (int i = 0; i < n; i++) {
		float root = sqrtf(years[i]);
		float d1 = (logf(price[i] / strike[i]) +
				   (rate + 0.5f * volatility * volatility) * years[i]) /
			   (volatility * root);
		float d2 = d1 - volatility * root;
		float discounted = strike[i] * expf(-rate * years[i]);

		call[i] = price[i] * normal(d1) - discounted * normal(d2);
		put[i] = discounted * (1 - normal(d2)) - price[i] * (1 - normal(d1));
	}
}
