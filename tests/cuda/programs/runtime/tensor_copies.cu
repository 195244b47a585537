/* SPDX-License-Identifier: MIT
 *
 * Copies of boxes of tensors, as programs make their maps: a matrix in swizzled rows, which two blocks of a cluster get at once, what lies
 * outside of it, and sums in another one.
 * nvcc -arch=compute_90
 */
#include <cuda.h>

#include "../program.h"

enum { BLOCKS = 2, SIDE = 32, TILES = 3, WIDTH = TILES * SIDE, HEIGHT = 48 };

__device__ unsigned shared(const void *p)
{
	return (unsigned)__cvta_generic_to_shared(p);
}

__device__ void meet()
{
	asm volatile("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" ::: "memory");
}

/* Each cluster: the tile comes to both blocks; each turns a half of it around, and adds it to where it belongs. */
__global__ void __cluster_dims__(BLOCKS)
	turned(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to)
{
	__shared__ alignas(1024) int tile[SIDE][SIDE];
	__shared__ alignas(128) int half[SIDE / BLOCKS][SIDE];
	__shared__ alignas(8) unsigned long long barrier;
	unsigned rank, done = 0, t = threadIdx.x;
	int x = blockIdx.x / BLOCKS * SIDE, y = blockIdx.y * SIDE;

	asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
	if (t == 0) {
		asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared(&barrier))
			     : "memory");
		asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
		asm volatile(
			"mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared(&barrier)),
			"r"((int)sizeof tile)
			: "memory");
	}
	meet();
	if (rank == 0 && t == 0)
		asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile"
			     ".mbarrier::complete_tx::bytes.multicast::cluster"
			     " [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared(tile)),
			     "l"(&from), "r"(x), "r"(y), "r"(shared(&barrier)), "h"((short)3)
			     : "memory");
	while (!done)
		asm volatile("{ .reg .pred p;"
			     " mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;"
			     " selp.u32 %0, 1, 0, p; }"
			     : "=r"(done)
			     : "r"(shared(&barrier))
			     : "memory");
	for (unsigned n = t; n < SIDE / BLOCKS * SIDE; n += blockDim.x) {
		unsigned column = n / SIDE + rank * (SIDE / BLOCKS), row = n % SIDE;

		half[n / SIDE][row] = tile[row][(column / 4 ^ row % 8) * 4 + column % 4];
	}
	asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
	__syncthreads();
	if (t == 0) {
		asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group"
			     " [%0, {%1, %2}], [%3];" ::"l"(&to),
			     "r"(y), "r"(x + (int)rank * (SIDE / BLOCKS)), "r"(shared(half))
			     : "memory");
		asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::
				     : "memory");
	}
	meet();
}

typedef CUresult (*encoder)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
	const cuuint64_t *, const cuuint64_t *, const cuuint32_t *, const cuuint32_t *,
	CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

static CUtensorMap map_of(encoder encode, int *matrix, int width, int height, int box_height,
	CUtensorMapSwizzle swizzle)
{
	cuuint64_t sizes[] = {(cuuint64_t)width, (cuuint64_t)height}, stride = width * 4;
	cuuint32_t box[] = {SIDE, (cuuint32_t)box_height}, ones[] = {1, 1};
	CUtensorMap map;

	REQUIRE(encode(&map, CU_TENSOR_MAP_DATA_TYPE_INT32, 2, matrix, sizes, &stride, box, ones,
			CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
			CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS);
	return map;
}

int main()
{
	static int numbers[HEIGHT][WIDTH], sums[WIDTH][HEIGHT];
	int *in, *out, has;
	cudaDriverEntryPointQueryResult found;
	void *encode;

	CHECK(cudaDeviceGetAttribute(
		&has, (cudaDeviceAttr)CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, 0));
	if (!has)
		return skipped("the device has no tensor maps");
	CHECK(cudaGetDriverEntryPointByVersion(
		"cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault, &found));
	for (int k = 0; k < HEIGHT * WIDTH; k++)
		numbers[0][k] = k * 7;
	CHECK(cudaMalloc(&in, sizeof numbers));
	CHECK(cudaMalloc(&out, sizeof sums));
	CHECK(cudaMemcpy(in, numbers, sizeof numbers, cudaMemcpyHostToDevice));
	CHECK(cudaMemset(out, 0, sizeof sums));
	CUtensorMap from =
		map_of((encoder)encode, in, WIDTH, HEIGHT, SIDE, CU_TENSOR_MAP_SWIZZLE_128B);
	CUtensorMap to = map_of(
		(encoder)encode, out, HEIGHT, WIDTH, SIDE / BLOCKS, CU_TENSOR_MAP_SWIZZLE_NONE);
	for (int round = 0; round < 2; round++)
		turned<<<dim3(TILES * BLOCKS, (HEIGHT + SIDE - 1) / SIDE), 64>>>(from, to);
	CHECK(cudaMemcpy(sums, out, sizeof sums, cudaMemcpyDeviceToHost));
	for (int y = 0; y < HEIGHT; y++)
		for (int x = 0; x < WIDTH; x++)
			REQUIRE(sums[x][y] == 2 * numbers[y][x]);
	return passed();
}
