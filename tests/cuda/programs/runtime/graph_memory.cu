/* SPDX-License-Identifier: MIT
 *
 * Memory that a graph allocates and frees, and child graphs.
 */
#include "../program.h"

__global__ void fill(int *data, int value)
{
	data[threadIdx.x] = value + threadIdx.x;
}

__global__ void sum(const int *data, int *result)
{
	atomicAdd(result, data[threadIdx.x]);
}

int main()
{
	cudaStream_t stream;
	cudaGraph_t inner, outer;
	cudaGraphNode_t first, second;
	cudaGraphExec_t launchable;
	int *data, *result, host;

	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaMalloc(&result, sizeof *result));
	CHECK(cudaMemset(result, 0, sizeof *result));
	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	CHECK(cudaMallocAsync(&data, 128 * sizeof *data, stream));
	fill<<<1, 128, 0, stream>>>(data, 1);
	sum<<<1, 128, 0, stream>>>(data, result);
	CHECK(cudaFreeAsync(data, stream));
	CHECK(cudaStreamEndCapture(stream, &inner));
	CHECK(cudaGraphInstantiate(&launchable, inner, 0));
	for (int i = 0; i < 3; i++)
		CHECK(cudaGraphLaunch(launchable, stream));
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaMemcpy(&host, result, sizeof host, cudaMemcpyDeviceToHost));
	REQUIRE(host == 3 * (128 + 127 * 64));
	CHECK(cudaGraphExecDestroy(launchable));

	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	fill<<<1, 1, 0, stream>>>(result, 50);
	CHECK(cudaStreamEndCapture(stream, &inner));
	CHECK(cudaGraphCreate(&outer, 0));
	CHECK(cudaGraphAddChildGraphNode(&first, outer, NULL, 0, inner));
	CHECK(cudaGraphAddChildGraphNode(&second, outer, &first, 1, inner));
	CHECK(cudaGraphInstantiate(&launchable, outer, 0));
	CHECK(cudaGraphLaunch(launchable, stream));
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaMemcpy(&host, result, sizeof host, cudaMemcpyDeviceToHost));
	REQUIRE(host == 50);
	return passed();
}
