/* SPDX-License-Identifier: MIT
 *
 * A graph whose body runs again as long as a kernel in it says so.
 * nvcc -rdc=true -lcudadevrt
 */
#include "../program.h"

__global__ void decide(cudaGraphConditionalHandle handle, const int *value)
{
	cudaGraphSetConditional(handle, *value > 10);
}

__global__ void halve(int *value)
{
	*value /= 2;
}

static void add_kernel(cudaGraphNode_t *node, cudaGraph_t graph, cudaGraphNode_t *before,
	size_t count, void *function, void **arguments)
{
	cudaKernelNodeParams kernel = {};

	kernel.func = function;
	kernel.gridDim = kernel.blockDim = dim3(1);
	kernel.kernelParams = arguments;
	CHECK(cudaGraphAddKernelNode(node, graph, before, count, &kernel));
}

int main()
{
	cudaGraph_t graph, body;
	cudaGraphNode_t condition, inside, last;
	cudaGraphConditionalHandle handle;
	cudaGraphNodeParams params = {cudaGraphNodeTypeConditional};
	cudaGraphExec_t launchable;
	int *value, host = 300;
	void *decide_arguments[] = {&handle, &value}, *halve_arguments[] = {&value};

	CHECK(cudaMalloc(&value, sizeof *value));
	CHECK(cudaMemcpy(value, &host, sizeof host, cudaMemcpyHostToDevice));
	CHECK(cudaGraphCreate(&graph, 0));
	CHECK(cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault));
	params.conditional.handle = handle;
	params.conditional.type = cudaGraphCondTypeWhile;
	params.conditional.size = 1;
	CHECK(cudaGraphAddNode(&condition, graph, NULL, NULL, 0, &params));
	body = params.conditional.phGraph_out[0];
	add_kernel(&inside, body, NULL, 0, (void *)halve, halve_arguments);
	add_kernel(&last, body, &inside, 1, (void *)decide, decide_arguments);
	CHECK(cudaGraphInstantiate(&launchable, graph, 0));
	CHECK(cudaGraphLaunch(launchable, 0));
	CHECK(cudaMemcpy(&host, value, sizeof host, cudaMemcpyDeviceToHost));
	REQUIRE(host == 9);
	return passed();
}
