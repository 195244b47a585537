/* SPDX-License-Identifier: MIT
 *
 * Two kernels at once: one waits in a loop for what the other one, in another stream, writes later.
 */
#include "../program.h"

__global__ void wait_and_add(volatile int *flag, int *result)
{
	while (!*flag)
		;
	*result = *flag + 1;
}

__global__ void set(volatile int *flag)
{
	*flag = 41;
}

int main()
{
	cudaStream_t first, second;
	cudaFuncAttributes attributes;
	int *memory, host;

	CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
	CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
	CHECK(cudaMalloc(&memory, 2 * sizeof *memory));
	CHECK(cudaMemset(memory, 0, 2 * sizeof *memory));
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaFuncGetAttributes(
		&attributes, set)); /* NVIDIA's driver does not load it while the other runs */
	wait_and_add<<<1, 1, 0, first>>>(memory, memory + 1);
	set<<<1, 1, 0, second>>>(memory);
	CHECK(cudaStreamSynchronize(first));
	CHECK(cudaMemcpy(&host, memory + 1, sizeof host, cudaMemcpyDeviceToHost));
	REQUIRE(host == 42);
	return passed();
}
