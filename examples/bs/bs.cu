/* SPDX-License-Identifier: MIT
 *
 * What European options are worth (Black and Scholes), one option a thread.
 */
#include "common/device.h"

#define RISKLESS 0.02f
#define VOLATILITY 0.3f

/* The cumulative normal distribution, by the polynomial of Abramowitz and Stegun (26.2.17). */
static __device__ __forceinline__ float normal(float d)
{
	float k = 1 / (1 + 0.2316419f * fabsf(d));
	float tail =
		0.39894228f * __expf(-0.5f * d * d) * k *
		(0.31938153f +
			k * (-0.356563782f +
				    k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f))));

	return d > 0 ? 1 - tail : tail;
}

extern "C" __global__ void bs(
	float *call, float *put, const float *price, const float *strike, const float *years, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	float root, d1, d2, discounted;

	if (i >= n)
		return;
	root = sqrtf(years[i]);
	d1 = (__logf(price[i] / strike[i]) +
		     (RISKLESS + 0.5f * VOLATILITY * VOLATILITY) * years[i]) /
	     (VOLATILITY * root);
	d2 = d1 - VOLATILITY * root;
	discounted = strike[i] * __expf(-RISKLESS * years[i]);
	call[i] = price[i] * normal(d1) - discounted * normal(d2);
	put[i] = discounted * (1 - normal(d2)) - price[i] * (1 - normal(d1));
}
