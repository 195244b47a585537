/* SPDX-License-Identifier: MIT
 *
 * Needleman-Wunsch: the best score of aligning two sequences, a table in which every value needs those above, left, and above
 * left of it. Here: a block of the table, whose anti-diagonals its threads do one after the other.
 */
#ifndef GDEV_EXAMPLES_NW_BLOCK_H
#define GDEV_EXAMPLES_NW_BLOCK_H

#include "common/device.h"

#define BLOCK 16

/* In shared memory; the kernel's variable, as OpenCL C has none in other functions. */
struct part {
	int at[BLOCK + 1][BLOCK + 1];
};

/* score is (n + 1) x (n + 1) with its first row and column set, similarity n x n. BLOCK threads. */
static __device__ __forceinline__ void align_block(POINTER_TO_SHARED(struct part) t, int *score,
	const int *similarity, int n, int penalty, int block_row, int block_column)
{
	int thread = threadIdx.x;
	int row = block_row * BLOCK, column = block_column * BLOCK; /* of at[0][0] in score */
	int width = n + 1;

	t->at[0][thread + 1] = score[row * width + column + thread + 1];
	t->at[thread + 1][0] = score[(row + thread + 1) * width + column];
	if (thread == 0)
		t->at[0][0] = score[row * width + column];
	__syncthreads();
	for (int step = 0; step < 2 * BLOCK - 1; step++) {
		int y = thread, x = step - thread;

		if (x >= 0 && x < BLOCK) {
			int both = t->at[y][x] + similarity[(row + y) * n + column + x];
			int gap = (t->at[y][x + 1] > t->at[y + 1][x] ? t->at[y][x + 1]
								     : t->at[y + 1][x]) -
				  penalty;

			t->at[y + 1][x + 1] = both > gap ? both : gap;
		}
		__syncthreads();
	}
	for (int y = 0; y < BLOCK; y++)
		score[(row + y + 1) * width + column + thread + 1] = t->at[y + 1][thread + 1];
}

#endif
