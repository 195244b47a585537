/* SPDX-License-Identifier: MIT
 *
 * Graphs of the runtime API: captured with branches, with memory that is allocated and freed in stream order, and
 * with a function of the host; memory of a graph that the program frees. Prints the first thing that is wrong and
 * fails.
 */
#include <vector>

#include "runtime.h"

static const int n = 1 << 16;

__global__ void add(float *a, float value)
{
	a[blockIdx.x * blockDim.x + threadIdx.x] += value;
}

static void count(void *counter)
{
	++*(int *)counter;
}

/* The stream's own branch works in memory of the graph, the other one in `kept`. */
static cudaGraph_t capture(
	cudaStream_t stream, cudaStream_t branch, float *kept, float *out, int *counter)
{
	cudaEvent_t fork, join;
	cudaGraph_t graph;
	float *own;

	CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
	CHECK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	CHECK(cudaMallocAsync(&own, n * sizeof *own, stream));
	CHECK(cudaMemsetAsync(own, 0, n * sizeof *own, stream));
	CHECK(cudaEventRecord(fork, stream));
	CHECK(cudaStreamWaitEvent(branch, fork));
	add<<<n / 256, 256, 0, branch>>>(kept, 10);
	add<<<n / 256, 256, 0, stream>>>(own, 2);
	CHECK(cudaMemcpyAsync(out, own, n * sizeof *own, cudaMemcpyDeviceToHost, stream));
	CHECK(cudaFreeAsync(own, stream));
	CHECK(cudaEventRecord(join, branch));
	CHECK(cudaStreamWaitEvent(stream, join));
	CHECK(cudaLaunchHostFunc(stream, count, counter));
	CHECK(cudaStreamEndCapture(stream, &graph));
	CHECK(cudaEventDestroy(fork));
	CHECK(cudaEventDestroy(join));
	return graph;
}

static void branches(cudaStream_t stream, cudaStream_t branch)
{
	std::vector<float> out(n);
	cudaGraphExec_t exec;
	cudaGraph_t graph;
	int counter = 0;
	float *kept, first;
	size_t nodes;

	CHECK(cudaMalloc(&kept, n * sizeof *kept));
	CHECK(cudaMemset(kept, 0, n * sizeof *kept));
	graph = capture(stream, branch, kept, out.data(), &counter);
	CHECK(cudaGraphGetNodes(graph, NULL, &nodes));
	REQUIRE(nodes == 7);
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	for (int i = 0; i < 5; i++)
		CHECK(cudaGraphLaunch(exec, i % 2 ? branch : stream));
	CHECK(cudaDeviceSynchronize());
	REQUIRE(out[0] == 2 && out[n - 1] == 2);
	REQUIRE(counter == 5);
	CHECK(cudaMemcpy(&first, kept, sizeof first, cudaMemcpyDefault));
	REQUIRE(first == 50);
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
	CHECK(cudaFree(kept));
}

static void memory(cudaStream_t stream)
{
	cudaMemAllocNodeParams params = {};
	cudaGraphExec_t exec;
	cudaGraphNode_t node;
	cudaGraph_t graph;
	size_t used;

	params.poolProps.allocType = cudaMemAllocationTypePinned;
	params.poolProps.location.type = cudaMemLocationTypeDevice;
	params.bytesize = n;
	CHECK(cudaGraphCreate(&graph, 0));
	CHECK(cudaGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
	CHECK(cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch));
	for (int i = 0; i < 3; i++)
		CHECK(cudaGraphLaunch(exec, stream));
	CHECK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &used));
	REQUIRE(used >= n);
	CHECK(cudaFreeAsync(params.dptr, stream));
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
	CHECK(cudaDeviceGraphMemTrim(0));
	CHECK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemCurrent, &used));
	REQUIRE(used == 0);
}

int main()
{
	cudaStream_t stream, branch;

	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaStreamCreateWithFlags(&branch, cudaStreamNonBlocking));
	branches(stream, branch);
	memory(stream);
	CHECK(cudaStreamDestroy(stream));
	CHECK(cudaStreamDestroy(branch));
	return 0;
}
