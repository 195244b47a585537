/* SPDX-License-Identifier: MIT
 *
 * Arrays of a thread's own, with indices that only the kernel's input says.
 */
#include "../program.h"

__global__ void sort(int *data)
{
	int mine[16];

	for (int i = 0; i < 16; i++)
		mine[i] = data[threadIdx.x * 16 + i];
	for (int i = 1; i < 16; i++) {
		int value = mine[i], j = i;
		for (; j > 0 && mine[j - 1] > value; j--)
			mine[j] = mine[j - 1];
		mine[j] = value;
	}
	for (int i = 0; i < 16; i++)
		data[threadIdx.x * 16 + i] = mine[i];
}

int main()
{
	int host[64][16], *device;

	for (int i = 0; i < 64; i++)
		for (int j = 0; j < 16; j++)
			host[i][j] = (j * 7 + i) % 16 + i * 100;
	CHECK(cudaMalloc(&device, sizeof host));
	CHECK(cudaMemcpy(device, host, sizeof host, cudaMemcpyHostToDevice));
	sort<<<1, 64>>>(device);
	CHECK(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
	for (int i = 0; i < 64; i++)
		for (int j = 0; j < 16; j++)
			REQUIRE(host[i][j] == j + i * 100);
	return passed();
}
