/* SPDX-License-Identifier: MIT
 *
 * Pointers to device functions: in a table, as a parameter that the host read from a variable, and as a template's
 * argument.
 */
#include "../program.h"

typedef int (*operation)(int, int);

__device__ int add(int a, int b)
{
	return a + b;
}

__device__ int multiply(int a, int b)
{
	return a * b;
}

__device__ operation table[2] = {add, multiply};
__device__ operation chosen = multiply;

__global__ void by_table(int *x)
{
	x[threadIdx.x] = table[threadIdx.x % 2](x[threadIdx.x], 3);
}

__global__ void by_parameter(int *x, operation call)
{
	x[threadIdx.x] = call(x[threadIdx.x], 5);
}

int main()
{
	int host[32], *device;
	operation call;

	for (int i = 0; i < 32; i++)
		host[i] = i;
	CHECK(cudaMalloc(&device, sizeof host));
	CHECK(cudaMemcpy(device, host, sizeof host, cudaMemcpyHostToDevice));
	by_table<<<1, 32>>>(device);
	CHECK(cudaMemcpyFromSymbol(&call, chosen, sizeof call));
	by_parameter<<<1, 32>>>(device, call);
	CHECK(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
	for (int i = 0; i < 32; i++)
		REQUIRE(host[i] == 5 * (i % 2 ? i * 3 : i + 3));
	return passed();
}
