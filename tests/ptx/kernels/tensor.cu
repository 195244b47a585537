// SPDX-License-Identifier: MIT
// Source of tensor.ptx: nvcc -std=c++17 -ptx -arch=sm_90 tensor.cu -o tensor.ptx. Tests read the PTX only.
#include <cuda/barrier>
#include <cuda/ptx>

struct alignas(64) tensor_map {
	unsigned long long words[16];
};

using barrier = cuda::barrier<cuda::thread_scope_block>;
namespace ptx = cuda::ptx;

enum { WIDTH = 32, HEIGHT = 16 };

// Each block transposes tiles of a matrix: they come by one map, in rows of 128 bytes that are swizzled, and leave by another.
extern "C" __global__ void transpose(
	const __grid_constant__ tensor_map from, const __grid_constant__ tensor_map to, int tiles)
{
	__shared__ alignas(1024) int in[2][HEIGHT][WIDTH];
	__shared__ alignas(128) int out[WIDTH][HEIGHT];
	__shared__ barrier come[2];
	int t = threadIdx.x, y = blockIdx.x * HEIGHT;

	if (t == 0) {
		init(&come[0], blockDim.x);
		init(&come[1], blockDim.x);
		ptx::fence_proxy_async(ptx::space_shared);
	}
	__syncthreads();
	for (int k = -1; k < tiles; k++) {
		int next = k + 1;

		if (t == 0 && next < tiles) {
			int where[2] = {next * WIDTH, y};

			ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global,
				in[next & 1], &from, where,
				cuda::device::barrier_native_handle(come[next & 1]));
			(void)cuda::device::barrier_arrive_tx(come[next & 1], 1, sizeof(in[0]));
		} else if (next < tiles) {
			(void)come[next & 1].arrive();
		}
		if (k < 0)
			continue;
		come[k & 1].wait_parity(k >> 1 & 1);
		for (int n = t; n < WIDTH * HEIGHT; n += blockDim.x) {
			int row = n / WIDTH, column = n % WIDTH;

			out[column][row] = in[k & 1][row][(column / 4 ^ row % 8) * 4 + column % 4];
		}
		ptx::fence_proxy_async(ptx::space_shared);
		__syncthreads();
		if (t == 0) {
			int where[2] = {y, k * WIDTH};

			ptx::cp_async_bulk_tensor(
				ptx::space_global, ptx::space_shared, &to, where, out);
			ptx::cp_async_bulk_commit_group();
			ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
		}
		__syncthreads();
	}
}

// Every block adds a box of three dimensions to another one.
extern "C" __global__ void sums(
	const __grid_constant__ tensor_map from, const __grid_constant__ tensor_map to)
{
	__shared__ alignas(128) float box[2][4][8];
	__shared__ barrier come;
	int t = threadIdx.x;

	if (t == 0) {
		int where[3] = {(int)blockIdx.x * 8 - 4, (int)blockIdx.y * 4 - 1, -1},
		    there[3] = {0, 1, 0};

		init(&come, 1);
		ptx::fence_proxy_async(ptx::space_shared);
		ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, box, &from, where,
			cuda::device::barrier_native_handle(come));
		cuda::barrier<cuda::thread_scope_block>::arrival_token token =
			cuda::device::barrier_arrive_tx(come, 1, sizeof(box));
		come.wait(std::move(token));
		ptx::cp_reduce_async_bulk_tensor(
			ptx::space_global, ptx::space_shared, ptx::op_add, &to, there, box);
		ptx::cp_async_bulk_commit_group();
		ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
	}
}
