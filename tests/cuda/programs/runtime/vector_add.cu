/* SPDX-License-Identifier: MIT
 *
 * The first program of everybody: allocate, copy, launch, copy back.
 */
#include "../program.h"

__global__ void add(const float *a, const float *b, float *sum, int count)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < count)
		sum[i] = a[i] + b[i];
}

int main()
{
	const int count = 50000;
	const size_t bytes = count * sizeof(float);
	float *host = (float *)malloc(bytes), *a, *b, *sum;

	for (int i = 0; i < count; i++)
		host[i] = i * 0.5f;
	CHECK(cudaMalloc(&a, bytes));
	CHECK(cudaMalloc(&b, bytes));
	CHECK(cudaMalloc(&sum, bytes));
	CHECK(cudaMemcpy(a, host, bytes, cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(b, a, bytes, cudaMemcpyDeviceToDevice));
	add<<<(count + 255) / 256, 256>>>(a, b, sum, count);
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(host, sum, bytes, cudaMemcpyDeviceToHost));
	for (int i = 0; i < count; i++)
		REQUIRE(host[i] == (float)i);
	CHECK(cudaFree(a));
	CHECK(cudaFree(b));
	CHECK(cudaFree(sum));
	return passed();
}
