/* SPDX-License-Identifier: MIT
 *
 * A texture over rows of device memory at a pitch, of elements with four channels.
 */
#include "../program.h"

enum { W = 5, H = 3 };

__global__ void fetch(cudaTextureObject_t texture, float4 *out)
{
	out[threadIdx.y * W + threadIdx.x] =
		tex2D<float4>(texture, threadIdx.x + 0.5f, threadIdx.y + 0.5f);
}

int main()
{
	float4 host[H][W], *memory, *out;
	cudaResourceDesc resource = {};
	cudaTextureDesc texture = {};
	cudaTextureObject_t object;
	size_t pitch;

	for (int i = 0; i < W * H; i++)
		host[i / W][i % W] = make_float4(i, i + 100, i + 200, -i);
	CHECK(cudaMallocPitch(&memory, &pitch, sizeof host[0], H));
	CHECK(cudaMalloc(&out, sizeof host));
	CHECK(cudaMemcpy2D(
		memory, pitch, host, sizeof host[0], sizeof host[0], H, cudaMemcpyHostToDevice));
	resource.resType = cudaResourceTypePitch2D;
	resource.res.pitch2D.devPtr = memory;
	resource.res.pitch2D.desc = cudaCreateChannelDesc<float4>();
	resource.res.pitch2D.width = W;
	resource.res.pitch2D.height = H;
	resource.res.pitch2D.pitchInBytes = pitch;
	CHECK(cudaCreateTextureObject(&object, &resource, &texture, NULL));
	fetch<<<1, dim3(W, H)>>>(object, out);
	memset(host, 0, sizeof host);
	CHECK(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
	for (int i = 0; i < W * H; i++) {
		float4 v = host[i / W][i % W];
		REQUIRE(v.x == i && v.y == i + 100 && v.z == i + 200 && v.w == -i);
	}
	return passed();
}
