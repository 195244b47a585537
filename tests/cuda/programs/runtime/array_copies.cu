/* SPDX-License-Identifier: MIT
 *
 * Copies of parts of arrays, between arrays, and what an array says of itself.
 */
#include "../program.h"

enum { W = 12, H = 6 };

int main()
{
	cudaChannelFormatDesc format = cudaCreateChannelDesc<short2>(), got;
	static short2 host[H][W], back[H][W];
	cudaArray_t first, second;
	cudaExtent extent;
	unsigned flags;

	for (int i = 0; i < W * H; i++)
		host[i / W][i % W] = make_short2(i, -i);
	CHECK(cudaMallocArray(&first, &format, W, H));
	CHECK(cudaMallocArray(&second, &format, W, H));
	CHECK(cudaArrayGetInfo(&got, &extent, &flags, first));
	REQUIRE(got.x == 16 && got.y == 16 && got.z == 0 && got.f == cudaChannelFormatKindSigned);
	REQUIRE(extent.width == W && extent.height == H && extent.depth == 0);
	CHECK(cudaMemcpy2DToArray(
		first, 0, 0, host, sizeof host[0], sizeof host[0], H, cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy2DToArray(
		second, 0, 0, host, sizeof host[0], sizeof host[0], H, cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy2DArrayToArray(
		second, 4, 1, first, 0, 0, 3 * sizeof(short2), 2, cudaMemcpyDeviceToDevice));
	CHECK(cudaMemcpy2DFromArray(
		back, sizeof back[0], second, 0, 0, sizeof back[0], H, cudaMemcpyDeviceToHost));
	for (int y = 0; y < H; y++)
		for (int x = 0; x < W; x++) {
			bool copied = x >= 1 && x < 4 && y >= 1 && y < 3;
			int expected = copied ? host[y - 1][x - 1].x : host[y][x].x;
			REQUIRE(back[y][x].x == expected && back[y][x].y == -expected);
		}
	EXPECT(cudaMemcpy2DToArray(first, 0, 1, host, sizeof host[0], sizeof host[0], H,
		       cudaMemcpyHostToDevice),
		cudaErrorInvalidValue);
	return passed();
}
