/* SPDX-License-Identifier: MIT
 *
 * What kernels ask of CUDA's device runtime besides launches: streams and events of their own, copies, fills, and memory.
 * nvcc -rdc=true -lcudadevrt
 */
#include "../program.h"

enum { NUMBERS = 1000, WIDTH = 24, PITCH = 40, ROWS = 5 };

__device__ int error;
__device__ int *kept;

#define MUST(call)                                                                                 \
	do {                                                                                       \
		if ((call) != cudaSuccess)                                                         \
			error = __LINE__;                                                          \
	} while (0)

__global__ void square(int *to, const int *from)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < NUMBERS)
		to[i] = from[i] * from[i];
}

__global__ void sum(int *out, const int *from)
{
	int total = 0;

	for (int i = 0; i < NUMBERS; i++)
		total += from[i];
	*out = total;
}

/* Three streams in turn: a copy, a kernel that waits for it by an event, and one that waits for that. */
__global__ void chain(int *out, int *first, int *second, const int *from)
{
	cudaStream_t streams[3];
	cudaEvent_t copied, squared;

	for (int k = 0; k < 3; k++)
		MUST(cudaStreamCreateWithFlags(&streams[k], cudaStreamNonBlocking));
	MUST(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming));
	MUST(cudaEventCreateWithFlags(&squared, cudaEventDisableTiming));
	if (streams[0] == streams[1] || streams[0] == streams[2] || copied == squared)
		error = __LINE__;
	MUST(cudaMemcpyAsync(
		first, from, NUMBERS * sizeof(int), cudaMemcpyDeviceToDevice, streams[0]));
	MUST(cudaEventRecord(copied, streams[0]));
	MUST(cudaStreamWaitEvent(streams[1], copied, 0));
	square<<<4, 256, 0, streams[1]>>>(second, first);
	MUST(cudaEventRecord(squared, streams[1]));
	MUST(cudaStreamWaitEvent(streams[2], squared, 0));
	sum<<<1, 1, 0, streams[2]>>>(out, second);
	MUST(cudaGetLastError());
	for (int k = 0; k < 3; k++)
		MUST(cudaStreamDestroy(streams[k]));
	MUST(cudaEventDestroy(copied));
	MUST(cudaEventDestroy(squared));
}

/* Fills, a rectangle of one within another, and copies of it, in one stream. */
__global__ void rectangles(unsigned char *area, unsigned char *copy)
{
	cudaStream_t stream;

	MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	MUST(cudaMemsetAsync(area, 1, ROWS * PITCH, stream));
	MUST(cudaMemset2DAsync(area, PITCH, 7, WIDTH, ROWS, stream));
	MUST(cudaMemcpy2DAsync(
		copy, WIDTH, area + 4, PITCH, WIDTH, ROWS, cudaMemcpyDeviceToDevice, stream));
	MUST(cudaMemsetAsync(area, 2, 0, stream));
	MUST(cudaStreamDestroy(stream));
}

__global__ void use(int *out)
{
	*out = kept[99];
	MUST(cudaFree(kept));
}

/* A fill in the stream of tail launches comes after what every other stream has, and before the kernel that reads it. */
__global__ void tail(int *out)
{
	MUST(cudaMalloc(&kept, 100 * sizeof(int)));
	for (int i = 0; i < 100; i++)
		kept[i] = i;
	MUST(cudaMemsetAsync(kept, 0x11, 100 * sizeof(int), cudaStreamTailLaunch));
	use<<<1, 1, 0, cudaStreamTailLaunch>>>(out);
}

int main()
{
	int *numbers, *first, *second, *out, host[NUMBERS], got, want = 0;
	unsigned char *area, bytes[2 * ROWS * PITCH];

	CHECK(cudaMalloc(&numbers, sizeof host));
	CHECK(cudaMalloc(&first, sizeof host));
	CHECK(cudaMalloc(&second, sizeof host));
	CHECK(cudaMalloc(&out, sizeof(int)));
	CHECK(cudaMalloc(&area, sizeof bytes));
	for (int i = 0; i < NUMBERS; i++) {
		host[i] = i % 37 - 18;
		want += host[i] * host[i];
	}
	CHECK(cudaMemcpy(numbers, host, sizeof host, cudaMemcpyHostToDevice));
	chain<<<1, 1>>>(out, first, second, numbers);
	CHECK(cudaMemcpy(&got, out, sizeof got, cudaMemcpyDeviceToHost));
	REQUIRE(got == want);
	rectangles<<<1, 1>>>(area, area + ROWS * PITCH);
	CHECK(cudaMemcpy(bytes, area, sizeof bytes, cudaMemcpyDeviceToHost));
	for (int y = 0; y < ROWS; y++) {
		for (int x = 0; x < PITCH; x++)
			REQUIRE(bytes[y * PITCH + x] == (x < WIDTH ? 7 : 1));
		for (int x = 0; x < WIDTH; x++)
			REQUIRE(bytes[ROWS * PITCH + y * WIDTH + x] == (x + 4 < WIDTH ? 7 : 1));
	}
	tail<<<1, 1>>>(out);
	CHECK(cudaMemcpy(&got, out, sizeof got, cudaMemcpyDeviceToHost));
	REQUIRE(got == 0x11111111);
	CHECK(cudaMemcpyFromSymbol(&got, error, sizeof got));
	REQUIRE(got == 0);
	return passed();
}
