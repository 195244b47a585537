/* SPDX-License-Identifier: MIT
 *
 * Page-locked memory that kernels use where it is.
 */
#include "../program.h"

__global__ void square(const int *in, int *out)
{
	out[threadIdx.x] = in[threadIdx.x] * in[threadIdx.x];
}

int main()
{
	int *in, *out, *device_in;
	unsigned flags;

	CHECK(cudaSetDeviceFlags(cudaDeviceMapHost));
	CHECK(cudaHostAlloc(
		&in, 128 * sizeof *in, cudaHostAllocMapped | cudaHostAllocWriteCombined));
	CHECK(cudaHostAlloc(&out, 128 * sizeof *out, cudaHostAllocPortable));
	CHECK(cudaHostGetDevicePointer(&device_in, in, 0));
	CHECK(cudaHostGetFlags(&flags, in));
	REQUIRE(flags & cudaHostAllocMapped && flags & cudaHostAllocWriteCombined);
	for (int i = 0; i < 128; i++)
		in[i] = i;
	square<<<1, 128>>>(device_in, out);
	CHECK(cudaDeviceSynchronize());
	for (int i = 0; i < 128; i++)
		REQUIRE(out[i] == i * i);
	CHECK(cudaFreeHost(in));
	CHECK(cudaFreeHost(out));
	return passed();
}
