/* SPDX-License-Identifier: MIT
 *
 * A first program of the CUDA Runtime API, as nvcc compiles it: what `scripts/bench cpu` starts for cold_ms and warm_ms.
 */
#include <cstdio>

#define COUNT 1000
#define BLOCK 128

__global__ void axpy(float *y, const float *x, float a, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		y[i] += a * x[i];
}

int main()
{
	float x[COUNT], y[COUNT], *device_x, *device_y;
	int wrong = 0;

	for (int i = 0; i < COUNT; i++) {
		x[i] = (float)i;
		y[i] = 1;
	}
	cudaMalloc(&device_x, sizeof(x));
	cudaMalloc(&device_y, sizeof(y));
	cudaMemcpy(device_x, x, sizeof(x), cudaMemcpyHostToDevice);
	cudaMemcpy(device_y, y, sizeof(y), cudaMemcpyHostToDevice);
	axpy<<<(COUNT + BLOCK - 1) / BLOCK, BLOCK>>>(device_y, device_x, 2, COUNT);
	cudaMemcpy(y, device_y, sizeof(y), cudaMemcpyDeviceToHost);
	for (int i = 0; i < COUNT; i++)
		wrong += y[i] != 1 + 2 * (float)i;
	printf("%d of %d values are wrong\n", wrong, COUNT);
	return wrong || cudaGetLastError() != cudaSuccess;
}
