/* SPDX-License-Identifier: MIT
 *
 * Functions of the host in a stream: what is behind them waits for them.
 */
#include "../program.h"

__global__ void twice(int *value)
{
	*value *= 2;
}

static void CUDART_CB add_three(void *data)
{
	*(int *)data += 3;
}

static void CUDART_CB old_style(cudaStream_t stream, cudaError_t status, void *data)
{
	if (status == cudaSuccess)
		*(int *)data += 100;
}

int main()
{
	cudaStream_t stream;
	int *value;

	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaHostAlloc(&value, sizeof *value, cudaHostAllocMapped));
	*value = 1;
	twice<<<1, 1, 0, stream>>>(value);
	CHECK(cudaLaunchHostFunc(stream, add_three, value));
	twice<<<1, 1, 0, stream>>>(value);
	CHECK(cudaStreamAddCallback(stream, old_style, value, 0));
	twice<<<1, 1, 0, stream>>>(value);
	CHECK(cudaStreamSynchronize(stream));
	REQUIRE(*value == ((1 * 2 + 3) * 2 + 100) * 2);
	return passed();
}
