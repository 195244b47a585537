/* SPDX-License-Identifier: MIT
 *
 * Surfaces of three dimensions and with layers.
 */
#include "../program.h"

enum { W = 8, H = 4, D = 3 };

__global__ void fill(cudaSurfaceObject_t volume, cudaSurfaceObject_t layers)
{
	int x = threadIdx.x, y = threadIdx.y, z = threadIdx.z;

	surf3Dwrite(x + 10 * y + 100 * z, volume, x * 4, y, z);
	__syncthreads();
	surf2DLayeredwrite(surf3Dread<int>(volume, x * 4, y, D - 1 - z), layers, x * 4, y, z);
}

static cudaSurfaceObject_t make(cudaArray_t *array, unsigned flags)
{
	cudaChannelFormatDesc format = cudaCreateChannelDesc<int>();
	cudaResourceDesc resource = {};
	cudaSurfaceObject_t surface;

	CHECK(cudaMalloc3DArray(
		array, &format, make_cudaExtent(W, H, D), cudaArraySurfaceLoadStore | flags));
	resource.resType = cudaResourceTypeArray;
	resource.res.array.array = *array;
	CHECK(cudaCreateSurfaceObject(&surface, &resource));
	return surface;
}

int main()
{
	static int host[D][H][W];
	cudaArray_t volume, layers;
	cudaSurfaceObject_t first = make(&volume, 0), second = make(&layers, cudaArrayLayered);
	cudaMemcpy3DParms copy = {};

	fill<<<1, dim3(W, H, D)>>>(first, second);
	copy.srcArray = layers;
	copy.dstPtr = make_cudaPitchedPtr(host, sizeof host[0][0], W, H);
	copy.extent = make_cudaExtent(W, H, D);
	copy.kind = cudaMemcpyDeviceToHost;
	CHECK(cudaMemcpy3D(&copy));
	for (int z = 0; z < D; z++)
		for (int y = 0; y < H; y++)
			for (int x = 0; x < W; x++)
				REQUIRE(host[z][y][x] == x + 10 * y + 100 * (D - 1 - z));
	CHECK(cudaDestroySurfaceObject(first));
	CHECK(cudaFreeArray(volume));
	return passed();
}
