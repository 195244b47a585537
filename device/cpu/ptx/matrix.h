/* SPDX-License-Identifier: MIT
 *
 * Matrix instructions: what the code generator (emit_matrix.c) and the builtins (builtins_matrix.h, LLVM
 * bitcode) agree on. Where a multiplication's operands lie: an array per register of a lane, one element per
 * thread; the arrays of A, B, C and the result follow each other.
 */
#ifndef GDEV_DEVICE_CPU_PTX_MATRIX_H
#define GDEV_DEVICE_CPU_PTX_MATRIX_H

enum matrix_type {
	MATRIX_F16 = 1,
	MATRIX_BF16,
	MATRIX_TF32,
	MATRIX_E4M3,
	MATRIX_E5M2,
	MATRIX_S8,
	MATRIX_U8,
	MATRIX_S4,
	MATRIX_U4,
	MATRIX_B1,
	MATRIX_F64,
	MATRIX_F32, /* accumulators only, as is the next one */
	MATRIX_S32,
};

/* What is done with elements of A and B, and with the sum. */
enum matrix_operation { MATRIX_MULTIPLY, MATRIX_SATURATE, MATRIX_AND, MATRIX_XOR };

/* How wgmma takes its matrices, as bits. */
enum wgmma_flags {
	WGMMA_NEGATED = 1,   /* the product */
	WGMMA_A_TURNED = 2,  /* in memory the rows of A are side by side, not its columns */
	WGMMA_B_TURNED = 4,  /* the columns of B are, not its rows */
	WGMMA_SATURATES = 8, /* sums of integers */
};

#endif
