/* SPDX-License-Identifier: MIT
 *
 * A texture with levels, each half as wide as the one before, and a value between two of them.
 */
#include "../program.h"

enum { N = 16, LEVELS = 3 };

__global__ void fetch(cudaTextureObject_t texture, float *out)
{
	float levels[] = {0, 1, 1.5f, 2, 9};

	out[threadIdx.x] = tex2DLod<float>(texture, 0.5f, 0.5f, levels[threadIdx.x]);
}

int main()
{
	const float expected[] = {10, 20, 25, 30, 30};
	cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
	static float host[N * N];
	float *out, results[5];
	cudaMipmappedArray_t levels;
	cudaResourceDesc resource = {};
	cudaTextureDesc texture = {};
	cudaTextureObject_t object;
	cudaArray_t level;

	CHECK(cudaMallocMipmappedArray(&levels, &format, make_cudaExtent(N, N, 0), LEVELS));
	for (int l = 0; l < LEVELS; l++) {
		size_t width = N >> l;
		for (size_t i = 0; i < width * width; i++)
			host[i] = 10 * (l + 1);
		CHECK(cudaGetMipmappedArrayLevel(&level, levels, l));
		CHECK(cudaMemcpy2DToArray(level, 0, 0, host, width * sizeof(float),
			width * sizeof(float), width, cudaMemcpyHostToDevice));
	}
	resource.resType = cudaResourceTypeMipmappedArray;
	resource.res.mipmap.mipmap = levels;
	texture.addressMode[0] = texture.addressMode[1] = cudaAddressModeClamp;
	texture.filterMode = texture.mipmapFilterMode = cudaFilterModeLinear;
	texture.normalizedCoords = 1;
	texture.maxMipmapLevelClamp = LEVELS - 1;
	CHECK(cudaCreateTextureObject(&object, &resource, &texture, NULL));
	CHECK(cudaMalloc(&out, sizeof results));
	fetch<<<1, 5>>>(object, out);
	CHECK(cudaMemcpy(results, out, sizeof results, cudaMemcpyDeviceToHost));
	for (int i = 0; i < 5; i++)
		REQUIRE(results[i] == expected[i]);
	return passed();
}
