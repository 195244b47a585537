/* SPDX-License-Identifier: MIT
 *
 * A graph of the Driver API: nodes, their edges, a clone, and a change before a second launch.
 */
#include "driver.h"

int main(void)
{
	CUgraph graph, clone;
	CUgraphNode set, added, in_clone;
	CUgraphExec launchable;
	CUdeviceptr data;
	int count = 32, value = 5;
	CUDA_MEMSET_NODE_PARAMS fill = {.elementSize = 4, .value = 100, .width = 32, .height = 1};
	CUDA_KERNEL_NODE_PARAMS params = {.gridDimX = 1,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 32,
		.blockDimY = 1,
		.blockDimZ = 1,
		.kernelParams = (void *[]){&data, &count, &value}};
	size_t nodes = 0, edges = 0;

	begin();
	fill.dst = data = numbers(count, 0);
	params.func = kernel("add");
	CHECK(cuGraphCreate(&graph, 0));
	CHECK(cuGraphAddMemsetNode(&set, graph, NULL, 0, &fill, context));
	CHECK(cuGraphAddKernelNode(&added, graph, NULL, 0, &params));
	CHECK(cuGraphAddDependencies(graph, &set, &added, NULL, 1));
	CHECK(cuGraphClone(&clone, graph));
	CHECK(cuGraphNodeFindInClone(&in_clone, added, clone));
	CHECK(cuGraphGetNodes(clone, NULL, &nodes));
	CHECK(cuGraphGetEdges(clone, NULL, NULL, NULL, &edges));
	REQUIRE(nodes == 2 && edges == 1);
	value = 6;
	CHECK(cuGraphKernelNodeSetParams(in_clone, &params));
	CHECK(cuGraphInstantiate(&launchable, clone, 0));
	CHECK(cuGraphLaunch(launchable, NULL));
	REQUIRE(number_at(data, 31) == 106);
	value = 7;
	CHECK(cuGraphExecKernelNodeSetParams(launchable, in_clone, &params));
	CHECK(cuGraphLaunch(launchable, NULL));
	REQUIRE(number_at(data, 0) == 107);
	CHECK(cuGraphExecDestroy(launchable));
	CHECK(cuGraphDestroy(clone));
	CHECK(cuGraphDestroy(graph));
	return passed();
}
