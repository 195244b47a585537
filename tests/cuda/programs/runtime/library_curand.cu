/* SPDX-License-Identifier: MIT
 *
 * cuRAND: the mean and the squares of what each generator gives.
 * nvcc -arch=compute_75 -lcurand
 */
#include <curand.h>

#include "../program.h"

enum { COUNT = 1 << 12 };

static int check(curandRngType_t type, float *data)
{
	static float host[COUNT];
	curandGenerator_t generator;
	double sum = 0, squares = 0;

	CHECK(curandCreateGenerator(&generator, type));
	if (type < CURAND_RNG_QUASI_DEFAULT)
		CHECK(curandSetPseudoRandomGeneratorSeed(generator, 7));
	CHECK(curandGenerateUniform(generator, data, COUNT));
	CHECK(cudaMemcpy(host, data, sizeof host, cudaMemcpyDeviceToHost));
	for (float f : host) {
		REQUIRE(f >= 0 && f <= 1);
		sum += f;
		squares += (double)f * f;
	}
	REQUIRE(sum / COUNT > 0.48 && sum / COUNT < 0.52);
	REQUIRE(squares / COUNT > 0.31 && squares / COUNT < 0.36);
	if (type == CURAND_RNG_PSEUDO_PHILOX4_32_10) {
		CHECK(curandGenerateNormal(generator, data, COUNT, 2, 1));
		CHECK(cudaMemcpy(host, data, sizeof host, cudaMemcpyDeviceToHost));
		sum = 0;
		for (float f : host)
			sum += f;
		REQUIRE(sum / COUNT > 1.9 && sum / COUNT < 2.1);
	}
	CHECK(curandDestroyGenerator(generator));
	return 0;
}

int main()
{
	float *data;

	CHECK(cudaMalloc(&data, COUNT * sizeof *data));
	for (curandRngType_t type :
		{CURAND_RNG_PSEUDO_XORWOW, CURAND_RNG_PSEUDO_MRG32K3A, CURAND_RNG_PSEUDO_MTGP32,
			CURAND_RNG_PSEUDO_PHILOX4_32_10, CURAND_RNG_QUASI_SOBOL32})
		if (check(type, data))
			return 1;
	return passed();
}
