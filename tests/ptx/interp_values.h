/* SPDX-License-Identifier: MIT
 *
 * What an instruction computes from the values of its operands, as the PTX manual defines it: for the interpreter alone.
 * Nothing here is shared with the compiler but the parsed instruction.
 */
#ifndef GDEV_TESTS_PTX_INTERP_VALUES_H
#define GDEV_TESTS_PTX_INTERP_VALUES_H

#include "device/cpu/ptx/ir.h"

/* Operands of up to 64 bits, zero-extended; a[0] is the first source. False: the instruction is not known here. */
bool interp_integer(const struct inst *i, const uint64_t a[], uint64_t *result);
/* Of types that are two numbers of 16 bits. */
bool interp_integer_pair(const struct inst *i, const uint64_t a[], uint64_t *result);
bool interp_float(const struct inst *i, const uint64_t a[], uint64_t *result);
bool interp_convert(const struct inst *i, const uint64_t a[], uint64_t *result);
/* setp and set: the comparison alone, without what it is combined with. */
bool interp_compare(const struct inst *i, unsigned type, const uint64_t a[2], bool *result);
/* The number that the bits of a floating type are. */
double interp_double(unsigned type, uint64_t bits);
/* a + b of a floating type, to nearest: what atomics add. */
uint64_t interp_float_add(unsigned type, uint64_t a, uint64_t b);

/* A subnormal number as 0 of its sign. f64 and bf16 have no .ftz. */
uint64_t interp_flushed(unsigned type, uint64_t bits);

/* The low bits of a value, and the same extended by their sign. */
static inline uint64_t interp_low(uint64_t v, unsigned bits)
{
	return bits >= 64 ? v : v & ((1ull << bits) - 1);
}

static inline int64_t interp_signed(uint64_t v, unsigned bits)
{
	return bits >= 64 ? (int64_t)v : (int64_t)(v << (64 - bits)) >> (64 - bits);
}

static inline bool interp_is_signed(unsigned type)
{
	return ptx_type_class[type] == 's';
}

static inline bool interp_is_integer(unsigned type)
{
	unsigned c = (unsigned)ptx_type_class[type];

	return c == 'b' || c == 'u' || c == 's';
}

#endif
