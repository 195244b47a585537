/* SPDX-License-Identifier: MIT
 *
 * Functions of the mathematical library, against the host's.
 */
#include <cmath>

#include "../program.h"

#define FUNCTIONS(F)                                                                               \
	F(sinf)                                                                                    \
	F(cosf)                                                                                    \
	F(tanf) F(expf) F(logf) F(sqrtf) F(atanf) F(tanhf) F(erff) F(cbrtf) F(log1pf) F(rintf)

#define COUNT_OF(name) +1
enum { COUNT = 0 FUNCTIONS(COUNT_OF) };

__global__ void compute(const float *in, float (*out)[COUNT])
{
	float x = in[threadIdx.x];
	int i = 0;

#define STORE(name) out[threadIdx.x][i++] = name(x);
	FUNCTIONS(STORE)
}

int main()
{
	float in[64], (*device_out)[COUNT], results[64][COUNT], *device_in;

	for (int i = 0; i < 64; i++)
		in[i] = 0.01f + i * 0.37f;
	CHECK(cudaMalloc(&device_in, sizeof in));
	CHECK(cudaMalloc(&device_out, sizeof results));
	CHECK(cudaMemcpy(device_in, in, sizeof in, cudaMemcpyHostToDevice));
	compute<<<1, 64>>>(device_in, device_out);
	CHECK(cudaMemcpy(results, device_out, sizeof results, cudaMemcpyDeviceToHost));
	for (int i = 0; i < 64; i++) {
		int k = 0;
#define COMPARE(name)                                                                              \
	{                                                                                          \
		float expected = name(in[i]), got = results[i][k++];                               \
		if (!(fabsf(got - expected) <= 4e-6f * fmaxf(1, fabsf(expected)))) {               \
			printf("%s(%g) is %g, not %g\n", #name, in[i], got, expected);             \
			return 1;                                                                  \
		}                                                                                  \
	}
		FUNCTIONS(COMPARE)
	}
	return passed();
}
