/* SPDX-License-Identifier: MIT
 *
 * A cube of six faces, asked by directions.
 */
#include "../program.h"

enum { N = 4 };

__global__ void fetch(cudaTextureObject_t cube, const float3 *directions, float *out)
{
	float3 d = directions[threadIdx.x];

	out[threadIdx.x] = texCubemap<float>(cube, d.x, d.y, d.z);
}

int main()
{
	cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
	const float3 directions[6] = {
		{1, 0, 0}, {-1, 0, 0}, {0, 2, 0}, {0, -1, 0}, {0, 0, 0.5f}, {0, 0, -1}};
	static float faces[6][N][N];
	float3 *device;
	float *out, results[6];
	cudaMemcpy3DParms copy = {};
	cudaResourceDesc resource = {};
	cudaTextureDesc texture = {};
	cudaTextureObject_t cube;

	for (int i = 0; i < 6 * N * N; i++)
		faces[i / N / N][i / N % N][i % N] = i / N / N + 1;
	CHECK(cudaMalloc3DArray(
		&resource.res.array.array, &format, make_cudaExtent(N, N, 6), cudaArrayCubemap));
	copy.srcPtr = make_cudaPitchedPtr(faces, N * sizeof(float), N, N);
	copy.dstArray = resource.res.array.array;
	copy.extent = make_cudaExtent(N, N, 6);
	copy.kind = cudaMemcpyHostToDevice;
	CHECK(cudaMemcpy3D(&copy));
	resource.resType = cudaResourceTypeArray;
	texture.normalizedCoords = 1;
	CHECK(cudaCreateTextureObject(&cube, &resource, &texture, NULL));
	CHECK(cudaMalloc(&device, sizeof directions));
	CHECK(cudaMalloc(&out, sizeof results));
	CHECK(cudaMemcpy(device, directions, sizeof directions, cudaMemcpyHostToDevice));
	fetch<<<1, 6>>>(cube, device, out);
	CHECK(cudaMemcpy(results, out, sizeof results, cudaMemcpyDeviceToHost));
	for (int i = 0; i < 6; i++)
		REQUIRE(results[i] == i + 1);
	return passed();
}
