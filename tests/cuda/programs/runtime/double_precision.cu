/* SPDX-License-Identifier: MIT
 *
 * double: a sum that float could not hold, fused multiplication and addition, roots.
 */
#include "../program.h"

__global__ void compute(double *out)
{
	double sum = 1e15;

	for (int i = 0; i < 1000; i++)
		sum += 0.25;
	out[0] = sum;
	out[1] = fma(1e16, 1 + 1e-16, -1e16) + sqrt(2.0) * sqrt(2.0);
	out[2] = __dadd_ru(1.0, 1e-30);
	out[3] = pow(3.0, 20.0) + cbrt(27.0);
}

int main()
{
	double *device, host[4];

	CHECK(cudaMalloc(&device, sizeof host));
	compute<<<1, 1>>>(device);
	CHECK(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
	REQUIRE(host[0] == 1e15 + 250);
	REQUIRE(host[1] > 1.99 && host[1] < 2.01);
	REQUIRE(host[2] > 1 && host[2] < 1 + 1e-15);
	REQUIRE(host[3] > 3486784403.9 && host[3] < 3486784404.1);
	return passed();
}
