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
	bool shared; /* the next ones are shared memory, and the rank of the warp in its group of four */
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
/* In checked code: whether a warp may load or store its matrix. arguments: as the builtin gets them. */
LLVMValueRef wmma_check(struct gen *g, const struct inst *i, const struct warp_call *c,
	LLVMValueRef arguments[2], LLVMValueRef thread);

/* emit_wgmma.c */
bool wgmma_call(const struct inst *i, struct warp_call *c);
/* 2, or 1 where A is in registers. */
unsigned wgmma_descriptors(const struct inst *i);
/* Of an operand of any instruction of matrices. */
bool wgmma_is_descriptor(const struct inst *i, unsigned k);
bool wgmma_is_number(const struct inst *i, unsigned k);
/* The operand, as one of the block's part of shared memory, which wgmma_shared() points at. */
LLVMValueRef wgmma_descriptor(struct gen *g, const struct inst *i, unsigned k);
LLVMValueRef wgmma_shared(struct gen *g);
/* Ends the kernel if a descriptor is of a kind that is not supported. */
void wgmma_check(struct gen *g, uint32_t line, LLVMValueRef descriptors, LLVMValueRef stride,
	uint64_t count);

#endif
