/* SPDX-License-Identifier: MIT
 *
 * Numbers of 16 bits: __half and __nv_bfloat16, alone and in pairs.
 */
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "../program.h"

__global__ void compute(const float *in, float *out)
{
	int i = threadIdx.x;
	__half h = __float2half(in[i]), product = __hmul(h, __float2half(0.5f));
	__half2 pair = __hfma2(__half2half2(h), __floats2half2_rn(2, 3), __float2half2_rn(1));
	__nv_bfloat16 b = __float2bfloat16(in[i] + 0.001f);

	out[i * 5] = __half2float(product);
	out[i * 5 + 1] = __low2float(pair);
	out[i * 5 + 2] = __high2float(pair);
	out[i * 5 + 3] = __bfloat162float(b);
	out[i * 5 + 4] = __hgt(h, __int2half_rn(10));
}

int main()
{
	float in[32], results[32 * 5], *device_in, *device_out;

	for (int i = 0; i < 32; i++)
		in[i] = i;
	CHECK(cudaMalloc(&device_in, sizeof in));
	CHECK(cudaMalloc(&device_out, sizeof results));
	CHECK(cudaMemcpy(device_in, in, sizeof in, cudaMemcpyHostToDevice));
	compute<<<1, 32>>>(device_in, device_out);
	CHECK(cudaMemcpy(results, device_out, sizeof results, cudaMemcpyDeviceToHost));
	for (int i = 1; i < 32; i++) {
		REQUIRE(results[i * 5] == i * 0.5f);
		REQUIRE(results[i * 5 + 1] == 2 * i + 1 && results[i * 5 + 2] == 3 * i + 1);
		REQUIRE(results[i * 5 + 3] == i); /* what is behind is less than 8 bits show */
		REQUIRE(results[i * 5 + 4] == (i > 10));
	}
	return passed();
}
