/* SPDX-License-Identifier: MIT
 *
 * tex2Dgather: one channel of the four elements that a filter would take.
 */
#include "../program.h"

enum { N = 4 };

__global__ void gather(cudaTextureObject_t texture, float4 *out)
{
	out[0] = tex2Dgather<float4>(texture, 2, 2, 0);
	out[1] = tex2Dgather<float4>(texture, 2, 2, 1);
}

int main()
{
	cudaChannelFormatDesc format = cudaCreateChannelDesc<float2>();
	float2 host[N][N];
	float4 *out, results[2];
	cudaResourceDesc resource = {};
	cudaTextureDesc texture = {};
	cudaTextureObject_t object;

	for (int i = 0; i < N * N; i++)
		host[i / N][i % N] = make_float2(i, i + 100);
	CHECK(cudaMallocArray(&resource.res.array.array, &format, N, N, cudaArrayTextureGather));
	CHECK(cudaMemcpy2DToArray(resource.res.array.array, 0, 0, host, sizeof host[0],
		sizeof host[0], N, cudaMemcpyHostToDevice));
	resource.resType = cudaResourceTypeArray;
	CHECK(cudaCreateTextureObject(&object, &resource, &texture, NULL));
	CHECK(cudaMalloc(&out, sizeof results));
	gather<<<1, 1>>>(object, out);
	CHECK(cudaMemcpy(results, out, sizeof results, cudaMemcpyDeviceToHost));
	for (int i = 0; i < 2; i++) { /* against the clock, from below on the left */
		REQUIRE(results[i].x == 100 * i + 9 && results[i].y == 100 * i + 10);
		REQUIRE(results[i].z == 100 * i + 6 && results[i].w == 100 * i + 5);
	}
	return passed();
}
