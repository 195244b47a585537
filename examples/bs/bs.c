/* SPDX-License-Identifier: MIT
 *
 * BS: what European options are worth, by the formula of Black and Scholes. Many launches of one kernel over the same
 * options, as programs have that follow a market; see bs.cu.
 */
#include "common/harness.h"

#include <math.h>

#define BLOCK 128
#define LAUNCHES 16
#define RISKLESS 0.02
#define VOLATILITY 0.3

static unsigned n;
static float *price, *strike, *years, *call, *put;
static CUdeviceptr device_price, device_strike, device_years, device_call, device_put;

static void setup(void)
{
	size_t bytes;

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
	size_t bytes = n * sizeof(float);

	copy_to_device(device_price, price, bytes);
	copy_to_device(device_strike, strike, bytes);
	copy_to_device(device_years, years, bytes);
	for (unsigned i = 0; i < LAUNCHES; i++)
		launch(device_kernel("bs"), SHAPE((n + BLOCK - 1) / BLOCK, 1, BLOCK, 1),
			&device_call, &device_put, &device_price, &device_strike, &device_years,
			&n);
	copy_from_device(call, device_call, bytes);
	copy_from_device(put, device_put, bytes);
}

static double normal(double d)
{
	return 0.5 * erfc(-d * sqrt(0.5));
}

static void check(void)
{
	float *want_call = host_alloc(n * sizeof(float)), *want_put = host_alloc(n * sizeof(float));

	for (unsigned i = 0; i < n; i++) {
		double s = price[i], x = strike[i], t = years[i], root = VOLATILITY * sqrt(t);
		double d1 = (log(s / x) + (RISKLESS + 0.5 * VOLATILITY * VOLATILITY) * t) / root;
		double d2 = d1 - root, discounted = x * exp(-RISKLESS * t);

		want_call[i] = (float)(s * normal(d1) - discounted * normal(d2));
		want_put[i] = (float)(discounted * normal(-d2) - s * normal(-d1));
	}
	check_floats("calls", call, want_call, n, 1e-4f);
	check_floats("puts", put, want_put, n, 1e-4f);
}

const struct program program = {
	.name = "bs",
	.summary = "What European options are worth, by the formula of Black and Scholes.",
	.size_means = "options",
	.size = 1 << 18,
	.size_max = 1 << 28,
	.setup = setup,
	.compute = compute,
	.check = check,
};
