/* SPDX-License-Identifier: MIT
 *
 * Device memory of one process that another process opens.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "../program.h"

__global__ void add(int *data, int value)
{
	data[threadIdx.x] += value;
}

static int other(int handles)
{
	cudaIpcMemHandle_t handle;
	int *data;

	REQUIRE(read(handles, &handle, sizeof handle) == sizeof handle);
	CHECK(cudaIpcOpenMemHandle((void **)&data, handle, cudaIpcMemLazyEnablePeerAccess));
	add<<<1, 64>>>(data, 5);
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaIpcCloseMemHandle(data));
	return 0;
}

int main()
{
	int handles[2], host[64], *data, status;
	cudaIpcMemHandle_t handle;
	pid_t child;

	REQUIRE(!pipe(handles));
	child = fork(); /* before either process uses CUDA */
	if (!child)
		return other(handles[0]);
	CHECK(cudaMalloc(&data, sizeof host));
	CHECK(cudaMemset(data, 0, sizeof host));
	add<<<1, 64>>>(data, 1);
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaIpcGetMemHandle(&handle, data));
	REQUIRE(write(handles[1], &handle, sizeof handle) == sizeof handle);
	REQUIRE(waitpid(child, &status, 0) == child && !status);
	CHECK(cudaMemcpy(host, data, sizeof host, cudaMemcpyDeviceToHost));
	for (int i = 0; i < 64; i++)
		REQUIRE(host[i] == 6);
	return passed();
}
