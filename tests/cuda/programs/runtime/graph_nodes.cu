/* SPDX-License-Identifier: MIT
 *
 * A graph that is made node by node: a copy, two kernels that need it, and a host function that needs both.
 */
#include "../program.h"

enum { COUNT = 256 };

__global__ void scale(const int *in, int *out, int factor)
{
	out[threadIdx.x] = in[threadIdx.x] * factor;
}

static void CUDART_CB note(void *data)
{
	++*(int *)data;
}

static cudaGraphNode_t add_kernel(
	cudaGraph_t graph, cudaGraphNode_t before, void *in, void *out, int factor)
{
	void *arguments[] = {&in, &out, &factor};
	cudaKernelNodeParams kernel = {};
	cudaGraphNode_t node;

	kernel.func = (void *)scale;
	kernel.gridDim = dim3(1);
	kernel.blockDim = dim3(COUNT);
	kernel.kernelParams = arguments;
	CHECK(cudaGraphAddKernelNode(&node, graph, &before, 1, &kernel));
	return node;
}

int main()
{
	static int host[COUNT], result[COUNT];
	int *in, *out[2], notes = 0;
	cudaGraph_t graph;
	cudaGraphExec_t launchable;
	cudaGraphNode_t copy, kernels[2], last;
	cudaHostNodeParams function = {note, &notes};
	size_t count = 0;

	CHECK(cudaMalloc(&in, sizeof host));
	CHECK(cudaMalloc(&out[0], sizeof host));
	CHECK(cudaMalloc(&out[1], sizeof host));
	CHECK(cudaGraphCreate(&graph, 0));
	CHECK(cudaGraphAddMemcpyNode1D(
		&copy, graph, NULL, 0, in, host, sizeof host, cudaMemcpyHostToDevice));
	for (int i = 0; i < 2; i++)
		kernels[i] = add_kernel(graph, copy, in, out[i], i + 2);
	CHECK(cudaGraphAddHostNode(&last, graph, kernels, 2, &function));
	CHECK(cudaGraphGetNodes(graph, NULL, &count));
	REQUIRE(count == 4);
	CHECK(cudaGraphInstantiate(&launchable, graph, 0));
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < COUNT; i++)
			host[i] = i + round;
		CHECK(cudaGraphLaunch(launchable, 0));
		CHECK(cudaStreamSynchronize(0));
		REQUIRE(notes == round + 1);
		for (int k = 0; k < 2; k++) {
			CHECK(cudaMemcpy(result, out[k], sizeof result, cudaMemcpyDeviceToHost));
			for (int i = 0; i < COUNT; i++)
				REQUIRE(result[i] == (i + round) * (k + 2));
		}
	}
	CHECK(cudaGraphExecDestroy(launchable));
	CHECK(cudaGraphDestroy(graph));
	return passed();
}
