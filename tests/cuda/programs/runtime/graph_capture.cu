/* SPDX-License-Identifier: MIT
 *
 * What is called on a stream becomes a graph: with a second stream that joins by events.
 */
#include "../program.h"

__global__ void add(int *value, int summand)
{
	*value += summand;
}

int main()
{
	cudaStream_t stream, side;
	cudaEvent_t fork, join;
	cudaGraph_t graph;
	cudaGraphExec_t launchable;
	cudaStreamCaptureStatus status;
	int *device, host[2];

	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaStreamCreate(&side));
	CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
	CHECK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
	CHECK(cudaMalloc(&device, sizeof host));
	CHECK(cudaMemset(device, 0, sizeof host));

	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	add<<<1, 1, 0, stream>>>(device, 1);
	CHECK(cudaEventRecord(fork, stream));
	CHECK(cudaStreamWaitEvent(side, fork));
	add<<<1, 1, 0, side>>>(device + 1, 10);
	CHECK(cudaStreamIsCapturing(side, &status));
	REQUIRE(status == cudaStreamCaptureStatusActive);
	CHECK(cudaEventRecord(join, side));
	add<<<1, 1, 0, stream>>>(device, 2);
	CHECK(cudaStreamWaitEvent(stream, join));
	add<<<1, 1, 0, stream>>>(device + 1, 5);
	CHECK(cudaStreamEndCapture(stream, &graph));

	CHECK(cudaGraphInstantiate(&launchable, graph, 0));
	CHECK(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
	REQUIRE(host[0] == 0 && host[1] == 0); /* it was only noted */
	for (int i = 0; i < 10; i++)
		CHECK(cudaGraphLaunch(launchable, stream));
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
	REQUIRE(host[0] == 30 && host[1] == 150);
	return passed();
}
