/* SPDX-License-Identifier: MIT
 *
 * Products of matrices by groups of four warps: wgmma of shared memory that another group fills, stage by stage, with 128 bytes of
 * swizzle; A lies by rows and B by rows, so that B's columns are side by side.
 * nvcc -gencode arch=compute_90a,code=compute_90a
 */
#include <cuda_fp16.h>

#include "../program.h"

enum { ROWS = 128, COLUMNS = 64, DEPTH = 320, PART = 64, STAGES = 2, TILES = DEPTH / PART };
enum { A_BYTES = ROWS * PART * 2, B_BYTES = PART * COLUMNS * 2, STAGE = A_BYTES + B_BYTES };

__device__ void barrier_init(unsigned barrier, unsigned count)
{
	asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

__device__ void arrive(unsigned barrier)
{
	asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ void await(unsigned barrier, unsigned parity)
{
	unsigned done = 0;

	while (!done)
		asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2;"
			     " selp.u32 %0, 1, 0, p; }"
			     : "=r"(done)
			     : "r"(barrier), "r"(parity)
			     : "memory");
}

/* Lines of 128 bytes, in groups of 8 that are `stride` bytes apart. */
__device__ unsigned long long descriptor(unsigned at, unsigned stride)
{
	return at / 16 | (unsigned long long)(stride / 16) << 32 | 1ull << 62;
}

#define FOUR(k) "+f"(d[k]), "+f"(d[k + 1]), "+f"(d[k + 2]), "+f"(d[k + 3])

__device__ void multiply(float *d, unsigned long long a, unsigned long long b, int adds)
{
	asm volatile(
		"{ .reg .pred p; setp.ne.b32 p, %34, 0;\n"
		"wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
		"{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
		"%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
		"%32, %33, p, 1, 1, 0, 1; }\n"
		: FOUR(0), FOUR(4), FOUR(8), FOUR(12), FOUR(16), FOUR(20), FOUR(24), FOUR(28)
		: "l"(a), "l"(b), "r"(adds));
}

/* Both matrices by rows, as pieces of 8 halves. A line of shared memory is 64 halves of a row. */
__device__ void fill(char *to, const half *from, int lines, int pitch, int thread)
{
	for (int i = thread; i < lines * 8; i += 128) {
		int line = i / 8, piece = i % 8;

		*(uint4 *)(to + line * 128 + (piece ^ line % 8) * 16) =
			*(const uint4 *)(from + line * pitch + piece * 8);
	}
}

__global__ void product(float *c, const half *a, const half *b)
{
	extern __shared__ char raw[];
	__shared__ unsigned long long barriers[2 * STAGES];
	unsigned full = (unsigned)__cvta_generic_to_shared(barriers), empty = full + 8 * STAGES;
	unsigned skip = -(unsigned)__cvta_generic_to_shared(raw) & 1023;
	char *stages = raw + skip;
	int group = threadIdx.x / 128, thread = threadIdx.x % 128;

	if (threadIdx.x == 0)
		for (int s = 0; s < STAGES; s++) {
			barrier_init(full + 8 * s, 128);
			barrier_init(empty + 8 * s, 2);
		}
	__syncthreads();
	if (group == 0) {
		for (int k = 0; k < TILES; k++) {
			int s = k % STAGES;

			await(empty + 8 * s, k / STAGES % 2 ^ 1);
			fill(stages + s * STAGE, a + k * PART, ROWS, DEPTH, thread);
			fill(stages + s * STAGE + A_BYTES, b + k * PART * COLUMNS, PART, COLUMNS,
				thread);
			asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
			arrive(full + 8 * s);
		}
		return;
	}
	float d[32] = {};
	for (int k = 0; k < TILES; k++) {
		int s = k % STAGES;
		unsigned at = (unsigned)__cvta_generic_to_shared(stages) + s * STAGE;
		unsigned long long left = descriptor(at + (group - 1) * 64 * 128, 1024);
		unsigned long long right = descriptor(at + A_BYTES, 1024);

		await(full + 8 * s, k / STAGES % 2);
		asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
		for (int n = 0; n < PART / 16; n++)
			multiply(d, left + n * 2, right + n * 128, k | n);
		asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
		asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
		if (thread == 0)
			arrive(empty + 8 * s);
	}
	for (int n = 0; n < 32; n++) {
		int row = (group - 1) * 64 + thread / 32 * 16 + thread % 32 / 4 + n / 2 % 2 * 8;

		c[row * COLUMNS + n / 4 * 8 + thread % 4 * 2 + n % 2] = d[n];
	}
}

int main()
{
	static half a[ROWS * DEPTH], b[DEPTH * COLUMNS];
	static float c[ROWS * COLUMNS];
	half *left, *right;
	float *sum;
	cudaDeviceProp properties;

	CHECK(cudaGetDeviceProperties(&properties, 0));
	if (properties.major != 9)
		return skipped("wgmma is of devices of compute capability 9");
	for (int i = 0; i < ROWS * DEPTH; i++)
		a[i] = __float2half((float)(i * 7 % 13 - 6));
	for (int i = 0; i < DEPTH * COLUMNS; i++)
		b[i] = __float2half((float)(i * 5 % 11 - 5) / 4);
	CHECK(cudaMalloc(&left, sizeof a));
	CHECK(cudaMalloc(&right, sizeof b));
	CHECK(cudaMalloc(&sum, sizeof c));
	CHECK(cudaMemcpy(left, a, sizeof a, cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(right, b, sizeof b, cudaMemcpyHostToDevice));
	CHECK(cudaFuncSetAttribute(
		product, cudaFuncAttributeMaxDynamicSharedMemorySize, STAGES * STAGE + 1024));
	product<<<1, 384, STAGES * STAGE + 1024>>>(sum, left, right);
	CHECK(cudaMemcpy(c, sum, sizeof c, cudaMemcpyDeviceToHost));
	for (int row = 0; row < ROWS; row++)
		for (int column = 0; column < COLUMNS; column++) {
			float want = 0;

			for (int k = 0; k < DEPTH; k++)
				want += __half2float(a[row * DEPTH + k]) *
					__half2float(b[k * COLUMNS + column]);
			REQUIRE(c[row * COLUMNS + column] == want);
		}
	return passed();
}
