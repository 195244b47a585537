/* SPDX-License-Identifier: MIT
 *
 * Kernels of one device use memory of another one; copies between devices, with access and without.
 */
#include "../program.h"

__global__ void add(int *data, int value)
{
	data[threadIdx.x] += value;
}

int main()
{
	int host[64], *first, *second, devices, can;

	CHECK(cudaGetDeviceCount(&devices));
	if (devices < 2)
		return skipped("there is one device");
	CHECK(cudaSetDevice(0));
	CHECK(cudaMalloc(&first, sizeof host));
	CHECK(cudaMemset(first, 0, sizeof host));
	add<<<1, 64>>>(first, 1);
	CHECK(cudaSetDevice(1));
	CHECK(cudaMalloc(&second, sizeof host));
	CHECK(cudaMemcpyPeer(second, 1, first, 0, sizeof host));
	add<<<1, 64>>>(second, 10);
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaDeviceCanAccessPeer(&can, 1, 0));
	if (can) {
		CHECK(cudaDeviceEnablePeerAccess(0, 0));
		EXPECT(cudaDeviceEnablePeerAccess(0, 0), cudaErrorPeerAccessAlreadyEnabled);
		cudaGetLastError();
		add<<<1, 64>>>(first, 100);
		CHECK(cudaDeviceSynchronize());
	}
	CHECK(cudaMemcpy(host, first, sizeof host, cudaMemcpyDefault));
	REQUIRE(host[0] == (can ? 101 : 1) && host[63] == host[0]);
	CHECK(cudaMemcpy(host, second, sizeof host, cudaMemcpyDefault));
	REQUIRE(host[0] == 11 && host[63] == 11);
	return passed();
}
