/* SPDX-License-Identifier: MIT
 *
 * Shared memory: a matrix product by tiles that a block loads together.
 */
#include "../program.h"

enum { TILE = 16, N = 96 };

__global__ void multiply(const float *a, const float *b, float *c)
{
	__shared__ float left[TILE][TILE], right[TILE][TILE];
	int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
	float sum = 0;

	for (int tile = 0; tile < N; tile += TILE) {
		left[threadIdx.y][threadIdx.x] = a[row * N + tile + threadIdx.x];
		right[threadIdx.y][threadIdx.x] = b[(tile + threadIdx.y) * N + column];
		__syncthreads();
		for (int i = 0; i < TILE; i++)
			sum += left[threadIdx.y][i] * right[i][threadIdx.x];
		__syncthreads();
	}
	c[row * N + column] = sum;
}

static float a[N][N], b[N][N], c[N][N];

int main()
{
	float *device[3];

	for (int i = 0; i < N; i++)
		for (int j = 0; j < N; j++) {
			a[i][j] = i - j;
			b[i][j] = (i + j) % 7;
		}
	for (int i = 0; i < 3; i++)
		CHECK(cudaMalloc(&device[i], sizeof a));
	CHECK(cudaMemcpy(device[0], a, sizeof a, cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(device[1], b, sizeof b, cudaMemcpyHostToDevice));
	multiply<<<dim3(N / TILE, N / TILE), dim3(TILE, TILE)>>>(device[0], device[1], device[2]);
	CHECK(cudaMemcpy(c, device[2], sizeof c, cudaMemcpyDeviceToHost));
	for (int i = 0; i < N; i++)
		for (int j = 0; j < N; j++) {
			float sum = 0;
			for (int k = 0; k < N; k++)
				sum += a[i][k] * b[k][j];
			REQUIRE(c[i][j] == sum); /* whole numbers: exact in any order */
		}
	return passed();
}
