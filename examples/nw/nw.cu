/* SPDX-License-Identifier: MIT
 *
 * Needleman-Wunsch: the best score of aligning two sequences, a table in which every value needs those
 * above, left, and above left of it. Blocks of one anti-diagonal do not need each other: a launch does
 * one of those, and inside a block the same is done again with its threads.
 */
#include "common/device.h"

#define BLOCK 16

/* score is (n + 1) x (n + 1) with its first row and column set, similarity n x n. The launch does the
 * blocks (i, diagonal - i) from i = first_i on. */
extern "C" __global__ void nw_diagonal(
	int *score, const int *similarity, int n, int penalty, int diagonal, int first_i)
{
	__shared__ int t[BLOCK + 1][BLOCK + 1];
	int thread = threadIdx.x;
	int block_row = first_i + blockIdx.x, block_column = diagonal - block_row;
	int row = block_row * BLOCK, column = block_column * BLOCK; /* of t[0][0] in score */
	int width = n + 1;

	t[0][thread + 1] = score[row * width + column + thread + 1];
	t[thread + 1][0] = score[(row + thread + 1) * width + column];
	if (thread == 0)
		t[0][0] = score[row * width + column];
	__syncthreads();
	for (int step = 0; step < 2 * BLOCK - 1; step++) {
		int y = thread, x = step - thread;

		if (x >= 0 && x < BLOCK) {
			int both = t[y][x] + similarity[(row + y) * n + column + x];
			int gap = (t[y][x + 1] > t[y + 1][x] ? t[y][x + 1] : t[y + 1][x]) - penalty;

			t[y + 1][x + 1] = both > gap ? both : gap;
		}
		__syncthreads();
	}
	for (int y = 0; y < BLOCK; y++)
		score[(row + y + 1) * width + column + thread + 1] = t[y + 1][thread + 1];
}
