/* SPDX-License-Identifier: MIT
 *
 * What options are worth; see blackscholes.cu.
 */
#include "common/harness.h"

#include <math.h>

#define THREADS 256
#define RATE 0.02f
#define VOLATILITY 0.3f

static unsigned n;
static size_t bytes;
static float *price, *strike, *years, *call, *put;
static CUdeviceptr device_price, device_strike, device_years, device_call, device_put;

static void setup(void)
{
	n = options.size;
	bytes = n * sizeof(float);
	price = random_floats(n, 5, 30);
	strike = random_floats(n, 1, 100);
	years = random_floats(n, 0.25f, 10);
	call = host_alloc(bytes);
	put = host_alloc(bytes);
	device_price = device_alloc(bytes);
	device_strike = device_alloc(bytes);
	device_years = device_alloc(bytes);
	device_call = device_alloc(bytes);
	device_put = device_alloc(bytes);
}

static void compute(void)
{
	float rate = RATE, volatility = VOLATILITY;

	copy_to_device(device_price, price, bytes);
	copy_to_device(device_strike, strike, bytes);
	copy_to_device(device_years, years, bytes);
	launch(device_kernel("blackscholes"), SHAPE((n + THREADS - 1) / THREADS, 1, THREADS, 1),
		&device_call, &device_put, &device_price, &device_strike, &device_years, &rate,
		&volatility, &n);
	copy_from_device(call, device_call, bytes);
	copy_from_device(put, device_put, bytes);
}

static double normal(double d)
{
	return 0.5 * erfc(-d * M_SQRT1_2);
}

static void check(void)
{
	float *want_call = host_alloc(bytes), *want_put = host_alloc(bytes);

	for (unsigned i = 0; i < n; i++) {
		double spread = VOLATILITY * sqrt(years[i]);
		double d1 = (log(price[i] / strike[i]) +
				    (RATE + 0.5 * VOLATILITY * VOLATILITY) * years[i]) /
			    spread;
		double d2 = d1 - spread, discounted = strike[i] * exp(-RATE * years[i]);

		want_call[i] = (float)(price[i] * normal(d1) - discounted * normal(d2));
		want_put[i] = (float)(discounted * normal(-d2) - price[i] * normal(-d1));
	}
	check_floats("the calls", call, want_call, n, 1e-4f);
	check_floats("the puts", put, want_put, n, 1e-4f);
}

const struct program program = {
	.name = "blackscholes",
	.summary = "Computes what options are worth, after Black and Scholes.",
	.size_means = "how many options",
	.size = 1u << 20,
	.size_max = 1u << 28,
	.setup = setup,
	.compute = compute,
	.check = check,
};
