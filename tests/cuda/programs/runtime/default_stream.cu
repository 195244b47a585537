/* SPDX-License-Identifier: MIT
 *
 * The legacy default stream: it waits for all blocking streams before it, and they wait for it.
 */
#include "../program.h"

__global__ void append(int *list, int *length, int value)
{
	list[(*length)++] = value;
}

int main()
{
	cudaStream_t blocking;
	int *list, *length, host[30], count;

	CHECK(cudaStreamCreate(&blocking));
	CHECK(cudaMalloc(&list, sizeof host));
	CHECK(cudaMalloc(&length, sizeof *length));
	CHECK(cudaMemset(length, 0, sizeof *length));
	for (int i = 0; i < 30; i++)
		append<<<1, 1, 0, i % 2 ? blocking : 0>>>(list, length, i);
	CHECK(cudaMemcpy(&count, length, sizeof count, cudaMemcpyDeviceToHost));
	CHECK(cudaMemcpy(host, list, sizeof host, cudaMemcpyDeviceToHost));
	REQUIRE(count == 30);
	for (int i = 0; i < 30; i++)
		REQUIRE(host[i] == i);
	return passed();
}
