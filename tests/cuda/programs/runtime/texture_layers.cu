/* SPDX-License-Identifier: MIT
 *
 * Textures with layers: a row each, and a rectangle each.
 */
#include "../program.h"

enum { W = 8, H = 4, LAYERS = 3 };

__global__ void fetch(cudaTextureObject_t rows, cudaTextureObject_t rectangles, int *out)
{
	int layer = threadIdx.y;

	out[layer * 2] = tex1DLayered<int>(rows, 5.5f, layer);
	out[layer * 2 + 1] = tex2DLayered<int>(rectangles, 6.5f, 2.5f, layer);
}

static cudaTextureObject_t make(const int *host, int height)
{
	cudaChannelFormatDesc format = cudaCreateChannelDesc<int>();
	cudaMemcpy3DParms copy = {};
	cudaResourceDesc resource = {};
	cudaTextureDesc texture = {};
	cudaTextureObject_t object;

	CHECK(cudaMalloc3DArray(&resource.res.array.array, &format,
		make_cudaExtent(W, height, LAYERS), cudaArrayLayered));
	copy.srcPtr = make_cudaPitchedPtr((void *)host, W * sizeof *host, W, height ? height : 1);
	copy.dstArray = resource.res.array.array;
	copy.extent = make_cudaExtent(W, height ? height : 1, LAYERS);
	copy.kind = cudaMemcpyHostToDevice;
	CHECK(cudaMemcpy3D(&copy));
	resource.resType = cudaResourceTypeArray;
	CHECK(cudaCreateTextureObject(&object, &resource, &texture, NULL));
	return object;
}

int main()
{
	int host[LAYERS * H * W], *out, results[LAYERS * 2];

	for (int i = 0; i < LAYERS * H * W; i++)
		host[i] = i;
	CHECK(cudaMalloc(&out, sizeof results));
	fetch<<<1, dim3(1, LAYERS)>>>(make(host, 0), make(host, H), out);
	CHECK(cudaMemcpy(results, out, sizeof results, cudaMemcpyDeviceToHost));
	for (int layer = 0; layer < LAYERS; layer++) {
		REQUIRE(results[layer * 2] == layer * W + 5);
		REQUIRE(results[layer * 2 + 1] == (layer * H + 2) * W + 6);
	}
	return passed();
}
