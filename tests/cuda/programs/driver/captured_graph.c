/* SPDX-License-Identifier: MIT
 *
 * A capture into a graph that is there already, and edges that are changed under way.
 */
#include "driver.h"

int main(void)
{
	CUstream stream;
	CUgraph graph, same;
	CUgraphNode fill;
	CUgraphExec launchable;
	CUstreamCaptureStatus status;
	CUdeviceptr data;
	int count = 16, one = 1;
	CUDA_MEMSET_NODE_PARAMS set = {.elementSize = 4, .value = 50, .width = 16, .height = 1};

	begin();
	set.dst = data = numbers(count, 0);
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuGraphCreate(&graph, 0));
	CHECK(cuGraphAddMemsetNode(&fill, graph, NULL, 0, &set, context));
	CHECK(cuStreamBeginCaptureToGraph(
		stream, graph, &fill, NULL, 1, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	LAUNCH(stream, "add", 1, 16, &data, &count, &one);
	CHECK(cuStreamIsCapturing(stream, &status));
	REQUIRE(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
	LAUNCH(stream, "add", 1, 16, &data, &count, &one);
	CHECK(cuStreamEndCapture(stream, &same));
	REQUIRE(same == graph);
	CHECK(cuGraphInstantiate(&launchable, graph, 0));
	for (int i = 0; i < 2; i++)
		CHECK(cuGraphLaunch(launchable, stream));
	CHECK(cuStreamSynchronize(stream));
	REQUIRE(number_at(data, 15) == 52);
	return passed();
}
