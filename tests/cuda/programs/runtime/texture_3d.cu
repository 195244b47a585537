/* SPDX-License-Identifier: MIT
 *
 * A texture of three dimensions, filtered among eight elements.
 */
#include "../program.h"

enum { N = 4 };

__global__ void fetch(cudaTextureObject_t texture, float *out)
{
	float x = threadIdx.x + 0.5f, y = threadIdx.y + 0.5f, z = threadIdx.z + 0.5f;
	int i = (threadIdx.z * N + threadIdx.y) * N + threadIdx.x;

	out[i] = tex3D<float>(texture, x, y, z) +
		 1000 * tex3D<float>(texture, x + 0.5f, y + 0.5f, z + 0.5f);
}

int main()
{
	cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
	float host[N][N][N], *out;
	cudaMemcpy3DParms copy = {};
	cudaResourceDesc resource = {};
	cudaTextureDesc texture = {};
	cudaTextureObject_t object;
	cudaArray_t array;

	for (int i = 0; i < N * N * N; i++)
		(&host[0][0][0])[i] = i % N + 2 * (i / N % N) + 4 * (i / N / N);
	CHECK(cudaMalloc3DArray(&array, &format, make_cudaExtent(N, N, N)));
	copy.srcPtr = make_cudaPitchedPtr(host, sizeof host[0][0], N, N);
	copy.dstArray = array;
	copy.extent = make_cudaExtent(N, N, N);
	copy.kind = cudaMemcpyHostToDevice;
	CHECK(cudaMemcpy3D(&copy));
	resource.resType = cudaResourceTypeArray;
	resource.res.array.array = array;
	for (int i = 0; i < 3; i++)
		texture.addressMode[i] = cudaAddressModeClamp;
	texture.filterMode = cudaFilterModeLinear;
	CHECK(cudaCreateTextureObject(&object, &resource, &texture, NULL));
	CHECK(cudaMalloc(&out, sizeof host));
	fetch<<<1, dim3(N, N, N)>>>(object, out);
	CHECK(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
	for (int i = 0; i < N * N * N; i++) {
		int x = i % N, y = i / N % N, z = i / N / N;
		float between =
			x + (x < 3) * 0.5f + 2 * (y + (y < 3) * 0.5f) + 4 * (z + (z < 3) * 0.5f);
		REQUIRE((&host[0][0][0])[i] == x + 2 * y + 4 * z + 1000 * between);
	}
	return passed();
}
