/* SPDX-License-Identifier: MIT
 *
 * Boxes: cudaMalloc3D, and copies of parts between host, device and an array.
 */
#include "../program.h"

enum { W = 16, H = 8, D = 4 };

int main()
{
	static int host[D][H][W], back[D][H][W];
	cudaExtent extent = make_cudaExtent(W * sizeof(int), H, D);
	cudaChannelFormatDesc format = cudaCreateChannelDesc<int>();
	cudaMemcpy3DParms copy = {};
	cudaPitchedPtr device;
	cudaArray_t array;

	for (int i = 0; i < W * H * D; i++)
		(&host[0][0][0])[i] = i;
	CHECK(cudaMalloc3D(&device, extent));
	CHECK(cudaMemset3D(device, 0, extent));
	copy.srcPtr = make_cudaPitchedPtr(host, sizeof host[0][0], W, H);
	copy.dstPtr = device;
	copy.extent = extent;
	copy.kind = cudaMemcpyHostToDevice;
	CHECK(cudaMemcpy3D(&copy));

	CHECK(cudaMalloc3DArray(&array, &format, make_cudaExtent(W, H, D)));
	copy = {};
	copy.srcPtr = device;
	copy.dstArray = array;
	copy.extent = make_cudaExtent(W, H, D);
	copy.kind = cudaMemcpyDeviceToDevice;
	CHECK(cudaMemcpy3D(&copy));

	memset(back, 0xff, sizeof back);
	copy = {};
	copy.srcArray = array;
	copy.srcPos = make_cudaPos(3, 2, 1);
	copy.dstPtr = make_cudaPitchedPtr(back, sizeof back[0][0], W, H);
	copy.dstPos = make_cudaPos(1, 1, 0);
	copy.extent = make_cudaExtent(10, 5, 2);
	copy.kind = cudaMemcpyDeviceToHost;
	CHECK(cudaMemcpy3D(&copy));
	for (int z = 0; z < D; z++)
		for (int y = 0; y < H; y++)
			for (int x = 0; x < W; x++) {
				bool inside = x >= 1 && x < 11 && y >= 1 && y < 6 && z < 2;
				REQUIRE(back[z][y][x] == (inside ? host[z + 1][y + 1][x + 2] : -1));
			}
	CHECK(cudaFreeArray(array));
	return passed();
}
