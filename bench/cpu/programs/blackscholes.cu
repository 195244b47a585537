/* SPDX-License-Identifier: MIT
 *
 * What options to buy (call) and to sell (put) are worth, after Black and Scholes: a thread an option.
 */
#include "common/device.h"

/* The normal distribution's cumulative function, by a polynomial. */
static __device__ float normal(float d)
{
	float k = 1 / (1 + 0.2316419f * fabsf(d));
	float tail = 0.39894228040143267794f * __expf(-0.5f * d * d) *
		     (k * (0.31938153f +
				  k * (-0.356563782f +
					      k * (1.781477937f + k * (-1.821255978f +
									      k * 1.330274429f)))));

	return d > 0 ? 1 - tail : tail;
}

extern "C" __global__ void blackscholes(float *call, float *put, const float *price,
	const float *strike, const float *years, float rate, float volatility, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i >= n)
		return;
	float root = sqrtf(years[i]);
	float d1 = (__logf(price[i] / strike[i]) +
			   (rate + 0.5f * volatility * volatility) * years[i]) /
		   (volatility * root);
	float d2 = d1 - volatility * root;
	float discounted = strike[i] * __expf(-rate * years[i]);

	call[i] = price[i] * normal(d1) - discounted * normal(d2);
	put[i] = discounted * (1 - normal(d2)) - price[i] * (1 - normal(d1));
}
