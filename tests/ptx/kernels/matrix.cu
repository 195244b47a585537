/* SPDX-License-Identifier: MIT
 *
 * Matrix instructions as inline PTX. Compiled by hand, no toolkit needed:
 *   clang-19 -x cuda --cuda-device-only --cuda-gpu-arch=sm_80 -nocudalib -nocudainc -O3 -S matrix.cu -o matrix.ptx
 */
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))

typedef unsigned short u16;
typedef unsigned int u32;

#define THREAD __nvvm_read_ptx_sreg_tid_x()
#define BLOCK_X __nvvm_read_ptx_sreg_ctaid_x()
#define BLOCK_Y __nvvm_read_ptx_sreg_ctaid_y()

static __device__ u32 shared_address(const void *p)
{
	return (u32)(unsigned long)(__attribute__((address_space(3))) const void *)p;
}

static __device__ void load_tiles(u32 r[4], const u16 *row)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
		     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
		     : "r"(shared_address(row)));
}

static __device__ void load_tiles_turned(u32 r[2], const u16 *row)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
		     : "=r"(r[0]), "=r"(r[1])
		     : "r"(shared_address(row)));
}

static __device__ void multiply(float d[4], const u32 a[4], const u32 b[2])
{
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
		     "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
		     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
		     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

enum { TILE = 64, DEPTH = 32 };

/* C = A B of half precision, all sides multiples of 64; a block of 4 warps makes a tile of 64 by 64, a warp 16 rows of it. */
extern "C" __global__ void gemm(const u16 *a, const u16 *b, float *c, int columns, int depth)
{
	static __shared__ __attribute__((aligned(16))) u16 left[TILE][DEPTH], right[DEPTH][TILE];
	u32 thread = THREAD, lane = thread & 31, warp = thread / 32;
	float sum[8][4] = {};

	for (int k = 0; k < depth; k += DEPTH) {
		for (u32 n = thread; n < TILE * DEPTH; n += 128) {
			left[n / DEPTH][n % DEPTH] =
				a[(BLOCK_Y * TILE + n / DEPTH) * depth + k + n % DEPTH];
			right[n / TILE][n % TILE] =
				b[(k + n / TILE) * columns + BLOCK_X * TILE + n % TILE];
		}
		__syncthreads();
		for (int step = 0; step < DEPTH; step += 16) {
			u32 x[4], y[2];

			load_tiles(x, &left[warp * 16 + lane % 16][step + lane / 16 * 8]);
			for (int n = 0; n < 8; n++) {
				load_tiles_turned(y, &right[step + lane % 16][n * 8]);
				multiply(sum[n], x, y);
			}
		}
		__syncthreads();
	}
	for (int n = 0; n < 8; n++)
		for (u32 i = 0; i < 4; i++)
			c[(BLOCK_Y * TILE + warp * 16 + lane / 4 + i / 2 * 8) * columns +
				BLOCK_X * TILE + n * 8 + lane % 4 * 2 + i % 2] = sum[n][i];
}

/* Each warp goes a number of rounds of its own, in which it squares a matrix of one value. */
extern "C" __global__ void rounds(float *out)
{
	u32 warp = THREAD / 32, one = 0x3c003c00, a[4] = {one, one, one, one}, b[2] = {one, one};
	float sum[4] = {};

	for (u32 k = 0; k <= warp; k++)
		if (k % 3 != 2)
			multiply(sum, a, b);
	out[THREAD] = sum[0] + sum[1] + sum[2] + sum[3];
}
