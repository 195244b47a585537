/* SPDX-License-Identifier: MIT
 *
 * A surface: kernels write elements of an array, and a texture of the same array reads them.
 */
#include "../program.h"

enum { W = 32, H = 8 };

__global__ void draw(cudaSurfaceObject_t surface)
{
	int x = threadIdx.x, y = threadIdx.y;

	surf2Dwrite(make_uchar4(x, y, x + y, 255), surface, x * (int)sizeof(uchar4), y);
	surf2Dwrite(
		make_uchar4(9, 9, 9, 9), surface, W * (int)sizeof(uchar4), y, cudaBoundaryModeZero);
}

__global__ void swap(cudaSurfaceObject_t surface)
{
	uchar4 value = surf2Dread<uchar4>(surface, threadIdx.x * (int)sizeof(uchar4), threadIdx.y);

	surf2Dwrite(make_uchar4(value.y, value.x, value.z, value.w), surface,
		threadIdx.x * (int)sizeof(uchar4), threadIdx.y);
}

__global__ void look(cudaTextureObject_t texture, uchar4 *out)
{
	out[threadIdx.y * W + threadIdx.x] = tex2D<uchar4>(texture, threadIdx.x, threadIdx.y);
}

int main()
{
	cudaChannelFormatDesc format = cudaCreateChannelDesc<uchar4>();
	cudaResourceDesc resource = {};
	cudaTextureDesc description = {};
	cudaSurfaceObject_t surface;
	cudaTextureObject_t texture;
	uchar4 host[H][W], *out;

	CHECK(cudaMallocArray(&resource.res.array.array, &format, W, H, cudaArraySurfaceLoadStore));
	resource.resType = cudaResourceTypeArray;
	CHECK(cudaCreateSurfaceObject(&surface, &resource));
	CHECK(cudaCreateTextureObject(&texture, &resource, &description, NULL));
	CHECK(cudaMalloc(&out, sizeof host));
	draw<<<1, dim3(W, H)>>>(surface);
	swap<<<1, dim3(W, H)>>>(surface);
	look<<<1, dim3(W, H)>>>(texture, out);
	CHECK(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
	for (int y = 0; y < H; y++)
		for (int x = 0; x < W; x++)
			REQUIRE(host[y][x].x == y && host[y][x].y == x && host[y][x].z == x + y &&
				host[y][x].w == 255);
	return passed();
}
