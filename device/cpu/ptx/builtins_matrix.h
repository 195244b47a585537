/* SPDX-License-Identifier: MIT
 *
 * Matrix instructions: the part of builtins.c for which a warp's registers are matrices. An array per register
 * has the 32 lanes of the warp at hand, and is `stride` bytes before the next one (matrix.h).
 *
 * In every multiplication, lane 4g + t holds of register r of A the row g (+ 8 when r is odd and A has 16 rows) and
 * as many columns from t on as fit in 32 bits; of B the same with rows and columns exchanged. So the lanes of a
 * register, one after the other, are a tile of 8 rows.
 */
#include "matrix.h"

#define INSIDE static inline __attribute__((always_inline))
#define UNROLL _Pragma("clang loop unroll(full)")

typedef float f32x8 __attribute__((ext_vector_type(8)));
typedef float f32x4 __attribute__((ext_vector_type(4)));
typedef f16 f16x8 __attribute__((ext_vector_type(8)));
typedef u32 u32x8 __attribute__((ext_vector_type(8)));
typedef u32 u32x4 __attribute__((ext_vector_type(4)));
typedef s32 s32x8 __attribute__((ext_vector_type(8)));
typedef u16 u16x8 __attribute__((ext_vector_type(8)));
typedef u8 u8x8 __attribute__((ext_vector_type(8)));
typedef int8_t s8x8 __attribute__((ext_vector_type(8)));

/* Vectors in memory are aligned to their elements only. */
#define LOAD(T, p)                                                                                 \
	({                                                                                         \
		T loaded_;                                                                         \
		__builtin_memcpy(&loaded_, (p), sizeof(T));                                        \
		loaded_;                                                                           \
	})
#define STORE(p, v)                                                                                \
	do {                                                                                       \
		__typeof__(v) stored_ = (v);                                                       \
		__builtin_memcpy((p), &stored_, sizeof(stored_));                                  \
	} while (0)

enum { MOST_DEPTH = 64 };

INSIDE u32 matrix_bits(u32 type)
{
	switch (type) {
	case MATRIX_F16:
	case MATRIX_BF16:
		return 16;
	case MATRIX_TF32:
		return 32;
	case MATRIX_S4:
	case MATRIX_U4:
		return 4;
	case MATRIX_B1:
		return 1;
	}
	return 8;
}

INSIDE u32x8 matrix_nibbles(const u8 *p)
{
	u32 word = LOAD(u32, p);

	return (u32x8)word >> (u32x8){0, 4, 8, 12, 16, 20, 24, 28} & 15;
}

INSIDE f32x8 matrix_e4m3(u8x8 bytes)
{
	u16x8 wide = __builtin_convertvector(bytes, u16x8), low = wide & 0x7f;
	u16x8 bits = (wide & 0x80) << 8 | low << 7;
	f32x8 v = __builtin_convertvector(__builtin_bit_cast(f16x8, bits), f32x8) * 256;
	u32x8 nan = __builtin_convertvector(low == 0x7f, u32x8) & 0x7fc00000;

	return __builtin_bit_cast(f32x8, __builtin_bit_cast(u32x8, v) | nan);
}

/* Elements n to n + 7 of a register's tile: floating numbers, or integers for integers. */
INSIDE u32x8 matrix_load(u32 type, const u8 *tile, u32 n)
{
	const u8 *p = tile + n * matrix_bits(type) / 8;
	f32x8 v;

	switch (type) {
	case MATRIX_F16:
		v = __builtin_convertvector(LOAD(f16x8, p), f32x8);
		break;
	case MATRIX_BF16:
		return __builtin_convertvector(LOAD(u16x8, p), u32x8) << 16;
	case MATRIX_TF32: /* whose numbers have no more bits */
		return LOAD(u32x8, p) & 0xffffe000;
	case MATRIX_E4M3:
		v = matrix_e4m3(LOAD(u8x8, p));
		break;
	case MATRIX_E5M2:
		v = __builtin_convertvector(
			__builtin_bit_cast(
				f16x8, __builtin_convertvector(LOAD(u8x8, p), u16x8) << 8),
			f32x8);
		break;
	case MATRIX_S8:
		return __builtin_bit_cast(u32x8, __builtin_convertvector(LOAD(s8x8, p), s32x8));
	case MATRIX_U8:
		return __builtin_convertvector(LOAD(u8x8, p), u32x8);
	case MATRIX_S4:
		return (matrix_nibbles(p) ^ 8) - 8;
	default:
		return matrix_nibbles(p);
	}
	return __builtin_bit_cast(u32x8, v);
}

/* Row g of the tile at the columns from `column` on. Two rows of four elements fill a vector. */
INSIDE void matrix_spread(u32 type, const u8 *tile, u32 to[8][MOST_DEPTH], u32 column)
{
	const u32 width = 128 / matrix_bits(type);

	UNROLL for (u32 n = 0; n < 8 * width; n += 8)
	{
		u32x8 v = matrix_load(type, tile, n);

		if (width >= 8) {
			STORE(&to[n / width][column + n % width], v);
		} else {
			STORE(&to[n / 4][column], v.lo);
			STORE(&to[n / 4 + 1][column], v.hi);
		}
	}
}

/* The transposed of 8 rows from `column` on. The rows come in the order in which accumulators keep columns: the even
 * ones, then the odd ones. */
INSIDE void matrix_transpose(u32 rows[8][MOST_DEPTH], u32 column, u32x8 to[8])
{
	u32x8 r[8], s[8];

	UNROLL for (u32 k = 0; k < 8; k++) r[k] = LOAD(u32x8, &rows[(k * 2 + k / 4) & 7][column]);
	UNROLL for (u32 k = 0; k < 8; k += 2)
	{
		s[k] = __builtin_shufflevector(r[k], r[k + 1], 0, 8, 1, 9, 4, 12, 5, 13);
		s[k + 1] = __builtin_shufflevector(r[k], r[k + 1], 2, 10, 3, 11, 6, 14, 7, 15);
	}
	UNROLL for (u32 k = 0; k < 8; k += 4)
	{
		r[k] = __builtin_shufflevector(s[k], s[k + 2], 0, 1, 8, 9, 4, 5, 12, 13);
		r[k + 1] = __builtin_shufflevector(s[k], s[k + 2], 2, 3, 10, 11, 6, 7, 14, 15);
		r[k + 2] = __builtin_shufflevector(s[k + 1], s[k + 3], 0, 1, 8, 9, 4, 5, 12, 13);
		r[k + 3] = __builtin_shufflevector(s[k + 1], s[k + 3], 2, 3, 10, 11, 6, 7, 14, 15);
	}
	UNROLL for (u32 k = 0; k < 4; k++)
	{
		to[k] = __builtin_shufflevector(r[k], r[k + 4], 0, 1, 2, 3, 8, 9, 10, 11);
		to[k + 4] = __builtin_shufflevector(r[k], r[k + 4], 4, 5, 6, 7, 12, 13, 14, 15);
	}
}

/* ---- accumulators: row g of the upper or lower 8, the even columns before the odd ones ---- */

INSIDE u32x8 matrix_row(u32 type, const u8 *c, u64 stride, u32 half, u32 g)
{
	if (type == MATRIX_F16) {
		f32x8 v = __builtin_convertvector(LOAD(f16x8, c + half * stride + g * 16), f32x8);

		v = __builtin_shufflevector(v, v, 0, 2, 4, 6, 1, 3, 5, 7);
		return __builtin_bit_cast(u32x8, v);
	}
	c += 2 * half * stride + g * 16;
	return __builtin_shufflevector(
		LOAD(u32x4, c), LOAD(u32x4, c + stride), 0, 1, 2, 3, 4, 5, 6, 7);
}

INSIDE void matrix_keep(u32 type, u8 *d, u64 stride, u32 half, u32 g, u32x8 v)
{
	if (type == MATRIX_F16) {
		v = __builtin_shufflevector(v, v, 0, 4, 1, 5, 2, 6, 3, 7);
		STORE(d + half * stride + g * 16,
			__builtin_convertvector(__builtin_bit_cast(f32x8, v), f16x8));
		return;
	}
	d += 2 * half * stride + g * 16;
	STORE(d, v.lo);
	STORE(d + stride, v.hi);
}

/* ---- multiplications ---- */

INSIDE u32x8 matrix_step(u32 type, u32 a, u32x8 b, u32x8 sum)
{
#pragma clang fp contract(fast)
	if (type <= MATRIX_E5M2) {
		f32x8 product = float32(a) * __builtin_bit_cast(f32x8, b);

		return __builtin_bit_cast(u32x8, product + __builtin_bit_cast(f32x8, sum));
	}
	return (u32x8)a * b + sum;
}

/* The eight rows of `a` times `b`, added to the accumulators. */
INSIDE void matrix_rows(u32 type, u32 depth, u32 a[8][MOST_DEPTH], const u32x8 *b, u32x8 sum[8])
{
	for (u32 k = 0; k < depth; k++)
		UNROLL for (u32 g = 0; g < 8; g++) sum[g] =
			matrix_step(type, a[g][k], b[k], sum[g]);
}

INSIDE void matrix_multiply(const u8 *a, const u8 *b, const u8 *c, u8 *d, u64 stride, u32 rows,
	u32 depth, u32 type_a, u32 type_b, u32 type_c, u32 type_d, u32 operation)
{
	const u32 width = 128 / matrix_bits(type_a), halves = rows / 8;
	u32 tile[8][MOST_DEPTH];
	u32x8 right[MOST_DEPTH], sum[8];

	for (u32 r = 0; r < depth / width; r++)
		matrix_spread(type_b, b + r * stride, tile, r * width);
	for (u32 k = 0; k < depth; k += 8)
		matrix_transpose(tile, k, right + k);
	for (u32 half = 0; half < halves; half++) {
		for (u32 r = 0; r < depth / width; r++)
			matrix_spread(type_a, a + (r * halves + half) * stride, tile, r * width);
		UNROLL for (u32 g = 0; g < 8; g++)
		{
			sum[g] = 0;
			if (operation != MATRIX_SATURATE)
				sum[g] = matrix_row(type_c, c, stride, half, g);
		}
		matrix_rows(type_a, depth, tile, right, sum);
		UNROLL for (u32 g = 0; g < 8; g++)
		{
			if (operation == MATRIX_SATURATE)
				sum[g] = __builtin_bit_cast(u32x8,
					__builtin_elementwise_add_sat(
						__builtin_bit_cast(s32x8, sum[g]),
						__builtin_bit_cast(s32x8,
							matrix_row(type_c, c, stride, half, g))));
			matrix_keep(type_d, d, stride, half, g, sum[g]);
		}
	}
}

/* Single bits: how many of a row and a column are both set, or differ. */
INSIDE void matrix_count(const u8 *a, const u8 *b, const u8 *c, u8 *d, u64 stride, u32 rows,
	u32 depth, u32 operation)
{
	const u32 halves = rows / 8;

	for (u32 m = 0; m < rows; m++)
		for (u32 n = 0; n < 8; n++) {
			u64 at = (m / 8 * 2 + n % 2) * stride + (m % 8 * 4 + n / 2) * 4;
			u32 sum = LOAD(u32, c + at);

			for (u32 k = 0; k < depth / 32; k++) {
				u32 x = LOAD(u32, a + (k / 4 * halves + m / 8) * stride +
							  (m % 8 * 4 + k % 4) * 4);
				u32 y = LOAD(u32, b + k / 4 * stride + (n * 4 + k % 4) * 4);

				sum += (u32)__builtin_popcount(
					operation == MATRIX_AND ? x & y : x ^ y);
			}
			STORE(d + at, sum);
		}
}

INSIDE void matrix_double(
	const u8 *a, const u8 *b, const u8 *c, u8 *d, u64 stride, u32 rows, u32 depth)
{
	const u32 halves = rows / 8;

	for (u32 m = 0; m < rows; m++)
		for (u32 n = 0; n < 8; n++) {
			u64 at = (m / 8 * 2 + n % 2) * stride + (m % 8 * 4 + n / 2) * 8;
			double sum = LOAD(double, c + at);

			for (u32 k = 0; k < depth; k++)
				sum = __builtin_fma(
					LOAD(double, a + (k / 4 * halves + m / 8) * stride +
							     (m % 8 * 4 + k % 4) * 8),
					LOAD(double, b + k / 4 * stride + (n * 4 + k % 4) * 8),
					sum);
			STORE(d + at, sum);
		}
}

/* How many registers of a lane hold so many elements. */
INSIDE u32 matrix_registers(u32 type, u32 elements)
{
	if (type == MATRIX_F64 || type == MATRIX_F32 || type == MATRIX_S32)
		return elements / 32;
	return elements * matrix_bits(type) / 1024;
}

/* mma.sync of a warp. Everything but the pointer is constant where it is called. */
BUILTIN void ptx_mma(u8 *warp, u64 stride, u32 rows, u32 depth, u32 type_a, u32 type_b, u32 type_c,
	u32 type_d, u32 operation)
{
	u8 *b = warp + matrix_registers(type_a, rows * depth) * stride;
	u8 *c = b + matrix_registers(type_b, 8 * depth) * stride;
	u8 *d = c + matrix_registers(type_c, 8 * rows) * stride;

	if (type_a == MATRIX_F64)
		matrix_double(warp, b, c, d, stride, rows, depth);
	else if (type_a == MATRIX_B1)
		matrix_count(warp, b, c, d, stride, rows, depth, operation);
	else
		matrix_multiply(warp, b, c, d, stride, rows, depth, type_a, type_b, type_c, type_d,
			operation);
}

/* ---- tiles of 8 by 8 elements of 16 bits ---- */

INSIDE void matrix_turn(const u8 *from, u8 *to)
{
	for (u32 row = 0; row < 8; row++)
		for (u32 column = 0; column < 8; column++)
			STORE(to + column * 16 + row * 2, LOAD(u16, from + row * 16 + column * 2));
}

/* `rows`: an address per lane; the array of the first register of the result is `warp`. */
BUILTIN void ptx_ldmatrix(const u64 *rows, u8 *warp, u64 stride, u32 count, u32 turned)
{
	u8 tile[128];

	for (u32 k = 0; k < count; k++) {
		u8 *to = warp + k * stride;

		for (u32 row = 0; row < 8; row++)
			__builtin_memcpy(
				(turned ? tile : to) + row * 16, (const u8 *)rows[k * 8 + row], 16);
		if (turned)
			matrix_turn(tile, to);
	}
}
BUILTIN void ptx_stmatrix(const u64 *rows, const u8 *warp, u64 stride, u32 count, u32 turned)
{
	u8 tile[128];

	for (u32 k = 0; k < count; k++) {
		const u8 *from = warp + k * stride;

		if (turned)
			matrix_turn(from, tile);
		for (u32 row = 0; row < 8; row++)
			__builtin_memcpy(
				(u8 *)rows[k * 8 + row], (turned ? tile : from) + row * 16, 16);
	}
}
BUILTIN void ptx_movmatrix(u8 *warp, u64 stride)
{
	matrix_turn(warp, warp + stride);
}
