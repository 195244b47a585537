/* SPDX-License-Identifier: MIT
 *
 * cudaLaunchKernelEx: a launch with attributes, of a template, with arguments of several types.
 */
#include "../program.h"

template <typename T> __global__ void scale(T *data, T factor, int count, char letter)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < count)
		data[i] = data[i] * factor + (letter - 'a');
}

int main()
{
	double host[100], *device;
	cudaLaunchConfig_t launch = {};
	cudaLaunchAttribute attributes[2] = {};
	cudaStream_t stream;

	for (int i = 0; i < 100; i++)
		host[i] = i;
	CHECK(cudaMalloc(&device, sizeof host));
	CHECK(cudaMemcpy(device, host, sizeof host, cudaMemcpyHostToDevice));
	CHECK(cudaStreamCreate(&stream));
	attributes[0].id = cudaLaunchAttributePriority;
	attributes[0].val.priority = 0;
	attributes[1].id = cudaLaunchAttributeCooperative;
	attributes[1].val.cooperative = 1;
	launch.gridDim = dim3(4);
	launch.blockDim = dim3(32);
	launch.stream = stream;
	launch.attrs = attributes;
	launch.numAttrs = 2;
	CHECK(cudaLaunchKernelEx(&launch, scale<double>, device, 0.5, 100, 'c'));
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
	for (int i = 0; i < 100; i++)
		REQUIRE(host[i] == i * 0.5 + 2);
	return passed();
}
