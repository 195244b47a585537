/* SPDX-License-Identifier: MIT
 *
 * A texture over device memory in a row: whole elements by index, also converted to numbers from 0 to 1.
 */
#include "../program.h"

__global__ void fetch(
	cudaTextureObject_t numbers, cudaTextureObject_t shares, int *whole, float *parts)
{
	int i = threadIdx.x;

	whole[i] = tex1Dfetch<int>(numbers, 63 - i);
	parts[i] = tex1Dfetch<float>(shares, i);
}

int main()
{
	int host[64], *memory, *whole;
	float *parts, host_parts[64];
	cudaResourceDesc resource = {};
	cudaTextureDesc texture = {};
	cudaTextureObject_t numbers, shares;

	for (int i = 0; i < 64; i++)
		host[i] = i * 3;
	CHECK(cudaMalloc(&memory, sizeof host));
	CHECK(cudaMalloc(&whole, sizeof host));
	CHECK(cudaMalloc(&parts, sizeof host_parts));
	CHECK(cudaMemcpy(memory, host, sizeof host, cudaMemcpyHostToDevice));
	resource.resType = cudaResourceTypeLinear;
	resource.res.linear.devPtr = memory;
	resource.res.linear.desc = cudaCreateChannelDesc<int>();
	resource.res.linear.sizeInBytes = sizeof host;
	texture.readMode = cudaReadModeElementType;
	CHECK(cudaCreateTextureObject(&numbers, &resource, &texture, NULL));
	resource.res.linear.desc = cudaCreateChannelDesc<unsigned char>();
	texture.readMode = cudaReadModeNormalizedFloat;
	CHECK(cudaCreateTextureObject(&shares, &resource, &texture, NULL));
	fetch<<<1, 64>>>(numbers, shares, whole, parts);
	CHECK(cudaMemcpy(host, whole, sizeof host, cudaMemcpyDeviceToHost));
	CHECK(cudaMemcpy(host_parts, parts, sizeof host_parts, cudaMemcpyDeviceToHost));
	for (int i = 0; i < 64; i++) {
		REQUIRE(host[i] == (63 - i) * 3);
		REQUIRE(host_parts[i] == (i % 4 ? 0 : (i / 4 * 3) / 255.0f));
	}
	CHECK(cudaDestroyTextureObject(numbers));
	CHECK(cudaDestroyTextureObject(shares));
	return passed();
}
