/* SPDX-License-Identifier: MIT
 *
 * Needleman-Wunsch; see block.h. Blocks of one anti-diagonal do not need each other: a launch does one of those.
 */
#include "nw/block.h"

/* The blocks (i, diagonal - i) from i = first_i on. */
extern "C" __global__ void nw_diagonal(
	int *score, const int *similarity, int n, int penalty, int diagonal, int first_i)
{
	__shared__ struct part t;
	int block_row = first_i + blockIdx.x;

	align_block(&t, score, similarity, n, penalty, block_row, diagonal - block_row);
}
