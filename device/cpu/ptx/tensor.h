/* SPDX-License-Identifier: MIT
 *
 * Tensors in memory, and the copies of their boxes (cp.async.bulk.tensor). A program gives kernels a map, 128 bytes that only
 * the device reads: struct tensor. tensor_encode() makes it of what the program said. Compiled code calls tensor_move() through
 * its runtime, with a word that says which instruction it is. Any thread may call these functions; they have no state.
 *
 * A device trusts nothing in a map: what it makes a kernel touch in global memory is what the kernel could touch with a pointer
 * of its own, and shared memory is touched only where the block has some.
 */
#ifndef GDEV_DEVICE_CPU_PTX_TENSOR_H
#define GDEV_DEVICE_CPU_PTX_TENSOR_H

#include <stdint.h>

#include "proto/record.h"

#define TENSOR_MAGIC 0x67747331u /* of this layout */

/* As the record has them, and the programs. Others are not supported. */
enum tensor_type {
	TENSOR_U8,
	TENSOR_U16,
	TENSOR_U32,
	TENSOR_S32,
	TENSOR_U64,
	TENSOR_S64,
	TENSOR_F16,
	TENSOR_F32,
	TENSOR_F64,
	TENSOR_BF16,
	TENSOR_TYPES
};

/* Dimension 0 is the innermost. Numbers are of elements, but for strides, which are of bytes. */
struct tensor {
	uint32_t magic;
	uint8_t mode; /* enum tensor_map_mode */
	uint8_t type; /* enum tensor_type */
	uint8_t rank;
	uint8_t swizzle; /* 0 to 3: pieces of 16 bytes change places within 16 << swizzle bytes */
	uint64_t address;
	uint64_t sizes[RECORD_TENSOR_RANK], strides[RECORD_TENSOR_RANK];
	uint16_t box[RECORD_TENSOR_RANK]; /* tiled */
	uint8_t steps[RECORD_TENSOR_RANK];
	uint8_t reserved;
	/* im2col: the corners of the box that positions walk through, from the tensor's own; W, H, D. */
	int16_t lower[RECORD_TENSOR_RANK - 2], upper[RECORD_TENSOR_RANK - 2];
	uint16_t channels, pixels;
};

_Static_assert(sizeof(struct tensor) == TENSOR_MAP_BYTES, "what a program holds");

enum tensor_operation {
	TENSOR_LOAD,
	TENSOR_STORE,
	TENSOR_ADD,
	TENSOR_MIN,
	TENSOR_MAX,
	TENSOR_INC,
	TENSOR_DEC,
	TENSOR_AND,
	TENSOR_OR,
	TENSOR_XOR,
};

/* The word. */
static inline uint32_t tensor_word(unsigned operation, unsigned rank, unsigned mode)
{
	return operation | rank << 4 | mode << 8;
}
static inline unsigned tensor_operation(uint32_t word)
{
	return word & 15;
}
static inline unsigned tensor_rank(uint32_t word)
{
	return word >> 4 & 15;
}
static inline unsigned tensor_mode(uint32_t word)
{
	return word >> 8 & 1;
}

/* The numbers of an instruction: the position, and the offsets of im2col. */
enum { TENSOR_OFFSETS = RECORD_TENSOR_RANK, TENSOR_NUMBERS = 2 * RECORD_TENSOR_RANK - 2 };

enum tensor_outcome {
	TENSOR_DONE,
	TENSOR_NO_MAP,  /* that is no map, or one of another rank or mode */
	TENSOR_OUTSIDE, /* the box does not lie in the block's shared memory, or is not aligned */
	TENSOR_UNSUPPORTED, /* a reduction that the type does not have here */
};

/* How many bytes an element has. */
unsigned tensor_element_bytes(unsigned type);

/* 0, -EINVAL where the record is none of a tensor, -ENOTSUP. */
int tensor_encode(const struct record_tensor_map *record, uint8_t map[TENSOR_MAP_BYTES]);

/* The box lies in `shared`, the block's memory of `room` bytes, from byte `at` on. bytes: how many the box has. Faults as any
 * access does where the map, or what it says, is no memory of the session. */
enum tensor_outcome tensor_move(uint32_t word, const void *map, const int32_t *numbers,
	uint8_t *shared, uint64_t at, uint64_t room, uint32_t *bytes);

/* What tensor_move() would access: calls `row` with each part of a row that lies within the tensor, unless the box has more than
 * `most` bytes. Looks at the map alone, not at where the box lies. The map is the caller's. */
enum tensor_outcome tensor_visit(uint32_t word, const void *map, const int32_t *numbers,
	uint64_t most, void (*row)(void *owner, uint64_t address, uint32_t bytes), void *owner,
	uint64_t *bytes);

#endif
