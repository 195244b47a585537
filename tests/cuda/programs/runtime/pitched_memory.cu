/* SPDX-License-Identifier: MIT
 *
 * Rows at a pitch, and copies of rectangles.
 */
#include "../program.h"

enum { WIDTH = 37, HEIGHT = 20 };

__global__ void transpose_index(float *image, size_t pitch)
{
	float *row = (float *)((char *)image + threadIdx.y * pitch);

	row[threadIdx.x] = threadIdx.x * 100 + threadIdx.y;
}

int main()
{
	static float host[HEIGHT][WIDTH], part[5][4];
	float *image;
	size_t pitch;

	CHECK(cudaMallocPitch(&image, &pitch, sizeof host[0], HEIGHT));
	REQUIRE(pitch >= sizeof host[0] && pitch % 32 == 0);
	CHECK(cudaMemset2D(image, pitch, 0xff, sizeof host[0], HEIGHT));
	transpose_index<<<1, dim3(30, HEIGHT)>>>(image, pitch);
	CHECK(cudaMemcpy2D(host, sizeof host[0], image, pitch, sizeof host[0], HEIGHT,
		cudaMemcpyDeviceToHost));
	for (int y = 0; y < HEIGHT; y++)
		for (int x = 0; x < WIDTH; x++)
			REQUIRE(x < 30 ? host[y][x] == x * 100 + y : host[y][x] != host[y][x]);
	CHECK(cudaMemcpy2DAsync(part, sizeof part[0], (char *)image + 3 * pitch + 8, pitch,
		sizeof part[0], 5, cudaMemcpyDeviceToHost, 0));
	CHECK(cudaStreamSynchronize(0));
	for (int y = 0; y < 5; y++)
		for (int x = 0; x < 4; x++)
			REQUIRE(part[y][x] == (x + 2) * 100 + y + 3);
	return passed();
}
