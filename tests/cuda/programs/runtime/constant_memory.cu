/* SPDX-License-Identifier: MIT
 *
 * __constant__ variables: initialised by the compiler, then written by the program, also a part of one.
 */
#include "../program.h"

__constant__ float polynomial[4] = {1, 2, 3, 4};

__global__ void evaluate(float *x)
{
	float y = 0;

	for (int i = 3; i >= 0; i--)
		y = y * x[threadIdx.x] + polynomial[i];
	x[threadIdx.x] = y;
}

static void expect(float *device, float c1)
{
	float x[32];

	for (int i = 0; i < 32; i++)
		x[i] = i;
	CHECK(cudaMemcpy(device, x, sizeof x, cudaMemcpyHostToDevice));
	evaluate<<<1, 32>>>(device);
	CHECK(cudaMemcpy(x, device, sizeof x, cudaMemcpyDeviceToHost));
	for (int i = 0; i < 32; i++)
		REQUIRE(x[i] == 1 + c1 * i + 3 * i * i + 4 * i * i * i);
}

int main()
{
	float *device, c1 = 20, read[4];

	CHECK(cudaMalloc(&device, 32 * sizeof(float)));
	expect(device, 2);
	CHECK(cudaMemcpyToSymbol(polynomial, &c1, sizeof c1, sizeof c1));
	expect(device, 20);
	CHECK(cudaMemcpyFromSymbol(read, polynomial, sizeof read));
	REQUIRE(read[0] == 1 && read[1] == 20 && read[3] == 4);
	return passed();
}
