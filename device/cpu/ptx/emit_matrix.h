/* SPDX-License-Identifier: MIT
 *
 * What emit_matrix.c does for a warp, and what emit_wmma.c finds for it to do.
 */
#ifndef GDEV_DEVICE_CPU_PTX_EMIT_MATRIX_H
#define GDEV_DEVICE_CPU_PTX_EMIT_MATRIX_H

#include "device/cpu/ptx/gen.h"
#include "device/cpu/ptx/matrix.h"

struct warp_call {
	const char *builtin;
	uint64_t numbers[8]; /* constant arguments behind the stride */
	unsigned count;
	unsigned element;
	bool addresses; /* the first argument is the array of addresses, the second the one behind it */
};

/* The registers of a vector operand, or 1. */
unsigned matrix_operands(const struct operand *o);
/* enum matrix_type of a type or a modifier; 0: none. */
unsigned matrix_type(unsigned type);
unsigned matrix_only_type(unsigned modifier);
/* The types in the order of the operands: D, A, B, C. Those of A and B are both of matrices only, or neither. */
bool matrix_types(const struct inst *i, unsigned types[4]);
/* The types of accumulators that go with A, as bits. */
uint32_t matrix_sums(unsigned type);
bool matrix_operation(const struct inst *i, unsigned type, unsigned *operation);

/* emit_wmma.c: fills all but the element. False: no such instruction. */
bool wmma_call(const struct inst *i, struct warp_call *c);

#endif
