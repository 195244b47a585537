/* SPDX-License-Identifier: MIT
 *
 * What may not be captured ends the capture, and the stream works on.
 */
#include "../program.h"

__global__ void add(int *value)
{
	++*value;
}

int main()
{
	cudaStream_t stream;
	cudaGraph_t graph = NULL;
	int *device, host;

	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaMalloc(&device, sizeof *device));
	CHECK(cudaMemset(device, 0, sizeof *device));
	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	add<<<1, 1, 0, stream>>>(device);
	EXPECT(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
	EXPECT(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
	REQUIRE(!graph);
	cudaGetLastError();
	add<<<1, 1, 0, stream>>>(device);
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaMemcpy(&host, device, sizeof host, cudaMemcpyDeviceToHost));
	REQUIRE(host == 1);
	return passed();
}
