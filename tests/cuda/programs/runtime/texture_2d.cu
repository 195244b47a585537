/* SPDX-License-Identifier: MIT
 *
 * A texture of two dimensions: between its elements by linear filtering, and beyond its edges by each address mode.
 */
#include "../program.h"

enum { W = 8, H = 4 };

__global__ void fetch(cudaTextureObject_t texture, const float2 *at, float *values)
{
	values[threadIdx.x] = tex2D<float>(texture, at[threadIdx.x].x, at[threadIdx.x].y);
}

static float2 *at;
static float *values;

static void expect(cudaArray_t array, cudaTextureAddressMode address, cudaTextureFilterMode filter,
	bool normalised, float x, float y, float expected)
{
	cudaResourceDesc resource = {};
	cudaTextureDesc texture = {};
	cudaTextureObject_t object;
	float2 place = make_float2(x, y);
	float value;

	resource.resType = cudaResourceTypeArray;
	resource.res.array.array = array;
	texture.addressMode[0] = texture.addressMode[1] = address;
	texture.filterMode = filter;
	texture.normalizedCoords = normalised;
	CHECK(cudaCreateTextureObject(&object, &resource, &texture, NULL));
	CHECK(cudaMemcpy(at, &place, sizeof place, cudaMemcpyHostToDevice));
	fetch<<<1, 1>>>(object, at, values);
	CHECK(cudaMemcpy(&value, values, sizeof value, cudaMemcpyDeviceToHost));
	CHECK(cudaDestroyTextureObject(object));
	if (value != expected) {
		printf("at %g, %g it is %g, not %g\n", x, y, value, expected);
		exit(1);
	}
}

int main()
{
	cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
	float host[H][W];
	cudaArray_t array;

	for (int y = 0; y < H; y++)
		for (int x = 0; x < W; x++)
			host[y][x] = x + 10 * y;
	CHECK(cudaMalloc(&at, sizeof *at));
	CHECK(cudaMalloc(&values, sizeof *values));
	CHECK(cudaMallocArray(&array, &format, W, H));
	CHECK(cudaMemcpy2DToArray(
		array, 0, 0, host, sizeof host[0], sizeof host[0], H, cudaMemcpyHostToDevice));
	expect(array, cudaAddressModeClamp, cudaFilterModePoint, false, 3.9f, 2.1f, 23);
	expect(array, cudaAddressModeClamp, cudaFilterModeLinear, false, 3.75f, 2, 18.25f);
	expect(array, cudaAddressModeClamp, cudaFilterModePoint, false, -5, 9, 30);
	expect(array, cudaAddressModeBorder, cudaFilterModePoint, false, -5, 1, 0);
	expect(array, cudaAddressModeBorder, cudaFilterModeLinear, false, 8, 0.5f, 3.5f);
	expect(array, cudaAddressModeWrap, cudaFilterModePoint, true, 1.1875f, 0.125f, 1);
	expect(array, cudaAddressModeMirror, cudaFilterModePoint, true, 1.1875f, 0.125f, 6);
	expect(array, cudaAddressModeWrap, cudaFilterModeLinear, true, 0, 0.125f, 3.5f);
	CHECK(cudaFreeArray(array));
	return passed();
}
