/* SPDX-License-Identifier: MIT
 *
 * A graph that is changed after it was instantiated: one kernel's arguments, then all by a new capture.
 */
#include "../program.h"

__global__ void set(int *value, int to)
{
	*value = to;
}

static cudaGraph_t capture(cudaStream_t stream, int *device, int value)
{
	cudaGraph_t graph;

	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
	set<<<1, 1, 0, stream>>>(device, value);
	CHECK(cudaStreamEndCapture(stream, &graph));
	return graph;
}

static void expect(cudaGraphExec_t launchable, cudaStream_t stream, const int *device, int value)
{
	int host;

	CHECK(cudaGraphLaunch(launchable, stream));
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaMemcpy(&host, device, sizeof host, cudaMemcpyDeviceToHost));
	REQUIRE(host == value);
}

int main()
{
	cudaStream_t stream;
	cudaGraph_t graph;
	cudaGraphExec_t launchable;
	cudaGraphNode_t node;
	cudaGraphExecUpdateResultInfo info;
	cudaKernelNodeParams kernel;
	size_t count = 1;
	int *device, value = 6;
	void *arguments[] = {&device, &value};

	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaMalloc(&device, sizeof *device));
	graph = capture(stream, device, 5);
	CHECK(cudaGraphInstantiate(&launchable, graph, 0));
	expect(launchable, stream, device, 5);

	CHECK(cudaGraphGetNodes(graph, &node, &count));
	CHECK(cudaGraphKernelNodeGetParams(node, &kernel));
	kernel.kernelParams = arguments;
	CHECK(cudaGraphExecKernelNodeSetParams(launchable, node, &kernel));
	expect(launchable, stream, device, 6);

	CHECK(cudaGraphExecUpdate(launchable, capture(stream, device, 7), &info));
	REQUIRE(info.result == cudaGraphExecUpdateSuccess);
	expect(launchable, stream, device, 7);

	CHECK(cudaGraphNodeSetEnabled(launchable, node, 0));
	CHECK(cudaMemset(device, 0, sizeof *device));
	expect(launchable, stream, device, 0);
	return passed();
}
