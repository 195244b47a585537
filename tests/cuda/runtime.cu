/* SPDX-License-Identifier: MIT
 *
 * The runtime API as programs use it: symbols, streams, events, printf, attributes, threads, reset, and
 * what happens after a fault. Prints the first thing that is wrong and fails.
 */
#include <cooperative_groups.h>
#include <thread>
#include <vector>

#include "runtime.h"

static const int n = 1 << 20;

__device__ int counter;
__constant__ float factor;

__global__ void scale(float *a, int count)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < count)
		a[i] = a[i] * factor;
	if (i == 0)
		atomicAdd(&counter, 1);
}

__global__ void say()
{
	if (threadIdx.x == 0)
		printf("block %d\n", blockIdx.x);
}

__global__ void stray(int *p)
{
	*p = 1;
}

static void symbols_and_events()
{
	std::vector<float> host(n);
	float *device, f = 2.5f, ms = -1;
	int zero = 0, count = 0;
	cudaEvent_t start, end;

	for (int i = 0; i < n; i++)
		host[i] = i;
	CHECK(cudaMalloc(&device, n * sizeof(float)));
	CHECK(cudaMemcpy(device, host.data(), n * sizeof(float), cudaMemcpyHostToDevice));
	CHECK(cudaMemcpyToSymbol(factor, &f, sizeof f));
	CHECK(cudaMemcpyToSymbol(counter, &zero, sizeof zero));
	CHECK(cudaEventCreate(&start));
	CHECK(cudaEventCreate(&end));
	CHECK(cudaEventRecord(start));
	scale<<<(n + 255) / 256, 256>>>(device, n);
	CHECK(cudaGetLastError());
	CHECK(cudaEventRecord(end));
	CHECK(cudaEventSynchronize(end));
	CHECK(cudaEventElapsedTime(&ms, start, end));
	REQUIRE(ms > 0);
	CHECK(cudaMemcpy(host.data(), device, n * sizeof(float), cudaMemcpyDeviceToHost));
	for (int i = 0; i < n; i++)
		REQUIRE(host[i] == i * 2.5f);
	CHECK(cudaMemcpyFromSymbol(&count, counter, sizeof count));
	REQUIRE(count == 1);
	CHECK(cudaFree(device));
}

static void streams_and_pinned_memory()
{
	float *pinned, *device;
	cudaStream_t stream;

	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaMallocHost(&pinned, n * sizeof(float)));
	CHECK(cudaMalloc(&device, n * sizeof(float)));
	for (int i = 0; i < n; i++)
		pinned[i] = 1;
	CHECK(cudaMemcpyAsync(device, pinned, n * sizeof(float), cudaMemcpyHostToDevice, stream));
	scale<<<(n + 255) / 256, 256, 0, stream>>>(device, n);
	CHECK(cudaMemcpyAsync(pinned, device, n * sizeof(float), cudaMemcpyDeviceToHost, stream));
	CHECK(cudaStreamSynchronize(stream));
	for (int i = 0; i < n; i++)
		REQUIRE(pinned[i] == 2.5f);
	CHECK(cudaFreeHost(pinned));
	CHECK(cudaFree(device));
	CHECK(cudaStreamDestroy(stream));
}

static void attributes()
{
	cudaPointerAttributes pointer;
	cudaFuncAttributes function;
	cudaDeviceProp properties;
	size_t available, total;
	int devices, blocks, mine;
	float *device;

	CHECK(cudaGetDeviceCount(&devices));
	REQUIRE(devices >= 1);
	CHECK(cudaGetDeviceProperties(&properties, 0));
	REQUIRE(properties.warpSize == 32);
	CHECK(cudaFuncGetAttributes(&function, scale));
	REQUIRE(function.maxThreadsPerBlock >= 256);
	CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, scale, 256, 0));
	REQUIRE(blocks >= 1);
	CHECK(cudaMalloc(&device, 4096));
	CHECK(cudaPointerGetAttributes(&pointer, device));
	REQUIRE(pointer.type == cudaMemoryTypeDevice);
	CHECK(cudaPointerGetAttributes(&pointer, &mine));
	REQUIRE(pointer.type == cudaMemoryTypeUnregistered);
	CHECK(cudaMemGetInfo(&available, &total));
	REQUIRE(available <= total);
	CHECK(cudaFree(device));
}

static void threads()
{
	std::vector<std::thread> workers;

	for (int t = 0; t < 4; t++)
		workers.emplace_back([t] {
			float *device, value;
			CHECK(cudaMalloc(&device, 4096));
			CHECK(cudaMemset(device, 0, 4096));
			scale<<<1, 32>>>(device, 32);
			CHECK(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost));
			REQUIRE(value == 0);
			CHECK(cudaFree(device));
		});
	for (auto &worker : workers)
		worker.join();
}

/* Each round a block takes what its neighbour had before it: the grid has to wait for itself. */
__global__ void pass_on(int *a, int rounds)
{
	cooperative_groups::grid_group grid = cooperative_groups::this_grid();
	int mine = blockIdx.x, next = (mine + 1) % gridDim.x;

	for (int i = 0; i < rounds; i++) {
		int got = ((volatile int *)a)[next];
		grid.sync();
		if (threadIdx.x == 0)
			a[mine] = got;
		grid.sync();
	}
}

static void a_grid_that_waits_for_itself()
{
	const int blocks = 8;
	int host[blocks], rounds = 3, *device;
	void *params[] = {&device, &rounds};

	for (int i = 0; i < blocks; i++)
		host[i] = i;
	CHECK(cudaMalloc(&device, sizeof host));
	CHECK(cudaMemcpy(device, host, sizeof host, cudaMemcpyHostToDevice));
	CHECK(cudaLaunchCooperativeKernel((void *)pass_on, dim3(blocks), dim3(64), params, 0, 0));
	CHECK(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
	for (int i = 0; i < blocks; i++)
		REQUIRE(host[i] == (i + rounds) % blocks);
	CHECK(cudaFree(device));
}

static void faults_and_resets()
{
	float f = 1, *device;

	scale<<<1, 4096>>>(NULL, 0);
	REQUIRE(cudaGetLastError() != cudaSuccess);
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaDeviceReset());
	CHECK(cudaMalloc(&device, 4096));
	CHECK(cudaMemset(device, 0, 4096));
	CHECK(cudaMemcpyToSymbol(factor, &f, sizeof f));
	scale<<<1, 32>>>(device, 32);
	CHECK(cudaDeviceSynchronize());
	stray<<<1, 1>>>((int *)0x10);
	REQUIRE(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
	REQUIRE(cudaMalloc(&device, 16) == cudaErrorIllegalAddress);
}

int main()
{
	symbols_and_events();
	streams_and_pinned_memory();
	attributes();
	threads();
	say<<<2, 32>>>();
	CHECK(cudaDeviceSynchronize());
	a_grid_that_waits_for_itself();
	faults_and_resets();
	printf("all right\n");
	return 0;
}
