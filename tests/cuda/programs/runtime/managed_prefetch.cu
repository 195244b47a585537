/* SPDX-License-Identifier: MIT
 *
 * Prefetches of managed memory and advice about it, and what is remembered of both.
 */
#include "../program.h"

__global__ void add(int *data)
{
	data[blockIdx.x * blockDim.x + threadIdx.x] += 1;
}

int main()
{
	const int count = 1 << 20;
	const size_t bytes = count * sizeof(int);
	cudaMemLocation device = {cudaMemLocationTypeDevice, 0},
			host = {cudaMemLocationTypeHost, 0};
	int *data, answer;

	CHECK(cudaMallocManaged(&data, bytes));
	for (int i = 0; i < count; i++)
		data[i] = i;
	CHECK(cudaMemAdvise(data, bytes, cudaMemAdviseSetPreferredLocation, device));
	CHECK(cudaMemAdvise(data, bytes, cudaMemAdviseSetAccessedBy, host));
	CHECK(cudaMemPrefetchAsync(data, bytes, device, 0));
	add<<<count / 256, 256>>>(data);
	CHECK(cudaMemPrefetchAsync(data, bytes, host, 0));
	CHECK(cudaDeviceSynchronize());
	for (int i = 0; i < count; i++)
		REQUIRE(data[i] == i + 1);
	CHECK(cudaMemRangeGetAttribute(
		&answer, sizeof answer, cudaMemRangeAttributePreferredLocation, data, bytes));
	REQUIRE(answer == 0);
	CHECK(cudaMemRangeGetAttribute(
		&answer, sizeof answer, cudaMemRangeAttributeLastPrefetchLocation, data, bytes));
	REQUIRE(answer == cudaCpuDeviceId);
	CHECK(cudaMemRangeGetAttribute(
		&answer, sizeof answer, cudaMemRangeAttributeReadMostly, data, bytes));
	REQUIRE(answer == 0);
	return passed();
}
